//! Whom an alert's opening and end are told, as rows for the outbox.
//!
//! An opening goes where [`crate::route`] says, by the job's present definition; an end to those that were told of the
//! opening. What receivers read is [`crate::message`]'s.

use super::complain::Opening;
use crate::message;
use crate::route::Routes;
use chrono::{DateTime, Utc};
use model::alert::Kind;
use std::collections::{BTreeMap, BTreeSet};
use store::alert::Recovered;
use store::alert_delivery::{Delivery, Event};
use store::{StoreError, Transaction, alert_delivery, alert_life};
use uuid::Uuid;

/// A delivery for each opened alert and each channel that is told of it.
///
/// # Errors
/// [`StoreError`].
pub async fn openings(
    tx: &Transaction<'_>,
    kind: Kind,
    openings: &[Opening<'_>],
) -> Result<Vec<Delivery>, StoreError> {
    let routes = Routes::read(tx, openings.iter().map(|opening| opening.owner.tenant_id)).await?;
    let mut deliveries = Vec::new();
    for opening in openings {
        let (Some(first), Some(last)) = (opening.misses.first(), opening.misses.last()) else { continue };
        let (complaint, owner) = (opening.complaint, opening.owner);
        let alert = message::Alert {
            id: opening.raised.id,
            job_id: owner.job_id,
            job_name: owner.name,
            kind: kind.as_str(),
            cause: complaint.cause.as_str(),
            severity: complaint.severity,
            labels: &complaint.labels,
            first: complaint.first,
            last: complaint.last,
            count: complaint.count,
            since: first.verdict.deadline,
            deadline: last.verdict.deadline,
        };
        let queue = owner.definition.map_or("", |definition| definition.queue.as_str());
        // One that was opened before, and is told only now, is told with what is new.
        let body = message::opened(&alert, &complaint.detail, queue, opening.raised.opened_at).body();
        let named = channels_of(opening);
        let told = routes.told(owner.tenant_id, named, complaint.severity, &complaint.labels);
        tracing::warn!(
            job.name = owner.name,
            job.id = %owner.job_id,
            alert.id = %alert.id,
            alert.kind = %kind,
            alert.cause = %complaint.cause,
            run.scheduled_for = %complaint.last,
            channels.named = named.len(),
            channels.told = told.len(),
            "An alert is opened"
        );
        deliveries.extend(told.into_iter().map(|channel| delivery(alert.id, channel, Event::Opened, &body)));
    }
    Ok(deliveries)
}

fn channels_of<'a>(opening: &Opening<'a>) -> &'a [String] {
    opening.owner.definition.map_or(&[], |definition| definition.alert.channels.as_slice())
}

/// A row for the outbox.
pub fn delivery(alert_id: Uuid, channel_id: Uuid, event: Event, body: &str) -> Delivery {
    Delivery { id: Uuid::new_v4(), alert_id, channel_id, event, body: body.to_owned() }
}

/// A delivery for each of these alerts whose opening nobody was told of, and each channel that is told of it now, at the
/// instant beside it.
///
/// # Errors
/// [`StoreError`].
pub async fn owed(tx: &Transaction<'_>, when: &[(Uuid, DateTime<Utc>)]) -> Result<Vec<Delivery>, StoreError> {
    if when.is_empty() {
        return Ok(Vec::new());
    }
    let when: BTreeMap<_, _> = when.iter().copied().collect();
    let ids: Vec<_> = when.keys().copied().collect();
    let owed = alert_life::owed(tx, &ids).await?;
    let routes = Routes::read(tx, owed.iter().map(|owed| owed.tenant_id)).await?;
    let mut deliveries = Vec::new();
    for owed in &owed {
        let Some(at) = when.get(&owed.id) else { continue };
        let alert = message::Alert {
            id: owed.id,
            job_id: owed.job_id,
            job_name: &owed.job_name,
            kind: &owed.kind,
            cause: &owed.cause,
            severity: owed.severity,
            labels: &owed.labels,
            first: owed.span.0,
            last: owed.span.1,
            count: owed.count,
            since: owed.deadlines.0,
            deadline: owed.deadlines.1,
        };
        let body = message::opened(&alert, &owed.detail, &owed.queue, *at).body();
        let told = routes.told(owed.tenant_id, &owed.channels, owed.severity, &owed.labels);
        deliveries.extend(told.into_iter().map(|channel| delivery(owed.id, channel, Event::Opened, &body)));
    }
    Ok(deliveries)
}

/// A delivery for each resolved alert and each channel that is told of its opening; of one whose owner wants to hear of
/// recoveries only, for each channel that an opening would have been told.
///
/// # Errors
/// [`StoreError`].
pub async fn resolutions(
    tx: &Transaction<'_>,
    recovered: &[Recovered],
    resolved: &BTreeMap<Uuid, DateTime<Utc>>,
) -> Result<Vec<Delivery>, StoreError> {
    let ids: Vec<_> = recovered.iter().map(|alert| alert.id).collect();
    let openings = alert_delivery::told(tx, &ids).await?;
    let news = recovered.iter().filter(|alert| alert.is_news);
    let routes = Routes::read(tx, news.map(|alert| alert.tenant_id)).await?;
    let mut deliveries = Vec::new();
    for found in recovered {
        let Some(at) = resolved.get(&found.id) else { continue };
        let alert = message::Alert {
            id: found.id,
            job_id: found.job_id,
            job_name: &found.job_name,
            kind: &found.kind,
            cause: &found.cause,
            severity: found.severity,
            labels: &found.labels,
            first: found.first,
            last: found.last,
            count: found.count,
            since: found.first_deadline.unwrap_or(found.first),
            deadline: found.last_deadline.unwrap_or(found.last),
        };
        let body = message::resolved(&alert, found.resolution, *at).body();
        let mut whom = match found.is_news {
            true => routes.told(found.tenant_id, &found.channels, found.severity, &found.labels),
            false => BTreeSet::new(),
        };
        whom.extend(openings.iter().filter(|(alert, _)| *alert == found.id).map(|(_, channel)| *channel));
        deliveries
            .extend(whom.into_iter().map(|channel| delivery(found.id, channel, Event::Resolved, &body)));
    }
    Ok(deliveries)
}
