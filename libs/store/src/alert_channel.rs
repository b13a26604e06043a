//! Channels: where alerts are told. A channel that a job names can't be deleted, and one that is missing can't be
//! named, because both sides hold the channel's row while they look.
//!
//! Secrets come out of here for sending only; the API never returns one. A webhook's address is in a column of its own,
//! which earlier releases read; where other channels lead is JSON.

use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::channel::{Accepts, Kind, Target};
use model::ids::TenantId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// A stored channel.
#[derive(Clone, PartialEq, Eq)]
pub struct Channel {
    /// Its identity.
    pub id: Uuid,
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Its name, unique among the tenant's channels that are not deleted.
    pub name: String,
    /// Where it leads.
    pub target: Target,
    /// What the target needs besides: see [`Target`].
    pub secret: Option<String>,
    /// Which alerts it wants of those that name no channel.
    pub accepts: Accepts,
    /// Whether it is told of the system's own alerts: see [`model::channel::is_told_of_the_system`].
    pub system: Option<bool>,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel")
            .field("name", &self.name)
            .field("kind", &self.target.kind())
            .finish_non_exhaustive()
    }
}

/// The constraint that refuses a second channel of a name.
pub const NAME_TAKEN: &str = "alert_channel_by_name";

/// Up to `limit` channels of `tenant` whose name comes after `after`, by name.
///
/// # Errors
/// [`StoreError`] when the database can't be asked; [`StoreError::Corrupt`] for a channel that this version can't read.
pub async fn page(
    store: &Store,
    tenant: TenantId,
    after: &str,
    limit: usize,
) -> Result<Vec<Channel>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let client = store.client("list channels").await?;
    let rows =
        client.query("list channels", sql!("alert_channel/page.sql"), &[&tenant.0, &after, &limit]).await?;
    rows.iter().map(read).collect()
}

/// The channels of some tenants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OfTenants {
    /// Those that can be used, by name. One whose wishes this version can't read is told everything.
    pub channels: BTreeMap<TenantId, Vec<Channel>>,
    /// Channels whose target this version can't read, with the reason.
    pub unreadable: BTreeMap<Uuid, Unreadable>,
}

/// A channel whose target this version can't read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Its name.
    pub name: String,
    /// Why it can't be read.
    pub problem: String,
}

/// Every channel of these tenants.
///
/// # Errors
/// [`StoreError::Database`]. What can't be read of a channel is part of the answer, not an error: it stops nobody else.
pub async fn of_tenants(tx: &Transaction<'_>, tenants: &[TenantId]) -> Result<OfTenants, StoreError> {
    let tenants: Vec<Uuid> = tenants.iter().map(|tenant| tenant.0).collect();
    let rows = tx.query(sql!("alert_channel/of_tenants.sql"), &[&tenants]).await?;
    let mut found = OfTenants::default();
    for row in &rows {
        match target(row) {
            Ok(target) => {
                let accepts = serde_json::from_value(row.get("accepts")).unwrap_or_default();
                let channel = leading_to(row, target, accepts);
                found.channels.entry(channel.tenant_id).or_default().push(channel);
            }
            Err(error) => {
                let (tenant_id, name) = (TenantId(row.get("tenant_id")), row.get("name"));
                let unreadable = Unreadable { tenant_id, name, problem: error.to_string() };
                found.unreadable.insert(row.get("id"), unreadable);
            }
        }
    }
    Ok(found)
}

/// The channel of `tenant` with this name.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn find(store: &Store, tenant: TenantId, name: &str) -> Result<Option<Channel>, StoreError> {
    let client = store.client("find a channel").await?;
    let rows = client
        .query("find a channel", sql!("alert_channel/find.sql"), &[&tenant.0, &[name].as_slice()])
        .await?;
    rows.first().map(read).transpose()
}

/// Locks the channels of `tenant` with these names for a change, and returns those that there are.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn lock(
    tx: &Transaction<'_>,
    tenant: TenantId,
    names: &[&str],
) -> Result<Vec<Channel>, StoreError> {
    let locked = tx.query(sql!("alert_channel/lock.sql"), &[&tenant.0, &names]).await?;
    find_locked(tx, tenant, names, &locked).await
}

/// Keeps the channels of `tenant` with these names from being deleted until the transaction ends, and returns those
/// that there are.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn hold(
    tx: &Transaction<'_>,
    tenant: TenantId,
    names: &[&str],
) -> Result<Vec<Channel>, StoreError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let held = tx.query(sql!("alert_channel/hold.sql"), &[&tenant.0, &names]).await?;
    find_locked(tx, tenant, names, &held).await
}

/// Reads channels as they are once they are locked. One that was stored while the locks were waited for is none yet:
/// nothing keeps it.
async fn find_locked(
    tx: &Transaction<'_>,
    tenant: TenantId,
    names: &[&str],
    locked: &[Row],
) -> Result<Vec<Channel>, StoreError> {
    let locked: BTreeSet<Uuid> = locked.iter().map(|row| row.get("id")).collect();
    let rows = tx.query(sql!("alert_channel/find.sql"), &[&tenant.0, &names]).await?;
    rows.iter().filter(|row| locked.contains(&row.get("id"))).map(read).collect()
}

