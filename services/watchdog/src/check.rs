//! The check: judges occurrences whose deadline has passed, raises alerts, and resolves those that have recovered.
//!
//! Invariant: a verdict, its alert, the alert's deliveries and the cursor behind it are written in one transaction
//! that holds the watchdog's fence, so that whatever happens in between, an occurrence is told once or judged again.
//! Judged is what the definitions say should have happened; the ledger is only asked for success. What was missed by
//! a job that by now is deleted, paused or no longer watched is withdrawn: nobody is told of an alert that ends with
//! the very next look, as an open one does. Nothing here waits for a receiver: telling is [`crate::deliver`]'s.

mod tell;

use crate::dates::Dates;
use crate::message;
use crate::walk::{Expected, Walk, is_awaited, walk};
use model::alert::{Judgement, Kind, judge};
use model::ids::{JobId, RunKey};
use schedule::DateSets;
use std::collections::{BTreeMap, BTreeSet};
use store::alert::Complaint;
use store::fence::{self, Term};
use store::verdict::{self, Evidence, Verdict};
use store::watch_cursor::{self, Cursor, Due};
use store::{Store, StoreError, Transaction, alert, alert_delivery};
use uuid::Uuid;

const KIND: Kind = Kind::NoSuccess;

/// Transactions of one cycle at most; a backlog goes on in the next one, after the rest of the cycle's work.
const BATCHES_MAX: usize = 20;

/// How much one transaction takes on.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Jobs, and alerts.
    pub jobs: i64,
    /// Occurrences.
    pub occurrences: usize,
}

/// What a cycle came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Occurrences that were judged.
    pub judged: usize,
    /// Of those, how many had no success by their deadline.
    pub missed: usize,
    /// Of those, how many had none that anybody waits for.
    pub withdrawn: usize,
    /// Alerts that were opened.
    pub opened: usize,
    /// Alerts that were resolved.
    pub resolved: usize,
    /// Deliveries that were put into the outbox.
    pub deliveries: usize,
    /// More is due: the next cycle should follow at once.
    pub more: bool,
}

impl std::ops::AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.judged += other.judged;
        self.missed += other.missed;
        self.withdrawn += other.withdrawn;
        self.opened += other.opened;
        self.resolved += other.resolved;
        self.deliveries += other.deliveries;
        self.more = other.more;
    }
}

/// One cycle: judges what is due, then resolves what has recovered. `leads` is asked before each transaction; `dates`
/// are the calendars that earlier cycles have read.
///
/// # Errors
/// [`StoreError::Fenced`] when a later watchdog leads; else whatever the database failed with. What was committed
/// before stays.
pub async fn run_once(
    store: &Store,
    term: Term,
    limits: Limits,
    dates: &mut Dates,
    leads: impl Fn() -> bool,
) -> Result<Summary, StoreError> {
    let mut summary = Summary::default();
    for _ in 0..BATCHES_MAX {
        if !leads() {
            return Ok(summary);
        }
        summary += judge_batch(store, term, limits, dates).await?;
        if !summary.more {
            break;
        }
    }
    let behind = summary.more;
    for _ in 0..BATCHES_MAX {
        if !leads() {
            return Ok(summary);
        }
        summary += resolve_batch(store, term, limits.jobs).await?;
        if !summary.more {
            break;
        }
    }
    summary.more |= behind;
    Ok(summary)
}

/// An occurrence without success, with what is needed to tell of it.
struct Miss {
    verdict: Verdict,
    detail: String,
}

async fn judge_batch(
    store: &Store,
    term: Term,
    limits: Limits,
    dates: &mut Dates,
) -> Result<Summary, StoreError> {
    let operation = "judge occurrences";
    let mut client = store.client(operation).await?;
    let tx = client.begin(operation).await?;
    fence::hold(&tx, term).await?;
    let locked = watch_cursor::lock_due(&tx, limits.jobs).await?;
    if locked.is_empty() {
        return Ok(Summary::default());
    }
    let due = watch_cursor::read(&tx, &locked).await?;
    let walks = walks(&due, dates.of(&tx, &due.cursors).await?, limits.occurrences);
    let keys: Vec<_> = walks
        .iter()
        .flat_map(|(cursor, walk)| walk.expected.iter().map(|expected| key(cursor, expected)))
        .collect();
    let evidence = verdict::evidence(&tx, &keys).await?;
    let (misses, withdrawn) = misses(&walks, &evidence);
    let mut summary = Summary { judged: keys.len(), withdrawn, ..Summary::default() };
    if !misses.is_empty() {
        summary += complain(&tx, &walks, &misses).await?;
    }
    let moved = advance(&tx, &walks).await?;
    // Crash window: nothing of this is written, or all; the next leader judges the same again, or goes on.
    tx.commit().await?;
    report_broken(&walks);
    let full = locked.len() >= usize::try_from(limits.jobs).unwrap_or(usize::MAX);
    summary.more = moved > 0 && (full || moved < locked.len() || keys.len() >= limits.occurrences);
    Ok(summary)
}

/// The walk of each cursor, until the batch has as many occurrences as it may; the cursors that are left out stay due.
fn walks<'a>(due: &'a Due, dates: &DateSets, occurrences_max: usize) -> Vec<(&'a Cursor, Walk)> {
    let mut left = occurrences_max;
    let mut walks = Vec::with_capacity(due.cursors.len());
    for cursor in &due.cursors {
        if left == 0 {
            break;
        }
        let walk = walk(cursor, dates, due.at, due.floor, left);
        left -= walk.expected.len();
        walks.push((cursor, walk));
    }
    walks
}

