//! The ledger's way in: planned runs, each with its place in the queue, inserted once.

use crate::fence::Term;
use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::{Generation, RunKey, TenantId};
use model::policy::OverlapPolicy;
use model::run::Origin;

/// The widest span of occurrences, for statements whose runs may lie anywhere: schedules name nothing outside of it.
pub(crate) fn any_time() -> (DateTime<Utc>, DateTime<Utc>) {
    const END_OF_2199: i64 = 7_258_118_400;
    (DateTime::UNIX_EPOCH, DateTime::from_timestamp(END_OF_2199, 0).unwrap_or(DateTime::<Utc>::MAX_UTC))
}

/// A run to be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct New<'a> {
    /// Which.
    pub key: RunKey,
    /// The job's tenant.
    pub tenant_id: TenantId,
    /// The definition that every attempt of it executes.
    pub generation: Generation,
    /// Where it comes from.
    pub origin: Origin,
    /// The occurrence plus jitter: lateness counts from here.
    pub due_at: DateTime<Utc>,
    /// How it waits; none for one of a backlog that is queued one after the other.
    pub release: Option<Release>,
    /// The queue whose workers take it.
    pub queue: &'a str,
    /// Smaller is sooner.
    pub priority: i16,
    /// What becomes of it when it meets an open run of its job.
    pub overlap: OverlapPolicy,
}

/// How a run waits to be handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// Not before.
    pub at: DateTime<Utc>,
    /// Missed if not handed out by then; none when it is late already.
    pub start_by: Option<DateTime<Utc>>,
    /// The one late run of its job.
    pub late: bool,
    /// Its job is paused: not before it is resumed.
    pub held: bool,
}

/// What [`insert`] came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inserted {
    /// Runs that are new in the ledger; the others were there already.
    pub runs: i64,
    /// Of those, how many were queued.
    pub queued: i64,
}

/// Inserts runs that are not in the ledger yet and queues what is new. The fence and the jobs' cursors are held.
///
/// # Errors
/// [`StoreError::Database`]; one that a row of the input is guilty of concerns the batch as a whole.
pub async fn insert(
    tx: &Transaction<'_>,
    term: Term,
    traceparent: Option<&str>,
    runs: &[New<'_>],
) -> Result<Inserted, StoreError> {
    if runs.is_empty() {
        return Ok(Inserted::default());
    }
    let columns = Columns::of(runs);
    let rows = tx
        .query(
            sql!("run/insert.sql"),
            &[
                &columns.job_id,
                &columns.scheduled_for,
                &columns.tenant_id,
                &columns.due_at,
                &columns.release_at,
                &columns.start_by,
                &columns.generation,
                &columns.priority,
                &columns.origin,
                &columns.late,
                &columns.overlap,
                &columns.queue,
                &columns.held,
                &term.revision,
                &traceparent.map(str::as_bytes),
            ],
        )
        .await?;
    let missing = || StoreError::Corrupt { what: "run", problem: "an insert said nothing".to_owned() };
    let row = rows.first().ok_or_else(missing)?;
    Ok(Inserted { runs: row.get("inserted"), queued: row.get("queued") })
}

/// The parameters of `run/insert.sql`, one array a column.
#[derive(Default)]
struct Columns<'a> {
    job_id: Vec<uuid::Uuid>,
    scheduled_for: Vec<DateTime<Utc>>,
    tenant_id: Vec<uuid::Uuid>,
    due_at: Vec<DateTime<Utc>>,
    release_at: Vec<Option<DateTime<Utc>>>,
    start_by: Vec<Option<DateTime<Utc>>>,
    generation: Vec<i64>,
    priority: Vec<i16>,
    origin: Vec<&'static str>,
    late: Vec<bool>,
    overlap: Vec<&'static str>,
    queue: Vec<&'a str>,
    held: Vec<bool>,
}

impl<'a> Columns<'a> {
    fn of(runs: &[New<'a>]) -> Self {
        let mut columns = Self::default();
        for run in runs {
            columns.job_id.push(run.key.job_id.0);
            columns.scheduled_for.push(run.key.scheduled_for);
            columns.tenant_id.push(run.tenant_id.0);
            columns.due_at.push(run.due_at);
            columns.release_at.push(run.release.map(|release| release.at));
            columns.start_by.push(run.release.and_then(|release| release.start_by));
            columns.generation.push(run.generation.0);
            columns.priority.push(run.priority);
            columns.origin.push(run.origin.as_str());
            columns.late.push(run.release.is_some_and(|release| release.late));
            columns.overlap.push(run.overlap.as_str());
            columns.queue.push(run.queue);
            columns.held.push(run.release.is_some_and(|release| release.held));
        }
        columns
    }
}
