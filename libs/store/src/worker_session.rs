//! Sessions of workers: written on connect, hand-over and end only.
//!
//! Invariant: `connection` rises with each resume, under the row's exclusive lock, so that whatever was decided for an
//! older connection finds that out. When a worker is dead is not decided here.

use crate::{Store, StoreError, Transaction, sql};
use futures_util::future::try_join;
use model::ids::{DispatcherId, SessionId, TenantId};
use std::collections::BTreeSet;
use uuid::Uuid;

/// What a worker says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// For people.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The queues that it takes runs from.
    pub queues: Vec<String>,
    /// Runs at a time.
    pub slots: i32,
    /// Whose runs its token lets it take; none is every tenant's.
    pub tenant: Option<TenantId>,
}

/// Stores a new session, connection 1.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn insert(
    store: &Store,
    session: SessionId,
    dispatcher: DispatcherId,
    worker: &Worker,
) -> Result<(), StoreError> {
    let client = store.client("store a session").await?;
    let tenant = worker.tenant.map(|tenant| tenant.0);
    client
        .query(
            "store a session",
            sql!("worker_session/insert.sql"),
            &[
                &session.0,
                &dispatcher.0,
                &tenant,
                &worker.name,
                &worker.version,
                &worker.queues,
                &worker.slots,
            ],
        )
        .await
        .map(drop)
}

/// What became of a session that somebody wants to go on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Resumed {
    /// It goes on, through the connection of this number.
    Taken(i32),
    /// Its worker has not said a word through the last connections: it does not hear what it is told.
    Deaf,
    /// It has ended, never was, or is another tenant's.
    Gone,
}

/// Takes a session over for a new connection, its leases too, unless that has happened `unheard_max` times without a word
/// of its worker since.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn resume(
    store: &Store,
    session: SessionId,
    dispatcher: DispatcherId,
    worker: &Worker,
    unheard_max: i32,
) -> Result<Resumed, StoreError> {
    let mut client = store.client("resume a session").await?;
    let tx = client.begin("resume a session").await?;
    let lock = tx.prepare(sql!("worker_session/lock.sql")).await?;
    let take = tx.prepare(sql!("worker_session/resume.sql")).await?;
    let tenant = worker.tenant.map(|tenant| tenant.0);
    let (_, taken) = try_join(
        tx.query_prepared(&lock, &[&vec![session.0]]),
        tx.query_prepared(
            &take,
            &[
                &session.0,
                &dispatcher.0,
                &tenant,
                &worker.name,
                &worker.version,
                &worker.queues,
                &worker.slots,
                &unheard_max,
            ],
        ),
    )
    .await?;
    let Some(row) = taken.first() else { return Ok(Resumed::Gone) };
    let Some(connection) = row.get::<_, Option<i32>>("connection") else { return Ok(Resumed::Deaf) };
    let lock = tx.prepare(sql!("run_lease/lock_of_sessions.sql")).await?;
    let note = tx.prepare(sql!("run_lease/reconnect.sql")).await?;
    try_join(
        tx.query_prepared(&lock, &[&vec![session.0]]),
        tx.query_prepared(&note, &[&session.0, &connection]),
    )
    .await?;
    tx.commit().await?;
    Ok(Resumed::Taken(connection))
}

/// A worker has spoken through the connection of this number.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn heard(store: &Store, session: SessionId, connection: i32) -> Result<(), StoreError> {
    let client = store.client("note that a worker hears").await?;
    client
        .query("note that a worker hears", sql!("worker_session/heard.sql"), &[&session.0, &connection])
        .await
        .map(drop)
}

/// A session as somebody saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Which.
    pub session: SessionId,
    /// With whom.
    pub dispatcher: DispatcherId,
    /// Through which connection.
    pub connection: i32,
}

/// Ends sessions that are still as they were seen, and returns those. One that is missing has moved on or had ended.
///
/// # Errors
/// [`StoreError::Database`].
#[must_use = "a session that is missing was not ended"]
pub async fn end(tx: &Transaction<'_>, seen: &[Seen]) -> Result<BTreeSet<SessionId>, StoreError> {
    let sessions: Vec<Uuid> = seen.iter().map(|seen| seen.session.0).collect();
    let dispatchers: Vec<Uuid> = seen.iter().map(|seen| seen.dispatcher.0).collect();
    let connections: Vec<i32> = seen.iter().map(|seen| seen.connection).collect();
    let lock = tx.prepare(sql!("worker_session/lock.sql")).await?;
    let end = tx.prepare(sql!("worker_session/end.sql")).await?;
    let (_, ended) = try_join(
        tx.query_prepared(&lock, &[&sessions]),
        tx.query_prepared(&end, &[&sessions, &dispatchers, &connections]),
    )
    .await?;
    Ok(ended.iter().map(|row| SessionId(row.get("id"))).collect())
}

/// The open sessions of a dispatcher.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn of_dispatcher(store: &Store, dispatcher: DispatcherId) -> Result<Vec<Seen>, StoreError> {
    let client = store.client("list sessions").await?;
    let rows =
        client.query("list sessions", sql!("worker_session/of_dispatcher.sql"), &[&dispatcher.0]).await?;
    Ok(rows
        .iter()
        .map(|row| Seen { session: SessionId(row.get("id")), dispatcher, connection: row.get("connection") })
        .collect())
}
