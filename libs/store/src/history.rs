//! Runs as people see them: the ledger with what is going on now, output and worker beside it. Reads only, from the
//! one view that says in which phase a run is.

use crate::job::planned_each_time;
use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::{Generation, JobId, TenantId};
use model::run::{Origin, Phase};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// A run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The occurrence.
    pub scheduled_for: DateTime<Utc>,
    /// With jitter, or when it was queued late.
    pub due_at: DateTime<Utc>,
    /// Where it is.
    pub phase: Phase,
    /// Why it ended so.
    pub reason: Option<String>,
    /// Where it came from.
    pub origin: String,
    /// Which definition it executes.
    pub generation: Generation,
    /// The leadership that planned it.
    pub term: i64,
    /// The last attempt, 0 before the first.
    pub attempt: i32,
    /// Its fencing token.
    pub token: Option<i64>,
    /// The name of its worker.
    pub worker: Option<String>,
    /// When it was handed out last.
    pub claimed_at: Option<DateTime<Utc>>,
    /// When the worker accepted it last.
    pub accepted_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// Of the last attempt that left one.
    pub exit_status: Option<i32>,
    /// The end of that attempt's output.
    pub output: Vec<u8>,
    /// What that attempt said about its failure.
    pub error: String,
}

/// An attempt that ended without ending its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastAttempt {
    /// Counted from 1.
    pub attempt: i32,
    /// Its fencing token.
    pub token: Option<i64>,
    /// The name of its worker.
    pub worker: Option<String>,
    /// How it ended.
    pub state: Phase,
    /// Why; empty for a success, after which it was run again.
    pub reason: String,
    /// When it was handed out.
    pub claimed_at: Option<DateTime<Utc>>,
    /// When the worker accepted it.
    pub accepted_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: DateTime<Utc>,
    /// Of its process or call.
    pub exit_status: Option<i32>,
    /// What it said about its failure.
    pub error: String,
}

/// Which runs are asked for; all that is named must hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Filter {
    /// Scheduled at this instant or later.
    pub from: DateTime<Utc>,
    /// In one of these phases, if any is named.
    pub phases: Vec<Phase>,
    /// Of one of these origins, if any is named.
    pub origins: Vec<Origin>,
}

impl Filter {
    fn phases(&self) -> Vec<&'static str> {
        self.phases.iter().map(|phase| phase.as_str()).collect()
    }

    fn origins(&self) -> Vec<&'static str> {
        self.origins.iter().map(|origin| origin.as_str()).collect()
    }

    /// The statement that finds such runs across jobs without a walk over all others, where there is one. Three statements,
    /// and not one with a branch for each way, though they show the same columns: each call plans anew, and branches that it
    /// does not take have their partitions looked at all the same. With 34 days of history that one ran as fast, but was
    /// planned in 18 ms instead of 7, and for open runs in 10 instead of 2.
    fn across(&self) -> &'static str {
        let all = |named: &[Phase]| {
            !self.phases.is_empty() && self.phases.iter().all(|phase| named.contains(phase))
        };
        if all(&[Phase::Failed, Phase::TimedOut, Phase::Lost, Phase::Cancelled, Phase::Skipped]) {
            sql!("history/search_ended.sql")
        } else if all(&[Phase::Running, Phase::Retrying]) {
            sql!("history/search_open.sql")
        } else {
            sql!("history/search.sql")
        }
    }
}

/// At most `limit` runs of a job scheduled before `before`, latest first.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn page(
    store: &Store,
    tenant: TenantId,
    job: JobId,
    before: DateTime<Utc>,
    filter: &Filter,
    limit: i64,
) -> Result<Vec<Run>, StoreError> {
    let (phases, origins) = (filter.phases(), filter.origins());
    let client = store.client("list runs").await?;
    let rows = client
        .query(
            "list runs",
            sql!("history/page.sql"),
            &[&tenant.0, &job.0, &before, &phases, &limit, &filter.from, &origins],
        )
        .await?;
    rows.iter().map(read).collect()
}

