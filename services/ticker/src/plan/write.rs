//! Writes what was decided, in the order in which everybody locks: jobs, queued runs, runs.

use super::Summary;
use super::decide::{Decision, Fire, How};
use crate::sweep::Settlement;
use chrono::{DateTime, TimeDelta, Utc};
use model::ids::{JobId, RunKey};
use model::job::Definition;
use model::run::{MisfireCause, Origin, Reason, State};
use std::collections::BTreeMap;
use store::catch_up::{self, Addition, Bounds};
use store::fence::Term;
use store::job_cursor::{self, Cursor};
use store::misfire::{self, Waiting};
use store::run::{self, New, Release};
use store::run_end::{self, End};
use store::{StoreError, Transaction};

/// Runs of a backlog that may run beside each other are handed out at this distance: ten a second and job.
const PACE: TimeDelta = TimeDelta::milliseconds(100);

/// What is to be written for one job.
pub(super) struct Work<'a> {
    pub cursor: &'a Cursor,
    pub decision: Decision,
    pub settlement: Settlement<'a>,
}

/// What was written.
pub(super) struct Written {
    pub summary: Summary,
    /// Why planned runs were not handed out that ended now.
    pub causes: BTreeMap<MisfireCause, u64>,
}

pub(super) async fn write(
    tx: &Transaction<'_>,
    term: Term,
    at: DateTime<Utc>,
    traceparent: Option<&str>,
    work: &[Work<'_>],
) -> Result<Written, StoreError> {
    let broken: Vec<_> =
        work.iter().filter_map(|work| Some((work.cursor.job_id, work.decision.broken.clone()?))).collect();
    job_cursor::mark_broken(tx, &broken).await?;
    let mut causes = end(tx, work).await?;
    let mut rows = Rows::default();
    for work in work {
        rows.add(work, at);
    }
    misfire::make_late(tx, &rows.late, at).await?;
    misfire::make_paced(tx, &rows.paced).await?;
    misfire::unqueue(tx, &rows.unqueued).await?;
    let inserted = run::insert(tx, term, traceparent, &rows.new).await?;
    let misfires: Vec<_> = work.iter().flat_map(|work| work.decision.misfires.iter().copied()).collect();
    misfire::insert(tx, term, &misfires).await?;
    catch_up::extend(tx, &rows.additions).await?;
    let overflow = end_overflow(tx, &rows.bounds).await?;
    if overflow > 0 {
        *causes.entry(MisfireCause::Limit).or_default() += overflow;
    }
    let moved = work.iter().filter(|work| work.decision.next != work.cursor.next_fire_at);
    let moved: Vec<_> = moved.map(|work| (work.cursor.job_id, work.decision.next)).collect();
    job_cursor::advance(tx, &moved).await?;
    let summary = Summary {
        planned: u64::try_from(inserted.runs).unwrap_or_default(),
        missed: misfires.iter().map(|misfire| misfire.count).sum(),
        ended: causes.values().sum(),
        kept: (rows.late.len() + rows.paced.len() + rows.unqueued.len()) as u64,
        broken: broken.len() as u64,
        more: false,
    };
    Ok(Written { summary, causes })
}

/// Ends the runs that were not handed out in time and don't run; how many, by cause.
async fn end(tx: &Transaction<'_>, work: &[Work<'_>]) -> Result<BTreeMap<MisfireCause, u64>, StoreError> {
    let ending: Vec<(&Waiting, Reason)> =
        work.iter().flat_map(|work| work.settlement.ends.iter().copied()).collect();
    if ending.is_empty() {
        return Ok(BTreeMap::new());
    }
    let runs: Vec<_> = ending.iter().map(|(run, _)| *run).collect();
    let causes = misfire::causes(tx, &runs).await?;
    let ends: Vec<_> = ending.iter().map(|(run, reason)| skipped(run.key, *reason)).collect();
    let done = run_end::end(tx, &ends).await?;
    let ended: Vec<_> =
        runs.iter().map(|run| run.key).zip(causes).filter(|(key, _)| done.contains(key)).collect();
    misfire::explain(tx, &ended).await?;
    let mut counts = BTreeMap::new();
    for (_, cause) in ended {
        *counts.entry(cause).or_default() += 1;
    }
    Ok(counts)
}

