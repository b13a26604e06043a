//! Jobs as they are stored: found by name or id, and listed in three orders. Always within one tenant. Changing one is
//! [`crate::job_change`]'s.

use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::{Generation, JobId, TenantId};
use model::job::Definition;
use std::collections::BTreeMap;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};
use uuid::Uuid;

/// A stored job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its identity.
    pub id: JobId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Which definition this is.
    pub generation: Generation,
    /// When it was stored first.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
    /// When it was deleted, if it was.
    pub deleted_at: Option<DateTime<Utc>>,
    /// Its name, unique among the tenant's jobs that are not deleted.
    pub name: String,
    /// What its owner wrote.
    pub definition: Definition,
    /// Why the planner can't use it, if it can't.
    pub broken: Option<String>,
    /// Set while it is paused.
    pub paused: Option<Paused>,
    /// The cell's clock when it was read.
    pub seen_at: DateTime<Utc>,
}

/// A pause that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paused {
    /// Since when.
    pub since: DateTime<Utc>,
    /// Why, for people; may be empty.
    pub reason: String,
}

/// The job of `tenant` with this id (deleted ones too) or else with this name (deleted ones not).
///
/// # Errors
/// [`StoreError`] when the database can't be asked, or holds a definition that this release can't read.
pub async fn find(store: &Store, tenant: TenantId, name_or_id: &str) -> Result<Option<Stored>, StoreError> {
    let id = name_or_id.parse::<Uuid>().ok();
    let client = store.client("find a job").await?;
    let rows = client.query("find a job", sql!("job/find.sql"), &[&tenant.0, &id, &name_or_id]).await?;
    rows.first().map(read).transpose()
}

/// A job in a list. One whose stored definition this release can't read does not keep the others out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// As it is.
    Sound(Box<Stored>),
    /// What is known of it beside its definition.
    Unreadable(Unreadable),
}

/// A job whose stored definition can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its identity.
    pub id: JobId,
    /// Which definition this is.
    pub generation: Generation,
    /// When it was stored first.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
    /// When it was deleted, if it was.
    pub deleted_at: Option<DateTime<Utc>>,
    /// Its name.
    pub name: String,
    /// What is wrong with the definition.
    pub problem: String,
    /// Set while it is paused.
    pub paused: Option<Paused>,
}

impl Listed {
    /// Its identity.
    pub const fn id(&self) -> JobId {
        match self {
            Self::Sound(job) => job.id,
            Self::Unreadable(job) => job.id,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Sound(job) => &job.name,
            Self::Unreadable(job) => &job.name,
        }
    }

    /// When it was changed last.
    pub const fn updated_at(&self) -> DateTime<Utc> {
        match self {
            Self::Sound(job) => job.updated_at,
            Self::Unreadable(job) => job.updated_at,
        }
    }
}

/// Which jobs are asked for; all that is named must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Filter {
    /// How the name begins.
    pub prefix: String,
    /// Of this queue.
    pub queue: Option<String>,
    /// Paused, or not.
    pub paused: Option<bool>,
    /// Having these labels.
    pub labels: BTreeMap<String, String>,
    /// Having labels of these keys, whatever their values.
    pub keys: Vec<String>,
}

/// As [`find`], also when the definition can't be read.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn look(store: &Store, tenant: TenantId, name_or_id: &str) -> Result<Option<Listed>, StoreError> {
    let id = name_or_id.parse::<Uuid>().ok();
    let client = store.client("look at a job").await?;
    let rows = client.query("look at a job", sql!("job/find.sql"), &[&tenant.0, &id, &name_or_id]).await?;
    Ok(rows.first().map(listed))
}

/// At most `limit` jobs of `tenant` whose name comes after `after`, by name.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn page(
    store: &Store,
    tenant: TenantId,
    filter: &Filter,
    after: &str,
    limit: i64,
) -> Result<Vec<Listed>, StoreError> {
    let Filter { prefix, queue, paused, keys, .. } = filter;
    let labels = labels(filter);
    let statement = if labels.is_some() { sql!("job/page_by_label.sql") } else { sql!("job/page.sql") };
    let rows = planned_each_time(
        store,
        statement,
        &[&tenant.0, &after, prefix, queue, paused, &labels, keys, &limit],
    )
    .await?;
    Ok(rows.iter().map(listed).collect())
}

