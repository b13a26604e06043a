//! The instant below which the ledger keeps nothing and gets nothing.

use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use std::time::Duration;
use tokio_postgres::Row;

/// The floor, which stays where it is until the transaction ends. Right after the fence, before any other lock.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn hold(tx: &Transaction<'_>) -> Result<DateTime<Utc>, StoreError> {
    only(&tx.query(sql!("ledger_floor/hold.sql"), &[]).await?)
}

/// The floor, which only the leading ticker raises: for it, because to hold it first would be in its own way.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn read(tx: &Transaction<'_>) -> Result<DateTime<Utc>, StoreError> {
    only(&tx.query(sql!("ledger_floor/read.sql"), &[]).await?)
}

fn only(rows: &[Row]) -> Result<DateTime<Utc>, StoreError> {
    let missing = || StoreError::Corrupt { what: "ledger_floor", problem: "has no row".to_owned() };
    rows.first().map(|row| row.get("floor")).ok_or_else(missing)
}

/// Raises the floor to `to`; false when it is as high already. Waits for the transactions that hold it, so that nothing
/// is inserted below it from the commit on. Right after the fence, before any other lock.
///
/// # Errors
/// [`StoreError::Database`].
#[must_use = "false means that it stays where it is"]
pub async fn raise(tx: &Transaction<'_>, to: DateTime<Utc>) -> Result<bool, StoreError> {
    Ok(!tx.query(sql!("ledger_floor/raise.sql"), &[&to]).await?.is_empty())
}

/// How far back the ledger is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needed {
    /// The job that asks for most.
    pub job: String,
    /// The window in which it catches up, and the time that a run of it may take.
    pub reach: Duration,
}

/// How far back the jobs need the ledger; none when there is no job.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn needed(store: &Store) -> Result<Option<Needed>, StoreError> {
    let operation = "ask how far back the ledger is needed";
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("ledger_floor/needed.sql"), &[]).await?;
    Ok(rows.first().map(|row| Needed {
        job: row.get("name"),
        reach: Duration::from_millis(u64::try_from(row.get::<_, i64>("needed_ms")).unwrap_or(0)),
    }))
}
