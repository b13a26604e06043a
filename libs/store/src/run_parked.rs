//! The one run of a job that waits for an earlier one to end.
//!
//! Invariant: a run is parked only while the parking transaction holds the leases of its job, and whoever ends one of them
//! locks the parked row between the lease and the ledger; so that either the end sees the parked run and queues it, or the
//! parking finds no lease and leaves the run where it was. Crash window, "put off, not parked": a claim has put a run off,
//! and nobody parks it; a second later it is claimed again.
//!
//! What it does not do: decide. [`model::release`] does, and `decide` applies it to what is locked.

mod decide;

use crate::run_cancel::{self, Pending};
use crate::run_end::{self, End};
use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use decide::{Decision, Locked, Queued};
use futures_util::future::try_join4;
use model::ids::{JobId, RunKey, SessionId};
use model::run::{Reason, State};
use model::token::Token;
use std::collections::BTreeSet;
use tokio_postgres::Row;
use uuid::Uuid;

/// What parking did. Nothing of it is true before the transaction has committed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parked {
    /// Runs that wait for an earlier one to end.
    pub parked: BTreeSet<RunKey>,
    /// Runs that ended because a newer one waits in their place.
    pub superseded: BTreeSet<RunKey>,
    /// Attempts that workers were asked to stop by this.
    pub replacing: Vec<Pending>,
    /// True when runs became due: nothing stands in their way any more.
    pub due: bool,
}

/// Parks those of these queued runs that an open run of their job keeps from starting, and asks that one to stop where
/// the policy is to replace it. Runs that nothing keeps any more are due at once.
///
/// # Errors
/// [`StoreError::Database`]; [`StoreError::Corrupt`].
pub async fn park(tx: &Transaction<'_>, keys: &[RunKey]) -> Result<Parked, StoreError> {
    if keys.is_empty() {
        return Ok(Parked::default());
    }
    let decision = decide::decide(&lock(tx, keys).await?);
    let Decision { park, supersede, replace, end, unblock } = decision;
    if !park.is_empty() {
        let (jobs, instants) = columns(&park);
        tx.execute(sql!("run_parked/park.sql"), &[&jobs, &instants]).await?;
    }
    if !unblock.is_empty() {
        let (jobs, instants) = columns(&unblock);
        tx.execute(sql!("run_parked/unblock.sql"), &[&jobs, &instants]).await?;
    }
    if !replace.is_empty() {
        let keys: Vec<_> = replace.iter().map(|pending| pending.key).collect();
        run_cancel::request(tx, &keys, Reason::Replaced).await?;
    }
    let displaced = supersede.iter().map(|key| End {
        key: *key,
        attempt: None,
        state: State::Skipped,
        reason: Some(Reason::Superseded),
        output: None,
    });
    let replaced = end.iter().map(|holder| run_cancel::at_once(holder.key, Some(holder), Reason::Replaced));
    let mut ends: Vec<End> = displaced.chain(replaced).collect();
    ends.sort_by_key(|end| end.key);
    let ended = run_end::end(tx, &ends).await?;
    Ok(Parked {
        parked: park.into_iter().collect(),
        superseded: supersede.into_iter().filter(|key| ended.contains(key)).collect(),
        replacing: replace,
        due: !unblock.is_empty() || !end.is_empty(),
    })
}

