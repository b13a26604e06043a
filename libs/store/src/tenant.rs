//! Tenants, and what each gets of the workers: its share while others want them too, and how much it may have at a time.
//!
//! The claims apply it: [`crate::run_queue::claim`] locks the tenants that have limits, and counts what they have in the
//! statement after. Limits hold from the next claim on, and end no run. What a tenant may define is in
//! [`crate::tenant_limit`]. Deliberately not here: who may set them. A tenant is never deleted.

use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::TenantId;
use std::collections::BTreeMap;
use tokio_postgres::Row;
use uuid::Uuid;

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// Its identity.
    pub id: TenantId,
    /// Its name, unique in the cell.
    pub name: String,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
}

/// What a tenant has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Use {
    /// Jobs that are not deleted.
    pub jobs: i64,
    /// Runs that workers have.
    pub running: i64,
}

/// The constraint that refuses a second tenant of a name.
pub const NAME_TAKEN: &str = "tenant_name_key";

/// A tenant's share and limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Its share of the slots while others have due runs too, 1 to 100.
    pub weight: i32,
    /// Runs that workers may have at a time; none is no limit. Runs that wait for a retry don't count.
    pub max_running: Option<i32>,
    /// Starts a second; none is no limit. A tenth of a second's starts, and one, may come at once.
    pub max_starts_per_second: Option<i32>,
    /// Runs of one queue that workers may have at a time.
    pub queues: BTreeMap<String, i32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { weight: 1, max_running: None, max_starts_per_second: None, queues: BTreeMap::new() }
    }
}

/// What a tenant gets; none when there is no such tenant.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn read(tx: &Transaction<'_>, tenant: TenantId) -> Result<Option<Limits>, StoreError> {
    let rows = tx.query(sql!("tenant/read.sql"), &[&tenant.0]).await?;
    Ok(rows.first().map(|row| Limits {
        weight: row.get("weight"),
        max_running: row.get("max_running"),
        max_starts_per_second: row.get("max_starts_per_second"),
        queues: row
            .get::<_, Vec<String>>("queues")
            .into_iter()
            .zip(row.get::<_, Vec<i32>>("running_max"))
            .collect(),
    }))
}

/// Gives a tenant what it gets from the next claim on; false when there is no such tenant.
///
/// # Errors
/// [`StoreError::Database`], also for a limit out of its range.
#[must_use = "false means that nothing was written"]
pub async fn set(tx: &Transaction<'_>, tenant: TenantId, limits: &Limits) -> Result<bool, StoreError> {
    let Limits { weight, max_running, max_starts_per_second, queues } = limits;
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&tenant.0, weight, max_running, max_starts_per_second];
    if tx.execute(sql!("tenant/set_limits.sql"), &params).await? == 0 {
        return Ok(false);
    }
    let (names, running): (Vec<&str>, Vec<i32>) =
        queues.iter().map(|(queue, running)| (queue.as_str(), *running)).unzip();
    tx.execute(sql!("tenant/set_queue_limits.sql"), &[&tenant.0, &names, &running]).await?;
    Ok(true)
}

/// Stores a tenant.
///
/// # Errors
/// [`StoreError::Database`]; it violates [`NAME_TAKEN`] when there is one of that name.
pub async fn insert(tx: &Transaction<'_>, tenant: &Tenant) -> Result<(), StoreError> {
    let Tenant { id, name, created_at } = tenant;
    tx.execute(sql!("tenant/insert.sql"), &[&id.0, name, created_at]).await.map(drop)
}

/// The tenant of this name; none when there is none.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn by_name(tx: &Transaction<'_>, name: &str) -> Result<Option<Tenant>, StoreError> {
    let rows = tx.query(sql!("tenant/find.sql"), &[&Some(name), &None::<Uuid>]).await?;
    Ok(rows.first().map(tenant))
}

/// The tenant of this id; none when there is none.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn by_id(tx: &Transaction<'_>, id: TenantId) -> Result<Option<Tenant>, StoreError> {
    let rows = tx.query(sql!("tenant/find.sql"), &[&None::<&str>, &Some(id.0)]).await?;
    Ok(rows.first().map(tenant))
}

/// At most `limit` tenants by name, those after the name `after`.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn page(tx: &Transaction<'_>, after: &str, limit: i64) -> Result<Vec<Tenant>, StoreError> {
    let rows = tx.query(sql!("tenant/page.sql"), &[&after, &limit]).await?;
    Ok(rows.iter().map(tenant).collect())
}

/// What these tenants have.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn uses(tx: &Transaction<'_>, tenants: &[TenantId]) -> Result<BTreeMap<TenantId, Use>, StoreError> {
    let ids: Vec<Uuid> = tenants.iter().map(|tenant| tenant.0).collect();
    let rows = tx.query(sql!("tenant/use.sql"), &[&ids]).await?;
    let of =
        |row: &Row| (TenantId(row.get("id")), Use { jobs: row.get("jobs"), running: row.get("running") });
    Ok(rows.iter().map(of).collect())
}

fn tenant(row: &Row) -> Tenant {
    Tenant { id: TenantId(row.get("id")), name: row.get("name"), created_at: row.get("created_at") }
}
