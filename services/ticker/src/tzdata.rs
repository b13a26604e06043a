//! A newer timezone database: what was planned with an older one is planned anew, job by job.
//!
//! Invariants: what an older program plans is never changed back by it; a job whose day moves doesn't run that local day
//! more often than its schedule says. Jobs in UTC, and those that are paused or deleted, are left alone: a paused one is
//! planned anew when it is resumed.

use crate::dates::Dates;
use crate::metrics::Metrics;
use crate::plan::span::Usable;
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use model::ids::JobId;
use schedule::Schedule;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use store::fence::{self, Term};
use store::job_cursor::{self, Cursor};
use store::{Store, StoreError, Transaction, job_change, tzdata};

/// Jobs that one transaction plans anew.
const JOBS_MAX: i64 = 200;

/// Transactions of one cycle: planning goes on in between.
const BATCHES_MAX: usize = 20;

/// Jobs that are named in the log; the rest is counted.
const NAMED_MAX: usize = 100;

/// How old a database is: by year, then by letter, of which there may be two.
fn compare(one: &str, other: &str) -> Ordering {
    let age = |version: &str| {
        let (year, letter) = version.split_at_checked(4).unwrap_or((version, ""));
        (year.to_owned(), letter.len(), letter.to_owned())
    };
    age(one).cmp(&age(other))
}

/// One leadership's look at the timezone database.
#[derive(Debug, Default)]
pub struct Tzdata {
    settled: bool,
    named: usize,
    moved: u64,
}

/// What a transaction came to.
enum Batch {
    /// Nothing is left to be done.
    Settled,
    /// More jobs follow.
    More,
}

impl Tzdata {
    /// Plans anew what an older database planned, some of it; true when more is left for the next cycle.
    ///
    /// # Errors
    /// [`StoreError`]; what was committed before stays.
    pub async fn run_once(
        &mut self,
        store: &Store,
        term: Term,
        dates: &Dates,
        metrics: &Metrics,
        leads: impl Fn() -> bool,
    ) -> Result<bool, StoreError> {
        for _ in 0..BATCHES_MAX {
            if self.settled || !leads() {
                break;
            }
            if let Batch::Settled = self.batch(store, term, dates, metrics).await? {
                self.settled = true;
            }
        }
        Ok(!self.settled)
    }

    async fn batch(
        &mut self,
        store: &Store,
        term: Term,
        dates: &Dates,
        metrics: &Metrics,
    ) -> Result<Batch, StoreError> {
        let operation = "plan anew with a newer timezone database";
        let ours = schedule::tzdata_version();
        let mut client = store.client(operation).await?;
        let tx = client.begin(operation).await?;
        fence::hold(&tx, term).await?;
        let stored = tzdata::read(&tx).await?;
        let reached = match &stored {
            None => {
                tzdata::begin(&tx, ours, None).await?;
                tx.commit().await?;
                metrics.tzdata_behind(false);
                return Ok(Batch::Settled);
            }
            Some(stored) => match compare(ours, &stored.version) {
                Ordering::Less => {
                    tell_behind(term, ours, &stored.version);
                    metrics.tzdata_behind(true);
                    return Ok(Batch::Settled);
                }
                Ordering::Equal => stored.reached,
                Ordering::Greater => {
                    tracing::info!(
                        term = term.revision,
                        tzdata.ours = ours,
                        tzdata.plans = stored.version,
                        "The timezone database is newer than that of the plans: planning anew"
                    );
                    let none = Some(JobId(uuid::Uuid::nil()));
                    tzdata::begin(&tx, ours, none).await?;
                    none
                }
            },
        };
        metrics.tzdata_behind(false);
        let Some(reached) = reached else { return Ok(Batch::Settled) };
        let jobs = tzdata::jobs(&tx, reached, JOBS_MAX).await?;
        let zoned: Vec<_> = jobs.iter().filter(|(_, zoned)| *zoned).map(|(job, _)| *job).collect();
        let moved = if zoned.is_empty() { Vec::new() } else { replan(&tx, dates, &zoned).await? };
        tzdata::reach(&tx, jobs.last().map(|(job, _)| *job)).await?;
        // Crash window: these jobs are planned anew and passed, or neither.
        tx.commit().await?;
        self.tell(term, metrics, &moved);
        if jobs.is_empty() {
            tracing::info!(term = term.revision, tzdata.ours = ours, jobs.moved = self.moved, "Planned anew");
            return Ok(Batch::Settled);
        }
        Ok(Batch::More)
    }

    /// Says whose next instant moved.
    fn tell(&mut self, term: Term, metrics: &Metrics, moved: &[Moved]) {
        metrics.tzdata_moved(moved.len() as u64);
        self.moved += moved.len() as u64;
        for job in moved.iter().take(NAMED_MAX.saturating_sub(self.named)) {
            tracing::warn!(
                term = term.revision,
                job.name = job.name,
                job.id = %job.id,
                run.before = job.before.map(tracing::field::display),
                run.now = job.now.map(tracing::field::display),
                "With the newer timezone database the next run of this job is at another instant"
            );
        }
        self.named = (self.named + moved.len()).min(NAMED_MAX);
    }
}

fn tell_behind(term: Term, ours: &str, plans: &str) {
    tracing::error!(
        term = term.revision,
        tzdata.ours = ours,
        tzdata.plans = plans,
        "This ticker has timezone database {ours}, and plans were made with {plans}: update it. It plans on with its own, \
         and changes nothing that is planned"
    );
}

