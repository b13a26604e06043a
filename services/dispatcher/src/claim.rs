//! Takes due runs for the free slots of connected workers and hands them over.
//!
//! The loop sleeps until the next row becomes due, never longer than a second, and claims again at once while it gets
//! something. Crash window, "leased, not sent": the run is in the database and the worker knows nothing; the
//! comparison of leases sends it, or another dispatcher's reap gives it on. Deliberately not here: what a claim may
//! take, which one statement decides.

use crate::roster::Group;
use crate::shared::Shared;
use chrono::{DateTime, Utc};
use model::ids::{ClaimId, TenantId};
use service::health::Beat;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use store::run_queue::{self, Claimed, Due, Request, Tenants};
use store::{Retry, StoreError};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// While due rows are at hand that somebody else has locked, or may not start.
const SLEEP_OVERDUE: Duration = Duration::from_millis(100);
/// After a failure.
const SLEEP_FAILED: Duration = Duration::from_millis(250);
/// How long a floor is remembered.
const FLOOR_AGE_MAX: Duration = Duration::from_secs(30);
/// A lane gives at least so many rows to a claim.
const QUANTUM_MIN: usize = 32;

/// Claims until `stop`.
pub async fn run(shared: &Shared, beat: Beat, stop: CancellationToken) {
    let mut claimer = Claimer::new(shared);
    while !stop.is_cancelled() {
        beat.beat();
        let sleep = match claimer.turn().await {
            Ok(sleep) => sleep,
            Err(error) => {
                shared.metrics.failed("claim");
                tracing::warn!(error = service::runtime::chain(&error), "Could not claim runs");
                if error.retry() == Retry::AtOnce {
                    Sleep::For(Duration::ZERO)
                } else {
                    Sleep::For(SLEEP_FAILED)
                }
            }
        };
        sleep.wait(shared, &stop).await;
    }
    beat.done();
}

/// Until when the loop has nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sleep {
    /// So long, whatever slots become free: nothing is due before.
    For(Duration),
    /// Until a slot becomes free, or so long.
    ForSlot(Duration),
}

impl Sleep {
    async fn wait(self, shared: &Shared, stop: &CancellationToken) {
        let (limit, for_slot) = match self {
            Self::For(limit) => (limit, false),
            Self::ForSlot(limit) => (limit, true),
        };
        if limit.is_zero() {
            return tokio::task::yield_now().await;
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = shared.work.notified() => {}
            () = shared.slots.notified(), if for_slot => {}
            () = tokio::time::sleep(limit) => {}
        }
    }
}

struct Claimer<'a> {
    shared: &'a Shared,
    /// The tenant that was served last.
    cursor: TenantId,
    /// How many lanes had due rows when a group claimed last.
    lanes: HashMap<Vec<String>, usize>,
    floor: Option<Floor>,
}

/// Nothing is due before, in these queues.
struct Floor {
    at: DateTime<Utc>,
    queues: Vec<String>,
    looked: Instant,
}

