//! How a run ends: out of the queue, lease freed, ledger written, and what waits for it woken, in the caller's
//! transaction. The only way but one: an occurrence that a claim finds blocked by an open run of its job is ended by the
//! claim itself (`run_queue/claim.sql`); it had no lease, so nothing waits for it.

use crate::{StoreError, Transaction, run_parked, sql};
use chrono::{DateTime, Utc};
use futures_util::future::{try_join, try_join5};
use model::ids::{JobId, RunKey, SessionId};
use model::run::{Reason, State};
use model::token::Token;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio_postgres::Row;

/// How one run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Which.
    pub key: RunKey,
    /// The attempt that it ends with; none when it was never handed out.
    pub attempt: Option<Attempt>,
    /// The terminal state.
    pub state: State,
    /// Why; none for success only.
    pub reason: Option<Reason>,
    /// What the attempt left to read.
    pub output: Option<Output>,
}

/// The attempt that a lease must name for its run to end by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Counted from 1.
    pub number: i32,
    /// Its fencing token.
    pub token: Token,
    /// The session that must hold it; none when whoever holds it, nobody included, is ended.
    pub session: Option<SessionId>,
}

/// What an attempt left to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// Exit status of a process or status of an HTTP response.
    pub exit_status: Option<i32>,
    /// At most 4,096 bytes.
    pub tail: Vec<u8>,
    /// True when there was more.
    pub truncated: bool,
    /// At most 2,048 characters, without NUL.
    pub error: String,
}

/// Ends runs and returns the keys of those that ended by this call. One that is missing was not in the state that
/// was named: its lease has another attempt, token or session, or it has ended already. Nothing was written for it.
///
/// # Errors
/// [`StoreError::Database`]; [`StoreError::Corrupt`] when a run would lose its lease and not end, as its row is not there. The
/// transaction is then lost as a whole.
#[must_use = "a run whose key is missing was refused as stale"]
pub async fn end(tx: &Transaction<'_>, ends: &[End]) -> Result<BTreeSet<RunKey>, StoreError> {
    Ok(end_begun(tx, ends, &BTreeMap::new()).await?.into_keys().collect())
}

/// As [`end`], for runs of which some have started only so long ago as `begun` says, which is not recorded yet: their start
/// and their end are one write. With the keys of those that ended: when they started, if that was recorded by this call.
///
/// # Errors
/// [`StoreError::Database`]; [`StoreError::Corrupt`] when a run would lose its lease and not end, as its row is not there. The
/// transaction is then lost as a whole.
#[must_use = "a run whose key is missing was refused as stale"]
pub async fn end_begun(
    tx: &Transaction<'_>,
    ends: &[End],
    begun: &BTreeMap<RunKey, Duration>,
) -> Result<BTreeMap<RunKey, Option<DateTime<Utc>>>, StoreError> {
    let Some((first, last)) = span(ends) else { return Ok(BTreeMap::new()) };
    let millis = |age: &Duration| i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let begun: Vec<Option<i64>> = ends.iter().map(|end| begun.get(&end.key).map(millis)).collect();
    let jobs: Vec<_> = ends.iter().map(|end| end.key.job_id.0).collect::<BTreeSet<_>>().into_iter().collect();
    let columns = Columns::of(ends);
    let lock_backlogs = tx.prepare(sql!("catch_up/lock.sql")).await?;
    let lock_queue = tx.prepare(sql!("run_queue/lock.sql")).await?;
    let lock_leases = tx.prepare(sql!("run_lease/lock.sql")).await?;
    let lock_parked = tx.prepare(sql!("run_parked/lock.sql")).await?;
    let end = tx.prepare(sql!("run/end.sql")).await?;
    // Pipelined; PostgreSQL runs them one after the other, so each looks with a snapshot taken after the locks.
    let (backlogs, _, _, parked, ended) = try_join5(
        tx.query_prepared(&lock_backlogs, &[&jobs]),
        tx.query_prepared(&lock_queue, &[&columns.job_id, &columns.scheduled_for]),
        tx.query_prepared(&lock_leases, &[&columns.job_id, &columns.scheduled_for]),
        tx.query_prepared(&lock_parked, &[&jobs]),
        tx.query_prepared(
            &end,
            &[
                &columns.job_id,
                &columns.scheduled_for,
                &columns.attempt,
                &columns.token,
                &columns.session,
                &columns.state,
                &columns.reason,
                &columns.exit_status,
                &columns.tail,
                &columns.truncated,
                &columns.error,
                &first,
                &last,
                &begun,
            ],
        ),
    )
    .await?;
    let lost: i64 = ended.iter().filter_map(|row| row.get::<_, Option<i64>>("lost")).sum();
    if lost != 0 {
        let problem = format!("{lost} runs of {} would lose their lease and not end", ends.len());
        return Err(StoreError::Corrupt { what: "run", problem });
    }
    // Before the next of a backlog: whoever waited for this one has waited longer.
    run_parked::wake(tx, &parked.iter().map(run_parked::key).collect::<Vec<_>>()).await?;
    let waiting: Vec<JobId> = backlogs.iter().map(|row| JobId(row.get("job_id"))).collect();
    if !waiting.is_empty() {
        release_next(tx, &waiting).await?;
    }
    let key = |row: &Row| RunKey::new(JobId(row.get("job_id")), row.get("scheduled_for"));
    let ended = ended.iter().filter(|row| row.get::<_, Option<i64>>("lost").is_none());
    Ok(ended.map(|row| (key(row), row.get("begun_at"))).collect())
}