/// A job whose next instant is another one.
struct Moved {
    id: JobId,
    name: String,
    before: Option<DateTime<Utc>>,
    now: Option<DateTime<Utc>>,
}

/// Plans these jobs anew from the present on; those whose next instant moved.
async fn replan(tx: &Transaction<'_>, dates: &Dates, jobs: &[JobId]) -> Result<Vec<Moved>, StoreError> {
    let at = job_change::lock(tx, jobs).await?.at;
    let asked: Vec<_> = jobs.iter().map(|job| (*job, None)).collect();
    let cursors = job_cursor::read(tx, &asked).await?;
    let dates = dates.of(tx, &cursors).await?;
    let usable: Vec<(&Cursor, Usable<'_>)> = cursors
        .iter()
        .filter(|cursor| !cursor.broken)
        .filter_map(|cursor| {
            let newest = cursor.revisions.last().filter(|newest| !newest.deleted && !newest.paused)?;
            Some((cursor, Usable::read(cursor, newest, &dates).ok()?)) // the planner says what is wrong with it
        })
        .collect();
    let planned: Vec<_> = usable.iter().map(|(cursor, _)| cursor.job_id).collect();
    let mut before: BTreeMap<JobId, DateTime<Utc>> =
        usable.iter().filter_map(|(cursor, _)| Some((cursor.job_id, cursor.next_fire_at?))).collect();
    for key in tzdata::take_back(tx, at, &planned).await? {
        let first = before.entry(key.job_id).or_insert(key.scheduled_for);
        *first = key.scheduled_for.min(*first);
    }
    let days: Vec<_> = usable
        .iter()
        .filter(|(_, usable)| !usable.schedule().follows_elapsed_time())
        .map(|(cursor, usable)| (cursor.job_id, day_of(usable.schedule(), at)))
        .collect();
    let ran: BTreeMap<_, _> = tzdata::ran(tx, &days, at).await?.into_iter().collect();
    let moves: Vec<_> = usable
        .iter()
        .map(|(cursor, usable)| {
            let id = cursor.job_id;
            let known_since = cursor.revisions.last().map_or(at, |newest| newest.in_force_from);
            let ran = ran.get(&id).copied().unwrap_or_default();
            let past = Past { next: before.get(&id).copied(), ran, known_since };
            (id, go_on(usable.schedule(), past, at))
        })
        .collect();
    tzdata::go_on(tx, at, &moves).await?;
    let moved = usable.iter().zip(moves).filter_map(|((cursor, _), (id, now))| {
        let before = before.get(&id).copied();
        (before != now).then(|| Moved { id, name: cursor.name.clone(), before, now })
    });
    Ok(moved.collect())
}

/// What the old reading of a schedule came to.
#[derive(Debug, Clone, Copy)]
struct Past {
    /// Its next instant; none when there was no more.
    next: Option<DateTime<Utc>>,
    /// How many occurrences of the present local day have a run.
    ran: usize,
    /// Since when the definition is in force.
    known_since: DateTime<Utc>,
}

/// Where planning goes on at `at` with a new reading of a schedule.
///
/// Of the occurrences of the present local day, as many are over as ran: what ran by the old reading does not run again by
/// the new one. And what the old one still promised for this day, while by the new one all of it has passed, is not lost:
/// the last of the day is missed, and the misfire policy says what becomes of it. What lies before `at` and is not planned,
/// in an outage, stays to be decided by the misfire policy.
fn go_on(schedule: &Schedule, past: Past, at: DateTime<Utc>) -> Option<DateTime<Utc>> {
    if past.next.is_some_and(|next| next <= at) {
        return past.next;
    }
    if schedule.follows_elapsed_time() {
        return schedule.next(at);
    }
    let today = date(schedule, at);
    let before = day_of(schedule, at) - TimeDelta::seconds(1);
    let is_today = |t: &DateTime<Utc>| date(schedule, *t) == today;
    let of_today: Vec<_> = schedule.between(before, DateTime::<Utc>::MAX_UTC).take_while(is_today).collect();
    let over = of_today.iter().take(past.ran).next_back().filter(|last| **last > at);
    let next = schedule.next(*over.unwrap_or(&at));
    let promised = past.next.as_ref().is_some_and(is_today) && !next.as_ref().is_some_and(is_today);
    match of_today.last() {
        Some(last) if promised && past.ran < of_today.len() && *last > past.known_since => Some(*last),
        _ => next,
    }
}

fn date(schedule: &Schedule, at: DateTime<Utc>) -> NaiveDate {
    schedule.local_time(at).date_naive()
}

/// The first second of the local day of `at`.
fn day_of(schedule: &Schedule, at: DateTime<Utc>) -> DateTime<Utc> {
    let today = date(schedule, at);
    // No local day began longer ago: the longest have a change of 24 hours in them.
    let (mut before, mut within) = (at - TimeDelta::hours(50), at);
    while within - before > TimeDelta::seconds(1) {
        let middle = before + (within - before) / 2;
        if date(schedule, middle) < today { before = middle } else { within = middle }
    }
    DateTime::from_timestamp(within.timestamp(), 0).unwrap_or(within)
}

#[cfg(test)]
mod tests;
