//! Whom an alert's opening and end are told, as rows for the outbox.
//!
//! An opening goes to the channels that the job's present definition names, an end to those that were told of the
//! opening. What receivers read is [`crate::message`]'s.

use super::{KIND, Miss};
use crate::message;
use chrono::{DateTime, Utc};
use model::ids::{JobId, TenantId};
use std::collections::{BTreeMap, BTreeSet};
use store::alert::{Complaint, Recovered};
use store::alert_delivery::{Delivery, Event};
use store::watch_cursor::Cursor;
use store::{StoreError, Transaction, alert_delivery};
use uuid::Uuid;

/// A delivery for each opened alert and each channel that the job's present definition names.
pub async fn openings(
    tx: &Transaction<'_>,
    complaints: &[Complaint],
    opened: &BTreeMap<Uuid, DateTime<Utc>>,
    grouped: &BTreeMap<JobId, Vec<&Miss>>,
    cursors: &BTreeMap<JobId, &Cursor>,
) -> Result<Vec<Delivery>, StoreError> {
    let opened: Vec<_> = complaints
        .iter()
        .filter_map(|complaint| {
            let route = Route::of(cursors.get(&complaint.job_id)?);
            Some((complaint, *opened.get(&complaint.id)?, grouped.get(&complaint.job_id)?, route))
        })
        .collect();
    let names: BTreeSet<(TenantId, &str)> = opened
        .iter()
        .flat_map(|(complaint, _, _, route)| {
            route.channels.iter().map(|name| (complaint.tenant_id, name.as_str()))
        })
        .collect();
    let names: Vec<_> = names.into_iter().collect();
    let channels = alert_delivery::channels(tx, &names).await?;
    let mut deliveries = Vec::new();
    for (complaint, opened_at, misses, route) in opened {
        let (Some(first), Some(last)) = (misses.first(), misses.last()) else { continue };
        let alert = message::Alert {
            id: complaint.id,
            job_id: complaint.job_id,
            job_name: route.job_name,
            kind: KIND,
            cause: complaint.cause,
            first: complaint.first,
            last: complaint.last,
            count: complaint.count,
            since: first.verdict.deadline,
            deadline: last.verdict.deadline,
        };
        let body = message::opened(&alert, &complaint.detail, route.queue, opened_at).body();
        let found = route.channels.iter().map(|name| channels.get(&(complaint.tenant_id, name.clone())));
        let told: BTreeSet<_> = found.flatten().copied().collect();
        tracing::warn!(
            job.name = route.job_name,
            job.id = %complaint.job_id,
            alert.id = %complaint.id,
            alert.cause = %complaint.cause,
            run.scheduled_for = %complaint.last,
            channels.named = route.channels.len(),
            channels.told = told.len(),
            "A job has no success by its deadline"
        );
        deliveries
            .extend(told.into_iter().map(|channel| delivery(complaint.id, channel, Event::Opened, &body)));
    }
    Ok(deliveries)
}

/// Whom to tell, by the job's present definition: who answers for it now, not who did at the occurrence.
struct Route<'a> {
    job_name: &'a str,
    queue: &'a str,
    channels: &'a [String],
}

impl<'a> Route<'a> {
    fn of(cursor: &'a Cursor) -> Self {
        let readable = cursor.revisions.iter().rev().find_map(|revision| revision.definition.as_ref().ok());
        Self {
            job_name: &cursor.name,
            queue: readable.map_or("", |definition| definition.queue.as_str()),
            channels: readable.map_or(&[], |definition| definition.alert.channels.as_slice()),
        }
    }
}

fn delivery(alert_id: Uuid, channel_id: Uuid, event: Event, body: &str) -> Delivery {
    Delivery { id: Uuid::new_v4(), alert_id, channel_id, event, body: body.to_owned() }
}

/// A delivery for each resolved alert and each channel that is told of its opening.
pub fn resolutions(
    recovered: &[Recovered],
    resolved: &BTreeMap<Uuid, DateTime<Utc>>,
    told: &[(Uuid, Uuid)],
) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    for found in recovered {
        let Some(at) = resolved.get(&found.id) else { continue };
        let alert = message::Alert {
            id: found.id,
            job_id: found.job_id,
            job_name: &found.job_name,
            kind: KIND,
            cause: found.cause,
            first: found.first,
            last: found.last,
            count: found.count,
            since: found.first_deadline.unwrap_or(found.first),
            deadline: found.last_deadline.unwrap_or(found.last),
        };
        let body = message::resolved(&alert, found.resolution, *at).body();
        let channels = told.iter().filter(|(alert, _)| *alert == found.id);
        deliveries
            .extend(channels.map(|(alert, channel)| delivery(*alert, *channel, Event::Resolved, &body)));
    }
    deliveries
}
