//! Open runs: who has them, and what happens to an attempt that does not end its run.
//!
//! Invariant: a lease without a session lives exactly as long as its retry row in the queue, because [`retry`] is one
//! statement. Ends are not here: [`crate::run_end`] is the only way any run ends.

pub mod assignment;

use crate::run_end::{Attempt, Output};
use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::{try_join, try_join3};
use model::attempt::Spent;
use model::ids::{DispatcherId, Generation, JobId, RunKey, SessionId};
use model::run::{Reason, State};
use model::token::Token;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// One open run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Which.
    pub key: RunKey,
    /// The attempt, counted from 1.
    pub attempt: i32,
    /// Its fencing token.
    pub token: Token,
    /// Who has it; none between two attempts.
    pub session: Option<SessionId>,
    /// The session's connection when it was claimed or resumed.
    pub connection: i32,
    /// The definition that it executes.
    pub generation: Generation,
    /// What the earlier attempts spent.
    pub spent: Spent,
    /// Why it is to be cancelled, if it is.
    pub cancel: Option<Reason>,
    /// Its deadline has passed.
    pub overdue: bool,
    /// Its deadline, or the request to cancel it, is older than the worker's chance to stop.
    pub given_up: bool,
    /// Its job was deleted: this attempt goes on, and no other follows.
    pub orphaned: bool,
}

impl Lease {
    /// How a write on behalf of its attempt names it.
    pub const fn named(&self) -> Attempt {
        Attempt { number: self.attempt, token: self.token, session: self.session }
    }
}

/// Reads leases after locking them, backlogs of their jobs first: the caller is about to end or retry the runs. A
/// missing one is not open. `grace`: how long after a deadline a worker has its chance to stop.
///
/// # Errors
/// [`StoreError::Database`]; [`StoreError::Corrupt`].
pub async fn lock(
    tx: &Transaction<'_>,
    keys: &[RunKey],
    grace: Duration,
) -> Result<BTreeMap<RunKey, Lease>, StoreError> {
    let (jobs, instants) = columns(keys);
    let distinct: Vec<Uuid> = jobs.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let lock_backlogs = tx.prepare(sql!("catch_up/lock.sql")).await?;
    let lock_leases = tx.prepare(sql!("run_lease/lock.sql")).await?;
    let read_leases = tx.prepare(sql!("run_lease/read.sql")).await?;
    let (_, _, rows) = try_join3(
        tx.query_prepared(&lock_backlogs, &[&distinct]),
        tx.query_prepared(&lock_leases, &[&jobs, &instants]),
        tx.query_prepared(&read_leases, &[&jobs, &instants, &millis(grace)]),
    )
    .await?;
    rows.iter().map(|row| read(row).map(|lease| (lease.key, lease))).collect()
}

/// Moves the deadlines of attempts that a dispatcher's workers had accepted by `before`, because the clock jumped ahead
/// since; how many.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn shift_deadlines(
    store: &Store,
    dispatcher: DispatcherId,
    by: TimeDelta,
    before: DateTime<Utc>,
) -> Result<usize, StoreError> {
    let client = store.client("move deadlines").await?;
    let values: [&(dyn ToSql + Sync); 3] = [&dispatcher.0, &by.num_milliseconds(), &before];
    Ok(client.query("move deadlines", sql!("run_lease/shift_deadlines.sql"), &values).await?.len())
}

/// The jobs of which these sessions have runs, without locks: for locking what comes before leases.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn jobs_of_sessions(
    tx: &Transaction<'_>,
    sessions: &[SessionId],
) -> Result<BTreeSet<JobId>, StoreError> {
    let sessions: Vec<Uuid> = sessions.iter().map(|session| session.0).collect();
    let rows = tx.query(sql!("run_lease/of_sessions.sql"), &[&sessions, &0_i64]).await?;
    Ok(rows.iter().map(|row| JobId(row.get("job_id"))).collect())
}

