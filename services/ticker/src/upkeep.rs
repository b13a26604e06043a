//! The ledger's partitions: made days ahead, before anything is planned into them; and, in [`retain`], what leaves by age.
//!
//! Invariant: nothing is planned outside the days that [`Ledger`] names, each of which has its partition. None is made
//! below the ledger's floor.

mod metrics;
pub mod retain;

pub use metrics::Metrics;
pub use retain::Policy;

use chrono::{DateTime, Days, NaiveDate, NaiveTime, Utc};
use retain::Retain;
use service::runtime::chain;
use std::time::{Duration, Instant};
use store::fence::{self, Term};
use store::{Store, StoreError, ledger_floor, partition};

/// The furthest that a backlog reaches back: the longest catch-up window and a day for the begin of it.
const DAYS_BACK: u64 = 8;

/// How many days ahead partitions are made.
const DAYS_AHEAD: u64 = 3;

/// How often it is looked whether one is missing, also while the date stays the same.
const EVERY: Duration = Duration::from_secs(3_600);

/// When a failed look is repeated.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Everybody else waits behind a new partition: it does not wait for long.
const PATIENCE: Duration = Duration::from_millis(500);

/// The stretch of time whose every day has a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ledger {
    /// From this instant on.
    pub from: DateTime<Utc>,
    /// Up to this instant, exclusive.
    pub to: DateTime<Utc>,
}

impl Ledger {
    /// Whether everything from now through `horizon` has its place.
    pub fn covers(&self, now: DateTime<Utc>, horizon: DateTime<Utc>) -> bool {
        self.from <= now && horizon < self.to
    }

    fn days_after(&self, today: NaiveDate) -> i64 {
        (self.to.date_naive() - today).num_days() - 1
    }
}

/// Keeps the ledger of one leadership in order.
#[derive(Debug)]
pub struct Upkeep {
    metrics: Metrics,
    retain: Retain,
    ledger: Option<Ledger>,
    /// The day of the last look, and when the next one is due on the same day.
    looked: Option<(NaiveDate, Instant)>,
}

impl Upkeep {
    /// Has looked at nothing yet.
    pub fn new(policy: Policy, metrics: Metrics) -> Self {
        Self { retain: Retain::new(policy, metrics.clone()), metrics, ledger: None, looked: None }
    }

    /// Lets a little of what is old go, at `now` by the database's clock. A failure is only logged: the next look, by
    /// this leadership or another, finds the same again.
    ///
    /// # Errors
    /// [`StoreError::Fenced`].
    pub async fn let_go(&mut self, store: &Store, term: Term, now: DateTime<Utc>) -> Result<(), StoreError> {
        match self.retain.step(store, term, now).await {
            Ok(_) => Ok(()),
            Err(error @ StoreError::Fenced { .. }) => Err(error),
            Err(error) => {
                tracing::warn!(
                    term = term.revision,
                    error = chain(&error),
                    "What is old could not be let go; it is tried again"
                );
                Ok(())
            }
        }
    }

    /// The ledger's stretch, after making what is missing of it, at `now` by the database's clock.
    ///
    /// # Errors
    /// [`StoreError`] when something is missing, could not be made, and `horizon` needs it.
    pub async fn ledger(
        &mut self,
        store: &Store,
        term: Term,
        now: DateTime<Utc>,
        horizon: DateTime<Utc>,
    ) -> Result<Ledger, StoreError> {
        let usable = self.ledger.filter(|ledger| ledger.covers(now, horizon));
        let today = now.date_naive();
        let is_current = self.looked.is_some_and(|(day, again)| day == today && Instant::now() < again);
        if let (Some(ledger), true) = (usable, is_current) {
            return Ok(ledger);
        }
        match ensure(store, term, now).await {
            Ok(ledger) => {
                self.ledger = Some(ledger);
                self.looked = Some((today, Instant::now() + EVERY));
                self.metrics.days_ahead(ledger.days_after(today));
                Ok(ledger)
            }
            Err(error @ StoreError::Fenced { .. }) => Err(error),
            Err(error) => {
                self.looked = Some((today, Instant::now() + AGAIN_AFTER));
                let Some(ledger) = usable else { return Err(error) };
                self.metrics.days_ahead(ledger.days_after(today));
                let error = chain(&error);
                tracing::warn!(
                    term = term.revision,
                    error,
                    "Partitions can't be made; those of today are there"
                );
                Ok(ledger)
            }
        }
    }
}

/// Makes the partitions around `now` that are missing.
///
/// # Errors
/// [`StoreError`].
pub async fn ensure(store: &Store, term: Term, now: DateTime<Utc>) -> Result<Ledger, StoreError> {
    let operation = "make partitions";
    let mut client = store.client(operation).await?;
    let tx = client.begin(operation).await?;
    fence::hold(&tx, term).await?;
    let floor = ledger_floor::hold(&tx).await?;
    let (from, through) = wanted(now.date_naive(), floor.date_naive());
    let made = partition::ensure(&tx, from, through, PATIENCE).await?;
    let days = partition::days(&tx).await?;
    tx.commit().await?;
    if made > 0 {
        tracing::info!(term = term.revision, partitions.made = made, partitions.through = %through, "Made partitions");
    }
    Ok(stretch(&days, through))
}

fn wanted(today: NaiveDate, floor: NaiveDate) -> (NaiveDate, NaiveDate) {
    let from = today.checked_sub_days(Days::new(DAYS_BACK)).unwrap_or(NaiveDate::MIN);
    (from.max(floor), today.checked_add_days(Days::new(DAYS_AHEAD)).unwrap_or(NaiveDate::MAX))
}

/// The days before `through`, back to the first one that is missing.
fn stretch(latest_first: &[NaiveDate], through: NaiveDate) -> Ledger {
    let after = through.succ_opt().unwrap_or(NaiveDate::MAX);
    let from = latest_first
        .iter()
        .filter(|day| **day <= through)
        .fold(after, |reached, day| if Some(*day) == reached.pred_opt() { *day } else { reached });
    let begin = |day: NaiveDate| day.and_time(NaiveTime::MIN).and_utc();
    Ledger { from: begin(from), to: begin(after) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(n: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 11, n).expect("a day")
    }

    #[test]
    fn the_longest_backlog_and_the_plans_of_three_days_have_their_place() {
        assert_eq!(wanted(day(20), day(1)), (day(12), day(23)));
    }

    #[test]
    fn nothing_is_made_below_the_floor() {
        assert_eq!(wanted(day(20), day(15)), (day(15), day(23)));
    }

    #[test]
    fn only_an_unbroken_row_of_days_counts() {
        let days = [25, 23, 22, 21, 19].map(day);
        let ledger = stretch(&days, day(23));
        assert_eq!((ledger.from.date_naive(), ledger.to.date_naive()), (day(21), day(24)));
        let now = ledger.from + chrono::TimeDelta::hours(1);
        assert!(ledger.covers(now, ledger.to - chrono::TimeDelta::seconds(1)));
        assert!(!ledger.covers(now, ledger.to));
        assert!(!ledger.covers(ledger.from - chrono::TimeDelta::seconds(1), now));
    }
}
