//! The audit trail: who changed what, in the transaction that changes it. Append-only. Secrets are left out by the
//! caller, who knows which of an object's fields are secret.

use crate::{StoreError, Transaction, sql};
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