impl<'a> Claimer<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self { shared, cursor: TenantId(Uuid::nil()), lanes: HashMap::new(), floor: None }
    }

    /// One claim for each group with a free slot, then the look for the next due row.
    async fn turn(&mut self) -> Result<Sleep, StoreError> {
        let shared = self.shared;
        if !shared.epoch_ready() {
            return Ok(Sleep::For(SLEEP_MAX));
        }
        let slots_max = shared.config.claim_batch_max as usize;
        let (groups, sessions) = {
            let roster = shared.roster();
            (roster.groups(slots_max), roster.count())
        };
        let free = groups.iter().map(|group| group.slots.len()).sum();
        shared.metrics.attached(sessions, free);
        if free == 0 {
            return Ok(Sleep::ForSlot(SLEEP_MAX));
        }
        let floor = self.floor(&groups).await?;
        let mut moved = false;
        for group in groups.iter().filter(|group| !group.slots.is_empty()) {
            moved |= self.claim(group, floor).await?.moved();
        }
        if moved || !shared.epoch_ready() {
            return Ok(Sleep::For(Duration::ZERO));
        }
        let due = self.next_due(&groups, floor).await?;
        let full = groups.iter().any(|group| group.slots.is_empty());
        Ok(sleep_until(due, full))
    }

    async fn claim(&mut self, group: &Group, floor: DateTime<Utc>) -> Result<Claimed, StoreError> {
        let shared = self.shared;
        let lanes = self.lanes.get(&group.queues).copied().unwrap_or(1).max(1);
        let quantum = group.slots.len().div_ceil(lanes).max(QUANTUM_MIN);
        let request = Request {
            claim: ClaimId::random(),
            dispatcher: shared.id,
            slots: group.slots.clone(),
            queues: group.queues.clone(),
            tenants: group.tenant.map_or(Tenants::After(self.cursor), Tenants::Only),
            floor,
            quantum: i64::try_from(quantum).unwrap_or(i64::MAX),
        };
        let started = Instant::now();
        let _claiming = shared.claiming.lock().await;
        let claimed = match run_queue::claim(&shared.store, &request).await {
            Ok(claimed) => claimed,
            Err(error) => {
                // Perhaps it has committed all the same: the leases tell.
                shared.reconcile.notify_one();
                return Err(error);
            }
        };
        if !claimed.identified {
            tracing::error!("The database is not the one that the epoch was made for: claiming nothing");
            shared.set_epoch_ready(false);
            return Ok(claimed);
        }
        self.hand_out(&claimed);
        shared.metrics.claimed(started.elapsed(), &claimed);
        self.lanes.insert(group.queues.clone(), usize::try_from(claimed.lanes).unwrap_or(1));
        if let (None, Some(tenant)) = (group.tenant, claimed.last_tenant) {
            self.cursor = tenant;
        }
        Ok(claimed)
    }

    fn hand_out(&self, claimed: &Claimed) {
        for assignment in &claimed.assignments {
            let key = (assignment.lease.key.job_id, assignment.lease.generation);
            self.shared.definitions.remember(key, &assignment.definition);
        }
        let mut roster = self.shared.roster();
        for assignment in &claimed.assignments {
            roster.deliver(assignment);
        }
    }

    /// The remembered floor, looked up again when it is old or other queues are served.
    async fn floor(&mut self, groups: &[Group]) -> Result<DateTime<Utc>, StoreError> {
        let queues = queues_of(groups);
        if let Some(floor) = &self.floor
            && floor.queues == queues
            && floor.looked.elapsed() < FLOOR_AGE_MAX
        {
            return Ok(floor.at);
        }
        let looked = Instant::now();
        let at = run_queue::floor(&self.shared.store, &queues).await?;
        self.lanes.clear();
        self.floor = Some(Floor { at, queues, looked });
        Ok(at)
    }

    async fn next_due(&self, groups: &[Group], floor: DateTime<Utc>) -> Result<Due, StoreError> {
        let tenants: Option<Vec<TenantId>> = groups.iter().map(|group| group.tenant).collect();
        run_queue::next_due(&self.shared.store, &queues_of(groups), tenants.as_deref(), floor).await
    }
}

fn queues_of(groups: &[Group]) -> Vec<String> {
    let mut queues: Vec<String> = groups.iter().flat_map(|group| group.queues.iter().cloned()).collect();
    queues.sort_unstable();
    queues.dedup();
    queues
}

/// `full` when some group has no free slot: what is due may be its.
fn sleep_until(due: Due, full: bool) -> Sleep {
    let next = due.wait.unwrap_or(SLEEP_MAX).clamp(Duration::from_millis(1), SLEEP_MAX);
    match (due.overdue, full) {
        (false, _) => Sleep::For(next),
        (true, false) => Sleep::For(next.min(SLEEP_OVERDUE)),
        (true, true) => Sleep::ForSlot(next.min(SLEEP_OVERDUE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_sleeps_until_the_next_row_is_due_and_never_longer_than_a_second() {
        let due = |overdue, wait: Option<u64>| Due { overdue, wait: wait.map(Duration::from_millis) };
        assert_eq!(sleep_until(due(false, Some(40)), false), Sleep::For(Duration::from_millis(40)));
        assert_eq!(sleep_until(due(false, Some(60_000)), false), Sleep::For(SLEEP_MAX));
        assert_eq!(sleep_until(due(false, None), true), Sleep::For(SLEEP_MAX));
        assert_eq!(sleep_until(due(true, Some(900)), false), Sleep::For(SLEEP_OVERDUE));
        assert_eq!(sleep_until(due(true, Some(20)), true), Sleep::ForSlot(Duration::from_millis(20)));
    }
}
