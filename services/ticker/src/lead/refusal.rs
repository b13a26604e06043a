//! A leader whom the fence refuses although etcd confirms it: it stays out of the election, and looks at the fence, so
//! that a reset is noticed at once.

use super::{AGAIN_AFTER, Lead};
use service::health::Beat;
use service::refusal::Refusal;
use std::time::{Duration, Instant};
use store::fence::{self, Role};
use tokio_util::sync::CancellationToken;

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
