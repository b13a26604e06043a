//! Jobs as they are stored: found by name or id, and listed. Always within one tenant. Changing one is
//! [`crate::job_change`]'s.

use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::{Generation, JobId, TenantId};
use model::job::Definition;
use std::collections::BTreeMap;
use tokio_postgres::Row;
use tokio_postgres::types::Json;
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

/// At most `limit` jobs of `tenant` whose name comes after `after`, by name.
///
/// # Errors
/// As [`find`].
pub async fn page(
    store: &Store,
    tenant: TenantId,
    after: &str,
    limit: i64,
) -> Result<Vec<Stored>, StoreError> {
    let client = store.client("list jobs").await?;
    let rows = client.query("list jobs", sql!("job/page.sql"), &[&tenant.0, &after, &limit]).await?;
    rows.iter().map(read).collect()
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
        paused: row.get::<_, Option<DateTime<Utc>>>("paused_at").map(|since| Paused {
            since,
            reason: row.get::<_, Option<String>>("pause_reason").unwrap_or_default(),
        }),
        seen_at: row.get("seen_at"),
    })
}
