//! A leadership that the fence refuses although etcd confirms it: etcd was rebuilt and counts from the start.
//!
//! Nothing heals that but an operator, who resets the fence. Until then the process is not ready, and campaigns less
//! and less often. It looks at the fence meanwhile, so that a reset is noticed at once, by stand-bys too.

use crate::health::Condition;
use std::time::Duration;

/// The wait after the first refusal; doubled for each further one.
const WAIT: Duration = Duration::from_secs(1);

/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Whether the fence refuses this process, and how it waits.
#[derive(Debug)]
pub struct Refusal {
    ready: Condition,
    role: &'static str,
    stored: Option<i64>,
    wait: Duration,
}

impl Refusal {
    /// None so far; `ready` says so. `role` is whose fence it is, as `escapement fence reset` names it.
    pub fn new(role: &'static str, ready: Condition) -> Self {
        let mut refusal = Self { ready, role, stored: None, wait: WAIT };
        refusal.over();
        refusal
    }

    /// The leadership of `revision` was refused, because the fence has `stored`. Returns how long to wait before the
    /// next campaign.
    pub fn refused(&mut self, revision: i64, stored: i64) -> Duration {
        self.stored = Some(stored);
        let role = self.role;
        self.ready.unmet(format!(
            "fenced: revision {stored} is stored, this leadership has {revision}; if etcd was rebuilt, stop every old \
             {role} and run `escapement fence reset {role} --yes`"
        ));
        let wait = self.wait;
        self.wait = (wait * 2).min(WAIT_MAX);
        wait
    }

    /// The fence has `stored`: when that is not what refused us, somebody has reset it.
    pub fn saw(&mut self, stored: i64) {
        if self.stored.is_some_and(|refused| refused != stored) {
            tracing::info!(
                fence.role = self.role,
                fence.stored = stored,
                "The fence no longer names what refused us"
            );
            self.over();
        }
    }

    /// The fence does not refuse us.
    pub fn over(&mut self) {
        self.stored = None;
        self.wait = WAIT;
        self.ready.met();
    }

    /// True from a refusal until the fence is another one.
    pub fn is_on(&self) -> bool {
        self.stored.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Health;

    fn waits(refusal: &mut Refusal, times: usize) -> Vec<u64> {
        (0..times).map(|_| refusal.refused(7, 1_000).as_secs()).collect()
    }

    #[test]
    fn refusals_are_followed_by_longer_and_longer_waits_and_readiness_says_what_to_do() {
        let health = Health::new();
        let mut refusal = Refusal::new("watchdog", health.condition("fence"));
        assert_eq!(health.unmet(), []);
        assert_eq!(waits(&mut refusal, 7), [1, 2, 4, 8, 16, 30, 30]);
        let unmet = health.unmet();
        assert_eq!(unmet.len(), 1);
        assert!(unmet[0].1.contains("`escapement fence reset watchdog --yes`"), "{unmet:?}");
        refusal.saw(1_000);
        assert!(refusal.is_on());
    }

    #[test]
    fn a_reset_ends_it() {
        let health = Health::new();
        let mut refusal = Refusal::new("watchdog", health.condition("fence"));
        waits(&mut refusal, 3);
        refusal.saw(0);
        assert!(!refusal.is_on());
        assert_eq!(health.unmet(), []);
        assert_eq!(waits(&mut refusal, 1), [1]);
    }
}
