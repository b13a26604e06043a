//! The pace of backlogs whose runs may run beside each other: at what instant each becomes due.
//!
//! Pure. Invariant: no two runs of one tenant's backlogs are due closer together than its rate allows, over all its jobs
//! and batches: a tenant's next free slot is stored, and locked while it is used.

use chrono::{DateTime, TimeDelta, Utc};
use model::ids::TenantId;
use std::collections::BTreeMap;
use store::catch_up::Pace;

/// The tenants' slots of one batch.
#[derive(Debug)]
pub struct Paces {
    at: DateTime<Utc>,
    tenants: BTreeMap<TenantId, Slots>,
}

#[derive(Debug, Clone, Copy)]
struct Slots {
    next: DateTime<Utc>,
    interval: TimeDelta,
    taken: bool,
}

impl Paces {
    /// Goes on from where the tenants' paces are; nothing is due before `at`.
    pub fn new(at: DateTime<Utc>, stored: &[Pace]) -> Self {
        let slots = |pace: &Pace| Slots {
            next: pace.next_at.max(at),
            interval: interval(pace.per_second),
            taken: false,
        };
        Self { at, tenants: stored.iter().map(|pace| (pace.tenant_id, slots(pace))).collect() }
    }

    /// When the next run of a backlog is due whose job releases at most `per_second`.
    pub fn take(&mut self, tenant: TenantId, per_second: u32) -> DateTime<Utc> {
        let free = Slots { next: self.at, interval: TimeDelta::zero(), taken: false };
        let slots = self.tenants.entry(tenant).or_insert(free);
        let at = slots.next;
        slots.next += slots.interval.max(interval(per_second));
        slots.taken = true;
        at
    }

    /// The next free slot of each tenant that took one.
    pub fn taken(&self) -> Vec<(TenantId, DateTime<Utc>)> {
        let taken = self.tenants.iter().filter(|(_, slots)| slots.taken);
        taken.map(|(tenant, slots)| (*tenant, slots.next)).collect()
    }
}

/// Between two runs at this rate: never shorter, so that the rate is never exceeded.
fn interval(per_second: u32) -> TimeDelta {
    TimeDelta::microseconds(1_000_000_u32.div_ceil(per_second.max(1)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::second;

    fn stored(tenant: u128, per_second: u32, next: i64) -> Pace {
        Pace { tenant_id: TenantId(uuid::Uuid::from_u128(tenant)), per_second, next_at: second(next) }
    }

    /// The most in any window of a second that begins with one of them.
    fn peak(due: &[DateTime<Utc>]) -> usize {
        let within = |from: DateTime<Utc>| {
            due.iter().filter(|at| (from..from + TimeDelta::seconds(1)).contains(at)).count()
        };
        due.iter().map(|from| within(*from)).max().unwrap_or_default()
    }

    #[test]
    fn neither_the_jobs_rate_nor_the_tenants_is_exceeded_and_no_slot_is_taken_twice() {
        for (of_job, of_tenant, expected) in [(100, 20, 20), (10, 20, 10), (3, 100, 3), (7, 7, 7)] {
            let stored = [stored(1, of_tenant, 0)];
            let mut paces = Paces::new(second(0), &stored);
            let mut due: Vec<_> = (0..200).map(|_| paces.take(stored[0].tenant_id, of_job)).collect();
            let next = paces.taken();
            // The next batch goes on where this one ended.
            let mut paces = Paces::new(second(1), &[Pace { next_at: next[0].1, ..stored[0] }]);
            due.extend((0..200).map(|_| paces.take(stored[0].tenant_id, of_job)));
            assert!(due.is_sorted() && due[0] == second(0));
            assert_eq!(peak(&due), expected, "{of_job} a second, {of_tenant} for the tenant");
        }
    }

    #[test]
    fn a_tenant_does_not_wait_for_another() {
        let stored = [stored(1, 1, 500), stored(2, 1, -500)];
        let mut paces = Paces::new(second(0), &stored);
        assert_eq!(paces.take(stored[0].tenant_id, 10), second(500));
        assert_eq!(paces.take(stored[1].tenant_id, 10), second(0), "never before the present");
        assert_eq!(paces.taken().len(), 2);
    }
}
