//! Tests of channels: somebody asks, a watchdog sends, who asked reads how it went. A test is sent once, and forgotten
//! within the hour; nothing of it is in the outbox, so that it waits for nothing and repeats nothing.

use crate::alert_channel::target;
use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::channel::Target;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// A test that was taken, to be sent once.
#[derive(Clone)]
pub struct Taken {
    /// Its identity.
    pub id: Uuid,
    /// The channel's name.
    pub channel_name: String,
    /// Where it leads; none when this version can't read that.
    pub target: Option<Target>,
    /// What the target needs besides.
    pub secret: Option<String>,
    /// When it was taken.
    pub taken_at: DateTime<Utc>,
}

/// How a test went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The receiver has it.
    pub received: bool,
    /// The answer's status, if there was an answer.
    pub status: Option<i32>,
    /// What went wrong; at most 1,024 characters.
    pub error: Option<String>,
}

/// Asks for a test of a channel and returns its identity.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn insert(tx: &Transaction<'_>, channel: Uuid) -> Result<Uuid, StoreError> {
    let id = Uuid::new_v4();
    tx.query(sql!("channel_test/insert.sql"), &[&id, &channel]).await?;
    Ok(id)
}

/// Takes up to `limit` tests, as long as no more than `of_tenant` of a tenant are under way.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn claim(store: &Store, limit: i64, of_tenant: i64) -> Result<Vec<Taken>, StoreError> {
    let operation = "take tests of channels";
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("channel_test/claim.sql"), &[&limit, &of_tenant]).await?;
    let read = |row: &Row| Taken {
        id: row.get("id"),
        channel_name: row.get("channel_name"),
        target: target(row).ok(),
        secret: row.get("secret"),
        taken_at: row.get("taken_at"),
    };
    Ok(rows.iter().map(read).collect())
}

/// Records how a test went.
///
/// # Errors
/// [`StoreError`] when the database can't be asked; whoever waits for the test then waits in vain.
pub async fn end(store: &Store, id: Uuid, ended: &Ended) -> Result<(), StoreError> {
    let operation = "record a test";
    let client = store.client(operation).await?;
    let params: [&(dyn ToSql + Sync); 4] = [&id, &ended.received, &ended.status, &ended.error];
    client.query(operation, sql!("channel_test/end.sql"), &params).await.map(drop)
}

/// How a test went; none while it has not ended, or when it is unknown.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn find(store: &Store, id: Uuid) -> Result<Option<Ended>, StoreError> {
    let operation = "look for a test's end";
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("channel_test/find.sql"), &[&id]).await?;
    Ok(rows.first().and_then(|row| {
        let received: Option<bool> = row.get("received");
        received.map(|received| Ended { received, status: row.get("status"), error: row.get("error") })
    }))
}