/// Reads every lease of these sessions after locking them, in order. The caller holds the sessions' locks.
///
/// # Errors
/// [`StoreError::Database`]; [`StoreError::Corrupt`].
pub async fn lock_of_sessions(
    tx: &Transaction<'_>,
    sessions: &[SessionId],
) -> Result<Vec<Lease>, StoreError> {
    let sessions: Vec<Uuid> = sessions.iter().map(|session| session.0).collect();
    let lock = tx.prepare(sql!("run_lease/lock_of_sessions.sql")).await?;
    let read_leases = tx.prepare(sql!("run_lease/of_sessions.sql")).await?;
    let (_, rows) = try_join(
        tx.query_prepared(&lock, &[&sessions]),
        tx.query_prepared(&read_leases, &[&sessions, &0_i64]),
    )
    .await?;
    rows.iter().map(read).collect()
}

/// The leases of these sessions, without locks. `grace` as in [`lock`].
///
/// # Errors
/// [`StoreError::Database`]; [`StoreError::Corrupt`].
pub async fn of_sessions(
    store: &Store,
    sessions: &[SessionId],
    grace: Duration,
) -> Result<Vec<Lease>, StoreError> {
    let sessions: Vec<Uuid> = sessions.iter().map(|session| session.0).collect();
    let client = store.client("read the leases of sessions").await?;
    let rows = client
        .query("read the leases of sessions", sql!("run_lease/of_sessions.sql"), &[&sessions, &millis(grace)])
        .await?;
    rows.iter().map(read).collect()
}

/// An attempt that its worker has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acceptance {
    /// Which run.
    pub key: RunKey,
    /// The attempt; its session must be named.
    pub attempt: Attempt,
    /// How long after acceptance it is overdue.
    pub limit: Duration,
    /// How long ago it was heard of.
    pub age: Duration,
}

/// Records that attempts have started, and when. An absent key is stale, or was accepted before.
///
/// # Errors
/// [`StoreError::Database`].
#[must_use = "an acceptance whose key is missing was not recorded"]
pub async fn accept(
    tx: &Transaction<'_>,
    acceptances: &[Acceptance],
) -> Result<BTreeMap<RunKey, DateTime<Utc>>, StoreError> {
    if acceptances.is_empty() {
        return Ok(BTreeMap::new());
    }
    let keys: Vec<RunKey> = acceptances.iter().map(|acceptance| acceptance.key).collect();
    let (jobs, instants) = columns(&keys);
    let attempt: Vec<i32> = acceptances.iter().map(|acceptance| acceptance.attempt.number).collect();
    let token: Vec<i64> = acceptances.iter().map(|acceptance| acceptance.attempt.token.as_i64()).collect();
    let session: Vec<Option<Uuid>> =
        acceptances.iter().map(|acceptance| acceptance.attempt.session.map(|session| session.0)).collect();
    let limit: Vec<i64> = acceptances.iter().map(|acceptance| millis(acceptance.limit)).collect();
    let age: Vec<i64> = acceptances.iter().map(|acceptance| millis(acceptance.age)).collect();
    let rows = tx
        .query(sql!("run_lease/accept.sql"), &[&jobs, &instants, &attempt, &token, &session, &limit, &age])
        .await?;
    Ok(rows.iter().map(|row| (key(row), row.get("accepted_at"))).collect())
}

/// An attempt after which its run is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Which run.
    pub key: RunKey,
    /// The attempt that ended.
    pub attempt: Attempt,
    /// How.
    pub state: State,
    /// Why.
    pub reason: Reason,
    /// What is spent from now on.
    pub spent: Spent,
    /// The wait before the next attempt.
    pub after: Duration,
    /// What the attempt left to read.
    pub output: Option<Output>,
}