fn key(cursor: &Cursor, expected: &Expected) -> RunKey {
    RunKey::new(cursor.job_id, expected.occurrence)
}

/// The occurrences without success that somebody waits for, and how many there are that nobody does.
fn misses(walks: &[(&Cursor, Walk)], evidence: &BTreeMap<RunKey, Evidence>) -> (Vec<Miss>, usize) {
    let (mut misses, mut withdrawn) = (Vec::new(), 0);
    for (cursor, walk) in walks {
        let awaited = is_awaited(cursor);
        for expected in &walk.expected {
            let key = key(cursor, expected);
            let found = evidence.get(&key);
            match judge(Evidence::seen(found), expected.deadline) {
                Judgement::InTime => {}
                Judgement::Missed(cause) if awaited => {
                    let verdict = Verdict { key, deadline: expected.deadline, cause };
                    misses.push(Miss { verdict, detail: message::detail(cause, found) });
                }
                Judgement::Missed(_) | Judgement::Withdrawn => withdrawn += 1,
            }
        }
    }
    (misses, withdrawn)
}

/// Records the misses and raises an alert for each job that has new ones.
async fn complain(
    tx: &Transaction<'_>,
    walks: &[(&Cursor, Walk)],
    misses: &[Miss],
) -> Result<Summary, StoreError> {
    let verdicts: Vec<_> = misses.iter().map(|miss| miss.verdict).collect();
    let new = verdict::insert(tx, KIND, &verdicts).await?;
    let cursors: BTreeMap<_, _> = walks.iter().map(|(cursor, _)| (cursor.job_id, *cursor)).collect();
    let grouped = group(misses, &new);
    let complaints: Vec<_> = grouped
        .iter()
        .filter_map(|(job, misses)| cursors.get(job).and_then(|cursor| complaint(cursor, misses)))
        .collect();
    let opened = alert::raise(tx, KIND, &complaints).await?;
    let deliveries = tell::openings(tx, &complaints, &opened, &grouped, &cursors).await?;
    alert_delivery::insert(tx, &deliveries).await?;
    Ok(Summary {
        missed: new.len(),
        opened: opened.len(),
        deliveries: deliveries.len(),
        ..Summary::default()
    })
}

/// The new misses of each job, in time order.
fn group<'a>(misses: &'a [Miss], new: &BTreeSet<RunKey>) -> BTreeMap<JobId, Vec<&'a Miss>> {
    let mut grouped: BTreeMap<JobId, Vec<&Miss>> = BTreeMap::new();
    for miss in misses.iter().filter(|miss| new.contains(&miss.verdict.key)) {
        grouped.entry(miss.verdict.key.job_id).or_default().push(miss);
    }
    for misses in grouped.values_mut() {
        misses.sort_by_key(|miss| miss.verdict.key);
    }
    grouped
}

fn complaint(cursor: &Cursor, misses: &[&Miss]) -> Option<Complaint> {
    let (first, last) = (misses.first()?, misses.last()?);
    Some(Complaint {
        id: Uuid::new_v4(),
        tenant_id: cursor.tenant_id,
        job_id: cursor.job_id,
        first: first.verdict.key.scheduled_for,
        last: last.verdict.key.scheduled_for,
        count: i64::try_from(misses.len()).unwrap_or(i64::MAX),
        cause: last.verdict.cause,
        detail: last.detail.clone(),
    })
}

/// Writes where each walk ended; returns how many cursors and rests moved or ended.
async fn advance(tx: &Transaction<'_>, walks: &[(&Cursor, Walk)]) -> Result<usize, StoreError> {
    let advances: Vec<_> = walks.iter().filter_map(|(_, walk)| walk.advance).collect();
    let rests: Vec<_> = walks.iter().flat_map(|(_, walk)| walk.rests.iter().copied()).collect();
    let closed: Vec<_> = walks
        .iter()
        .filter(|(_, walk)| walk.closed)
        .filter_map(|(cursor, _)| cursor.through.map(|through| (cursor.job_id, through)))
        .collect();
    watch_cursor::advance(tx, &advances, &rests, &closed).await?;
    Ok(walks.len())
}

fn report_broken(walks: &[(&Cursor, Walk)]) {
    for (cursor, walk) in walks {
        for (in_force_from, problem) in &walk.broken {
            tracing::error!(
                job.name = cursor.name,
                job.id = %cursor.job_id,
                revision.in_force_from = %in_force_from,
                error = problem,
                "A job can't be watched: its definition is not usable"
            );
        }
    }
}

async fn resolve_batch(store: &Store, term: Term, limit: i64) -> Result<Summary, StoreError> {
    let operation = "resolve alerts";
    let mut client = store.client(operation).await?;
    let tx = client.begin(operation).await?;
    fence::hold(&tx, term).await?;
    let recovered = alert::recovered(&tx, KIND, limit).await?;
    if recovered.is_empty() {
        return Ok(Summary::default());
    }
    let ids: Vec<_> = recovered.iter().map(|alert| alert.id).collect();
    let resolved = alert::resolve(&tx, &ids).await?;
    let told = alert_delivery::told(&tx, &ids).await?;
    let deliveries = tell::resolutions(&recovered, &resolved, &told);
    alert_delivery::insert(&tx, &deliveries).await?;
    tx.commit().await?;
    for alert in &recovered {
        tracing::info!(job.name = alert.job_name, job.id = %alert.job_id, alert.id = %alert.id, "An alert is resolved");
    }
    let more = recovered.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Summary { resolved: resolved.len(), deliveries: deliveries.len(), more, ..Summary::default() })
}
