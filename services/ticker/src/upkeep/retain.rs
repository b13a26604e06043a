//! What leaves by age: the ledger's days, a partition at a time, and rows of other tables, a batch at a time.
//!
//! Invariants: first the floor rises, which planner, trigger and backfill hold, and only what lies below it goes; a day
//! with an open run stays until that has ended; the floor never rises above what a job needs to catch up, and by no more
//! than a day at a look, so that a clock that jumps by years costs a day before somebody sees it. One step a cycle, in a
//! transaction of its own under the fence: planning never waits behind a large one. Partitions are made elsewhere.

use super::metrics::Metrics;
use chrono::{DateTime, Days, NaiveDate, NaiveTime, TimeDelta, Utc};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use store::fence::{self, Term};
use store::partition::{self, Dropped, Partition};
use store::retention::{self, Table};
use store::{Store, StoreError, ledger_floor};

/// Between two looks at what is old enough.
const LOOK_EVERY: Duration = Duration::from_secs(600);

/// When a partition that somebody used is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Everybody who inserts into the ledger waits behind a drop that waits for a reader: not for longer than this.
const DROP_PATIENCE: Duration = Duration::from_millis(100);

/// Rows that one step deletes at most.
const ROWS_MAX: i64 = 1_000;

/// For how long a call may be repeated with its key.
const KEYS_KEPT: TimeDelta = TimeDelta::hours(24);

/// For how long somebody who watches runs may be away and miss nothing.
const EVENTS_KEPT: TimeDelta = TimeDelta::hours(24);

const DAY: Duration = Duration::from_secs(86_400);

/// How long things are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The ledger and what belongs to it.
    pub ledger: Duration,
    /// The audit trail.
    pub audit: Duration,
}

impl Policy {
    /// Whether the ledger is kept for longer than a job needs that reaches back so far.
    pub fn suffices(&self, reach: Duration) -> bool {
        self.ledger > reach + DAY
    }
}

