//! Parks the runs that a claim found in the way of an open run of their job, and has that one replaced where the policy
//! says so.
//!
//! In a transaction of its own: the claim sees an open run and can't lock it before it has decided. Crash window, "put
//! off, not parked": the runs are in the queue, due in a second, and whoever claims them then parks them.

use crate::cancel;
use crate::shared::Shared;
use model::ids::RunKey;
use store::run_parked::{self, Parked};
use store::{Retry, StoreError};

/// Tries, when another transaction was in the way.
const TRIES: usize = 3;

/// Parks these runs, or leaves them to the next claim.
pub async fn park(shared: &Shared, keys: &[RunKey]) {
    if keys.is_empty() {
        return;
    }
    for _ in 0..TRIES {
        match park_once(shared, keys).await {
            Ok(parked) => return follow(shared, &parked),
            Err(error) => {
                shared.metrics.failed("park");
                tracing::warn!(
                    error = service::runtime::chain(&error),
                    runs = keys.len(),
                    "Could not park runs"
                );
                if error.retry() != Retry::AtOnce {
                    return;
                }
            }
        }
    }
}

async fn park_once(shared: &Shared, keys: &[RunKey]) -> Result<Parked, StoreError> {
    let mut client = shared.store.client("park runs").await?;
    let tx = client.begin("park runs").await?;
    let parked = run_parked::park(&tx, keys).await?;
    tx.commit().await?;
    Ok(parked)
}

fn follow(shared: &Shared, parked: &Parked) {
    shared.metrics.parked(parked);
    let told = cancel::tell(shared, &parked.replacing);
    if !parked.replacing.is_empty() {
        tracing::info!(
            runs = parked.replacing.len(),
            runs.told = told,
            "Asked for runs to stop that newer ones replace"
        );
    }
    if parked.due {
        shared.work.notify_one();
    }
}
