//! Tells workers to stop what they were asked to stop, by whoever asked: another dispatcher that replaces a run, or a
//! registry. The request is in the lease; what this dispatcher asked for itself it has told at once.
//!
//! A worker is told each second until the attempt has ended, because a message can be lost. Deliberately not here: what
//! becomes of a worker that does not answer, which the comparison of leases ends after the grace.

use crate::message;
use crate::shared::Shared;
use rpc::convert::run::AttemptRef;
use service::health::Beat;
use std::time::Duration;
use store::StoreError;
use store::run_cancel::{self, Pending};
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_secs(1);

/// Looks for requests until `stop`.
pub async fn run(shared: &Shared, beat: Beat, stop: CancellationToken) {
    while tokio::time::timeout(EVERY, stop.cancelled()).await.is_err() {
        beat.beat();
        if let Err(error) = run_once(shared).await {
            shared.metrics.failed("cancel");
            tracing::warn!(error = service::runtime::chain(&error), "Could not look for requests to cancel");
        }
    }
    beat.done();
}

/// One look; how many workers were told.
///
/// # Errors
/// [`StoreError`].
pub async fn run_once(shared: &Shared) -> Result<usize, StoreError> {
    let pending = run_cancel::pending(&shared.store, shared.id).await?;
    Ok(tell(shared, &pending))
}

/// Tells the workers that are connected here; how many of the attempts that were. One that was not delivered yet is told
/// by a later look.
pub fn tell(shared: &Shared, pending: &[Pending]) -> usize {
    let roster = shared.roster();
    let mut told = 0;
    for Pending { session, key, attempt, token, reason } in pending {
        let attempt = AttemptRef { key: *key, attempt: *attempt, token: *token };
        if roster.held(*session, &attempt).is_some() {
            roster.send(*session, message::cancel(&attempt, reason.as_str()));
            told += 1;
        }
    }
    told
}
