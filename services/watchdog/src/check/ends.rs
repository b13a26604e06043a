//! Ends of runs that their owners asked to be told of in `alert.on`; slow ones are [`super::slow`]'s.
//!
//! Invariant: an end is found however late it is committed, and told once: what was recorded before is not recorded again.
//! Failures in a row are counted in the ledger, whoever leads. Runs that were triggered by hand are left out.

use super::Summary;
use super::complain::{Miss, Owner, complain};
use crate::message;
use chrono::{DateTime, Duration, Utc};
use model::alert::{Cause, Kind};
use model::ids::{JobId, RunKey};
use model::run::Phase;
use std::collections::{BTreeMap, BTreeSet};
use store::fence::{self, Term};
use store::verdict::{self, Evidence, Shown, Verdict};
use store::{Store, StoreError, Transaction, ends};

/// Ends are looked at by their time for so long: statements, and pauses between them, are limited to seconds. What is
/// committed later than this after the instant that it wrote, as behind a standby that is away, is found by its transaction.
pub(super) const COMMITTED_WITHIN: Duration = Duration::seconds(60);

/// The smallest step of an instant in the database: the last instant of a full look is looked at again.
const STEP: Duration = Duration::microseconds(1);

/// Ends of one transaction at most.
const ENDS_MAX: i64 = 5_000;

/// Ends that were committed late, of one look at most: more than all connections of a cell may have ended when a commit that
/// held them up goes on.
const LATE_ENDS_MAX: i64 = 50_000;

/// The position is written at least so often; in between, what was found once is found again and told once.
const WRITE_EVERY: Duration = Duration::seconds(10);

/// In the order in which they are told: what comes first explains what comes later.
const KINDS: [Kind; 3] = [Kind::Failed, Kind::SkippedOverlap, Kind::FailuresInRow];

/// One look.
///
/// # Errors
/// [`StoreError`].
pub async fn look(store: &Store, term: Term) -> Result<Summary, StoreError> {
    let operation = "look at ends of runs";
    let mut client = store.client(operation).await?;
    let tx = client.begin(operation).await?;
    fence::hold(&tx, term).await?;
    let position = ends::position(&tx).await?;
    let from = position.through - COMMITTED_WITHIN;
    let ended = ends::ended(&tx, from, position.at, position.floor, ENDS_MAX).await?;
    let late = ends::ended_unseen(&tx, &position, from, LATE_ENDS_MAX).await?;
    let mut summary = Summary::default();
    if !ended.is_empty() || !late.is_empty() {
        let all: Vec<_> = late.iter().chain(&ended).copied().collect();
        summary += complaints(&tx, &all, position.floor).await?;
    } else if position.at - position.through < WRITE_EVERY {
        return Ok(summary);
    }
    let is_full = ended.len() as u64 >= ENDS_MAX.unsigned_abs();
    let through = match ended.last().filter(|_| is_full) {
        // So many at once that they are not looked at again by their time.
        Some((_, last)) => *last - STEP + COMMITTED_WITHIN,
        None => position.at,
    };
    ends::advance(&tx, through, &position.now).await?;
    // Crash window: nothing of this is written, or all.
    tx.commit().await?;
    summary.more = is_full;
    Ok(summary)
}

async fn complaints(
    tx: &Transaction<'_>,
    ended: &[(RunKey, DateTime<Utc>)],
    floor: DateTime<Utc>,
) -> Result<Summary, StoreError> {
    let keys: BTreeSet<_> = ended.iter().map(|(key, _)| *key).collect();
    let jobs: BTreeSet<_> = keys.iter().map(|key| key.job_id).collect();
    let jobs: Vec<_> = jobs.into_iter().collect();
    let found = ends::lock_owners(tx, &jobs).await?;
    let keys: Vec<_> = keys.into_iter().filter(|key| found.contains_key(&key.job_id)).collect();
    let evidence = verdict::evidence(tx, &keys).await?;
    let counting = |key: &RunKey| {
        found.get(&key.job_id).is_some_and(|owner| owner.definition.alert.on.failures_in_row.is_some())
    };
    let counted: Vec<_> = ended.iter().map(|(key, _)| *key).filter(counting).collect();
    let streaks = ends::streaks(tx, &counted, floor).await?;
    let misses = misses(ended, &found, &evidence, &streaks);
    let owners = owners(&found);
    let mut summary = Summary::default();
    for kind in KINDS {
        if let Some(misses) = misses.get(&kind) {
            summary += complain(tx, kind, &owners, misses).await?;
        }
    }
    // These are no occurrences that were judged.
    Ok(Summary { missed: 0, ..summary })
}

/// What the ledger shows of a run; none when that can't be read, which is said when its deadline is judged.
pub(super) fn readable<'a>(evidence: &'a Shown, key: &RunKey) -> Option<&'a Evidence> {
    evidence.get(key)?.as_ref().ok()
}

fn of(job_id: JobId, owner: &ends::Owner) -> Owner<'_> {
    Owner { job_id, tenant_id: owner.tenant_id, name: &owner.name, definition: Some(&owner.definition) }
}

/// Who is told of these jobs.
pub(super) fn owners(found: &BTreeMap<JobId, ends::Owner>) -> BTreeMap<JobId, Owner<'_>> {
    found.iter().map(|(job, owner)| (*job, of(*job, owner))).collect()
}

/// What owners asked to be told of, of the runs that have ended and are not at work again.
fn misses(
    ended: &[(RunKey, DateTime<Utc>)],
    owners: &BTreeMap<JobId, ends::Owner>,
    evidence: &Shown,
    streaks: &BTreeMap<RunKey, u16>,
) -> BTreeMap<Kind, Vec<Miss>> {
    let mut misses: BTreeMap<Kind, Vec<Miss>> = BTreeMap::new();
    for (key, at) in ended {
        let (Some(owner), Some(seen)) = (owners.get(&key.job_id), readable(evidence, key)) else { continue };
        let Some(cause) = cause(seen.phase) else { continue };
        let failures = streaks.get(key).copied().unwrap_or_default();
        for kind in owner.definition.alert.on.of_end(seen.phase, seen.reason, failures) {
            let detail = message::detail(cause, Some(seen));
            let detail = match kind {
                Kind::FailuresInRow => format!("{failures} in a row; of the last one, {detail}"),
                _ => detail,
            };
            let verdict = Verdict { key: *key, deadline: *at, cause };
            misses.entry(kind).or_default().push(Miss { verdict, detail, reason: seen.reason });
        }
    }
    misses
}

fn cause(phase: Phase) -> Option<Cause> {
    match phase {
        Phase::Failed => Some(Cause::Failed),
        Phase::TimedOut => Some(Cause::TimedOut),
        Phase::Lost => Some(Cause::Lost),
        Phase::Skipped => Some(Cause::Skipped),
        _ => None,
    }
}
