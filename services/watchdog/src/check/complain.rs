//! Complaints: what is new of an alert's kind is recorded, raised, and told to those who are not told of it already.
//!
//! Invariant: an occurrence is recorded once for each kind. One that another open alert of its job has told of, to everybody
//! who is to be told now, is not told again: its alert is opened, for the history, and told with the first thing that is
//! news; nor is one that a trouble of the system explains, which is told with all others that it explains
//! ([`crate::system::group`]). Failures in a row are always news.

use super::{Summary, tell};
use crate::route::Routes;
use crate::system::group::{self, Explained, Member, Missing};
use model::alert::Kind;
use model::alert::life::{Event, Life, Telling};
use model::alert::on::On;
use model::ids::{JobId, RunKey, TenantId};
use model::job::{Alert, Definition};
use model::run::Reason;
use model::severity::Severity;
use std::collections::{BTreeMap, BTreeSet};
use store::alert::{Complaint, Open, Raised};
use store::verdict::{self, Verdict};
use store::{StoreError, Transaction, alert, alert_delivery, alert_life, ends};
use uuid::Uuid;

/// An occurrence to complain of, with what is needed to tell of it.
pub struct Miss {
    /// What is recorded.
    pub verdict: Verdict,
    /// Why, in words.
    pub detail: String,
    /// Why its run ended, if it has.
    pub reason: Option<Reason>,
}

/// Who is told of a job.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    /// The job.
    pub job_id: JobId,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its name.
    pub name: &'a str,
    /// Its present definition, if this version can read it.
    pub definition: Option<&'a Definition>,
}

impl Owner<'_> {
    fn alert(&self) -> Option<&Alert> {
        self.definition.map(|definition| &definition.alert)
    }

    /// How grave what is complained of is.
    fn severity(&self, kind: Kind) -> Severity {
        On::severity(kind, self.alert().map(|alert| alert.severity).unwrap_or_default())
    }

    fn labels(&self) -> BTreeMap<String, String> {
        self.definition.map(|definition| definition.labels.clone()).unwrap_or_default()
    }

    /// The channels that are told of something so grave.
    fn told(&self, routes: &Routes, severity: Severity) -> BTreeSet<Uuid> {
        let named = self.alert().map_or(&[][..], |alert| alert.channels.as_slice());
        routes.told(self.tenant_id, named, severity, &self.labels())
    }
}

/// An alert whose opening is told.
pub struct Opening<'a> {
    /// The alert.
    pub raised: Raised,
    /// What is complained of.
    pub complaint: &'a Complaint,
    /// The occurrences, in time order; at least one.
    pub misses: &'a [&'a Miss],
    /// Who is told.
    pub owner: Owner<'a>,
}

/// Records the misses and raises an alert of `kind` for each job that has new ones.
///
/// # Errors
/// [`StoreError`].
pub async fn complain(
    tx: &Transaction<'_>,
    kind: Kind,
    owners: &BTreeMap<JobId, Owner<'_>>,
    misses: &[Miss],
) -> Result<Summary, StoreError> {
    let verdicts: Vec<_> = misses.iter().map(|miss| miss.verdict).collect();
    let new = verdict::insert(tx, kind, &verdicts).await?;
    let grouped = by_job(misses, &new);
    if grouped.is_empty() {
        return Ok(Summary::default());
    }
    let jobs: Vec<_> = grouped.keys().copied().collect();
    let open = alert::lock_open(tx, &jobs).await?;
    let told = told_elsewhere(tx, kind, owners, &grouped, &open).await?;
    let by_system = group::find(tx, kind, &missing(kind, &grouped, owners, &told, &open)).await?;
    let complaints: Vec<_> = grouped
        .iter()
        .filter_map(|(job, misses)| {
            let explained_by = explained(misses, &told).or(by_system.by(*job));
            let is_explained = explained_by.is_some() || by_system.has(*job);
            complaint(kind, owners.get(job)?, misses, is_explained, explained_by)
        })
        .collect();
    let raised = alert::raise(tx, kind, &complaints).await?;
    gather(tx, &raised, &complaints, owners, &by_system).await?;
    let by_job: BTreeMap<_, _> = raised.iter().map(|raised| (raised.job_id, *raised)).collect();
    let openings: Vec<_> = complaints
        .iter()
        .filter_map(|complaint| {
            let job = complaint.job_id;
            let raised = *by_job.get(&job)?;
            let life = open.iter().find(|open| open.id == raised.id).map(|open| open.life);
            let (misses, owner) = (grouped.get(&job)?.as_slice(), *owners.get(&job)?);
            is_told(life, complaint, raised).then_some(Opening { raised, complaint, misses, owner })
        })
        .collect();
    let deliveries = tell::openings(tx, kind, &openings).await?;
    alert_delivery::insert(tx, &deliveries).await?;
    record(tx, &raised, &complaints, &openings).await?;
    let opened = raised.iter().filter(|raised| raised.opened).count();
    Ok(Summary { missed: new.len(), opened, deliveries: deliveries.len(), ..Summary::default() })
}

