//! Everything that is recorded of one instant of one job, seen at one moment: definitions, pauses, the run, what was
//! missed, and how far the job is planned.
//!
//! What it does not do: say what it means. The registry does.

use crate::calendar::{self, Dates};
use crate::history::{self, PastAttempt, Run};
use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::calendar::CalendarVersion;
use model::ids::{Generation, JobId, TenantId};
use model::job::Definition;
use model::policy::MisfirePolicy;
use model::run::{MisfireCause, MisfireOutcome};
use std::collections::BTreeSet;
use std::str::FromStr;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::Json;

/// What is recorded of an instant.
#[derive(Debug, Clone)]
pub struct Record {
    /// The moment at which it was looked at.
    pub now: DateTime<Utc>,
    /// The ledger keeps nothing before this.
    pub floor: DateTime<Utc>,
    /// The first instant of the job that is not planned; none when the schedule has no more.
    pub next_fire_at: Option<DateTime<Utc>>,
    /// The revisions that count, in order; see [`Record::revision`].
    pub revisions: Vec<Revision>,
    /// Which of them was in force; none before the job's creation.
    pub in_force: Option<Generation>,
    /// The run, if there is one.
    pub run: Option<Found>,
    /// The record of occurrences that were missed, if the instant lies in one.
    pub missed: Option<Missed>,
    /// The dates of the calendars that the definition in force names.
    pub dates: Vec<Dates>,
}

/// A definition, and what put it in force.
#[derive(Debug, Clone)]
pub struct Revision {
    /// Its number.
    pub generation: Generation,
    /// It applies to instants after this.
    pub in_force_from: DateTime<Utc>,
    /// `CREATED`, `CHANGED`, `DELETED`, `PAUSED`, `RESUMED` or `CALENDAR`.
    pub action: String,
    /// Who.
    pub author: String,
    /// Why, for people; may be empty.
    pub reason: String,
    /// The job is paused while it is in force.
    pub paused: bool,
    /// It ends a pause, and what was due in the pause is missed.
    pub catches_up: bool,
    /// The definition, or why this version can't read it.
    pub definition: Result<Definition, String>,
}

/// A run and what is told of it elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The run.
    pub run: Run,
    /// Its attempts that did not end it, in order.
    pub attempts: Vec<PastAttempt>,
    /// The name of the ticker that planned it, if it is known.
    pub ticker: Option<String>,
    /// Why it was not handed out in time, if that ended it.
    pub cause: Option<MisfireCause>,
    /// The queue in which it waits, if no live worker serves it.
    pub unserved: Option<String>,
}

/// Consecutive occurrences that were missed and got no run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed {
    /// The oldest.
    pub first: DateTime<Utc>,
    /// The newest.
    pub last: DateTime<Utc>,
    /// How many.
    pub count: i64,
    /// Why they were missed.
    pub cause: MisfireCause,
    /// The rule of their job then.
    pub policy: MisfirePolicy,
    /// What became of them.
    pub outcome: MisfireOutcome,
    /// The leadership that recorded it.
    pub term: i64,
    /// Its process's name, if it is known.
    pub ticker: Option<String>,
    /// When it was recorded.
    pub recorded_at: DateTime<Utc>,
}

impl Record {
    /// The revision of a generation, if it counts.
    pub fn revision(&self, generation: Generation) -> Option<&Revision> {
        self.revisions.iter().find(|revision| revision.generation == generation)
    }
}

