//! Running an ended run again: the next attempt of the same row, with the same idempotency key and definition.
//!
//! How it ended before stays in the ledger, as the end of that attempt. A run of a job whose runs exclude each other is
//! not opened beside an open one.

use crate::run_parked;
use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use futures_util::future::try_join;
use model::ids::RunKey;

/// What became of the wish to run one again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "only a queued run will run again"]
pub enum Rerun {
    /// It waits for its next attempt.
    Queued {
        /// That attempt's number.
        attempt: i32,
    },
    /// It has not ended yet.
    NotEnded,
    /// Another run of its job is open, and they exclude each other.
    Blocked {
        /// That one.
        by: RunKey,
    },
    /// There is no such run.
    NoRun,
}

/// Queues an ended run again, to be handed out from `at` on.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn rerun(tx: &Transaction<'_>, key: RunKey, at: DateTime<Utc>) -> Result<Rerun, StoreError> {
    let (job, scheduled_for) = (key.job_id.0, key.scheduled_for);
    let lock_leases = tx.prepare(sql!("run_parked/lock_leases.sql")).await?;
    let lock_run = tx.prepare(sql!("run_rerun/lock.sql")).await?;
    let jobs = vec![job];
    let (leases, run) = try_join(
        tx.query_prepared(&lock_leases, &[&jobs]),
        tx.query_prepared(&lock_run, &[&job, &scheduled_for]),
    )
    .await?;
    let Some(run) = run.first() else { return Ok(Rerun::NoRun) };
    if run.get::<_, &str>("state") == "PLANNED" {
        return Ok(Rerun::NotEnded);
    }
    let exclusive: bool = run.get("exclusive");
    if let Some(lease) = leases.first().filter(|_| exclusive) {
        return Ok(Rerun::Blocked { by: run_parked::key(lease) });
    }
    let rows = tx.query(sql!("run_rerun/rerun.sql"), &[&job, &scheduled_for, &at]).await?;
    if let Some(row) = rows.first() {
        return Ok(Rerun::Queued { attempt: row.get("next") });
    }
    // A claim that was on its way when the leases were locked has committed since.
    let rows = tx.query_prepared(&lock_leases, &[&jobs]).await?;
    Ok(Rerun::Blocked { by: rows.first().map_or(key, run_parked::key) })
}
