//! The check: judges occurrences whose deadline has passed, looks for what else owners want to be told of, raises alerts,
//! resolves those that have recovered, and tells again what nobody looks after.
//!
//! Invariant: a verdict, its alert, the alert's deliveries and the cursor behind it are written in one transaction
//! that holds the watchdog's fence, so that whatever happens in between, an occurrence is told once or judged again.
//! Judged is what the definitions say should have happened; the ledger is only asked for success. What was missed by
//! a job that by now is deleted, paused or no longer watched is withdrawn: nobody is told of an alert that ends with
//! the very next look, as an open one does. Nothing here waits for a receiver: telling is [`crate::deliver`]'s.

mod check_ins;
mod complain;
mod ends;
mod remind;
mod resolve;
mod slow;
mod tell;

use crate::dates::Dates;
use crate::message;
use crate::walk::{Expected, Walk, is_awaited, walk};
use chrono::{DateTime, Utc};
use complain::{Miss, Owner, complain};
use model::alert::{Cause, Judgement, Kind, judge};
use model::ids::RunKey;
use model::run::MisfireCause;
use schedule::DateSets;
use std::collections::BTreeMap;
use store::fence::{self, Term};
use store::verdict::{self, Evidence, Shown, Verdict};
use store::watch_cursor::{self, Cursor, Due};
use store::{Retry, Store, StoreError, Transaction};

/// Transactions of one cycle at most; a backlog goes on in the next one, after the rest of the cycle's work.
const BATCHES_MAX: usize = 20;

pub use slow::Share;

/// What a leader remembers from one cycle to the next.
#[derive(Debug, Default)]
pub struct Memory {
    /// The calendars that it has read.
    dates: Dates,
    /// The jobs whose slow runs it has looked for.
    slow: slow::Round,
}

impl Memory {
    /// Of a leader that has just begun, and looks for slow runs of so many jobs in each cycle.
    pub fn with(share: Share) -> Self {
        Self { slow: slow::Round::of(share), ..Self::default() }
    }
}

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

/// What one transaction of a cycle does.
#[derive(Debug, Clone, Copy)]
enum Work {
    Judge,
    LookAtEnds,
    CheckIns,
    Resolve,
    Remind,
    LookAtSlow,
}

impl Work {
    /// In the order of a cycle. What has recovered is resolved before anything of it is told again; what costs most is last,
    /// so that no other waits for it.
    const ALL: [Self; 6] =
        [Self::Judge, Self::LookAtEnds, Self::CheckIns, Self::Resolve, Self::Remind, Self::LookAtSlow];

    async fn once(
        self,
        store: &Store,
        term: Term,
        limits: Limits,
        memory: &mut Memory,
        latest: Latest<'_>,
    ) -> Result<Summary, StoreError> {
        match self {
            Self::Judge => judge_batch(store, term, limits, &mut memory.dates, latest).await,
            Self::LookAtEnds => ends::look(store, term).await,
            Self::CheckIns => check_ins::batch(store, term, limits.jobs, latest).await,
            Self::Resolve => resolve::batch(store, term, limits.jobs).await,
            Self::Remind => remind::batch(store, term, limits.jobs).await,
            Self::LookAtSlow => slow::look(store, term, &mut memory.slow).await,
        }
    }
}

/// The latest that the database's clock may show now without having jumped; none is whatever it shows.
pub type Latest<'a> = &'a (dyn Fn() -> Option<DateTime<Utc>> + Sync);

/// Whether the clock has jumped since it was last looked at: nothing may be judged by `at`, the next look finds out.
fn has_jumped(at: DateTime<Utc>, latest: Latest<'_>) -> bool {
    latest().is_some_and(|latest| at > latest)
}

