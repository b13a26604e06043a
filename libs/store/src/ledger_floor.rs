//! The instant below which the ledger keeps nothing and gets nothing.

use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, Utc};

/// The floor, which stays where it is until the transaction ends. Right after the fence, before any other lock.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn hold(tx: &Transaction<'_>) -> Result<DateTime<Utc>, StoreError> {
    let rows = tx.query(sql!("ledger_floor/hold.sql"), &[]).await?;
    let missing = || StoreError::Corrupt { what: "ledger_floor", problem: "has no row".to_owned() };
    rows.first().map(|row| row.get("floor")).ok_or_else(missing)
}
