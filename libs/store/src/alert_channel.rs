//! Channels: where alerts are told. A channel that a job names can't be deleted, and one that is missing can't be
//! named, because both sides hold the channel's row while they look.
//!
//! Secrets come out of here for signing only; the API never returns one.

use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::TenantId;
use std::collections::BTreeSet;
use tokio_postgres::Row;
use uuid::Uuid;

/// A stored channel.
#[derive(Clone, PartialEq, Eq)]
pub struct Channel {
    /// Its identity.
    pub id: Uuid,
    /// Its name, unique among the tenant's channels that are not deleted.
    pub name: String,
    /// Where it posts to.
    pub url: String,
    /// What it signs with.
    pub secret: Option<String>,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel").field("name", &self.name).field("url", &self.url).finish_non_exhaustive()
    }
}

/// The constraint that refuses a second channel of a name.
pub const NAME_TAKEN: &str = "alert_channel_by_name";

/// The channels of `tenant`, by name.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn page(store: &Store, tenant: TenantId) -> Result<Vec<Channel>, StoreError> {
    let client = store.client("list channels").await?;
    let rows = client.query("list channels", sql!("alert_channel/page.sql"), &[&tenant.0]).await?;
    Ok(rows.iter().map(read).collect())
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
    Ok(rows.first().map(read))
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
    Ok(rows.iter().map(read).filter(|channel| locked.contains(&channel.id)).collect())
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
    let Columns { id, name, url, secret } = Columns::of(channels);
    tx.execute(sql!("alert_channel/insert.sql"), &[&tenant.0, &at, &id, &name, &url, &secret]).await.map(drop)
}

/// Changes where locked channels post to and what they sign with.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn update(tx: &Transaction<'_>, channels: &[Channel]) -> Result<(), StoreError> {
    let Columns { id, url, secret, .. } = Columns::of(channels);
    tx.execute(sql!("alert_channel/update.sql"), &[&id, &url, &secret]).await.map(drop)
}

/// A job of `tenant` that names the channel, if any does. The channel is locked.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn used_by(
    tx: &Transaction<'_>,
    tenant: TenantId,
    name: &str,
) -> Result<Option<String>, StoreError> {
    let rows = tx.query(sql!("alert_channel/used_by.sql"), &[&tenant.0, &name]).await?;
    Ok(rows.first().map(|row| row.get("name")))
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
    url: Vec<&'a str>,
    secret: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn of(channels: &'a [Channel]) -> Self {
        Self {
            id: channels.iter().map(|channel| channel.id).collect(),
            name: channels.iter().map(|channel| channel.name.as_str()).collect(),
            url: channels.iter().map(|channel| channel.url.as_str()).collect(),
            secret: channels.iter().map(|channel| channel.secret.as_deref()).collect(),
        }
    }
}

fn read(row: &Row) -> Channel {
    Channel {
        id: row.get("id"),
        name: row.get("name"),
        url: row.get("url"),
        secret: row.get("secret"),
        created_at: row.get("created_at"),
    }
}
