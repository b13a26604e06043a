//! What was told to a channel, and each try to do so: reads for those who ask why a message came late, or did not come.

use crate::{Store, StoreError, sql};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use tokio_postgres::Row;
use uuid::Uuid;

/// What became of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// See [`super::Delivery::id`].
    pub id: Uuid,
    /// The alert.
    pub alert_id: Uuid,
    /// What happened, as stored.
    pub event: String,
    /// Its place among all deliveries; names the place in a list.
    pub sequence: i64,
    /// When it was put into the outbox.
    pub created_at: DateTime<Utc>,
    /// When it was received.
    pub delivered_at: Option<DateTime<Utc>>,
    /// When it was given up.
    pub given_up_at: Option<DateTime<Utc>>,
    /// When it is tried next, if it is neither.
    pub next_try_at: DateTime<Utc>,
    /// Tries so far.
    pub tries: i32,
    /// The last answer's status.
    pub status: Option<i32>,
    /// What went wrong with the last try.
    pub error: Option<String>,
    /// The newest tries, the newest first.
    pub newest: Vec<Try>,
}

/// A try of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Try {
    /// Counted from 1.
    pub number: i32,
    /// When it ended.
    pub at: DateTime<Utc>,
    /// The answer's status, if there was an answer.
    pub status: Option<i32>,
    /// What went wrong; none when it was received.
    pub error: Option<String>,
}

/// Tries that are shown of each delivery.
pub const TRIES_SHOWN: i64 = 20;

/// Up to `limit` deliveries to a channel before the one with this sequence, the newest first. Those of alerts that were
/// resolved long ago are gone with them: see [`crate::retention`].
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn page(
    store: &Store,
    channel: Uuid,
    before: Option<i64>,
    limit: usize,
) -> Result<Vec<Told>, StoreError> {
    let operation = "list deliveries";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("alert_delivery/page.sql"), &[&channel, &before, &limit]).await?;
    let (alerts, ids): (Vec<Uuid>, Vec<Uuid>) =
        rows.iter().map(|row| (row.get::<_, Uuid>("alert_id"), row.get::<_, Uuid>("id"))).unzip();
    let tries =
        client.query(operation, sql!("delivery_try/newest.sql"), &[&alerts, &ids, &TRIES_SHOWN]).await?;
    let mut newest: BTreeMap<Uuid, Vec<Try>> = BTreeMap::new();
    for row in &tries {
        let (number, at, status, error) =
            (row.get("try"), row.get("at"), row.get("status"), row.get("error"));
        newest.entry(row.get("delivery_id")).or_default().push(Try { number, at, status, error });
    }
    let mut read = |row: &Row| Told {
        id: row.get("id"),
        alert_id: row.get("alert_id"),
        event: row.get("event"),
        sequence: row.get("sequence"),
        created_at: row.get("created_at"),
        delivered_at: row.get("delivered_at"),
        given_up_at: row.get("given_up_at"),
        next_try_at: row.get("next_try_at"),
        tries: row.get("tries"),
        status: row.get("last_status"),
        error: row.get("last_error"),
        newest: newest.remove(&row.get("id")).unwrap_or_default(),
    };
    Ok(rows.iter().map(&mut read).collect())
}