/// What is missing, as far as a trouble of the system may explain it.
fn missing<'a>(
    kind: Kind,
    grouped: &BTreeMap<JobId, Vec<&Miss>>,
    owners: &BTreeMap<JobId, Owner<'a>>,
    told: &BTreeMap<RunKey, Uuid>,
    open: &[Open],
) -> Vec<Missing<'a>> {
    let is_open = |job| open.iter().any(|open| open.job_id == job && open.kind == kind.as_str());
    let missing = grouped.iter().filter_map(|(job, misses)| {
        let (owner, last) = (owners.get(job)?, misses.last()?);
        let queue = owner.definition.map_or("", |definition| definition.queue.as_str());
        let (cause, reason) = (last.verdict.cause, last.reason);
        let opens = !is_open(*job) && explained(misses, told).is_none();
        Some(Missing { job: *job, tenant: owner.tenant_id, queue, cause, reason, opens })
    });
    missing.collect()
}

/// Adds the alerts that were opened, and that a trouble of the system explains, to what is told of that as one.
async fn gather(
    tx: &Transaction<'_>,
    raised: &[Raised],
    complaints: &[Complaint],
    owners: &BTreeMap<JobId, Owner<'_>>,
    by_system: &Explained,
) -> Result<(), StoreError> {
    let opened: BTreeSet<_> = raised.iter().filter(|raised| raised.opened).map(|raised| raised.id).collect();
    let explained: Vec<_> = complaints
        .iter()
        .filter(|complaint| opened.contains(&complaint.id))
        .filter_map(|complaint| {
            let group = by_system.by(complaint.job_id).filter(|by| complaint.explained_by == Some(*by))?;
            Some((group, complaint, owners.get(&complaint.job_id)?))
        })
        .collect();
    let routes = Routes::read(tx, explained.iter().map(|(_, _, owner)| owner.tenant_id)).await?;
    let told =
        |(_, complaint, owner): &(Uuid, &Complaint, &Owner<'_>)| owner.told(&routes, complaint.severity);
    let told: Vec<_> = explained.iter().map(told).collect();
    let members: Vec<_> = explained
        .iter()
        .zip(&told)
        .map(|((group, complaint, owner), channels)| Member {
            group: *group,
            name: owner.name,
            occurrence: complaint.last,
            channels,
        })
        .collect();
    group::add(tx, &members).await
}

/// The new misses of each job, in time order.
fn by_job<'a>(misses: &'a [Miss], new: &BTreeSet<RunKey>) -> BTreeMap<JobId, Vec<&'a Miss>> {
    let mut grouped: BTreeMap<JobId, Vec<&Miss>> = BTreeMap::new();
    for miss in misses.iter().filter(|miss| new.contains(&miss.verdict.key)) {
        grouped.entry(miss.verdict.key.job_id).or_default().push(miss);
    }
    for misses in grouped.values_mut() {
        misses.sort_by_key(|miss| miss.verdict.key);
    }
    grouped
}