/// Locks, in the order of locks, what a decision about these runs looks at. Each statement answers with the rows as they
/// are once it has locked them.
async fn lock(tx: &Transaction<'_>, keys: &[RunKey]) -> Result<Locked, StoreError> {
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    let (jobs, instants) = columns(&keys);
    let distinct: Vec<Uuid> = jobs.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let backlogs = tx.prepare(sql!("catch_up/lock.sql")).await?;
    let queue = tx.prepare(sql!("run_parked/lock_queue.sql")).await?;
    let leases = tx.prepare(sql!("run_parked/lock_leases.sql")).await?;
    let parked = tx.prepare(sql!("run_parked/lock.sql")).await?;
    let (backlogs, queue, leases, parked) = try_join4(
        tx.query_prepared(&backlogs, &[&distinct]),
        tx.query_prepared(&queue, &[&jobs, &instants]),
        tx.query_prepared(&leases, &[&distinct]),
        tx.query_prepared(&parked, &[&distinct]),
    )
    .await?;
    Ok(Locked {
        draining: backlogs.iter().map(|row| JobId(row.get("job_id"))).collect(),
        queued: queue.iter().map(queued).collect::<Result<_, _>>()?,
        open: leases.iter().map(holder).collect::<Result<_, _>>()?,
        parked: parked.iter().map(key).collect(),
    })
}

/// Queues the parked runs of these jobs whose earlier runs have ended, and returns them. `parked`: the parked runs, which
/// the caller has locked in a statement before the one that freed the leases.
///
/// # Errors
/// [`StoreError::Database`].
pub(crate) async fn wake(tx: &Transaction<'_>, parked: &[RunKey]) -> Result<Vec<RunKey>, StoreError> {
    let instants = || parked.iter().map(|key| key.scheduled_for);
    let (Some(first), Some(last)) = (instants().min(), instants().max()) else { return Ok(Vec::new()) };
    let (jobs, _) = columns(parked);
    let woken = tx.query(sql!("run_parked/wake.sql"), &[&jobs, &first, &last]).await?;
    Ok(woken.iter().map(key).collect())
}

/// Queues parked runs of jobs that have no open run: a safety net, because each end wakes what waits for it. Returns what
/// was queued.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn sweep(store: &Store) -> Result<Vec<RunKey>, StoreError> {
    let mut client = store.client("look for forgotten parked runs").await?;
    let rows = client.query("look for forgotten parked runs", sql!("run_parked/idle.sql"), &[]).await?;
    let jobs: Vec<Uuid> = rows.iter().map(|row| row.get("job_id")).collect();
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let tx = client.begin("wake parked runs").await?;
    let parked = tx.query(sql!("run_parked/lock.sql"), &[&jobs]).await?;
    let woken = wake(&tx, &parked.iter().map(key).collect::<Vec<_>>()).await?;
    tx.commit().await?;
    Ok(woken)
}

/// Who has an open run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Which run.
    pub(crate) key: RunKey,
    /// The attempt, counted from 1.
    pub(crate) attempt: i32,
    /// Its fencing token.
    pub(crate) token: Token,
    /// Its session; none between two attempts.
    pub(crate) session: Option<SessionId>,
    /// It is to stop already.
    pub(crate) asked: bool,
}

pub(crate) fn holder(row: &Row) -> Result<Holder, StoreError> {
    let token = Token::from_i64(row.get("token"))
        .map_err(|error| StoreError::Corrupt { what: "run_lease.token", problem: error.to_string() })?;
    Ok(Holder {
        key: key(row),
        attempt: row.get("attempt"),
        token,
        session: row.get::<_, Option<Uuid>>("session_id").map(SessionId),
        asked: row.get("asked"),
    })
}

pub(crate) fn key(row: &Row) -> RunKey {
    RunKey::new(JobId(row.get("job_id")), row.get("scheduled_for"))
}

fn queued(row: &Row) -> Result<Queued, StoreError> {
    let corrupt = |what, problem: String| StoreError::Corrupt { what, problem };
    let (origin, overlap): (&str, &str) = (row.get("origin"), row.get("overlap"));
    Ok(Queued {
        key: key(row),
        origin: origin.parse().map_err(|error| corrupt("run_queue.origin", format!("{error}")))?,
        overlap: overlap.parse().map_err(|error| corrupt("run_queue.overlap", format!("{error}")))?,
    })
}

fn columns(keys: &[RunKey]) -> (Vec<Uuid>, Vec<DateTime<Utc>>) {
    keys.iter().map(|key| (key.job_id.0, key.scheduled_for)).unzip()
}
