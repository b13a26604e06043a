//! The ledger's daily partitions. A row of a day without one can't be inserted.

use crate::{StoreError, Transaction, sql};
use chrono::NaiveDate;
use std::time::Duration;

/// Makes the partitions of the days `from` to `through` that are missing, in UTC; returns how many it made. A new one
/// locks the whole ledger for a moment, and is waited for no longer than `patience`.
///
/// # Errors
/// [`StoreError::Database`]; when the ledger could not be locked in time, a later try helps.
pub async fn ensure(
    tx: &Transaction<'_>,
    from: NaiveDate,
    through: NaiveDate,
    patience: Duration,
) -> Result<i32, StoreError> {
    let patience = patience.as_millis().max(1).to_string();
    tx.query(sql!("partition/patience.sql"), &[&patience]).await?;
    let rows = tx.query(sql!("partition/ensure.sql"), &[&from, &through]).await?;
    Ok(rows.first().map_or(0, |row| row.get("made")))
}

/// The days that have a partition, the latest first.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn days(tx: &Transaction<'_>) -> Result<Vec<NaiveDate>, StoreError> {
    let rows = tx.query(sql!("partition/days.sql"), &[]).await?;
    Ok(rows.iter().map(|row| row.get("day")).collect())
}
