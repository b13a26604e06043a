//! What a tenant gets of the workers: its share while others want them too, and how much it may have at a time.
//!
//! The claims apply it: [`crate::run_queue::claim`] locks the tenants that have limits, and counts what they have in the
//! statement after. Limits hold from the next claim on, and end no run. Deliberately not here: who may set them.

use crate::{StoreError, Transaction, sql};
use model::ids::TenantId;
use std::collections::BTreeMap;

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