/// Looks an instant of a job up. A worker lives while its dispatcher was renewed within `alive_within`.
///
/// # Errors
/// [`StoreError`] when the database can't be asked, or holds what this release can't read.
pub async fn read(
    store: &Store,
    tenant: TenantId,
    job: JobId,
    at: DateTime<Utc>,
    alive_within: Duration,
) -> Result<Record, StoreError> {
    let operation = "ask why";
    let mut client = store.client(operation).await?;
    let tx = client.begin(operation).await?;
    tx.execute(sql!("why/snapshot.sql"), &[]).await?;
    let rows = tx.query(sql!("why/moment.sql"), &[&job.0]).await?;
    let missing = || StoreError::Corrupt { what: "ledger_floor", problem: "has no row".to_owned() };
    let moment = rows.first().ok_or_else(missing)?;
    let run = found(&tx, tenant, job, at, alive_within).await?;
    let generation = run.as_ref().map(|found| found.run.generation.0);
    let rows = tx.query(sql!("why/revisions.sql"), &[&job.0, &at, &generation]).await?;
    let here = rows.iter().find(|row| row.get("here"));
    let in_force = here.map(|row| Generation(row.get("generation")));
    let revisions: Vec<Revision> = rows.iter().map(revision).collect();
    let rows = tx.query(sql!("why/missed.sql"), &[&job.0, &at]).await?;
    let missed = rows.first().map(missed).transpose()?;
    let definition = in_force.and_then(|here| revisions.iter().find(|revision| revision.generation == here));
    let definition = definition.and_then(|revision| revision.definition.as_ref().ok());
    let versions: BTreeSet<(TenantId, CalendarVersion)> = definition
        .iter()
        .flat_map(|definition| definition.calendars.versions())
        .map(|version| (tenant, version.clone()))
        .collect();
    Ok(Record {
        now: moment.get("now"),
        floor: moment.get("floor"),
        next_fire_at: moment.get("next_fire_at"),
        dates: calendar::dates(&tx, &versions).await?,
        revisions,
        in_force,
        run,
        missed,
    })
}

async fn found(
    tx: &Transaction<'_>,
    tenant: TenantId,
    job: JobId,
    at: DateTime<Utc>,
    alive_within: Duration,
) -> Result<Option<Found>, StoreError> {
    let rows = tx.query(sql!("history/get.sql"), &[&tenant.0, &job.0, &at]).await?;
    let Some(run) = rows.first().map(history::read).transpose()? else { return Ok(None) };
    let rows = tx.query(sql!("history/attempts.sql"), &[&tenant.0, &job.0, &at]).await?;
    let attempts = rows.iter().map(history::past_attempt).collect::<Result<_, _>>()?;
    let rows = tx.query(sql!("why/background.sql"), &[&job.0, &at, &run.term]).await?;
    let background = rows.first();
    let cause = background.and_then(|row| row.get::<_, Option<&str>>("cause"));
    let alive = i64::try_from(alive_within.as_millis()).unwrap_or(i64::MAX);
    let rows = tx.query(sql!("why/unserved.sql"), &[&job.0, &at, &alive]).await?;
    let unserved = rows.first().map(|row| row.get("queue"));
    Ok(Some(Found {
        attempts,
        ticker: background.and_then(|row| row.get("ticker")),
        cause: cause.map(|cause| named("run_outcome.cause", cause)).transpose()?,
        unserved,
        run,
    }))
}

fn revision(row: &Row) -> Revision {
    let definition = row.try_get::<_, Json<Definition>>("definition");
    let unreadable = |error: tokio_postgres::Error| {
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
    };
    Revision {
        generation: Generation(row.get("generation")),
        in_force_from: row.get("in_force_from"),
        action: row.get("action"),
        author: row.get("author"),
        reason: row.get::<_, Option<String>>("reason").unwrap_or_default(),
        paused: row.get("paused"),
        catches_up: row.get("catches_up"),
        definition: definition.map(|definition| definition.0).map_err(unreadable),
    }
}

fn missed(row: &Row) -> Result<Missed, StoreError> {
    Ok(Missed {
        first: row.get("first"),
        last: row.get("last"),
        count: row.get("count"),
        cause: named("misfire.cause", row.get("cause"))?,
        policy: named("misfire.policy", row.get("policy"))?,
        outcome: named("misfire.outcome", row.get("outcome"))?,
        term: row.get("term"),
        ticker: row.get("ticker"),
        recorded_at: row.get("recorded_at"),
    })
}

fn named<T: FromStr<Err = model::policy::UnknownName>>(
    what: &'static str,
    text: &str,
) -> Result<T, StoreError> {
    text.parse().map_err(|error: T::Err| StoreError::Corrupt { what, problem: error.to_string() })
}
