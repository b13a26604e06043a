//! Runs that somebody asks for: one row of the ledger and of the queue each, beside the job's schedule.
//!
//! Invariant: such a run is never of a whole second, so that it takes no occurrence's place. Whether a job may be run now
//! is decided by the caller, between [`hold`] and [`insert`].

use crate::job::{self, Stored};
use crate::{StoreError, Transaction, job_change, sql};
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use model::ids::{JobId, RunKey};

/// Instants that are tried: each one that is taken was taken by another call in the same microsecond.
const INSTANTS_MAX: usize = 1_000;

/// A job, and when it was looked at.
#[derive(Debug, Clone)]
pub struct Moment {
    /// As it stays until the transaction ends; none when there is none.
    pub job: Option<Stored>,
    /// The cell's clock, after the wait for the job.
    pub at: DateTime<Utc>,
}

/// Keeps a job as it is. The ledger's floor is held.
///
/// # Errors
/// [`StoreError`] when the database can't be asked, or holds a definition that this release can't read.
pub async fn hold(tx: &Transaction<'_>, job: JobId) -> Result<Moment, StoreError> {
    tx.query(sql!("manual/hold_job.sql"), &[&job.0]).await?;
    let rows = tx.query(sql!("job_change/read.sql"), &[&vec![job.0]]).await?;
    let at = job_change::now(tx).await?;
    Ok(Moment { job: rows.first().map(job::read).transpose()?, at })
}

/// An open run of the job, if there is one in this moment.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn open_run(tx: &Transaction<'_>, job: JobId) -> Result<Option<RunKey>, StoreError> {
    let rows = tx.query(sql!("manual/open_run.sql"), &[&job.0]).await?;
    Ok(rows.first().map(|row| RunKey::new(job, row.get("scheduled_for"))))
}

/// Inserts and queues a run of `job`, which is [`hold`]ed, at `at` or as soon after as there is none yet.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn insert(
    tx: &Transaction<'_>,
    job: &Stored,
    at: DateTime<Utc>,
    traceparent: Option<&str>,
) -> Result<RunKey, StoreError> {
    let definition = &job.definition;
    let (overlap, trace) = (definition.overlap.as_str(), traceparent.map(str::as_bytes));
    for instant in instants(at).take(INSTANTS_MAX) {
        let rows = tx
            .query(
                sql!("manual/insert.sql"),
                &[
                    &job.id.0,
                    &job.tenant.0,
                    &instant,
                    &job.generation.0,
                    &definition.priority,
                    &overlap,
                    &definition.queue,
                    &trace,
                ],
            )
            .await?;
        if !rows.is_empty() {
            return Ok(RunKey::new(job.id, instant));
        }
    }
    Err(StoreError::Corrupt { what: "run", problem: "has no free instant for a manual run".to_owned() })
}

/// Every microsecond from `at` on that is no whole second.
fn instants(at: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> {
    let first = at.trunc_subsecs(6);
    let each = (0_i64..).map_while(move |number| first.checked_add_signed(TimeDelta::microseconds(number)));
    each.filter(|instant| instant.timestamp_subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_run_is_never_of_a_whole_second() {
        let second = DateTime::from_timestamp(1_795_942_800, 0).expect("in range");
        let first = |at| instants(at).next().map(|found| (found - second).num_microseconds());
        assert_eq!(first(second), Some(Some(1)));
        assert_eq!(first(second + TimeDelta::nanoseconds(7_999)), Some(Some(7)));
        let around = instants(second - TimeDelta::microseconds(1)).take(2);
        let around: Vec<_> = around.map(|found| (found - second).num_microseconds()).collect();
        assert_eq!(around, [Some(-1), Some(1)]);
    }
}