/// At most `limit` jobs of `tenant`, the latest change first; `after` is that of the last one seen.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn page_by_update(
    store: &Store,
    tenant: TenantId,
    filter: &Filter,
    after: Option<(DateTime<Utc>, JobId)>,
    limit: i64,
) -> Result<Vec<Listed>, StoreError> {
    let rows = keyset(store, sql!("job/page_by_update.sql"), tenant, filter, after, limit).await?;
    Ok(rows.iter().map(listed).collect())
}

/// At most `limit` jobs of `tenant` that are due again, each with its next instant, by that; `after` is that of the last
/// one seen.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn page_by_next(
    store: &Store,
    tenant: TenantId,
    filter: &Filter,
    after: Option<(DateTime<Utc>, JobId)>,
    limit: i64,
) -> Result<Vec<(Listed, DateTime<Utc>)>, StoreError> {
    let rows = keyset(store, sql!("job/page_by_next.sql"), tenant, filter, after, limit).await?;
    Ok(rows.iter().map(|row| (listed(row), row.get("next_fire_at"))).collect())
}

async fn keyset(
    store: &Store,
    sql: &str,
    tenant: TenantId,
    filter: &Filter,
    after: Option<(DateTime<Utc>, JobId)>,
    limit: i64,
) -> Result<Vec<Row>, StoreError> {
    let Filter { prefix, queue, paused, keys, .. } = filter;
    let labels = labels(filter);
    let (at, id) = after.map(|(at, id)| (at, id.0)).unzip();
    planned_each_time(store, sql, &[&tenant.0, &at, prefix, queue, paused, &labels, keys, &limit, &id]).await
}

fn labels(filter: &Filter) -> Option<Json<&BTreeMap<String, String>>> {
    (!filter.labels.is_empty()).then_some(Json(&filter.labels))
}

/// Runs a statement whose best plan depends on what is asked for.
pub(crate) async fn planned_each_time(
    store: &Store,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, StoreError> {
    let mut client = store.client("list").await?;
    let tx = client.begin("list").await?;
    tx.query(sql!("history/plan_each_time.sql"), &[]).await?;
    let rows = tx.query(sql, params).await?;
    tx.commit().await?;
    Ok(rows)
}

/// At most `limit` jobs of `tenant` that have all of `labels`. Seen without a lock.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn labelled(
    tx: &Transaction<'_>,
    tenant: TenantId,
    labels: &BTreeMap<String, String>,
    limit: i64,
) -> Result<Vec<JobId>, StoreError> {
    let rows = tx.query(sql!("job/labelled.sql"), &[&tenant.0, &Json(labels), &limit]).await?;
    Ok(rows.iter().map(|row| JobId(row.get("id"))).collect())
}

/// Which of `names` are jobs of `tenant`. Seen without a lock: [`crate::job_change::lock`] them, then look again.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn by_names(
    tx: &Transaction<'_>,
    tenant: TenantId,
    names: &[&str],
) -> Result<BTreeMap<String, JobId>, StoreError> {
    let rows = tx.query(sql!("job/by_names.sql"), &[&tenant.0, &names]).await?;
    Ok(rows.iter().map(|row| (row.get("name"), JobId(row.get("id")))).collect())
}

fn listed(row: &Row) -> Listed {
    let problem = match read(row) {
        Ok(job) => return Listed::Sound(Box::new(job)),
        Err(error) => error.to_string(),
    };
    Listed::Unreadable(Unreadable {
        id: JobId(row.get("id")),
        generation: Generation(row.get("generation")),
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
        deleted_at: row.get("deleted_at"),
        name: row.get("name"),
        problem,
        paused: paused(row),
    })
}

fn paused(row: &Row) -> Option<Paused> {
    row.get::<_, Option<DateTime<Utc>>>("paused_at").map(|since| Paused {
        since,
        reason: row.get::<_, Option<String>>("pause_reason").unwrap_or_default(),
    })
}

pub(crate) fn read(row: &Row) -> Result<Stored, StoreError> {
    let id: Uuid = row.get("id");
    let definition = row.try_get::<_, Json<Definition>>("definition").map_err(|error| {
        let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        StoreError::Corrupt { what: "job.definition", problem: format!("job {id}: {cause}") }
    })?;
    Ok(Stored {
        id: JobId(id),
        tenant: TenantId(row.get("tenant_id")),
        generation: Generation(row.get("generation")),
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
        deleted_at: row.get("deleted_at"),
        name: row.get("name"),
        definition: definition.0,
        broken: row.get("broken"),
        paused: paused(row),
        seen_at: row.get("seen_at"),
    })
}
