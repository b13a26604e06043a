//! The outbox: what is to be told, to which channel, and how telling it went.
//!
//! At least once: a delivery is taken for a while, not for good, so that a sender that dies only delays it; its
//! identity and body never change. Any watchdog may send; what it sends was written under the fence.

mod history;

use crate::alert_channel::target;
use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::channel::{Accepts, Target};
use model::ids::TenantId;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

pub use history::{TRIES_SHOWN, Told, Try, page};

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
    /// The channel's tenant.
    pub tenant_id: TenantId,
    /// The channel's name.
    pub channel_name: String,
    /// The channel was deleted meanwhile.
    pub channel_deleted: bool,
    /// Where to send it; none when this version can't read that.
    pub target: Option<Target>,
    /// What the target needs besides: see [`Target`].
    pub secret: Option<String>,
    /// See [`Delivery::body`].
    pub body: String,
    /// Which try this is, from 1; names this taking.
    pub try_number: i32,
    /// When it was put into the outbox.
    pub created_at: DateTime<Utc>,
    /// When it was taken.
    pub taken_at: DateTime<Utc>,
    /// Tries to the channel that failed since one did not.
    pub failures: i32,
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
    /// The tenant of each delivery that is being sent.
    pub in_flight: &'a [TenantId],
    /// Deliveries of one tenant that are being sent at most.
    pub per_tenant: i64,
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

/// A channel as whoever tells alerts sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its identity.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// Which alerts it wants of those that name no channel.
    pub accepts: Accepts,
    /// Whether it is told of the system's own alerts: see [`model::channel::is_told_of_the_system`].
    pub system: Option<bool>,
}

/// The channels of these tenants, by name. One whose wishes this version can't read is told everything.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn routes(
    tx: &Transaction<'_>,
    tenants: &[TenantId],
) -> Result<BTreeMap<TenantId, Vec<Route>>, StoreError> {
    let tenants: Vec<Uuid> = tenants.iter().map(|tenant| tenant.0).collect();
    let mut routes: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in tx.query(sql!("alert_delivery/routes.sql"), &[&tenants]).await? {
        let accepts = serde_json::from_value(row.get("accepts")).unwrap_or_default();
        let route = Route { id: row.get("id"), name: row.get("name"), accepts, system: row.get("system") };
        routes.entry(TenantId(row.get("tenant_id"))).or_default().push(route);
    }
    Ok(routes)
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

/// Takes deliveries that are due, of tenants with few in flight first. None is taken before what was told earlier of its
/// alert is settled.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn claim(store: &Store, claim: Claim<'_>) -> Result<Vec<Taken>, StoreError> {
    let operation = "take deliveries";
    let lease = i64::try_from(claim.lease.as_millis()).unwrap_or(i64::MAX);
    let in_flight: Vec<Uuid> = claim.in_flight.iter().map(|tenant| tenant.0).collect();
    let client = store.client(operation).await?;
    let params: [&(dyn ToSql + Sync); 6] =
        [&claim.limit, &claim.per_channel, &claim.busy, &lease, &in_flight, &claim.per_tenant];
    let rows = client.query(operation, sql!("alert_delivery/claim.sql"), &params).await?;
    Ok(rows.iter().map(taken).collect())
}

fn taken(row: &Row) -> Taken {
    Taken {
        id: row.get("id"),
        alert_id: row.get("alert_id"),
        channel_id: row.get("channel_id"),
        tenant_id: TenantId(row.get("tenant_id")),
        channel_name: row.get("channel_name"),
        channel_deleted: row.get("deleted"),
        target: target(row).ok(),
        secret: row.get("secret"),
        body: row.get("body"),
        try_number: row.get("try"),
        created_at: row.get("created_at"),
        taken_at: row.get("taken_at"),
        failures: row.get("failures"),
    }
}

/// Records that a delivery was received at this try, with which status (none: there was nothing to be sent), and after which
/// time it is to be told again while its alert is open.
///
/// # Errors
/// [`StoreError`] when the database can't be asked; the delivery is then sent again.
pub async fn delivered(
    store: &Store,
    taken: &Taken,
    status: Option<i32>,
    refresh: Option<Duration>,
) -> Result<Recorded, StoreError> {
    let operation = "record a delivery";
    let refresh = refresh.map(millis);
    let client = store.client(operation).await?;
    let params: [&(dyn ToSql + Sync); 4] = [&taken.id, &status, &refresh, &taken.try_number];
    let rows = client.query(operation, sql!("alert_delivery/delivered.sql"), &params).await?;
    Ok(recorded(&rows))
}

/// How a try failed, and what follows.
#[derive(Debug, Clone, Copy)]
pub struct Failed<'a> {
    /// The answer's status, if there was an answer.
    pub status: Option<i32>,
    /// What went wrong; at most 1,024 characters.
    pub error: &'a str,
    /// Until the next try; none gives it up.
    pub next_try: Option<Duration>,
    /// For how long its channel gets nothing.
    pub pause: Duration,
}

/// Records that a try failed.
///
/// # Errors
/// [`StoreError`] when the database can't be asked; the next try then follows when the lease ends.
pub async fn failed(store: &Store, taken: &Taken, failed: Failed<'_>) -> Result<Recorded, StoreError> {
    let operation = "record a failed delivery";
    let (next_try, pause) = (failed.next_try.map(millis), millis(failed.pause));
    let client = store.client(operation).await?;
    let params: [&(dyn ToSql + Sync); 6] =
        [&taken.id, &taken.try_number, &failed.status, &failed.error, &next_try, &pause];
    let rows = client.query(operation, sql!("alert_delivery/failed.sql"), &params).await?;
    Ok(recorded(&rows))
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// An opening that its receiver forgets unless it is told again.
#[derive(Clone)]
pub struct Refresh {
    /// The channel.
    pub channel_id: Uuid,
    /// Its name.
    pub channel_name: String,
    /// Where it leads; none when this version can't read that.
    pub target: Option<Target>,
    /// What the target needs besides.
    pub secret: Option<String>,
    /// See [`Delivery::body`].
    pub body: String,
    /// When it was taken.
    pub taken_at: DateTime<Utc>,
}

/// Takes up to `limit` openings that are to be told again by now, by channel; the next time is `every` later.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn refresh(store: &Store, limit: i64, every: Duration) -> Result<Vec<Refresh>, StoreError> {
    let operation = "take openings to tell again";
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("alert_delivery/refresh.sql"), &[&limit, &millis(every)]).await?;
    let read = |row: &Row| Refresh {
        channel_id: row.get("channel_id"),
        channel_name: row.get("channel_name"),
        target: target(row).ok(),
        secret: row.get("secret"),
        body: row.get("body"),
        taken_at: row.get("taken_at"),
    };
    Ok(rows.iter().map(read).collect())
}

fn recorded(rows: &[Row]) -> Recorded {
    if rows.is_empty() { Recorded::Stale } else { Recorded::Yes }
}
