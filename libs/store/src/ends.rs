//! Ends of runs, slow ones among them, that owners asked to be told of, and who these owners are.
//!
//! Found in the ledger by when they ended. Invariant: an end that was committed late is still found. Each look goes back by
//! more than a transaction usually lasts; what was committed later than that is found among the events of runs, by what a
//! snapshot sees and the one of the look before did not. What was found before has a verdict, so that nothing is told twice.

use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::{JobId, RunKey, TenantId};
use model::job::Definition;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// Where looking goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Ends through this were looked at.
    pub through: DateTime<Utc>,
    /// The cell's clock.
    pub at: DateTime<Utc>,
    /// The ledger keeps nothing before this.
    pub floor: DateTime<Utc>,
    /// What the last look could see; none when that is not known, or was seen on another server.
    pub seen: Option<String>,
    /// What can be seen now.
    pub now: Moment,
}

/// What can be seen at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// The server and its timeline.
    pub server: i64,
    /// A snapshot of it, as PostgreSQL writes it.
    pub snapshot: String,
}

/// A job whose owner is to be told of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its name.
    pub name: String,
    /// Its present definition.
    pub definition: Definition,
}

/// Where looking goes on, and the clock.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn position(tx: &Transaction<'_>) -> Result<Position, StoreError> {
    let rows = tx.query(sql!("outcome_watch/read.sql"), &[]).await?;
    let row = rows.first();
    let row =
        row.ok_or_else(|| StoreError::Corrupt { what: "outcome_watch", problem: "has no row".to_owned() })?;
    let now = Moment { server: row.get("server"), snapshot: row.get("snapshot") };
    let (through, at, floor) = (row.get("through"), row.get("at"), row.get("floor"));
    Ok(Position { through, at, floor, seen: row.get("seen"), now })
}

/// Ends through `through` were looked at, by what could be seen at the moment `seen`.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn advance(tx: &Transaction<'_>, through: DateTime<Utc>, seen: &Moment) -> Result<(), StoreError> {
    let Moment { server, snapshot } = seen;
    tx.execute(sql!("outcome_watch/advance.sql"), &[&through, snapshot, server]).await.map(drop)
}

/// Up to `limit` runs that ended without success after `from` and through `through`, with when, in that order.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn ended(
    tx: &Transaction<'_>,
    from: DateTime<Utc>,
    through: DateTime<Utc>,
    floor: DateTime<Utc>,
    limit: i64,
) -> Result<Vec<(RunKey, DateTime<Utc>)>, StoreError> {
    let rows = tx.query(sql!("verdict/ends.sql"), &[&from, &through, &floor, &limit]).await?;
    Ok(rows.iter().map(end).collect())
}

/// Up to `limit` runs that ended without success by `through`, but whose end was committed so late that the look before
/// `position` could not see it; with when.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn ended_unseen(
    tx: &Transaction<'_>,
    position: &Position,
    through: DateTime<Utc>,
    limit: i64,
) -> Result<Vec<(RunKey, DateTime<Utc>)>, StoreError> {
    let Some(seen) = &position.seen else { return Ok(Vec::new()) };
    let params: [&(dyn ToSql + Sync); 5] = [&through, seen, &position.now.snapshot, &position.floor, &limit];
    let rows = tx.query(sql!("verdict/late_ends.sql"), &params).await?;
    Ok(rows.iter().map(end).collect())
}

fn end(row: &Row) -> (RunKey, DateTime<Utc>) {
    (RunKey::new(JobId(row.get("job_id")), row.get("scheduled_for")), row.get("at"))
}

/// A job whose owner asks to be told of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asking {
    /// Which.
    pub job_id: JobId,
    /// The owner is told of an attempt that takes longer; of none when there is nothing here.
    pub runtime_over: Option<Duration>,
}

