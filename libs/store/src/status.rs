//! Whether the clockwork turns, as the database shows it: reads, nothing else, each with a snapshot of its own.
//!
//! Invariant: of jobs, alerts, queues and workers a tenant sees its own; tickers, dispatchers, lateness and the
//! ledger's size are the cell's.

use crate::{Store, StoreError, sql};
use chrono::{DateTime, NaiveDate, Utc};
use futures_util::future::{try_join, try_join3, try_join4};
use model::ids::TenantId;
use std::time::Duration;
use tokio_postgres::Row;
use uuid::Uuid;

/// The cell, as one tenant sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// The database's clock.
    pub now: DateTime<Utc>,
    /// Jobs that are not deleted.
    pub jobs: i64,
    /// Alerts that are not resolved.
    pub open_alerts: i64,
    /// The newest leadership of the tickers.
    pub ticker: Option<Ticker>,
    /// Those seen lately.
    pub dispatchers: Vec<Dispatcher>,
    /// Open sessions that serve the tenant.
    pub workers: Vec<Worker>,
    /// By queue.
    pub queues: Vec<Queue>,
    /// Over the last five minutes.
    pub lateness: Lateness,
    /// What the ledger holds.
    pub ledger: Ledger,
}

/// A leadership of the tickers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticker {
    /// The revision of its election.
    pub revision: i64,
    /// Its process's name.
    pub name: String,
    /// Its process.
    pub pid: i32,
    /// When it began.
    pub began_at: DateTime<Utc>,
    /// Its last finished cycle.
    pub last_cycle_at: Option<DateTime<Utc>>,
    /// Occurrences up to here have their rows.
    pub planned_through: Option<DateTime<Utc>>,
    /// Whether it leads now: not ended, and seen within the limit.
    pub leads: bool,
}

/// A dispatcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatcher {
    /// One process.
    pub id: Uuid,
    /// Its label.
    pub name: String,
    /// Its process.
    pub pid: i32,
    /// Its last sign of life.
    pub renewed_at: DateTime<Utc>,
    /// Whether that was within the limit.
    pub alive: bool,
    /// Open sessions with it.
    pub workers: i64,
}

/// A worker's open session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// The session.
    pub session: Uuid,
    /// The worker's name.
    pub name: String,
    /// What it serves.
    pub queues: Vec<String>,
    /// Runs that it takes at once.
    pub slots: i32,
    /// Runs that it has.
    pub running: i64,
    /// The name of its dispatcher.
    pub dispatcher: String,
    /// Since when.
    pub connected_at: DateTime<Utc>,
}

/// What a queue holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Its name.
    pub queue: String,
    /// Not due yet.
    pub planned: i64,
    /// Due.
    pub waiting: i64,
    /// With a worker.
    pub running: i64,
    /// Between two attempts.
    pub retrying: i64,
    /// Of those that wait, the ones that a limit of the tenant or of the queue keeps back.
    pub held: i64,
    /// Since when, if any are.
    pub held_from: Option<DateTime<Utc>>,
}

/// From due to acceptance, of first attempts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lateness {
    /// How many were accepted.
    pub runs: i64,
    /// The median.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The worst.
    pub max_ms: f64,
}

/// What the ledger holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ledger {
    /// All its days with their indexes.
    pub bytes: i64,
    /// Days through today.
    pub days: i64,
    /// The oldest day; none before the first ticker.
    pub oldest: Option<NaiveDate>,
    /// Occurrences before this get no run any more.
    pub floor: DateTime<Utc>,
}

/// Reads what `tenant` may see; a ticker or dispatcher that showed no life within `alive` counts as gone.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn read(store: &Store, tenant: TenantId, alive: Duration) -> Result<Status, StoreError> {
    let alive = i64::try_from(alive.as_millis()).unwrap_or(i64::MAX);
    let mut client = store.client("read the status").await?;
    let tx = client.begin("read the status").await?;
    let totals = tx.prepare(sql!("status/totals.sql")).await?;
    let ticker = tx.prepare(sql!("status/ticker.sql")).await?;
    let dispatchers = tx.prepare(sql!("status/dispatchers.sql")).await?;
    let workers = tx.prepare(sql!("status/workers.sql")).await?;
    let queue = tx.prepare(sql!("status/queue.sql")).await?;
    let lateness = tx.prepare(sql!("status/lateness.sql")).await?;
    let ledger = tx.prepare(sql!("status/ledger.sql")).await?;
    let ((totals, ticker, dispatchers), (workers, queue, lateness, ledger)) = try_join(
        try_join3(
            tx.query_prepared(&totals, &[&tenant.0]),
            tx.query_prepared(&ticker, &[&alive]),
            tx.query_prepared(&dispatchers, &[&alive]),
        ),
        try_join4(
            tx.query_prepared(&workers, &[&tenant.0]),
            tx.query_prepared(&queue, &[&tenant.0]),
            tx.query_prepared(&lateness, &[]),
            tx.query_prepared(&ledger, &[]),
        ),
    )
    .await?;
    tx.commit().await?;
    let missing = || StoreError::Corrupt { what: "status", problem: "returned no row".to_owned() };
    let totals = totals.first().ok_or_else(missing)?;
    Ok(Status {
        now: totals.get("now"),
        jobs: totals.get("jobs"),
        open_alerts: totals.get("open_alerts"),
        ticker: ticker.first().map(read_ticker),
        dispatchers: dispatchers.iter().map(read_dispatcher).collect(),
        workers: workers.iter().map(read_worker).collect(),
        queues: queue.iter().map(read_queue).collect(),
        lateness: lateness.first().map(read_lateness).ok_or_else(missing)?,
        ledger: ledger.first().map(read_ledger).ok_or_else(missing)?,
    })
}

fn read_ticker(row: &Row) -> Ticker {
    Ticker {
        revision: row.get("revision"),
        name: row.get("name"),
        pid: row.get("pid"),
        began_at: row.get("began_at"),
        last_cycle_at: row.get("last_cycle_at"),
        planned_through: row.get("planned_through"),
        leads: row.get("leads"),
    }
}

fn read_dispatcher(row: &Row) -> Dispatcher {
    Dispatcher {
        id: row.get("id"),
        name: row.get("name"),
        pid: row.get("pid"),
        renewed_at: row.get("renewed_at"),
        alive: row.get("alive"),
        workers: row.get("workers"),
    }
}

fn read_worker(row: &Row) -> Worker {
    Worker {
        session: row.get("id"),
        name: row.get("name"),
        queues: row.get("queues"),
        slots: row.get("slots"),
        running: row.get("running"),
        dispatcher: row.get("dispatcher"),
        connected_at: row.get("connected_at"),
    }
}

fn read_queue(row: &Row) -> Queue {
    Queue {
        queue: row.get("queue"),
        planned: row.get("planned"),
        waiting: row.get("waiting"),
        running: row.get("running"),
        retrying: row.get("retrying"),
        held: row.get("held"),
        held_from: row.get("held_from"),
    }
}

fn read_lateness(row: &Row) -> Lateness {
    Lateness {
        runs: row.get("runs"),
        p50_ms: row.get("p50_ms"),
        p99_ms: row.get("p99_ms"),
        max_ms: row.get("max_ms"),
    }
}

fn read_ledger(row: &Row) -> Ledger {
    Ledger {
        bytes: row.get("bytes"),
        days: row.get("days"),
        oldest: row.get("oldest"),
        floor: row.get("floor"),
    }
}
