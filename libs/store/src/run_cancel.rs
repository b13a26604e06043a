//! Cancelling an open run, for whatever reason.
//!
//! A run that a worker has is asked to stop: the request is in its lease, the dispatcher that holds the session tells
//! the worker, and the run ends with the worker's word or once the grace is over. Every other open run ends at once:
//! planned, waiting, parked, or between two attempts.

use crate::run_end::{self, Attempt, End};
use crate::run_parked::{self, Holder};
use crate::{Store, StoreError, Transaction, sql};
use futures_util::future::try_join4;
use model::ids::{DispatcherId, JobId, RunKey, SessionId};
use model::run::{Reason, State};
use model::token::Token;
use uuid::Uuid;

/// What a cancellation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a run that is not open was not cancelled"]
pub enum Cancelled {
    /// The run has ended as cancelled.
    Ended,
    /// Its worker is asked to stop; the run ends when it has.
    Requested,
    /// There is no such run, or it has ended already.
    NotOpen,
}

/// Cancels one run. Locks its job's backlog first, then what there is of the run.
///
/// # Errors
/// [`StoreError::Database`]; [`StoreError::Corrupt`].
pub async fn cancel(tx: &Transaction<'_>, key: RunKey, reason: Reason) -> Result<Cancelled, StoreError> {
    let (jobs, instants) = (vec![key.job_id.0], vec![key.scheduled_for]);
    let backlogs = tx.prepare(sql!("catch_up/lock.sql")).await?;
    let queue = tx.prepare(sql!("run_queue/lock.sql")).await?;
    let leases = tx.prepare(sql!("run_parked/lock_leases.sql")).await?;
    let parked = tx.prepare(sql!("run_parked/lock.sql")).await?;
    // Whoever held one of them may have moved the run on: the end looks again, in statements of its own.
    let (_, _, held, _) = try_join4(
        tx.query_prepared(&backlogs, &[&jobs]),
        tx.query_prepared(&queue, &[&jobs, &instants]),
        tx.query_prepared(&leases, &[&jobs]),
        tx.query_prepared(&parked, &[&jobs]),
    )
    .await?;
    let held = held.iter().map(run_parked::holder).collect::<Result<Vec<_>, _>>()?;
    let held = held.into_iter().find(|holder| holder.key == key);
    if held.is_some_and(|holder| holder.session.is_some()) {
        request(tx, &[key], reason).await?;
        return Ok(Cancelled::Requested);
    }
    let ended = run_end::end(tx, &[at_once(key, held.as_ref(), reason)]).await?;
    Ok(if ended.is_empty() { Cancelled::NotOpen } else { Cancelled::Ended })
}

/// The end of a run that no worker has.
pub(crate) fn at_once(key: RunKey, between: Option<&Holder>, reason: Reason) -> End {
    let attempt =
        between.map(|holder| Attempt { number: holder.attempt, token: holder.token, session: None });
    End { key, attempt, state: State::Cancelled, reason: Some(reason), output: None }
}

/// Asks the workers that have these runs to stop; the caller has locked the leases.
pub(crate) async fn request(tx: &Transaction<'_>, keys: &[RunKey], reason: Reason) -> Result<(), StoreError> {
    let (jobs, instants): (Vec<_>, Vec<_>) = keys.iter().map(|key| (key.job_id.0, key.scheduled_for)).unzip();
    tx.execute(sql!("run_cancel/request.sql"), &[&jobs, &instants, &reason.as_str()]).await.map(drop)
}

/// An attempt that is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// Who holds it.
    pub session: SessionId,
    /// Which run.
    pub key: RunKey,
    /// The attempt, counted from 1.
    pub attempt: i32,
    /// Its fencing token.
    pub token: Token,
    /// Why it is to stop.
    pub reason: Reason,
}

/// What the workers of a dispatcher have been asked to stop and hold still.
///
/// # Errors
/// [`StoreError::Database`]; [`StoreError::Corrupt`].
pub async fn pending(store: &Store, dispatcher: DispatcherId) -> Result<Vec<Pending>, StoreError> {
    let client = store.client("look for requests to cancel").await?;
    let rows =
        client.query("look for requests to cancel", sql!("run_cancel/pending.sql"), &[&dispatcher.0]).await?;
    let corrupt = |what, problem: String| StoreError::Corrupt { what, problem };
    rows.iter()
        .map(|row| {
            let reason: &str = row.get("cancel_reason");
            Ok(Pending {
                session: SessionId(row.get::<_, Uuid>("session_id")),
                key: RunKey::new(JobId(row.get("job_id")), row.get("scheduled_for")),
                attempt: row.get("attempt"),
                token: Token::from_i64(row.get("token"))
                    .map_err(|error| corrupt("run_lease.token", error.to_string()))?,
                reason: reason
                    .parse()
                    .map_err(|error| corrupt("run_lease.cancel_reason", format!("{error}")))?,
            })
        })
        .collect()
}