/// Ends what the backlogs hold beyond their limits: the newest run.
async fn end_overflow(tx: &Transaction<'_>, bounds: &[Bounds]) -> Result<u64, StoreError> {
    let over = catch_up::overflow(tx, bounds).await?;
    let ends: Vec<_> = over.iter().map(|key| skipped(*key, Reason::Missed)).collect();
    let ended: Vec<_> =
        run_end::end(tx, &ends).await?.into_iter().map(|key| (key, MisfireCause::Limit)).collect();
    misfire::explain(tx, &ended).await?;
    Ok(ended.len() as u64)
}

fn skipped(key: RunKey, reason: Reason) -> End {
    End { key, attempt: None, state: State::Skipped, reason: Some(reason), output: None }
}

/// The rows that a batch writes.
#[derive(Default)]
struct Rows<'a> {
    new: Vec<New<'a>>,
    late: Vec<RunKey>,
    paced: Vec<(RunKey, DateTime<Utc>)>,
    unqueued: Vec<RunKey>,
    additions: Vec<Addition>,
    bounds: Vec<Bounds>,
}

impl<'a> Rows<'a> {
    fn add(&mut self, work: &Work<'a>, at: DateTime<Utc>) {
        let Work { cursor, decision, settlement } = work;
        let mut pace = Pace { next: at };
        self.late.extend(settlement.late);
        self.paced.extend(settlement.paced.iter().map(|key| (*key, pace.next())));
        self.unqueued.extend(settlement.backlog.iter().copied());
        let mut serial: Vec<_> = settlement.backlog.iter().map(|key| key.scheduled_for).collect();
        for fire in &decision.fires {
            let Some(definition) = definition(cursor, fire) else { continue };
            let exclusive = definition.overlap.is_exclusive();
            let (origin, release) = match fire.how {
                How::InTime(start_by) => {
                    let start_by = Some(start_by);
                    (Origin::Schedule, Some(Release { at: fire.due_at.max(at), start_by, late: false }))
                }
                How::Late => (Origin::Schedule, Some(Release { at, start_by: None, late: true })),
                How::Backlog if exclusive => {
                    serial.push(fire.scheduled_for);
                    (Origin::CatchUp, None)
                }
                How::Backlog => {
                    (Origin::CatchUp, Some(Release { at: pace.next(), start_by: None, late: false }))
                }
            };
            self.new.push(New {
                key: RunKey::new(cursor.job_id, fire.scheduled_for),
                tenant_id: cursor.tenant_id,
                generation: fire.generation,
                origin,
                due_at: fire.due_at,
                release,
                queue: &definition.queue,
                priority: definition.priority,
                overlap: definition.overlap,
            });
        }
        self.additions.extend(addition(cursor.job_id, &serial));
        if !serial.is_empty() || pace.next > at {
            self.bounds.extend(bounds(cursor, at));
        }
    }
}

fn definition<'a>(cursor: &'a Cursor, fire: &Fire) -> Option<&'a Definition> {
    let revision = cursor.revisions.iter().find(|revision| revision.generation == fire.generation)?;
    revision.definition.as_ref().ok()
}

fn addition(job_id: JobId, serial: &[DateTime<Utc>]) -> Option<Addition> {
    let (first, last) = (*serial.iter().min()?, *serial.iter().max()?);
    Some(Addition { job_id, first, last, count: serial.len() })
}

/// How much of the job's backlog may wait, by its newest definition.
fn bounds(cursor: &Cursor, at: DateTime<Utc>) -> Option<Bounds> {
    let newest = cursor.revisions.iter().rev().find_map(|revision| revision.definition.as_ref().ok())?;
    let window = TimeDelta::from_std(newest.misfire.catch_up_window).ok()?;
    Some(Bounds {
        job_id: cursor.job_id,
        limit: newest.misfire.catch_up_limit,
        since: at.checked_sub_signed(window)?,
    })
}

/// Hands out one instant after the other, at a distance.
struct Pace {
    next: DateTime<Utc>,
}

impl Pace {
    fn next(&mut self) -> DateTime<Utc> {
        let at = self.next;
        self.next += PACE;
        at
    }
}
