//! Backlogs that are being worked off, one run at a time.

use crate::{Store, StoreError, run_end, sql};
use model::ids::{JobId, RunKey};

/// Queues the next run of each backlog that has none out: a safety net, because each end queues the next. Returns what
/// was queued.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn release_idle(store: &Store) -> Result<Vec<RunKey>, StoreError> {
    let mut client = store.client("look for idle backlogs").await?;
    let rows = client.query("look for idle backlogs", sql!("catch_up/idle.sql"), &[]).await?;
    let jobs: Vec<JobId> = rows.iter().map(|row| JobId(row.get("job_id"))).collect();
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let tx = client.begin("release idle backlogs").await?;
    let queued = run_end::release_next(&tx, &jobs).await?;
    tx.commit().await?;
    Ok(queued)
}
