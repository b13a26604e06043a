//! What became of runs, for those who watch: handed out, sent back for another attempt, ended.
//!
//! Invariant: whoever reads on from a [`Position`] gets each event after it once. Transactions commit in another order
//! than they write, so no number and no time of a row tells what is new. A snapshot does: what a later one sees and the
//! one before did not is new, whatever it was doing meanwhile. Between the two, events come by id; of one run these rise.
//!
//! Events are written by the statements that end runs, send them back and claim them. What it does not do: wait.

use crate::history::{self, Run};
use crate::{Store, StoreError, sql};
use chrono::{DateTime, Utc};
use model::ids::{JobId, TenantId};
use model::run::Phase;
use tokio_postgres::Row;

/// Rows of events that one look reads; a row holds what one transaction did, which may be to end all runs of a job.
const ROWS_MAX: i64 = 16;
/// Events that one look reads: what whoever watches holds in memory.
const EVENTS_MAX: i64 = 1_000;
/// More events than a row holds.
const EVERY_EVENT: i64 = i32::MAX as i64;

/// How far somebody has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The server and its timeline, that the snapshots are of.
    pub server: i64,
    /// Everything that this snapshot sees was read, as PostgreSQL writes it.
    pub seen: String,
    /// Of what a later snapshot sees beside it: how much was read.
    pub within: Option<Within>,
}

/// How much was read of what a snapshot sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Within {
    /// The snapshot.
    pub target: String,
    /// Rows before this one were read.
    pub row: i64,
    /// Of this one, so many events.
    pub events: i64,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: DateTime<Utc>,
    /// The job's identity.
    pub job: JobId,
    /// The job's name, now.
    pub job_name: String,
    /// The run as it was then, as far as the ledger still knows; without its output.
    pub run: Run,
    /// Where to read on after this.
    pub position: Position,
}

/// What a look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// In order; those of runs that the ledger no longer keeps are left out.
    pub events: Vec<Event>,
    /// Where to read on.
    pub position: Position,
    /// There may be more at once.
    pub more: bool,
}

/// Why nothing can be read on from a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Events after it were forgotten.
    Forgotten,
    /// It is of another server, or of this one before it was restored or a replica took its place.
    Foreign,
}

/// Reads on from `from`, or begins: with nothing but a position then. Only events of `job`, if one is named.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn read(
    store: &Store,
    tenant: TenantId,
    job: Option<JobId>,
    from: Option<&Position>,
) -> Result<Result<Found, Lost>, StoreError> {
    let operation = "watch runs";
    let client = store.client(operation).await?;
    let seen = from.map(|from| from.seen.as_str());
    let rows = client.query(operation, sql!("run_event/moment.sql"), &[&seen]).await?;
    let missing = || StoreError::Corrupt { what: "run_event_floor", problem: "has no row".to_owned() };
    let moment = rows.first().ok_or_else(missing)?;
    let (now, server): (String, i64) = (moment.get("snapshot"), moment.get("server"));
    let Some(from) = from else {
        let position = Position { server, seen: now, within: None };
        return Ok(Ok(Found { events: Vec::new(), position, more: false }));
    };
    if from.server != server || moment.get("foreign_to_us") {
        return Ok(Err(Lost::Foreign));
    }
    if moment.get("forgotten") {
        return Ok(Err(Lost::Forgotten));
    }
    if from.seen == now && from.within.is_none() {
        return Ok(Ok(Found { events: Vec::new(), position: from.clone(), more: false }));
    }
    let target = from.within.as_ref().map_or(now, |within| within.target.clone());
    let (row, place) =
        (from.within.as_ref().map(|within| within.row), from.within.as_ref().map(|w| w.events));
    let job = job.map(|job| job.0);
    let rows = client
        .query(
            operation,
            sql!("run_event/page.sql"),
            &[&tenant.0, &from.seen, &target, &row, &place, &job, &ROWS_MAX, &EVENTS_MAX],
        )
        .await?;
    found(from, target, &rows).map(Ok)
}

fn found(from: &Position, target: String, rows: &[Row]) -> Result<Found, StoreError> {
    let mut events = Vec::new();
    for row in rows {
        let within = Within { target: target.clone(), row: row.get("id"), events: 0 };
        let position =
            |events: i64| Position { within: Some(Within { events, ..within.clone() }), ..from.clone() };
        if let (Some(place), Some(_)) =
            (row.get::<_, Option<i64>>("place"), row.get::<_, Option<uuid::Uuid>>("job_id"))
        {
            events.push(event(row, position(place))?);
        }
    }
    let mut read: Vec<i64> = rows.iter().map(|row| row.get("id")).collect();
    read.dedup();
    let reached = |count: usize, most: i64| i64::try_from(count).is_ok_and(|count| count >= most);
    let full = reached(read.len(), ROWS_MAX) || reached(rows.len(), EVENTS_MAX);
    let position = match rows.last() {
        Some(row) if full => {
            let events = row.get::<_, Option<i64>>("place").unwrap_or(EVERY_EVENT);
            let within = Within { target, row: row.get("id"), events };
            Position { within: Some(within), ..from.clone() }
        }
        _ => Position { seen: target, within: None, ..from.clone() },
    };
    // Reading a window that was begun before may have left a newer one.
    Ok(Found { events, position, more: full || from.within.is_some() })
}

fn event(row: &Row, position: Position) -> Result<Event, StoreError> {
    let run = history::read(row)?;
    let phase = history::phase(row.get("event_phase"))?;
    Ok(Event {
        at: row.get("at"),
        job: JobId(row.get("job_id")),
        job_name: row.get("job_name"),
        run: as_it_was(run, phase, row.get("event_attempt"), row.get("event_reason")),
        position,
    })
}

/// A run that is read later than what became of it: what it did since is taken away.
fn as_it_was(run: Run, phase: Phase, attempt: i32, reason: Option<String>) -> Run {
    let same_attempt = run.attempt == attempt;
    let ended = !matches!(phase, Phase::Running | Phase::Retrying);
    Run {
        phase,
        reason,
        attempt,
        token: run.token.filter(|_| same_attempt && attempt > 0),
        worker: run.worker.filter(|_| same_attempt),
        claimed_at: run.claimed_at.filter(|_| same_attempt),
        accepted_at: run.accepted_at.filter(|_| same_attempt && phase != Phase::Running),
        finished_at: run.finished_at.filter(|_| same_attempt && ended && run.phase == phase),
        exit_status: run.exit_status.filter(|_| phase != Phase::Running),
        error: if phase == Phase::Running { String::new() } else { run.error },
        ..run
    }
}