/// Sends runs back to the queue and returns the keys of those that this call sent. One that is missing was not in
/// the state that was named; nothing was written for it.
///
/// # Errors
/// [`StoreError::Database`]; the transaction is then lost as a whole.
#[must_use = "a run whose key is missing was refused as stale"]
pub async fn retry(tx: &Transaction<'_>, retries: &[Retry]) -> Result<BTreeSet<RunKey>, StoreError> {
    if retries.is_empty() {
        return Ok(BTreeSet::new());
    }
    let keys: Vec<RunKey> = retries.iter().map(|retry| retry.key).collect();
    let (jobs, instants) = columns(&keys);
    let number: Vec<i32> = retries.iter().map(|retry| retry.attempt.number).collect();
    let token: Vec<i64> = retries.iter().map(|retry| retry.attempt.token.as_i64()).collect();
    let session: Vec<Option<Uuid>> =
        retries.iter().map(|retry| retry.attempt.session.map(|id| id.0)).collect();
    let counts = |of: fn(&Spent) -> u16| -> Vec<i16> {
        retries.iter().map(|retry| i16::try_from(of(&retry.spent)).unwrap_or(i16::MAX)).collect()
    };
    let (undelivered, lost, failed) =
        (counts(|spent| spent.undelivered), counts(|spent| spent.lost), counts(|spent| spent.failed));
    let after: Vec<i64> = retries.iter().map(|retry| millis(retry.after)).collect();
    let state: Vec<&str> = retries.iter().map(|retry| retry.state.as_str()).collect();
    let reason: Vec<&str> = retries.iter().map(|retry| retry.reason.as_str()).collect();
    let output = |retry: &Retry| retry.output.clone().unwrap_or_default();
    let exit: Vec<Option<i32>> = retries.iter().map(|retry| output(retry).exit_status).collect();
    let tail: Vec<Option<&[u8]>> =
        retries.iter().map(|retry| retry.output.as_ref().map(|output| output.tail.as_slice())).collect();
    let truncated: Vec<bool> = retries.iter().map(|retry| output(retry).truncated).collect();
    let error: Vec<&str> = retries
        .iter()
        .map(|retry| retry.output.as_ref().map_or("", |output| output.error.as_str()))
        .collect();
    let rows = tx
        .query(
            sql!("run_lease/retry.sql"),
            &[
                &jobs,
                &instants,
                &number,
                &token,
                &session,
                &undelivered,
                &lost,
                &failed,
                &after,
                &state,
                &reason,
                &exit,
                &tail,
                &truncated,
                &error,
            ],
        )
        .await?;
    Ok(rows.iter().map(key).collect())
}

/// Leases that nothing will move: neither a session nor a retry row. There must be none.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn stranded(store: &Store) -> Result<Vec<RunKey>, StoreError> {
    let client = store.client("look for stranded leases").await?;
    let rows = client.query("look for stranded leases", sql!("run_lease/stranded.sql"), &[]).await?;
    Ok(rows.iter().map(key).collect())
}

fn columns(keys: &[RunKey]) -> (Vec<Uuid>, Vec<DateTime<Utc>>) {
    keys.iter().map(|key| (key.job_id.0, key.scheduled_for)).unzip()
}

fn key(row: &Row) -> RunKey {
    RunKey::new(JobId(row.get("job_id")), row.get("scheduled_for"))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn read(row: &Row) -> Result<Lease, StoreError> {
    let token = Token::from_i64(row.get("token"));
    Ok(Lease {
        key: key(row),
        attempt: row.get("attempt"),
        token: token
            .map_err(|error| StoreError::Corrupt { what: "run_lease.token", problem: error.to_string() })?,
        session: row.get::<_, Option<Uuid>>("session_id").map(SessionId),
        connection: row.get("connection"),
        generation: Generation(row.get("generation")),
        spent: assignment::spent(row),
        cancel: read_reason(row.get("cancel_reason"))?,
        overdue: row.get("overdue"),
        given_up: row.get("given_up"),
        orphaned: row.get("orphaned"),
    })
}

fn read_reason(text: Option<&str>) -> Result<Option<Reason>, StoreError> {
    let read = text.map(str::parse).transpose();
    read.map_err(|error| StoreError::Corrupt { what: "run_lease.cancel_reason", problem: format!("{error}") })
}
