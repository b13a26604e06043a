//! A safety net, every ten seconds, for what no statement should leave behind: backlogs that nobody moves, parked runs
//! that nobody wakes, and leases that nothing will move. What it finds is a defect somewhere else, so it says so. On the
//! way it counts what limits keep back.

use crate::shared::Shared;
use crate::steady;
use service::health::Beat;
use std::time::Duration;
use store::{StoreError, catch_up, dispatcher, run_lease, run_live, run_parked, run_queue};
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_secs(10);

/// What a sweep found.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Backlogs that were set going again.
    pub released: usize,
    /// Parked runs that nothing stood in the way of.
    pub woken: usize,
    /// Leases with neither a session nor a retry row.
    pub stranded: usize,
    /// Dispatchers that were gone for a day.
    pub forgotten: usize,
}

/// Sweeps until `stop`.
pub async fn run(shared: &Shared, beat: Beat, stop: CancellationToken) {
    loop {
        beat.beat();
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(EVERY) => {}
        }
        if let Err(error) = run_once(shared).await {
            shared.metrics.failed("sweep");
            tracing::warn!(error = service::runtime::chain(&error), "Could not sweep");
        }
    }
    beat.done();
}

/// One sweep; nothing while the clock can't be believed.
///
/// # Errors
/// [`StoreError`].
pub async fn run_once(shared: &Shared) -> Result<Summary, StoreError> {
    if !steady::may_go_on(shared).await? {
        return Ok(Summary::default());
    }
    let released = catch_up::release_idle(&shared.store).await?;
    if !released.is_empty() {
        tracing::warn!(runs = released.len(), "Set backlogs going again that nobody moved");
        shared.work.notify_one();
    }
    let woken = run_parked::sweep(&shared.store).await?;
    if !woken.is_empty() {
        tracing::warn!(runs = woken.len(), "Woke parked runs that nothing stood in the way of");
        shared.work.notify_one();
    }
    let stranded = run_lease::stranded(&shared.store).await?;
    shared.metrics.stranded(stranded.len());
    for key in &stranded {
        tracing::error!(run = %key.idempotency_key(), "A lease has neither a session nor a retry row: nothing will move it");
    }
    shared.metrics.held(run_queue::held(&shared.store).await?);
    run_live::expire(&shared.store).await?;
    let forgotten = dispatcher::forget(&shared.store).await?;
    Ok(Summary { released: released.len(), woken: woken.len(), stranded: stranded.len(), forgotten })
}
