//! What the watchdog sees of the system itself: reads, nothing else.
//!
//! Invariant: each look costs the same however many jobs there are and however many runs wait. What is wrong with what is
//! seen is decided by [`model::system_health`].

use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, NaiveDate, Utc};
use model::ids::TenantId;
use model::system_health::{
    BrokenJob, ExpiringToken, FailingChannel, Lateness, OldTransaction, Outlook, Tzdata, Unserved,
};
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// What each look sees first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulse {
    /// The cell's clock.
    pub at: DateTime<Utc>,
    /// The server's own clock.
    pub server_clock: DateTime<Utc>,
    /// When a ticker finished its last cycle; none when none ever did.
    pub ticker_cycle: Option<DateTime<Utc>>,
    /// When a dispatcher last showed a sign of life; none when there is none.
    pub dispatcher_seen: Option<DateTime<Utc>>,
}

/// Looks at clock, tickers and dispatchers.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn observe(store: &Store) -> Result<Pulse, StoreError> {
    let rows = ask(store, "look at the system", sql!("system/observe.sql"), &[]).await?;
    let row = only(&rows, "system/observe.sql")?;
    Ok(Pulse {
        at: row.get("at"),
        server_clock: row.get("server_clock"),
        ticker_cycle: row.get("ticker_cycle"),
        dispatcher_seen: row.get("dispatcher_seen"),
    })
}

/// Queues whose first run has waited for `waiting`, and that no worker serves whose dispatcher showed a sign of life
/// within `alive`.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn unserved(
    store: &Store,
    waiting: Duration,
    alive: Duration,
) -> Result<Vec<Unserved>, StoreError> {
    let params: [&(dyn ToSql + Sync); 2] = [&millis(waiting), &millis(alive)];
    let rows = ask(store, "look for queues without workers", sql!("system/unserved.sql"), &params).await?;
    let unserved = rows.iter().map(|row| Unserved {
        tenant: row.get("tenant"),
        queue: row.get("queue"),
        since: row.get("since"),
        runs: row.get("runs"),
    });
    Ok(unserved.collect())
}

/// Looks at what changes slowly. `tzdata` is the version of the timezone database that is judged by, `tickers` those of the
/// tickers, `tries_max` how often a delivery may be tried before its channel counts as failing.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn outlook(
    store: &Store,
    tzdata: &str,
    tickers: Option<Vec<(String, String)>>,
    tries_max: i32,
) -> Result<Outlook, StoreError> {
    let operation = "look ahead";
    let lateness = ask(store, operation, sql!("status/lateness.sql"), &[]).await?;
    let lateness = only(&lateness, "status/lateness.sql")?;
    let rows = ask(store, operation, sql!("system/outlook.sql"), &[]).await?;
    let row = only(&rows, "system/outlook.sql")?;
    let expiring = ask(store, operation, sql!("system/expiring.sql"), &[]).await?;
    let failing = ask(store, operation, sql!("system/failing.sql"), &[&tries_max]).await?;
    let broken = ask(store, operation, sql!("system/broken.sql"), &[]).await?;
    let oldest = ask(store, operation, sql!("system/oldest_transaction.sql"), &[]).await?;
    Ok(Outlook {
        lateness: Lateness {
            runs: lateness.get("runs"),
            p99: Duration::from_secs_f64(lateness.get::<_, f64>("p99_ms").max(0.0) / 1_000.0),
        },
        token: (row.get("epoch"), row.get("sequence")),
        expiring: expiring.iter().map(expiring_token).collect(),
        day_missing: row.get::<_, Option<NaiveDate>>("day_missing"),
        failing: failing.iter().map(failing_channel).collect(),
        broken: broken.iter().map(broken_job).collect(),
        tzdata: Tzdata { ours: tzdata.to_owned(), plans: row.get("tzdata"), tickers },
        transaction: oldest
            .first()
            .map(|row| OldTransaction { who: row.get("who"), since: row.get("since") }),
    })
}

/// How many jobs have a deadline within the next hour, at most 100,000, and five of them.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn deadlines(store: &Store) -> Result<(i64, Vec<String>), StoreError> {
    let rows = ask(store, "count deadlines", sql!("system/deadlines.sql"), &[]).await?;
    let row = only(&rows, "system/deadlines.sql")?;
    Ok((row.get("jobs"), row.get("examples")))
}

/// Jobs with a deadline within the next hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Soon {
    /// Whose they are; none: everybody's.
    pub tenant: Option<TenantId>,
    /// The channel that they name, if any.
    pub channel: Option<String>,
    /// How many.
    pub jobs: i64,
    /// Five of them.
    pub examples: Vec<String>,
}

/// Who waits for jobs that have a deadline within the next hour; first all of these together.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn soon(tx: &Transaction<'_>) -> Result<Vec<Soon>, StoreError> {
    let rows = tx.query(sql!("system/soon.sql"), &[]).await?;
    let soon = rows.iter().map(|row| Soon {
        tenant: tenant(row),
        channel: row.get("channel"),
        jobs: row.get("jobs"),
        examples: row.get("examples"),
    });
    Ok(soon.collect())
}

fn expiring_token(row: &Row) -> ExpiringToken {
    let (id, name, expires_at) = (row.get("id"), row.get("name"), row.get("expires_at"));
    ExpiringToken { id, tenant: tenant(row), name, expires_at }
}

fn failing_channel(row: &Row) -> FailingChannel {
    FailingChannel {
        id: row.get("id"),
        tenant: tenant(row),
        name: row.get("name"),
        since: row.get("since"),
        deliveries: row.get("deliveries"),
        error: row.get("error"),
    }
}

fn broken_job(row: &Row) -> BrokenJob {
    let (id, name, why, since) = (row.get("id"), row.get("name"), row.get("why"), row.get("since"));
    BrokenJob { id, tenant: tenant(row), name, why, since }
}

fn tenant(row: &Row) -> Option<TenantId> {
    row.get::<_, Option<uuid::Uuid>>("tenant_id").map(TenantId)
}

async fn ask(
    store: &Store,
    operation: &'static str,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, StoreError> {
    store.client(operation).await?.query(operation, sql, params).await
}

fn only<'a>(rows: &'a [Row], what: &'static str) -> Result<&'a Row, StoreError> {
    rows.first().ok_or_else(|| StoreError::Corrupt { what, problem: "returned no row".to_owned() })
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
