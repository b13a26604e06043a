//! Runs that take longer than their owners allow in `alert.on.runtimeOver`, seen while they run or when they have ended.
//!
//! Such runs are no events: each job that asks for it is looked at, a batch of them in each cycle, in turn. Invariant: what a
//! job's look could not see yet, the next one finds, however long a round takes and whichever batch of it failed: it goes back
//! to the beginning of the last round that was looked at whole. What was recorded before is not recorded again. Runs that were
//! triggered by hand are left out.

use super::complain::{Miss, complain};
use super::{Summary, ends};
use crate::message;
use chrono::{DateTime, Duration, Utc};
use model::alert::{Cause, Kind};
use model::ids::{JobId, RunKey};
use std::collections::{BTreeMap, BTreeSet};
use store::ends::{Asking, Position};
use store::fence::{self, Term};
use store::verdict::{self, Verdict};
use store::{Store, StoreError, Transaction};

/// What a leader looks back by when it begins: whoever led before it may have looked at a job that long ago, as in a round of
/// two million jobs, 4,000 in each second.
const BEFORE_US: Duration = Duration::minutes(10);

/// A slow run that has ended is looked for among those that were scheduled this long ago; one that ran for longer was
/// found while it ran.
const SCHEDULED_SINCE: Duration = Duration::days(2);

/// Slow runs of one batch at most; the others are found in the next round.
const FOUND_MAX: i64 = 5_000;

/// How much one cycle looks at.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// Jobs that ask for anything in `alert.on`, which only takes reading them: some 4 µs each.
    pub read: i64,
    /// Jobs of those whose runs are looked at: some 60 µs each, by `docs/benchmarks.md`.
    pub looked_at: usize,
}

impl Default for Share {
    fn default() -> Self {
        Self { read: 20_000, looked_at: 4_000 }
    }
}

/// Where a leader is in looking at all jobs in turn.
#[derive(Debug, Default)]
pub(super) struct Round {
    share: Share,
    /// Jobs through this one were looked at in this round; none is before the first.
    after: Option<JobId>,
    /// When this round began; none between two rounds.
    began: Option<DateTime<Utc>>,
    /// Something of this round could not be looked at.
    is_partial: bool,
    /// Every job was looked at since.
    through: Option<DateTime<Utc>>,
}

impl Round {
    pub(super) fn of(share: Share) -> Self {
        Self { share, ..Self::default() }
    }

    /// Goes on; since when ends are looked for.
    fn go_on(&mut self, position: &Position) -> DateTime<Utc> {
        if self.began.is_none() {
            (self.began, self.is_partial) = (Some(position.at), false);
        }
        *self.through.get_or_insert(position.through - BEFORE_US) - ends::COMMITTED_WITHIN
    }

    /// A batch was looked at, all of it or not.
    fn passed(&mut self, batch: &Batch, is_whole: bool) {
        self.is_partial |= !is_whole;
        self.after = batch.next;
        if batch.next.is_none() {
            let began = self.began.take();
            self.through = began.filter(|_| !self.is_partial).or(self.through);
        }
    }
}

/// The jobs of one cycle.
#[derive(Debug, PartialEq, Eq)]
struct Batch {
    /// Whose runs are looked at, and how long they may take.
    jobs: Vec<(JobId, std::time::Duration)>,
    /// The next batch is of the jobs after this one; none when the round is over.
    next: Option<JobId>,
}

impl Batch {
    /// As many of those that were read, by id, as one cycle looks at.
    fn of(read: &[Asking], share: Share) -> Self {
        let mut asking = read.iter().enumerate().filter(|(_, asking)| asking.runtime_over.is_some());
        let beyond = asking.nth(share.looked_at);
        let taken = beyond.map_or(read, |(index, _)| &read[..index]);
        let is_last = beyond.is_none() && (read.len() as u64) < share.read.unsigned_abs();
        Self {
            jobs: taken.iter().filter_map(|asking| Some((asking.job_id, asking.runtime_over?))).collect(),
            next: taken.last().filter(|_| !is_last).map(|asking| asking.job_id),
        }
    }
}

/// Looks at the next batch.
///
/// # Errors
/// [`StoreError`]. The round goes on behind the batch that could not be looked at, and the next one looks at that again.
pub(super) async fn look(store: &Store, term: Term, round: &mut Round) -> Result<Summary, StoreError> {
    let operation = "look at slow runs";
    let mut client = store.client(operation).await?;
    let tx = client.begin(operation).await?;
    fence::hold(&tx, term).await?;
    let position = store::ends::position(&tx).await?;
    let from = round.go_on(&position);
    let read = store::ends::slow_jobs(&tx, round.after, round.share.read).await?;
    let batch = Batch::of(&read, round.share);
    let looked = tell(tx, &batch, from, &position).await;
    let is_whole = looked.as_ref().is_ok_and(|(_, is_whole)| *is_whole);
    round.passed(&batch, is_whole);
    looked.map(|(summary, _)| summary)
}