/// The alert that has told of an occurrence, for those that one of another kind has told everybody of who is to be told
/// by this one: a pager that wants no warnings hears of a deadline, whoever was warned.
async fn told_elsewhere(
    tx: &Transaction<'_>,
    kind: Kind,
    owners: &BTreeMap<JobId, Owner<'_>>,
    grouped: &BTreeMap<JobId, Vec<&Miss>>,
    open: &[Open],
) -> Result<BTreeMap<RunKey, Uuid>, StoreError> {
    let others = |job: JobId| {
        open.iter().filter(move |open| open.job_id == job && open.kind != kind.as_str() && !open.life.untold)
    };
    let asked = grouped.iter().filter(|(job, _)| others(**job).next().is_some());
    let keys: Vec<_> = asked.flat_map(|(_, misses)| misses.iter().map(|miss| miss.verdict.key)).collect();
    if kind == Kind::FailuresInRow || keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    let recorded = ends::told(tx, &keys).await?;
    let by = recorded.into_iter().filter_map(|(key, kind)| {
        let by = others(key.job_id).find(|open| open.kind == kind)?;
        Some((key, by.id))
    });
    let mut told: BTreeMap<_, _> = by.collect();
    let alerts: Vec<_> = told.values().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let heard: BTreeSet<_> = alert_delivery::told(tx, &alerts).await?.into_iter().collect();
    let owner = |key: &RunKey| owners.get(&key.job_id);
    let routes = Routes::read(tx, told.keys().filter_map(owner).map(|owner| owner.tenant_id)).await?;
    told.retain(|key, by| {
        let wanted = owner(key).map(|owner| owner.told(&routes, owner.severity(kind)));
        wanted.is_some_and(|wanted| wanted.into_iter().all(|channel| heard.contains(&(*by, channel))))
    });
    Ok(told)
}

/// The alert that tells of all of these.
fn explained(misses: &[&Miss], told: &BTreeMap<RunKey, Uuid>) -> Option<Uuid> {
    let by: Option<Vec<_>> = misses.iter().map(|miss| told.get(&miss.verdict.key).copied()).collect();
    by?.last().copied()
}

fn complaint(
    kind: Kind,
    owner: &Owner<'_>,
    misses: &[&Miss],
    is_explained: bool,
    explained_by: Option<Uuid>,
) -> Option<Complaint> {
    let (first, last) = (misses.first()?, misses.last()?);
    let alert = owner.alert();
    Some(Complaint {
        id: Uuid::new_v4(),
        tenant_id: owner.tenant_id,
        job_id: owner.job_id,
        first: first.verdict.key.scheduled_for,
        last: last.verdict.key.scheduled_for,
        count: i64::try_from(misses.len()).unwrap_or(i64::MAX),
        cause: last.verdict.cause,
        detail: last.detail.clone(),
        severity: owner.severity(kind),
        labels: owner.labels(),
        repeat: alert.map_or(model::alert::life::REPEAT_DEFAULT, Alert::repeat),
        untold: is_explained || alert.is_some_and(|alert| !alert.on.tells_opening(kind)),
        explained_by,
    })
}

/// Whether the opening is told now: of a new alert, or of one that nobody was told of. `life` is that of the open one.
fn is_told(life: Option<Life>, complaint: &Complaint, raised: Raised) -> bool {
    let before = life.unwrap_or(Life { untold: true, ..Life::default() });
    let event = Event::Complaint { elsewhere: complaint.untold };
    let step = before.on(event, raised.at, complaint.repeat);
    step.is_ok_and(|step| step.telling == Some(Telling::Opened))
}

async fn record(
    tx: &Transaction<'_>,
    raised: &[Raised],
    complaints: &[Complaint],
    openings: &[Opening<'_>],
) -> Result<(), StoreError> {
    let detail = |job: JobId| {
        complaints.iter().find(|complaint| complaint.job_id == job).map_or("", |complaint| &complaint.detail)
    };
    let opened = raised.iter().filter(|raised| raised.opened);
    let mut events: Vec<_> = opened.map(|raised| (raised.id, "OPENED", detail(raised.job_id))).collect();
    let late = openings.iter().filter(|opening| !opening.raised.opened);
    events.extend(late.map(|opening| (opening.raised.id, "TOLD", opening.complaint.detail.as_str())));
    alert_life::record(tx, &events, None).await
}
