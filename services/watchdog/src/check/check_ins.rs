//! Check-ins: what was to be reported from elsewhere by now and was not, and what was reported to have failed.
//!
//! Invariant: complaints, their alert, its deliveries and the place where judging goes on are written in one transaction
//! that holds the fence, so that a failover neither repeats nor loses one. A check-in has one alert, whatever it is
//! about: a failure that was reported and a success that therefore stays away are one event.

use super::tell::delivery;
use super::{Latest, Summary, has_jumped};
use crate::message::{Event, Message, Occurrences, Subject};
use crate::route::Routes;
use chrono::{DateTime, Utc};
use model::check_in::{self, Cause, Definition, Judged};
use model::ids::instant_text;
use schedule::Schedule;
use service::runtime::chain;
use std::collections::BTreeMap;
use store::alert::Resolution;
use store::alert_delivery::{self, Delivery};
use store::check_in::{Complaint, Due, Recovered};
use store::fence::{self, Term};
use store::{Store, StoreError, Transaction, alert, alert_life};
use uuid::Uuid;

/// Expected check-ins of one that are judged at once at most; the rest stays due.
const EXPECTED_MAX: usize = 1_000;

/// One that can't be judged is looked at again after this.
const BROKEN_AGAIN: chrono::Duration = chrono::Duration::minutes(10);

/// What was found of one check-in.
struct Found<'a> {
    due: &'a Due,
    definition: &'a Definition,
    complaint: Complaint,
    /// Since when the first thing is wrong.
    since: DateTime<Utc>,
}

/// Judges up to `limit` check-ins, unless the clock shows more than `latest`, and resolves as many alerts of theirs.
///
/// # Errors
/// [`StoreError`].
pub async fn batch(store: &Store, term: Term, limit: i64, latest: Latest<'_>) -> Result<Summary, StoreError> {
    let operation = "judge check-ins";
    let mut client = store.client(operation).await?;
    let tx = client.begin(operation).await?;
    fence::hold(&tx, term).await?;
    let due = store::check_in::lock_due(&tx, limit).await?;
    if due.first().is_some_and(|due| has_jumped(due.at, latest)) {
        return Ok(Summary::default());
    }
    let judged: Vec<_> = due.iter().map(judged).collect();
    let found: Vec<_> = due.iter().zip(&judged).filter_map(|(due, judged)| found(due, judged)).collect();
    let mut summary = Summary::default();
    if !found.is_empty() {
        summary += complain(&tx, &found).await?;
    }
    if !due.is_empty() {
        let judged: Vec<_> = due.iter().map(|due| due.id).zip(judged).collect();
        store::check_in::advance(&tx, &judged).await?;
    }
    summary += resolve(&tx, limit).await?;
    summary.more = due.len() as u64 >= limit.unsigned_abs();
    if !due.is_empty() || summary.resolved > 0 {
        // Crash window: nothing of this is written, or all.
        tx.commit().await?;
    }
    Ok(summary)
}

fn judged(due: &Due) -> Judged {
    let broken = |problem: &str| {
        tracing::error!(check_in.name = due.name, check_in.id = %due.id, error = problem, "A check-in can't be watched");
        Judged { position: due.position, complaints: Vec::new(), judge_at: Some(due.at + BROKEN_AGAIN) }
    };
    let (definition, reports) = match (&due.definition, &due.reports) {
        (Ok(definition), Ok(reports)) => (definition, reports),
        (Err(problem), _) | (_, Err(problem)) => return broken(problem),
    };
    let schedule = match Schedule::of_check_in(definition, due.id, due.created_at) {
        Ok(schedule) => schedule,
        Err(errors) => return broken(errors.first().map_or("its schedule is wrong", |error| &error.message)),
    };
    let next = |after| schedule.as_ref().and_then(|schedule| schedule.next(after));
    check_in::judge(definition, due.position, reports, due.at, next, EXPECTED_MAX)
}

fn found<'a>(due: &'a Due, judged: &Judged) -> Option<Found<'a>> {
    let (first, last) = (judged.complaints.first()?, judged.complaints.last()?);
    let instants = || judged.complaints.iter().map(|complaint| complaint.at);
    Some(Found {
        due,
        definition: due.definition.as_ref().ok()?,
        complaint: Complaint {
            id: Uuid::new_v4(),
            tenant_id: due.tenant_id,
            check_in_id: due.id,
            span: (instants().min()?, instants().max()?),
            count: i64::try_from(judged.complaints.len()).unwrap_or(i64::MAX),
            cause: last.cause,
            detail: last.detail.clone(),
        },
        since: first.since,
    })
}

async fn complain(tx: &Transaction<'_>, found: &[Found<'_>]) -> Result<Summary, StoreError> {
    let complaints: Vec<_> = found.iter().map(|found| (found.complaint.clone(), found.definition)).collect();
    let opened = store::check_in::raise(tx, &complaints).await?;
    let new = || found.iter().filter(|found| opened.contains_key(&found.complaint.id));
    let routes = Routes::read(tx, new().map(|found| found.due.tenant_id)).await?;
    let deliveries: Vec<_> = new().flat_map(|found| opening(found, &opened, &routes)).collect();
    alert_delivery::insert(tx, &deliveries).await?;
    let events: Vec<_> =
        new().map(|found| (found.complaint.id, "OPENED", found.complaint.detail.as_str())).collect();
    alert_life::record(tx, &events, None).await?;
    Ok(Summary { opened: opened.len(), deliveries: deliveries.len(), ..Summary::default() })
}