/// One cycle: judges what is due, looks at what else has ended, resolves what has recovered, tells again what nobody looks
/// after, and looks for slow runs. `leads` is asked before each transaction; `memory` is what earlier cycles have left; what
/// the clock shows to be due after `latest` is left to the next cycle. Of what one kind of work fails with, as a row that
/// can't be read or a statement that takes too long, the others know nothing: they are done all the same. When a second
/// kind runs out of time it is the database that is slow: the cycle ends, and does not wait for each of them.
///
/// # Errors
/// [`StoreError::Fenced`] when a later watchdog leads; else what the database failed with first. What was committed
/// stays.
pub async fn run_once(
    store: &Store,
    term: Term,
    limits: Limits,
    memory: &mut Memory,
    leads: impl Fn() -> bool,
    latest: Latest<'_>,
) -> Result<Summary, StoreError> {
    let (mut summary, mut behind, mut out_of_time, mut failed) = (Summary::default(), false, false, None);
    for work in Work::ALL {
        for _ in 0..BATCHES_MAX {
            if !leads() {
                return failed.map_or(Ok(summary), Err);
            }
            match work.once(store, term, limits, memory, latest).await {
                Ok(done) => summary += done,
                Err(error) if is_of_this_work(&error) && !(out_of_time && error.is_out_of_time()) => {
                    summary.more = false;
                    out_of_time |= error.is_out_of_time();
                    failed.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
            if !summary.more {
                break;
            }
        }
        behind |= summary.more;
    }
    summary.more = behind;
    failed.map_or(Ok(summary), Err)
}

/// Whether it is what was asked that failed, and not the database or our leading.
fn is_of_this_work(error: &StoreError) -> bool {
    let is_refused = matches!(error.retry(), Retry::Split | Retry::Never);
    !matches!(error, StoreError::Fenced { .. }) && (is_refused || error.is_out_of_time())
}

async fn judge_batch(
    store: &Store,
    term: Term,
    limits: Limits,
    dates: &mut Dates,
    latest: Latest<'_>,
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
    if has_jumped(due.at, latest) {
        return Ok(Summary::default());
    }
    let walks = walks(&due, dates.of(&tx, &due.cursors).await?, limits.occurrences);
    let keys: Vec<_> = walks
        .iter()
        .flat_map(|(cursor, walk)| walk.expected.iter().map(|expected| key(cursor, expected)))
        .collect();
    let evidence = verdict::evidence(&tx, &keys).await?;
    let unplanned: Vec<_> = keys.iter().filter(|key| !evidence.contains_key(key)).copied().collect();
    let recorded =
        if unplanned.is_empty() { BTreeMap::new() } else { verdict::missed(&tx, &unplanned).await? };
    let (misses, withdrawn) = misses(&walks, &evidence, &recorded);
    let mut summary = Summary { judged: keys.len(), withdrawn, ..Summary::default() };
    if !misses.is_empty() {
        let owners = walks.iter().map(|(cursor, _)| (cursor.job_id, owner(cursor))).collect();
        summary += complain(&tx, Kind::NoSuccess, &owners, &misses).await?;
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
fn misses(
    walks: &[(&Cursor, Walk)],
    evidence: &Shown,
    recorded: &BTreeMap<RunKey, MisfireCause>,
) -> (Vec<Miss>, usize) {
    let (mut misses, mut withdrawn) = (Vec::new(), 0);
    for (cursor, walk) in walks {
        let awaited = is_awaited(cursor);
        for expected in &walk.expected {
            let key = key(cursor, expected);
            let shown = evidence.get(&key);
            let found = shown.and_then(|shown| shown.as_ref().ok());
            let unreadable = shown.and_then(|shown| shown.as_ref().err());
            let judgement = match unreadable {
                // It may have succeeded; that is for somebody to look at, who is told of it.
                Some(_) => Judgement::Missed(Cause::Unreadable),
                None => judge(Evidence::seen(found), expected.deadline),
            };
            match judgement {
                Judgement::InTime => {}
                Judgement::Missed(cause) if awaited => {
                    let verdict = Verdict { key, deadline: expected.deadline, cause };
                    let detail = match (unreadable, recorded.get(&key)) {
                        (Some(problem), _) => message::unreadable(problem),
                        (None, Some(why)) => message::missed(*why),
                        (None, None) => message::detail(cause, found),
                    };
                    misses.push(Miss { verdict, detail, reason: found.and_then(|found| found.reason) });
                }
                Judgement::Missed(_) | Judgement::Withdrawn => withdrawn += 1,
            }
        }
    }
    (misses, withdrawn)
}

/// Who is told, by the job's present definition: who answers for it now, not who did at the occurrence.
fn owner(cursor: &Cursor) -> Owner<'_> {
    let readable = cursor.revisions.iter().rev().find_map(|revision| revision.definition.as_ref().ok());
    Owner { job_id: cursor.job_id, tenant_id: cursor.tenant_id, name: &cursor.name, definition: readable }
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
