//! Dispatchers, each a row that its process renews, and what the others see of it: a counter that moves or stands still.

use crate::{Store, StoreError, sql};
use chrono::{DateTime, Utc};
use model::ids::DispatcherId;
use tokio_postgres::types::ToSql;

/// A dispatcher, as it presents itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatcher {
    /// Drawn at its start.
    pub id: DispatcherId,
    /// Its process.
    pub pid: i32,
    /// A label.
    pub name: String,
    /// Where workers connect.
    pub address: String,
    /// Where its pages are.
    pub http: String,
}

/// Shows that a dispatcher lives; the first call registers it. What the cell's clock shows.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn renew(store: &Store, dispatcher: &Dispatcher) -> Result<DateTime<Utc>, StoreError> {
    let client = store.client("renew the dispatcher").await?;
    let Dispatcher { id, pid, name, address, http } = dispatcher;
    let values: [&(dyn ToSql + Sync); 5] = [&id.0, pid, name, address, http];
    let rows = client.query("renew the dispatcher", sql!("dispatcher/renew.sql"), &values).await?;
    rows.first().map(|row| row.get("renewed_at")).ok_or_else(|| StoreError::Corrupt {
        what: "dispatcher",
        problem: "renewing returned no row".to_owned(),
    })
}

/// The other dispatchers that have open sessions, with their counters.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn others(store: &Store, own: DispatcherId) -> Result<Vec<(DispatcherId, i64)>, StoreError> {
    let client = store.client("watch the other dispatchers").await?;
    let rows = client.query("watch the other dispatchers", sql!("dispatcher/others.sql"), &[&own.0]).await?;
    Ok(rows.iter().map(|row| (DispatcherId(row.get("dispatcher_id")), row.get("counter"))).collect())
}

/// Removes a dispatcher; false when sessions are left with it, whose workers others must be able to miss.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn remove(store: &Store, own: DispatcherId) -> Result<bool, StoreError> {
    let client = store.client("remove the dispatcher").await?;
    let rows = client.query("remove the dispatcher", sql!("dispatcher/remove.sql"), &[&own.0]).await?;
    Ok(!rows.is_empty())
}

/// Removes dispatchers that have been gone for a day; how many.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn forget(store: &Store) -> Result<usize, StoreError> {
    let client = store.client("forget old dispatchers").await?;
    let rows = client.query("forget old dispatchers", sql!("dispatcher/forget.sql"), &[]).await?;
    Ok(rows.len())
}