/// Tells of the slow runs of a batch, and whether these were all that there are.
async fn tell(
    tx: Transaction<'_>,
    batch: &Batch,
    from: DateTime<Utc>,
    position: &Position,
) -> Result<(Summary, bool), StoreError> {
    if batch.jobs.is_empty() {
        return Ok((Summary::default(), true));
    }
    let since = position.floor.max(position.at - SCHEDULED_SINCE);
    let slow = store::ends::slow(&tx, &batch.jobs, from, since, FOUND_MAX).await?;
    if slow.is_empty() {
        return Ok((Summary::default(), true));
    }
    let summary = complaints(&tx, &slow).await?;
    // Crash window: nothing of this is written, or all; the next leader finds it again, and tells of what is new.
    tx.commit().await?;
    Ok((summary, (slow.len() as u64) < FOUND_MAX.unsigned_abs()))
}

async fn complaints(tx: &Transaction<'_>, slow: &[(RunKey, DateTime<Utc>)]) -> Result<Summary, StoreError> {
    let jobs: BTreeSet<_> = slow.iter().map(|(key, _)| key.job_id).collect();
    let found = store::ends::lock_owners(tx, &jobs.into_iter().collect::<Vec<_>>()).await?;
    let asks =
        |job: &JobId| found.get(job).is_some_and(|owner| owner.definition.alert.on.runtime_over.is_some());
    let slow: BTreeMap<_, _> = slow.iter().copied().filter(|(key, _)| asks(&key.job_id)).collect();
    let keys: Vec<_> = slow.keys().copied().collect();
    let evidence = verdict::evidence(tx, &keys).await?;
    let misses: Vec<_> = slow
        .iter()
        .filter_map(|(key, since)| {
            let detail = message::detail(Cause::Slow, Some(ends::readable(&evidence, key)?));
            let verdict = Verdict { key: *key, deadline: *since, cause: Cause::Slow };
            Some(Miss { verdict, detail, reason: None })
        })
        .collect();
    let summary = complain(tx, Kind::Runtime, &ends::owners(&found), &misses).await?;
    // These are no occurrences that were judged.
    Ok(Summary { missed: 0, ..summary })
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const MINUTE: std::time::Duration = std::time::Duration::from_secs(60);

    fn job(number: u128) -> JobId {
        JobId(Uuid::from_u128(number))
    }

    /// Jobs 1, 2, …, of which those ask whose place says so.
    fn read(asks: &[bool]) -> Vec<Asking> {
        let asking = (1..).zip(asks);
        asking
            .map(|(number, asks)| Asking { job_id: job(number), runtime_over: asks.then_some(MINUTE) })
            .collect()
    }

    fn at(second: i64) -> Position {
        let now = store::ends::Moment { server: 1, snapshot: String::new() };
        let at = DateTime::UNIX_EPOCH + Duration::seconds(second);
        Position { through: at, at, floor: DateTime::UNIX_EPOCH, seen: None, now }
    }

    /// The second since when ends are looked for.
    fn since(round: &mut Round, second: i64) -> i64 {
        (round.go_on(&at(second)) - DateTime::UNIX_EPOCH).num_seconds()
    }

    #[test]
    fn a_batch_has_as_many_jobs_as_a_cycle_looks_at_and_goes_on_behind_them() {
        let share = Share { read: 5, looked_at: 2 };
        for (asks, jobs, next) in [
            (&[][..], &[][..], None),
            (&[true, false, true], &[1, 3], None),
            (&[false, false, false, false, false], &[], Some(5)),
            (&[true, true, false, true, false], &[1, 2], Some(3)),
            (&[true, false, true, false, false], &[1, 3], Some(5)),
        ] {
            let batch = Batch::of(&read(asks), share);
            let found: Vec<_> = batch.jobs.iter().map(|(job, _)| *job).collect();
            let expected: Vec<_> = jobs.iter().map(|number| job(*number)).collect();
            assert_eq!((found, batch.next), (expected, next.map(job)), "{asks:?}");
        }
    }

    #[test]
    fn each_look_goes_back_to_the_beginning_of_the_last_round_that_was_whole() {
        let mut round = Round::default();
        let (middle, last) =
            (Batch { jobs: Vec::new(), next: Some(job(7)) }, Batch { jobs: Vec::new(), next: None });
        // What a leader before us may have looked at is looked at again, with whatever it could not see.
        assert_eq!(since(&mut round, 1_000), 1_000 - 660);
        round.passed(&middle, true);
        assert_eq!((round.after, since(&mut round, 1_300)), (Some(job(7)), 1_000 - 660));
        round.passed(&last, true);
        assert_eq!((round.after, since(&mut round, 1_600)), (None, 1_000 - 60));
        round.passed(&middle, false);
        assert_eq!(round.after, Some(job(7)), "what can't be looked at keeps no other from it");
        round.passed(&last, true);
        assert_eq!(since(&mut round, 1_900), 1_000 - 60, "the round before was not whole");
        round.passed(&last, true);
        assert_eq!(since(&mut round, 2_200), 1_900 - 60);
    }
}