/// What one step did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing is due.
    Idle,
    /// It was looked what is old enough.
    Looked {
        /// Nothing is kept below it but days with open runs.
        floor: DateTime<Utc>,
    },
    /// A partition is gone.
    Gone(Partition),
    /// A partition stays, because a run of its day is open.
    Open(Partition),
    /// A partition stays, because somebody uses it.
    Busy(Partition),
    /// So many rows of a table are gone.
    Expired(Table, u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Todo {
    Drop(Partition),
    Expire(Table, DateTime<Utc>),
}

/// Lets things go by age, for one leadership.
#[derive(Debug)]
pub struct Retain {
    policy: Policy,
    metrics: Metrics,
    todo: VecDeque<Todo>,
    look_at: Instant,
}

impl Retain {
    /// Looks at the first step.
    pub fn new(policy: Policy, metrics: Metrics) -> Self {
        Self { policy, metrics, todo: VecDeque::new(), look_at: Instant::now() }
    }

    /// Takes the next step, at `now` by the database's clock.
    ///
    /// # Errors
    /// [`StoreError`]; what failed is looked at again later.
    pub async fn step(&mut self, store: &Store, term: Term, now: DateTime<Utc>) -> Result<Step, StoreError> {
        let step = match self.todo.pop_front() {
            Some(Todo::Drop(partition)) => self.drop_partition(store, term, partition).await?,
            Some(Todo::Expire(table, before)) => self.expire(store, term, table, before).await?,
            None if Instant::now() >= self.look_at => self.look(store, term, now).await?,
            None => Step::Idle,
        };
        self.report(term, &step);
        Ok(step)
    }

    async fn look(&mut self, store: &Store, term: Term, now: DateTime<Utc>) -> Result<Step, StoreError> {
        self.look_at = Instant::now() + LOOK_EVERY;
        let keep = self.kept(store, term).await?;
        let operation = "raise the ledger's floor";
        let mut client = store.client(operation).await?;
        let tx = client.begin(operation).await?;
        fence::hold(&tx, term).await?;
        let mut floor = ledger_floor::read(&tx).await?;
        let oldest = partition::days(&tx).await?.last().copied();
        if let Some(higher) = higher_floor(now, keep, floor, oldest)
            && ledger_floor::raise(&tx, higher).await?
        {
            tracing::info!(term = term.revision, ledger.floor = %higher, "The ledger's floor rises");
            floor = higher;
        }
        let expired = partition::expired(&tx, floor).await?;
        // Crash window: the floor has risen, and nothing is dropped yet; the next look finds it all again.
        tx.commit().await?;
        self.todo = expired.into_iter().map(Todo::Drop).chain(self.rows(now, floor)).collect();
        Ok(Step::Looked { floor })
    }

    /// For how long the ledger is kept: longer than configured while a job needs it.
    async fn kept(&self, store: &Store, term: Term) -> Result<Duration, StoreError> {
        let Some(needed) = ledger_floor::needed(store).await? else { return Ok(self.policy.ledger) };
        if self.policy.suffices(needed.reach) {
            return Ok(self.policy.ledger);
        }
        tracing::warn!(
            term = term.revision,
            job.name = needed.job,
            retention.days = self.policy.ledger.as_secs() / DAY.as_secs(),
            retention.needed_s = (needed.reach + DAY).as_secs(),
            "The ledger is kept for longer than configured, because a job catches up over a longer time"
        );
        Ok(needed.reach + DAY)
    }

    fn rows(&self, now: DateTime<Utc>, floor: DateTime<Utc>) -> impl Iterator<Item = Todo> {
        let audit = before(now, self.policy.audit).min(floor);
        let (keys, events) = (now - KEYS_KEPT, now - EVENTS_KEPT);
        Table::ALL.into_iter().map(move |table| {
            let cut = match table {
                Table::AuditEvent => audit,
                Table::IdempotencyKey => keys,
                Table::RunEvent => events,
                Table::Misfire | Table::Verdict | Table::Alert | Table::Term | Table::WorkerSession => floor,
            };
            Todo::Expire(table, cut)
        })
    }

    async fn drop_partition(
        &mut self,
        store: &Store,
        term: Term,
        partition: Partition,
    ) -> Result<Step, StoreError> {
        let operation = "drop a partition of the ledger";
        let mut client = store.client(operation).await?;
        let tx = client.begin(operation).await?;
        fence::hold(&tx, term).await?;
        match partition::drop_closed(&tx, &partition, DROP_PATIENCE).await {
            Ok(Dropped::Gone) => {
                // Crash window: of a day's three partitions one is gone, and the next look finds the others.
                tx.commit().await?;
                Ok(Step::Gone(partition))
            }
            Ok(Dropped::Open) => {
                self.leave(partition.day);
                Ok(Step::Open(partition))
            }
            Err(error) if error.is_busy() => {
                self.leave(partition.day);
                self.look_at = self.look_at.min(Instant::now() + AGAIN_AFTER);
                Ok(Step::Busy(partition))
            }
            Err(error) => Err(error),
        }
    }

    /// What is left of a day stays together until the next look.
    fn leave(&mut self, day: NaiveDate) {
        self.todo.retain(|todo| !matches!(todo, Todo::Drop(partition) if partition.day == day));
    }

    async fn expire(
        &mut self,
        store: &Store,
        term: Term,
        table: Table,
        before: DateTime<Utc>,
    ) -> Result<Step, StoreError> {
        let operation = "delete rows by age";
        let mut client = store.client(operation).await?;
        let tx = client.begin(operation).await?;
        fence::hold(&tx, term).await?;
        let rows = retention::expire(&tx, table, before, ROWS_MAX).await?;
        tx.commit().await?;
        if i64::try_from(rows).is_ok_and(|rows| rows >= ROWS_MAX) {
            self.todo.push_front(Todo::Expire(table, before));
        }
        Ok(Step::Expired(table, rows))
    }

    fn report(&self, term: Term, step: &Step) {
        let term = term.revision;
        match step {
            Step::Idle | Step::Expired(_, 0) => {}
            Step::Looked { floor } => self.metrics.floor(*floor),
            Step::Gone(partition) => {
                self.metrics.dropped();
                tracing::info!(term, partition = %partition, "Dropped a partition by age");
            }
            Step::Open(partition) => {
                self.metrics.held("open");
                tracing::warn!(term, partition = %partition, "A partition stays although it is old: a run of its day is open");
            }
            Step::Busy(partition) => {
                self.metrics.held("busy");
                tracing::info!(term, partition = %partition, "A partition stays for now: somebody reads it");
            }
            Step::Expired(table, rows) => {
                self.metrics.expired(*table, *rows);
                tracing::info!(term, table = table.as_str(), rows, "Deleted rows by age");
            }
        }
    }
}

/// The floor that is due at `now`, when it is higher than `floor`. Days are dropped whole, so it is a day's begin.
fn higher_floor(
    now: DateTime<Utc>,
    keep: Duration,
    floor: DateTime<Utc>,
    oldest: Option<NaiveDate>,
) -> Option<DateTime<Utc>> {
    let due = begin(before(now, keep).date_naive());
    let kept = oldest.map_or(due, |oldest| floor.max(begin(oldest)));
    let next = kept.checked_add_days(Days::new(1)).unwrap_or(kept);
    Some(due.min(next)).filter(|next| *next > floor)
}

fn before(now: DateTime<Utc>, time: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(time)
        .ok()
        .and_then(|time| now.checked_sub_signed(time))
        .unwrap_or(DateTime::UNIX_EPOCH)
}

fn begin(day: NaiveDate) -> DateTime<Utc> {
    day.and_time(NaiveTime::MIN).and_utc()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_secs(10 * 86_400);

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().expect("an instant")
    }

    fn day(n: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 11, n).expect("a day")
    }

    #[test]
    fn a_day_goes_when_its_last_instant_is_old_enough() {
        let floor = at("2026-11-09T00:00:00Z");
        let due = |now: &str| higher_floor(at(now), KEEP, floor, Some(day(9)));
        assert_eq!(due("2026-11-19T23:59:59Z"), None);
        assert_eq!(due("2026-11-20T00:00:00Z"), Some(at("2026-11-10T00:00:00Z")));
    }

    #[test]
    fn a_clock_that_jumps_costs_a_day_at_a_look() {
        let jumped = higher_floor(at("2036-11-20T00:00:00Z"), KEEP, DateTime::UNIX_EPOCH, Some(day(9)));
        assert_eq!(jumped, Some(at("2026-11-10T00:00:00Z")));
        let next = higher_floor(at("2036-11-20T00:00:00Z"), KEEP, at("2026-11-10T00:00:00Z"), Some(day(9)));
        assert_eq!(
            next,
            Some(at("2026-11-11T00:00:00Z")),
            "an open run in the oldest day holds nothing else"
        );
    }

    #[test]
    fn before_anything_is_old_the_floor_is_what_it_will_be() {
        let young = higher_floor(at("2026-11-20T12:00:00Z"), KEEP, DateTime::UNIX_EPOCH, Some(day(19)));
        assert_eq!(young, Some(at("2026-11-10T00:00:00Z")));
        assert_eq!(
            higher_floor(at("2026-11-20T12:00:00Z"), KEEP, at("2026-11-10T00:00:00Z"), Some(day(19))),
            None
        );
        assert_eq!(higher_floor(at("2026-11-05T12:00:00Z"), KEEP, at("2026-11-10T00:00:00Z"), None), None);
    }

    #[test]
    fn the_ledger_is_kept_for_more_than_the_longest_backlog_and_a_day() {
        let policy = Policy { ledger: KEEP, audit: KEEP };
        assert!(policy.suffices(Duration::from_secs(9 * 86_400 - 1)));
        assert!(!policy.suffices(Duration::from_secs(9 * 86_400)));
    }
}
