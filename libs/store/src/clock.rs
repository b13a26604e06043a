//! The one clock that decides: the database's.

use crate::{SCHEMA_VERSION, Store, StoreError, sql};
use chrono::{DateTime, Utc};
use std::error::Error;
use std::time::Duration;

/// The cell's clock now.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn now(store: &Store) -> Result<DateTime<Utc>, StoreError> {
    let client = store.client("read the clock").await?;
    let rows = client.query("read the clock", sql!("clock/now.sql"), &[]).await?;
    rows.first()
        .map(|row| row.get("now"))
        .ok_or_else(|| StoreError::Corrupt { what: "esc_now()", problem: "returned no row".to_owned() })
}

/// Moves the cell's clock to the server's plus `milliseconds`. For tests: an hour need not take an hour.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn shift(store: &Store, milliseconds: i64) -> Result<(), StoreError> {
    let client = store.client("shift the clock").await?;
    client.query("shift the clock", sql!("clock/shift.sql"), &[&milliseconds]).await.map(drop)
}

/// Waits until the database answers and its schema is at least this release's version, up to `limit`.
///
/// # Errors
/// The last failure, once `limit` has passed: no connection, or a schema that nobody has migrated yet.
pub async fn wait_until_ready(store: &Store, limit: Duration) -> Result<(), StoreError> {
    let started = std::time::Instant::now();
    let mut told = String::new();
    loop {
        let problem = match schema_version(store).await {
            Ok(Some(version)) if version >= SCHEMA_VERSION => return Ok(()),
            Ok(found) => StoreError::Settings(format!(
                "the schema of cell {:?} has version {}, this release needs {SCHEMA_VERSION}: run `escapement migrate`",
                store.settings().cell,
                found.unwrap_or(0),
            )),
            Err(error) => error,
        };
        if started.elapsed() >= limit {
            return Err(problem);
        }
        let cause = std::iter::successors(problem.source(), |cause| (*cause).source()).last();
        let said = format!("{problem} {cause:?}");
        if told != said {
            let cause = cause.map(ToString::to_string).unwrap_or_default();
            tracing::warn!(error = %problem, error.cause = cause, "The database is not ready; trying again");
            told = said;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn schema_version(store: &Store) -> Result<Option<i32>, StoreError> {
    let client = store.client("read the schema's version").await?;
    let rows = client.query("read the schema's version", sql!("clock/schema_version.sql"), &[]).await?;
    Ok(rows.first().and_then(|row| row.get("version")))
}
