//! The audit trail: who changed what, in the transaction that changes it. Append-only. Secrets are left out by the
//! caller, who knows which of an object's fields are secret.

use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::TenantId;
use serde_json::Value;

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// What was done: `job.create`, `channel.delete`.
    pub action: &'static str,
    /// To what: `job/invoices`.
    pub object: String,
    /// What it was before and is now.
    pub detail: Value,
}

/// Records `events`, all made by `actor` in `tenant`.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn record(
    tx: &Transaction<'_>,
    tenant: TenantId,
    actor: &str,
    events: &[Event],
) -> Result<(), StoreError> {
    if events.is_empty() {
        return Ok(());
    }
    let action: Vec<_> = events.iter().map(|event| event.action).collect();
    let object: Vec<_> = events.iter().map(|event| event.object.as_str()).collect();
    let detail: Vec<_> = events.iter().map(|event| &event.detail).collect();
    tx.execute(sql!("audit_event/insert.sql"), &[&tenant.0, &actor, &action, &object, &detail])
        .await
        .map(drop)
}

/// A change that was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Its number; later ones are higher, mostly.
    pub id: i64,
    /// When.
    pub at: DateTime<Utc>,
    /// By whom: a token's name.
    pub actor: String,
    /// What was done.
    pub action: String,
    /// To what.
    pub object: String,
    /// What it was before and is now.
    pub detail: Value,
}

/// Which changes are asked for; none is any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Made by this one.
    pub actor: Option<String>,
    /// This was done.
    pub action: Option<String>,
    /// To this.
    pub object: Option<String>,
    /// From then on.
    pub from: Option<DateTime<Utc>>,
    /// Before then.
    pub until: Option<DateTime<Utc>>,
}

/// At most `limit` changes on behalf of `tenant`, the latest first, those before the change `before`.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn page(
    store: &Store,
    tenant: TenantId,
    filter: &Filter,
    before: (DateTime<Utc>, i64),
    limit: i64,
) -> Result<Vec<Recorded>, StoreError> {
    let Filter { actor, action, object, from, until } = filter;
    let client = store.client("list the audit trail").await?;
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 9] =
        [&tenant.0, actor, action, object, from, until, &before.0, &before.1, &limit];
    let rows = client.query("list the audit trail", sql!("audit_event/page.sql"), &params).await?;
    let recorded = |row: &tokio_postgres::Row| Recorded {
        id: row.get("id"),
        at: row.get("at"),
        actor: row.get("actor"),
        action: row.get("action"),
        object: row.get("object"),
        detail: row.get("detail"),
    };
    Ok(rows.iter().map(recorded).collect())
}