/// A run and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// The job's identity.
    pub job: JobId,
    /// The job's name, now.
    pub job_name: String,
    /// The run.
    pub run: Run,
}

/// At most `limit` runs of all jobs of `tenant`, latest first, from the instant and job of the last one seen on.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn search(
    store: &Store,
    tenant: TenantId,
    before: (DateTime<Utc>, JobId),
    filter: &Filter,
    limit: i64,
) -> Result<Vec<Owned>, StoreError> {
    let (phases, origins) = (filter.phases(), filter.origins());
    let (at, job) = (before.0, before.1.0);
    let params: [&(dyn ToSql + Sync); 7] = [&tenant.0, &at, &job, &filter.from, &phases, &origins, &limit];
    let rows = planned_each_time(store, filter.across(), &params).await?;
    let owned = |row: &Row| {
        Ok(Owned { job: JobId(row.get("job_id")), job_name: row.get("job_name"), run: read(row)? })
    };
    rows.iter().map(owned).collect()
}

/// One run.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn get(
    store: &Store,
    tenant: TenantId,
    job: JobId,
    scheduled_for: DateTime<Utc>,
) -> Result<Option<Run>, StoreError> {
    let client = store.client("get a run").await?;
    let rows =
        client.query("get a run", sql!("history/get.sql"), &[&tenant.0, &job.0, &scheduled_for]).await?;
    rows.first().map(read).transpose()
}

/// One run of a job, as a transaction sees it that has just written it.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn get_in(
    tx: &Transaction<'_>,
    tenant: TenantId,
    job: JobId,
    scheduled_for: DateTime<Utc>,
) -> Result<Option<Run>, StoreError> {
    let rows = tx.query(sql!("history/get.sql"), &[&tenant.0, &job.0, &scheduled_for]).await?;
    rows.first().map(read).transpose()
}

/// The attempts that did not end the run, in order.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn attempts(
    store: &Store,
    tenant: TenantId,
    job: JobId,
    scheduled_for: DateTime<Utc>,
) -> Result<Vec<PastAttempt>, StoreError> {
    let client = store.client("list attempts").await?;
    let rows = client
        .query("list attempts", sql!("history/attempts.sql"), &[&tenant.0, &job.0, &scheduled_for])
        .await?;
    rows.iter().map(past_attempt).collect()
}

pub(crate) fn past_attempt(row: &Row) -> Result<PastAttempt, StoreError> {
    Ok(PastAttempt {
        attempt: row.get("attempt"),
        token: row.get("token"),
        worker: row.get("worker_name"),
        state: phase(row.get("state"))?,
        reason: row.get::<_, Option<String>>("reason").unwrap_or_default(),
        claimed_at: row.get("claimed_at"),
        accepted_at: row.get("accepted_at"),
        finished_at: row.get("finished_at"),
        exit_status: row.get("exit_status"),
        error: row.get::<_, Option<String>>("error").unwrap_or_default(),
    })
}

pub(crate) fn read(row: &Row) -> Result<Run, StoreError> {
    Ok(Run {
        scheduled_for: row.get("scheduled_for"),
        due_at: row.get("due_at"),
        phase: phase(row.get("phase"))?,
        reason: row.get("reason"),
        origin: row.get("origin"),
        generation: Generation(row.get("generation")),
        term: row.get("term"),
        attempt: row.get("attempt"),
        token: row.get("token"),
        worker: row.get("worker_name"),
        claimed_at: row.get("claimed_at"),
        accepted_at: row.get("accepted_at"),
        finished_at: row.get("finished_at"),
        exit_status: row.get("exit_status"),
        output: row.get::<_, Option<Vec<u8>>>("tail").unwrap_or_default(),
        error: row.get::<_, Option<String>>("error").unwrap_or_default(),
    })
}

pub(crate) fn phase(text: &str) -> Result<Phase, StoreError> {
    text.parse().map_err(|error: model::policy::UnknownName| StoreError::Corrupt {
        what: "run_phase.phase",
        problem: error.to_string(),
    })
}
