//! Writes what was decided, in the order in which everybody locks: jobs, queued runs, runs.

use super::Summary;
use super::decide::{Decision, Fire, How, Moment};
use super::pace::Paces;
use crate::sweep::Settlement;
use chrono::{DateTime, TimeDelta, Utc};
use model::ids::{JobId, RunKey, TenantId};
use model::job::Definition;
use model::run::{MisfireCause, Origin, Reason, State};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use store::catch_up::{self, Addition, Bounds};
use store::fence::Term;
use store::job_cursor::{self, Cursor};
use store::misfire::{self, Hands, Waiting};
use store::run::{self, New, Release};
use store::run_end::{self, End};
use store::{StoreError, Transaction};

/// What is to be written for one job.
pub(super) struct Work<'a> {
    pub cursor: &'a Cursor,
    pub decision: Decision,
    pub settlement: Settlement<'a>,
}

impl<'a> Work<'a> {
    /// The newest definition that can be read.
    fn newest(&self) -> Option<&'a Definition> {
        self.cursor.revisions.iter().rev().find_map(|revision| revision.definition.as_ref().ok())
    }

    /// Whether the job is paused now: what is queued of it is held until it is resumed.
    fn is_paused(&self) -> bool {
        self.cursor.revisions.last().is_some_and(|revision| revision.paused)
    }
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
    moment: &Moment<'_>,
    traceparent: Option<&str>,
    work: &[Work<'_>],
) -> Result<Written, StoreError> {
    let at = moment.at;
    let broken: Vec<_> =
        work.iter().filter_map(|work| Some((work.cursor.job_id, work.decision.broken.clone()?))).collect();
    job_cursor::mark_broken(tx, &broken).await?;
    let mut causes = end(tx, moment, work).await?;
    // The last lock that others may wait for, but for rows of jobs whose cursors are ours.
    let mut paces = Paces::new(at, &catch_up::lock_paces(tx, &paced_tenants(work)).await?);
    let mut rows = Rows::default();
    for work in work {
        rows.add(work, at, &mut paces);
    }
    catch_up::set_paces(tx, &paces.taken()).await?;
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
async fn end(
    tx: &Transaction<'_>,
    moment: &Moment<'_>,
    work: &[Work<'_>],
) -> Result<BTreeMap<MisfireCause, u64>, StoreError> {
    let ending: Vec<(&Waiting, Reason)> =
        work.iter().flat_map(|work| work.settlement.ends.iter().copied()).collect();
    if ending.is_empty() {
        return Ok(BTreeMap::new());
    }
    let runs: Vec<_> = ending.iter().map(|(run, _)| *run).collect();
    let hands = misfire::hands(tx, &runs).await?;
    let cause = |(run, hands): (&&Waiting, Hands)| {
        moment.evidence.cause_of_waiting(run.due_at, run.start_by.unwrap_or(run.due_at), hands)
    };
    let causes: Vec<_> = runs.iter().zip(hands).map(cause).collect();
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
    fn add(&mut self, work: &Work<'a>, at: DateTime<Utc>, paces: &mut Paces) {
        let Work { cursor, decision, settlement } = work;
        let held = work.is_paused();
        let per_second = work.newest().map_or(1, |newest| newest.misfire.catch_up_per_second);
        let mut pace = || paces.take(cursor.tenant_id, per_second);
        let mut joins = !settlement.paced.is_empty();
        self.late.extend(settlement.late);
        self.paced.extend(settlement.paced.iter().map(|key| (*key, pace())));
        self.unqueued.extend(settlement.backlog.iter().copied());
        let mut serial: Vec<_> = settlement.backlog.iter().map(|key| key.scheduled_for).collect();
        for fire in &decision.fires {
            let Some(definition) = definition(cursor, fire) else { continue };
            let exclusive = definition.overlap.is_exclusive();
            let (origin, release) = match fire.how {
                How::InTime(start_by) => {
                    let start_by = Some(start_by);
                    let at = fire.due_at.max(at);
                    (Origin::Schedule, Some(Release { at, start_by, late: false, held }))
                }
                How::Late => (Origin::Schedule, Some(Release { at, start_by: None, late: true, held })),
                How::Backlog if exclusive => {
                    serial.push(fire.scheduled_for);
                    (Origin::CatchUp, None)
                }
                How::Backlog => {
                    joins = true;
                    let release = Release { at: pace(), start_by: None, late: false, held };
                    (Origin::CatchUp, Some(release))
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
        self.additions.extend(addition(cursor.job_id, &serial, per_second));
        if !serial.is_empty() || joins {
            self.bounds.extend(work.newest().and_then(|newest| bounds(cursor.job_id, newest, at)));
        }
    }
}

fn definition<'a>(cursor: &'a Cursor, fire: &Fire) -> Option<&'a Definition> {
    let revision = cursor.revisions.iter().find(|revision| revision.generation == fire.generation)?;
    revision.definition.as_ref().ok()
}

fn addition(job_id: JobId, serial: &[DateTime<Utc>], per_second: u32) -> Option<Addition> {
    let (first, last) = (*serial.iter().min()?, *serial.iter().max()?);
    let interval = Duration::from_secs(1) / per_second.max(1);
    Some(Addition { job_id, first, last, count: serial.len(), interval })
}

/// How much of the job's backlog may wait. The newest definition bounds all of it, what an older one missed too: who
/// lowers a limit wants less to run, and one number for each job is what people can check.
fn bounds(job_id: JobId, newest: &Definition, at: DateTime<Utc>) -> Option<Bounds> {
    let window = TimeDelta::from_std(newest.misfire.catch_up_window).ok()?;
    Some(Bounds { job_id, limit: newest.misfire.catch_up_limit, since: at.checked_sub_signed(window)? })
}

/// The tenants of whose backlogs a run may become due by this.
fn paced_tenants(work: &[Work<'_>]) -> Vec<TenantId> {
    let joins = |work: &&Work<'_>| {
        let settlement = &work.settlement;
        !(settlement.paced.is_empty() && settlement.backlog.is_empty())
            || work.decision.fires.iter().any(|fire| fire.how == How::Backlog)
    };
    let tenants: BTreeSet<_> = work.iter().filter(joins).map(|work| work.cursor.tenant_id).collect();
    tenants.into_iter().collect()
}