/// Up to `limit` jobs after `after`, by id, whose owners ask to be told of anything but deadlines; none: from the first on.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn slow_jobs(
    tx: &Transaction<'_>,
    after: Option<JobId>,
    limit: i64,
) -> Result<Vec<Asking>, StoreError> {
    let after = after.map_or(Uuid::nil(), |job| job.0);
    let rows = tx.query(sql!("verdict/slow_jobs.sql"), &[&after, &limit]).await?;
    let asking = rows.iter().map(|row| {
        let over = row.get::<_, Option<i64>>("over").and_then(|millis| u64::try_from(millis).ok());
        Asking { job_id: JobId(row.get("id")), runtime_over: over.map(Duration::from_millis) }
    });
    Ok(asking.collect())
}

/// Up to `limit` runs of these jobs whose attempt takes longer than each of them allows, or took: of those since `since`
/// that ended after `from`; with when it became too long.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn slow(
    tx: &Transaction<'_>,
    jobs: &[(JobId, Duration)],
    from: DateTime<Utc>,
    since: DateTime<Utc>,
    limit: i64,
) -> Result<Vec<(RunKey, DateTime<Utc>)>, StoreError> {
    let millis = |over: &Duration| i64::try_from(over.as_millis()).unwrap_or(i64::MAX);
    let (ids, overs): (Vec<_>, Vec<_>) = jobs.iter().map(|(job, over)| (job.0, millis(over))).unzip();
    let params: [&(dyn ToSql + Sync); 5] = [&ids, &overs, &from, &since, &limit];
    let rows = tx.query(sql!("verdict/slow.sql"), &params).await?;
    let slow = rows
        .iter()
        .map(|row| (RunKey::new(JobId(row.get("job_id")), row.get("scheduled_for")), row.get("since")));
    Ok(slow.collect())
}

/// How many runs in a row have failed with each of these.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn streaks(
    tx: &Transaction<'_>,
    keys: &[RunKey],
    floor: DateTime<Utc>,
) -> Result<BTreeMap<RunKey, u16>, StoreError> {
    let (jobs, occurrences) = columns(keys);
    let rows = tx.query(sql!("verdict/streak.sql"), &[&jobs, &occurrences, &floor]).await?;
    let streaks = rows.iter().map(|row| {
        let failures: i64 = row.get("failures");
        let key = RunKey::new(JobId(row.get("job_id")), row.get("scheduled_for"));
        (key, u16::try_from(failures).unwrap_or(u16::MAX))
    });
    Ok(streaks.collect())
}

/// Locks the watchdog's cursors of these jobs, as whoever changes, pauses or deletes one does, and says then who
/// answers for each. One that is missing is deleted, paused, or not to be watched; one whose definition this version
/// can't read is missing too.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn lock_owners(tx: &Transaction<'_>, jobs: &[JobId]) -> Result<BTreeMap<JobId, Owner>, StoreError> {
    let jobs: Vec<_> = jobs.iter().map(|job| job.0).collect();
    tx.query(sql!("job_change/lock_watch_cursors.sql"), &[&jobs]).await?;
    let rows = tx.query(sql!("verdict/owners.sql"), &[&jobs]).await?;
    let owners = rows.iter().filter_map(|row| {
        let definition = serde_json::from_value(row.get("definition")).ok()?;
        let tenant_id = TenantId(row.get("tenant_id"));
        Some((JobId(row.get("id")), Owner { tenant_id, name: row.get("name"), definition }))
    });
    Ok(owners.collect())
}

/// Which of these occurrences have verdicts, and of which kinds, as stored.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn told(tx: &Transaction<'_>, keys: &[RunKey]) -> Result<Vec<(RunKey, String)>, StoreError> {
    let (jobs, occurrences) = columns(keys);
    let rows = tx.query(sql!("verdict/told.sql"), &[&jobs, &occurrences]).await?;
    let told = rows
        .iter()
        .map(|row| (RunKey::new(JobId(row.get("job_id")), row.get("occurrence")), row.get("kind")));
    Ok(told.collect())
}

fn columns(keys: &[RunKey]) -> (Vec<Uuid>, Vec<DateTime<Utc>>) {
    keys.iter().map(|key| (key.job_id.0, key.scheduled_for)).unzip()
}
