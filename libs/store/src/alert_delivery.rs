//! The outbox: what is to be told, to which channel, and how telling it went.
//!
//! At least once: a delivery is taken for a while, not for good, so that a sender that dies only delays it; its
//! identity and body never change. Any watchdog may send; what it sends was written under the fence.

use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::TenantId;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_postgres::Row;
use uuid::Uuid;

/// What a delivery tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// An alert was opened.
    Opened,
    /// It is still open; takes the place of the repetition before.
    Repeated,
    /// Somebody looks after it; takes the place of the acknowledgement before.
    Acknowledged,
    /// It was resolved.
    Resolved,
}

impl Event {
    /// As stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "OPENED",
            Self::Repeated => "REPEATED",
            Self::Acknowledged => "ACKNOWLEDGED",
            Self::Resolved => "RESOLVED",
        }
    }
}

/// One event for one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The identity that the receiver sees at every try.
    pub id: Uuid,
    /// The alert.
    pub alert_id: Uuid,
    /// The channel.
    pub channel_id: Uuid,
    /// What happened.
    pub event: Event,
    /// What is signed and sent, byte for byte; at most 65,536 characters.
    pub body: String,
}

/// A delivery that was taken for one try.
#[derive(Clone, PartialEq, Eq)]
pub struct Taken {
    /// See [`Delivery::id`].
    pub id: Uuid,
    /// The alert.
    pub alert_id: Uuid,
    /// The channel.
    pub channel_id: Uuid,
    /// The channel's name.
    pub channel_name: String,
    /// The channel was deleted meanwhile.
    pub channel_deleted: bool,
    /// Where to send it.
    pub url: String,
    /// What to sign it with.
    pub secret: Option<String>,
    /// See [`Delivery::body`].
    pub body: String,
    /// Which try this is, from 1; names this taking.
    pub try_number: i32,
    /// When it was put into the outbox.
    pub created_at: DateTime<Utc>,
    /// When it was taken.
    pub taken_at: DateTime<Utc>,
}

impl std::fmt::Debug for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let channel = self.channel_name.as_str(); // neither the address nor the secret belongs into a log
        f.debug_struct("Taken")
            .field("id", &self.id)
            .field("channel", &channel)
            .field("try_number", &self.try_number)
            .finish_non_exhaustive()
    }
}

/// How much may be taken at once.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// Deliveries at most.
    pub limit: i64,
    /// Deliveries of one channel at most.
    pub per_channel: i64,
    /// Channels that get none now.
    pub busy: &'a [Uuid],
    /// For how long they are taken; longer than a try may last.
    pub lease: Duration,
}

/// Whether a result was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a stale result says that somebody else has taken the delivery"]
pub enum Recorded {
    /// It was.
    Yes,
    /// Somebody else has taken or settled the delivery since.
    Stale,
}

/// The channels of these names; one that is missing does not exist.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn channels(
    tx: &Transaction<'_>,
    names: &[(TenantId, &str)],
) -> Result<BTreeMap<(TenantId, String), Uuid>, StoreError> {
    let (tenants, names): (Vec<_>, Vec<_>) = names.iter().map(|(tenant, name)| (tenant.0, *name)).unzip();
    let rows = tx.query(sql!("alert_delivery/channels.sql"), &[&tenants, &names]).await?;
    Ok(rows.iter().map(|row| ((TenantId(row.get("tenant_id")), row.get("name")), row.get("id"))).collect())
}

/// The channels that are told of the opening of these alerts, as (alert, channel).
///
/// # Errors
/// [`StoreError::Database`].
pub async fn told(tx: &Transaction<'_>, alerts: &[Uuid]) -> Result<Vec<(Uuid, Uuid)>, StoreError> {
    let rows = tx.query(sql!("alert_delivery/told.sql"), &[&alerts]).await?;
    Ok(rows.iter().map(|row| (row.get("alert_id"), row.get("channel_id"))).collect())
}

/// Puts deliveries into the outbox. Of those that are there already, openings and resolutions stay as they are;
/// repetitions and acknowledgements are replaced, and sent anew.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn insert(tx: &Transaction<'_>, deliveries: &[Delivery]) -> Result<u64, StoreError> {
    let ids: Vec<_> = deliveries.iter().map(|delivery| delivery.id).collect();
    let alerts: Vec<_> = deliveries.iter().map(|delivery| delivery.alert_id).collect();
    let channels: Vec<_> = deliveries.iter().map(|delivery| delivery.channel_id).collect();
    let events: Vec<_> = deliveries.iter().map(|delivery| delivery.event.as_str()).collect();
    let bodies: Vec<_> = deliveries.iter().map(|delivery| delivery.body.as_str()).collect();
    tx.execute(sql!("alert_delivery/insert.sql"), &[&ids, &alerts, &channels, &events, &bodies]).await
}

/// Takes deliveries that are due. A resolution is never taken before its opening is settled.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn claim(store: &Store, claim: Claim<'_>) -> Result<Vec<Taken>, StoreError> {
    let operation = "take deliveries";
    let lease = i64::try_from(claim.lease.as_millis()).unwrap_or(i64::MAX);
    let client = store.client(operation).await?;
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&claim.limit, &claim.per_channel, &claim.busy, &lease];
    let rows = client.query(operation, sql!("alert_delivery/claim.sql"), &params).await?;
    Ok(rows.iter().map(taken).collect())
}

fn taken(row: &Row) -> Taken {
    Taken {
        id: row.get("id"),
        alert_id: row.get("alert_id"),
        channel_id: row.get("channel_id"),
        channel_name: row.get("channel_name"),
        channel_deleted: row.get("deleted"),
        url: row.get("url"),
        secret: row.get("secret"),
        body: row.get("body"),
        try_number: row.get("try"),
        created_at: row.get("created_at"),
        taken_at: row.get("taken_at"),
    }
}

/// Records that a delivery was received.
///
/// # Errors
/// [`StoreError`] when the database can't be asked; the delivery is then sent again.
pub async fn delivered(store: &Store, id: Uuid, status: i32) -> Result<Recorded, StoreError> {
    let operation = "record a delivery";
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("alert_delivery/delivered.sql"), &[&id, &status]).await?;
    Ok(recorded(&rows))
}

/// Records that a try failed, and when the next one follows; none gives it up.
///
/// # Errors
/// [`StoreError`] when the database can't be asked; the next try then follows when the lease ends.
pub async fn failed(
    store: &Store,
    taken: &Taken,
    status: Option<i32>,
    error: &str,
    next_try: Option<Duration>,
) -> Result<Recorded, StoreError> {
    let operation = "record a failed delivery";
    let next_try = next_try.map(|after| i64::try_from(after.as_millis()).unwrap_or(i64::MAX));
    let client = store.client(operation).await?;
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [&taken.id, &taken.try_number, &status, &error, &next_try];
    let rows = client.query(operation, sql!("alert_delivery/failed.sql"), &params).await?;
    Ok(recorded(&rows))
}

fn recorded(rows: &[Row]) -> Recorded {
    if rows.is_empty() { Recorded::Stale } else { Recorded::Yes }
}