/// Stores new channels of `tenant`, created at `at`.
///
/// # Errors
/// [`StoreError::Database`]; it violates [`NAME_TAKEN`] when the tenant has a channel of one of the names.
pub async fn insert(
    tx: &Transaction<'_>,
    tenant: TenantId,
    at: DateTime<Utc>,
    channels: &[Channel],
) -> Result<(), StoreError> {
    let Columns { id, name, kind, url, target, secret, accepts, system } = Columns::of(channels);
    let params: [&(dyn ToSql + Sync); 10] =
        [&tenant.0, &at, &id, &name, &kind, &url, &target, &secret, &accepts, &system];
    tx.execute(sql!("alert_channel/insert.sql"), &params).await.map(drop)
}

/// Changes all of locked channels but their names.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn update(tx: &Transaction<'_>, channels: &[Channel]) -> Result<(), StoreError> {
    let Columns { id, kind, url, target, secret, accepts, system, .. } = Columns::of(channels);
    let params: [&(dyn ToSql + Sync); 7] = [&id, &kind, &url, &target, &secret, &accepts, &system];
    tx.execute(sql!("alert_channel/update.sql"), &params).await.map(drop)
}

/// Up to `limit` jobs and check-ins of `tenant` that name the channel, by kind (`job` or `check-in`) and name. The channel is
/// locked.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn used_by(
    tx: &Transaction<'_>,
    tenant: TenantId,
    name: &str,
    limit: i64,
) -> Result<Vec<(String, String)>, StoreError> {
    let rows = tx.query(sql!("alert_channel/used_by.sql"), &[&tenant.0, &name, &limit]).await?;
    Ok(rows.iter().map(|row| (row.get("kind"), row.get("name"))).collect())
}

/// Deletes a locked channel.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn delete(tx: &Transaction<'_>, id: Uuid) -> Result<(), StoreError> {
    tx.execute(sql!("alert_channel/mark_deleted.sql"), &[&id]).await.map(drop)
}

struct Columns<'a> {
    id: Vec<Uuid>,
    name: Vec<&'a str>,
    kind: Vec<&'static str>,
    url: Vec<&'a str>,
    target: Vec<Option<Value>>,
    secret: Vec<Option<&'a str>>,
    accepts: Vec<Value>,
    system: Vec<Option<bool>>,
}

impl<'a> Columns<'a> {
    fn of(channels: &'a [Channel]) -> Self {
        Self {
            id: channels.iter().map(|channel| channel.id).collect(),
            name: channels.iter().map(|channel| channel.name.as_str()).collect(),
            kind: channels.iter().map(|channel| channel.target.kind().as_str()).collect(),
            url: channels.iter().map(|channel| webhook_url(&channel.target)).collect(),
            target: channels.iter().map(|channel| other_target(&channel.target)).collect(),
            secret: channels.iter().map(|channel| channel.secret.as_deref()).collect(),
            accepts: channels.iter().map(|channel| json(&channel.accepts)).collect(),
            system: channels.iter().map(|channel| channel.system).collect(),
        }
    }
}

fn webhook_url(target: &Target) -> &str {
    match target {
        Target::Webhook { url } => url,
        _ => "",
    }
}

fn other_target(target: &Target) -> Option<Value> {
    (target.kind() != Kind::Webhook).then(|| json(target))
}

/// Neither has a map whose keys are no text, which is all that can fail.
fn json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Where the channel of a row leads; the row has `kind`, `url` and `target`.
///
/// # Errors
/// [`StoreError::Corrupt`] when this version can't read it.
pub(crate) fn target(row: &Row) -> Result<Target, StoreError> {
    if row.get::<_, &str>("kind") == Kind::Webhook.as_str() {
        return Ok(Target::Webhook { url: row.get("url") });
    }
    serde_json::from_value(row.get("target")).map_err(|error| corrupt("alert_channel.target", &error))
}

fn corrupt(what: &'static str, error: &serde_json::Error) -> StoreError {
    StoreError::Corrupt { what, problem: error.to_string() }
}

fn read(row: &Row) -> Result<Channel, StoreError> {
    let accepts = serde_json::from_value(row.get("accepts"));
    let accepts = accepts.map_err(|error| corrupt("alert_channel.accepts", &error))?;
    Ok(leading_to(row, target(row)?, accepts))
}

fn leading_to(row: &Row, target: Target, accepts: Accepts) -> Channel {
    Channel {
        id: row.get("id"),
        tenant_id: TenantId(row.get("tenant_id")),
        name: row.get("name"),
        target,
        secret: row.get("secret"),
        accepts,
        system: row.get("system"),
        created_at: row.get("created_at"),
    }
}