/// Queues the next run of each of these jobs' backlogs, if the job has no open run; the backlogs' rows are locked
/// first. Returns what was queued.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn release_next(tx: &Transaction<'_>, jobs: &[JobId]) -> Result<Vec<RunKey>, StoreError> {
    let jobs: Vec<_> = jobs.iter().map(|job| job.0).collect();
    let (from, through) = crate::run::any_time();
    let lock = tx.prepare(sql!("catch_up/lock.sql")).await?;
    let release = tx.prepare(sql!("catch_up/release_next.sql")).await?;
    let (_, queued) =
        try_join(tx.query_prepared(&lock, &[&jobs]), tx.query_prepared(&release, &[&jobs, &from, &through]))
            .await?;
    Ok(queued.iter().map(|row| RunKey::new(JobId(row.get("job_id")), row.get("scheduled_for"))).collect())
}

fn span(ends: &[End]) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
    let instants = || ends.iter().map(|end| end.key.scheduled_for);
    Some((instants().min()?, instants().max()?))
}

/// The parameters of `run/end.sql`, one array a column.
#[derive(Default)]
struct Columns<'a> {
    job_id: Vec<uuid::Uuid>,
    scheduled_for: Vec<DateTime<Utc>>,
    attempt: Vec<i32>,
    token: Vec<i64>,
    session: Vec<Option<uuid::Uuid>>,
    state: Vec<&'static str>,
    reason: Vec<Option<&'static str>>,
    exit_status: Vec<Option<i32>>,
    tail: Vec<Option<&'a [u8]>>,
    truncated: Vec<bool>,
    error: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(ends: &'a [End]) -> Self {
        let mut columns = Self::default();
        for end in ends {
            let output = end.output.as_ref();
            columns.job_id.push(end.key.job_id.0);
            columns.scheduled_for.push(end.key.scheduled_for);
            columns.attempt.push(end.attempt.map_or(0, |attempt| attempt.number));
            columns.token.push(end.attempt.map_or(0, |attempt| attempt.token.as_i64()));
            columns.session.push(end.attempt.and_then(|attempt| attempt.session).map(|session| session.0));
            columns.state.push(end.state.as_str());
            columns.reason.push(end.reason.map(Reason::as_str));
            columns.exit_status.push(output.and_then(|output| output.exit_status));
            columns.tail.push(output.map(|output| output.tail.as_slice()));
            columns.truncated.push(output.is_some_and(|output| output.truncated));
            columns.error.push(output.map_or("", |output| output.error.as_str()));
        }
        columns
    }
}