fn opening(found: &Found<'_>, opened: &BTreeMap<Uuid, DateTime<Utc>>, routes: &Routes) -> Vec<Delivery> {
    let (due, complaint, definition) = (found.due, &found.complaint, found.definition);
    let told = routes.told(due.tenant_id, &definition.channels, definition.severity, &definition.labels);
    tracing::warn!(
        check_in.name = due.name,
        check_in.id = %due.id,
        alert.id = %complaint.id,
        alert.cause = %complaint.cause,
        channels.named = definition.channels.len(),
        channels.told = told.len(),
        "An alert is opened"
    );
    let (first, last) = complaint.span;
    let message = Message {
        event: Event::Opened,
        at: opened.get(&complaint.id).copied().unwrap_or(due.at),
        alert_id: complaint.id,
        dedup_key: complaint.id.to_string(),
        severity: definition.severity,
        subject: Subject::CheckIn { id: due.id, name: due.name.clone() },
        kind: "CHECK_IN".to_owned(),
        cause: complaint.cause.to_string(),
        summary: summary(found),
        what_to_do: what_to_do(complaint.cause).to_owned(),
        since: found.since,
        count: complaint.count,
        examples: Vec::new(),
        labels: definition.labels.clone(),
        link: None,
        occurrences: Some(Occurrences { first, last, deadline: found.since }),
    };
    let body = message.body();
    told.into_iter()
        .map(|channel| delivery(complaint.id, channel, alert_delivery::Event::Opened, &body))
        .collect()
}

fn summary(found: &Found<'_>) -> String {
    let (name, complaint) = (&found.due.name, &found.complaint);
    let (last, since) = (instant_text(complaint.span.1), instant_text(found.since));
    match complaint.cause {
        Cause::NoCheckIn if complaint.count == 1 => {
            format!("{name}: no check-in for {last} by {since}: {}", complaint.detail)
        }
        Cause::NoCheckIn => {
            format!(
                "{name}: {} check-ins are missing since {since}, the last one for {last}",
                complaint.count
            )
        }
        Cause::ReportedFailure => format!("{name}: at {last} {}", complaint.detail),
        Cause::NotDone => format!("{name}: at {last} {}", complaint.detail),
    }
}

const fn what_to_do(cause: Cause) -> &'static str {
    match cause {
        Cause::NoCheckIn => {
            "Look at the machine on which it runs: whether it runs at all, and whether it can reach Escapement."
        }
        Cause::ReportedFailure => "Look at what it wrote on the machine on which it runs, and repair that.",
        Cause::NotDone => {
            "Look at the machine on which it runs, and what it waits for. If it always takes this long, raise maxRuntime."
        }
    }
}

async fn resolve(tx: &Transaction<'_>, limit: i64) -> Result<Summary, StoreError> {
    let recovered = store::check_in::recovered(tx, limit).await?;
    if recovered.is_empty() {
        return Ok(Summary::default());
    }
    let ends: Vec<_> = recovered.iter().map(|alert| (alert.id, alert.resolution)).collect();
    let resolved = alert::resolve(tx, &ends).await?;
    let ids: Vec<_> = ends.iter().map(|(id, _)| *id).collect();
    let openings = alert_life::openings(tx, &ids).await?;
    let mut deliveries = Vec::new();
    for found in &recovered {
        let Some(at) = resolved.get(&found.id) else { continue };
        tracing::info!(check_in.name = found.name, alert.id = %found.id, "An alert is resolved");
        let told = openings.iter().filter(|(alert, _, _)| *alert == found.id);
        deliveries.extend(told.map(|(_, channel, body)| {
            delivery(found.id, *channel, alert_delivery::Event::Resolved, &end(found, body, *at))
        }));
    }
    alert_delivery::insert(tx, &deliveries).await?;
    let events: Vec<_> = ends.iter().map(|(id, why)| (*id, "RESOLVED", why.as_str())).collect();
    alert_life::record(tx, &events, None).await?;
    Ok(Summary { resolved: resolved.len(), deliveries: deliveries.len(), ..Summary::default() })
}

/// The body that tells of the end of what `opening` told. An end is told though that can't be read: else the receiver's
/// incident stayed open for ever.
fn end(found: &Recovered, opening: &str, at: DateTime<Utc>) -> String {
    let opening = Message::of_body(opening).unwrap_or_else(|error| {
        tracing::error!(alert.id = %found.id, error = chain(&error), "What was told of an alert can't be read");
        as_kept(found)
    });
    let name = &found.name;
    let why = match found.resolution {
        Resolution::Succeeded => "has reported success again",
        Resolution::JobDeleted => "was deleted",
        Resolution::JobPaused => "was paused",
        Resolution::NotWatched => "is no longer watched",
    };
    let summary = format!("{name} {why}, after it was missing since {}", instant_text(opening.since));
    let what_to_do = "Nothing.".to_owned();
    Message { event: Event::Resolved, at, summary, what_to_do, ..opening }.body()
}

/// The opening, as far as the alert's row has it; receivers know it by the same key.
fn as_kept(found: &Recovered) -> Message {
    let (first, last) = found.span;
    Message {
        event: Event::Opened,
        at: first,
        alert_id: found.id,
        dedup_key: found.id.to_string(),
        severity: found.severity,
        subject: Subject::CheckIn { id: found.check_in_id, name: found.name.clone() },
        kind: "CHECK_IN".to_owned(),
        cause: found.cause.clone(),
        summary: String::new(),
        what_to_do: String::new(),
        since: first,
        count: found.count,
        examples: Vec::new(),
        labels: found.labels.clone(),
        link: None,
        occurrences: Some(Occurrences { first, last, deadline: last }),
    }
}
