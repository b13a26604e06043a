//! Groups: jobs without success that one trouble of the system explains are told as one.
//!
//! For each tenant and trouble one alert stands for all of them while it is open. Its rows here say whom it is to be told
//! and of how many; a channel is told once. Written by the leading watchdog only, in transactions that hold its fence.

use crate::alert::milliseconds;
use crate::system_alert::Resolved;
use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::alert::life::REPEAT_DEFAULT;
use model::ids::TenantId;
use model::system_health::{Open, Trouble};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use uuid::Uuid;

/// The open troubles that can explain why jobs have no success.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn causes(tx: &Transaction<'_>) -> Result<Open, StoreError> {
    let rows = tx.query(sql!("alert_group/causes.sql"), &[]).await?;
    let subject = |row: &tokio_postgres::Row| {
        let kind = row.get::<_, &str>("kind").parse().ok()?;
        let key: String = row.get("system_key");
        Some((kind, if kind == Trouble::NoWorker { key } else { String::new() }))
    };
    Ok(rows.iter().filter_map(subject).collect())
}

/// The names of tenants.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn tenants(
    tx: &Transaction<'_>,
    ids: &[TenantId],
) -> Result<BTreeMap<TenantId, String>, StoreError> {
    let ids: Vec<_> = ids.iter().map(|id| id.0).collect();
    let rows = tx.query(sql!("alert_group/tenants.sql"), &[&ids]).await?;
    Ok(rows.iter().map(|row| (TenantId(row.get("id")), row.get("name"))).collect())
}

/// Whether any group is open.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn any(tx: &Transaction<'_>) -> Result<bool, StoreError> {
    tx.query(sql!("alert_group/any.sql"), &[]).await.map(|rows| !rows.is_empty())
}

/// Opens the alerts that stand for the jobs of a tenant which one trouble explains, unless they are open; the identity of
/// each. They are told again every [`REPEAT_DEFAULT`].
///
/// # Errors
/// [`StoreError::Database`].
pub async fn raise(
    tx: &Transaction<'_>,
    groups: &BTreeSet<(TenantId, Trouble)>,
) -> Result<BTreeMap<(TenantId, Trouble), Uuid>, StoreError> {
    let ids: Vec<_> = groups.iter().map(|_| Uuid::new_v4()).collect();
    let tenants: Vec<_> = groups.iter().map(|(tenant, _)| tenant.0).collect();
    let kinds: Vec<_> = groups.iter().map(|(_, kind)| kind.as_str()).collect();
    let repeat = milliseconds(REPEAT_DEFAULT);
    let rows = tx.query(sql!("alert_group/raise.sql"), &[&ids, &tenants, &kinds, &repeat]).await?;
    let read = |row: &tokio_postgres::Row| {
        let kind = row.get::<_, &str>("kind").parse().ok()?;
        Some(((TenantId(row.get("tenant_id")), kind), row.get("id")))
    };
    Ok(rows.iter().filter_map(read).collect())
}

/// Notes that so many jobs more belong to each group.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn grow(tx: &Transaction<'_>, sizes: &BTreeMap<Uuid, i64>) -> Result<(), StoreError> {
    let (alerts, counts): (Vec<Uuid>, Vec<i64>) = sizes.iter().map(|(alert, count)| (*alert, *count)).unzip();
    tx.execute(sql!("alert_group/grow.sql"), &[&alerts, &counts]).await.map(drop)
}

/// More jobs of a group for one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct More {
    /// The alert that stands for the group.
    pub alert: Uuid,
    /// The channel.
    pub channel: Uuid,
    /// How many jobs.
    pub count: i64,
    /// Up to five of them.
    pub examples: Vec<String>,
}

/// Notes whom a group is to be told.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn add(tx: &Transaction<'_>, more: &[More]) -> Result<(), StoreError> {
    let alerts: Vec<_> = more.iter().map(|more| more.alert).collect();
    let channels: Vec<_> = more.iter().map(|more| more.channel).collect();
    let counts: Vec<_> = more.iter().map(|more| more.count).collect();
    let examples: Vec<_> = more.iter().map(|more| more.examples.join("\n")).collect();
    tx.execute(sql!("alert_group/add.sql"), &[&alerts, &channels, &counts, &examples]).await.map(drop)
}

/// A channel that is to be told of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// What.
    pub more: More,
    /// Of which tenant.
    pub tenant: TenantId,
    /// Why its jobs have no success.
    pub kind: Trouble,
    /// Since when.
    pub opened_at: DateTime<Utc>,
    /// When it was looked.
    pub at: DateTime<Utc>,
}

/// Locks up to `limit` channels that are to be told of a group that has been gathering for `wait`; not those that know of
/// its trouble already.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn due(tx: &Transaction<'_>, wait: Duration, limit: i64) -> Result<Vec<Due>, StoreError> {
    let wait = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
    let rows = tx.query(sql!("alert_group/due.sql"), &[&wait, &limit]).await?;
    let due = |row: &tokio_postgres::Row| {
        Some(Due {
            more: More {
                alert: row.get("alert_id"),
                channel: row.get("channel_id"),
                count: row.get("count"),
                examples: row.get("examples"),
            },
            tenant: TenantId(row.get("tenant_id")),
            kind: row.get::<_, &str>("kind").parse().ok()?,
            opened_at: row.get("opened_at"),
            at: row.get("at"),
        })
    };
    Ok(rows.iter().filter_map(due).collect())
}

/// Notes that these channels are told of their groups.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn told(tx: &Transaction<'_>, due: &[Due]) -> Result<(), StoreError> {
    let (alerts, channels): (Vec<_>, Vec<_>) =
        due.iter().map(|due| (due.more.alert, due.more.channel)).unzip();
    tx.execute(sql!("alert_group/told.sql"), &[&alerts, &channels]).await.map(drop)
}

/// Resolves the groups whose trouble is over and whose jobs have all recovered.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn resolve(tx: &Transaction<'_>) -> Result<Vec<(Trouble, Resolved)>, StoreError> {
    let rows = tx.query(sql!("alert_group/resolve.sql"), &[]).await?;
    let resolved = |row: &tokio_postgres::Row| {
        let kind = row.get::<_, &str>("kind").parse().ok()?;
        Some((
            kind,
            Resolved {
                id: row.get("id"),
                opened_at: row.get("opened_at"),
                resolved_at: row.get("resolved_at"),
                count: row.get("count"),
                detail: String::new(),
            },
        ))
    };
    Ok(rows.iter().filter_map(resolved).collect())
}
