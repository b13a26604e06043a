//! A leadership that the fence refuses although etcd confirms it: etcd was rebuilt and counts from the start.
//!
//! Nothing heals that but an operator, who resets the fence. Until then the process is not ready, and campaigns less
//! and less often. It looks at the fence meanwhile, so that a reset is noticed at once, by stand-bys too.

use super::{AGAIN_AFTER, Lead};
use service::health::{Beat, Condition};
use std::time::{Duration, Instant};
use store::fence::{self, Role};
use tokio_util::sync::CancellationToken;

/// The wait after the first refusal; doubled for each further one.
const WAIT: Duration = Duration::from_secs(1);

/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Whether the fence refuses this process, and how it waits.
#[derive(Debug)]
pub struct Refusal {
    ready: Condition,
    stored: Option<i64>,
    wait: Duration,
}

impl Refusal {
    /// None so far; `ready` says so.
    pub fn new(ready: Condition) -> Self {
        ready.met();
        Self { ready, stored: None, wait: WAIT }
    }

    /// The leadership of `revision` was refused, because the fence has `stored`. Returns how long to wait before the
    /// next campaign.
    pub(super) fn refused(&mut self, revision: i64, stored: i64) -> Duration {
        self.stored = Some(stored);
        self.ready.unmet(format!(
            "fenced: revision {stored} is stored, this leadership has {revision}; if etcd was rebuilt, stop every old \
             ticker and run `escapement fence reset ticker`"
        ));
        let wait = self.wait;
        self.wait = (wait * 2).min(WAIT_MAX);
        wait
    }

    /// The fence has `stored`: when that is not what refused us, somebody has reset it.
    pub(super) fn saw(&mut self, stored: i64) {
        if self.stored.is_some_and(|refused| refused != stored) {
            tracing::info!(fence.stored = stored, "The fence no longer names what refused this ticker");
            self.over();
        }
    }

    /// The fence does not refuse us.
    pub(super) fn over(&mut self) {
        self.stored = None;
        self.wait = WAIT;
        self.ready.met();
    }

    /// True from a refusal until the fence is another one.
    pub(super) fn is_on(&self) -> bool {
        self.stored.is_some()
    }
}

impl Lead {
    /// Looks which revision the fence has, if it refuses us. A database that does not answer has not been reset either.
    pub(super) async fn look_at_fence(&self, refusal: &mut Refusal) {
        if !refusal.is_on() {
            return;
        }
        let fences = fence::list(&self.store).await.unwrap_or_default();
        if let Some(ours) = fences.iter().find(|fence| fence.role == Role::Ticker.as_str()) {
            refusal.saw(ours.revision);
        }
    }

    /// Stays out of the election for `wait`, or until the fence no longer refuses us.
    pub(super) async fn stand_back(
        &self,
        wait: Duration,
        refusal: &mut Refusal,
        beat: &Beat,
        shutdown: &CancellationToken,
    ) {
        let began = Instant::now();
        while refusal.is_on() && began.elapsed() < wait && !shutdown.is_cancelled() {
            beat.beat();
            super::pause(AGAIN_AFTER, shutdown).await;
            self.look_at_fence(refusal).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use service::health::Health;

    fn waits(refusal: &mut Refusal, times: usize) -> Vec<u64> {
        (0..times).map(|_| refusal.refused(7, 1_000).as_secs()).collect()
    }

    #[test]
    fn refusals_are_followed_by_longer_and_longer_waits_and_readiness_says_what_to_do() {
        let health = Health::new();
        let mut refusal = Refusal::new(health.condition("fence"));
        assert_eq!(health.unmet(), []);
        assert_eq!(waits(&mut refusal, 7), [1, 2, 4, 8, 16, 30, 30]);
        let unmet = health.unmet();
        assert!(unmet[0].1.contains("run `escapement fence reset ticker`"), "{unmet:?}");
        refusal.saw(1_000);
        assert!(refusal.is_on());
    }

    #[test]
    fn a_reset_ends_it() {
        let health = Health::new();
        let mut refusal = Refusal::new(health.condition("fence"));
        waits(&mut refusal, 3);
        refusal.saw(0);
        assert!(!refusal.is_on());
        assert_eq!(health.unmet(), []);
        assert_eq!(waits(&mut refusal, 1), [1]);
    }
}
