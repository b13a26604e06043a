//! Jobs as people look for them: filtered, in one of three orders, a page at a time.
//!
//! Invariant: a job whose stored definition can't be read is shown as broken, and keeps no other one out.

use crate::failure::{Failure, wrong};
use crate::{definition, page, references};
use chrono::{DateTime, Utc};
use model::ids::{JobId, instant_text};
use model::validate::FieldError;
use rpc::auth::Caller;
use rpc::convert::time;
use rpc::v1;
use rpc::v1::list_jobs_request::Order;
use schedule::DateSets;
use std::collections::BTreeMap;
use store::Store;
use store::job::{self, Filter, Listed, Unreadable};

/// Labels that a filter names at most.
const LABELS_MAX: usize = 16;

/// One job, also when its stored definition can't be read.
///
/// # Errors
/// [`Failure::NotFound`], the same whether another tenant has such a job or nobody.
pub async fn get(store: &Store, caller: &Caller, name_or_id: &str) -> Result<v1::Job, Failure> {
    let missing = || Failure::NotFound { kind: "job", name: name_or_id.to_owned() };
    if name_or_id.contains('\0') {
        return Err(missing()); // PostgreSQL refuses such a text
    }
    let found = job::look(store, caller.tenant_id, name_or_id).await?.ok_or_else(missing)?;
    let deleted = match &found {
        Listed::Sound(job) => job.deleted_at,
        Listed::Unreadable(job) => job.deleted_at,
    };
    if deleted.is_some() {
        return Err(missing());
    }
    let dates = dates(store, std::slice::from_ref(&found)).await?;
    Ok(message(&found, &dates))
}

/// A page of the caller's jobs.
///
/// # Errors
/// [`Failure::Invalid`] with every filter that is wrong.
pub async fn list(
    store: &Store,
    caller: &Caller,
    request: &v1::ListJobsRequest,
) -> Result<v1::ListJobsResponse, Failure> {
    let size = page::size(request.page_size)?;
    let (filter, order) = asked(request).map_err(Failure::Invalid)?;
    let kind = format!("{order:?} {filter:?}");
    let after = page::last_key_of(&kind, &request.page_token)?;
    let (tenant, limit) = (caller.tenant_id, size as i64 + 1);
    let mut jobs: Vec<(Listed, String)> = match order {
        Order::UpdateTime => {
            let after = after.as_deref().map(keyset).transpose()?;
            let jobs = job::page_by_update(store, tenant, &filter, after, limit).await?;
            jobs.into_iter().map(|job| (key(job.updated_at(), job.id()), job)).map(swap).collect()
        }
        Order::NextFireTime => {
            let after = after.as_deref().map(keyset).transpose()?;
            let jobs = job::page_by_next(store, tenant, &filter, after, limit).await?;
            jobs.into_iter().map(|(job, next)| (key(next, job.id()), job)).map(swap).collect()
        }
        Order::Name | Order::Unspecified => {
            let after = after.unwrap_or_default();
            let jobs = job::page(store, tenant, &filter, &after, limit).await?;
            jobs.into_iter().map(|job| (job.name().to_owned(), job)).map(swap).collect()
        }
    };
    let next_page_token = page::cut(&mut jobs, size).map(|(_, last)| page::token_of(&kind, last));
    let jobs: Vec<Listed> = jobs.into_iter().map(|(job, _)| job).collect();
    let dates = dates(store, &jobs).await?;
    let jobs = jobs.iter().map(|job| message(job, &dates)).collect();
    Ok(v1::ListJobsResponse { jobs, next_page_token: next_page_token.unwrap_or_default() })
}

fn swap((key, job): (String, Listed)) -> (Listed, String) {
    (job, key)
}

/// What is asked for, and everything that is wrong with it.
fn asked(request: &v1::ListJobsRequest) -> Result<(Filter, Order), Vec<FieldError>> {
    let mut errors = Vec::new();
    let order = Order::try_from(request.order).unwrap_or_else(|_| {
        errors.push(FieldError::new("order", "use NAME, NEXT_FIRE_TIME or UPDATE_TIME"));
        Order::Unspecified
    });
    let (labels, keys) = labels("labels", &request.labels, &mut errors);
    part_of_name("namePrefix", &request.name_prefix, &mut errors);
    let queue = queue(&request.queue, &mut errors);
    let filter = Filter { prefix: request.name_prefix.clone(), queue, paused: request.paused, labels, keys };
    if errors.is_empty() { Ok((filter, order)) } else { Err(errors) }
}

/// The queue that is named, if one is.
pub fn queue(given: &str, errors: &mut Vec<FieldError>) -> Option<String> {
    part_of_name("queue", given, errors);
    (!given.is_empty()).then(|| given.to_owned())
}

fn part_of_name(field: &str, text: &str, errors: &mut Vec<FieldError>) {
    if text.contains('\0') || text.len() > 63 {
        errors.push(FieldError::new(field, "use at most 63 characters of a-z, 0-9, '.', '_', '-'"));
    }
}

/// Labels as people name them, `team=billing`, or `team` for any value.
pub fn labels(
    field: &str,
    given: &[String],
    errors: &mut Vec<FieldError>,
) -> (BTreeMap<String, String>, Vec<String>) {
    let (mut labels, mut keys) = (BTreeMap::new(), Vec::new());
    if given.len() > LABELS_MAX {
        errors.push(FieldError::new(field, format!("{} of them: use at most {LABELS_MAX}", given.len())));
    }
    for (index, text) in given.iter().take(LABELS_MAX).enumerate() {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (text.as_str(), None),
        };
        let problem = match value {
            _ if key.is_empty() || text.contains('\0') => "use key=value, or key for any value",
            Some(value) if labels.get(key).is_some_and(|other| other != value) => {
                "asks for a second value of this label: a job has one"
            }
            Some(value) => {
                labels.insert(key.to_owned(), value.to_owned());
                continue;
            }
            None => {
                keys.push(key.to_owned());
                continue;
            }
        };
        errors.push(FieldError::new(format!("{field}[{index}]"), format!("{text:?}: {problem}")));
    }
    (labels, keys)
}

fn key(at: DateTime<Utc>, id: JobId) -> String {
    format!("{} {id}", instant_text(at))
}

fn keyset(key: &str) -> Result<(DateTime<Utc>, JobId), Failure> {
    let (at, id) = key.split_once(' ').ok_or_else(page::bad_token)?;
    let at = time::instant_of_text("pageToken", at).map_err(|_| page::bad_token())?;
    Ok((at, id.parse().map_err(|_| wrong("pageToken", "is not one that an answer held"))?))
}

async fn dates(store: &Store, jobs: &[Listed]) -> Result<DateSets, Failure> {
    let sound = jobs.iter().filter_map(|job| match job {
        Listed::Sound(job) => Some((job.tenant, &job.definition)),
        Listed::Unreadable(_) => None,
    });
    references::dates(store, sound).await
}

fn message(job: &Listed, dates: &DateSets) -> v1::Job {
    match job {
        Listed::Sound(job) => definition::message(job, dates),
        Listed::Unreadable(job) => unreadable(job),
    }
}

fn unreadable(job: &Unreadable) -> v1::Job {
    v1::Job {
        id: job.id.to_string(),
        name: job.name.clone(),
        generation: job.generation.0,
        create_time: Some(time::timestamp(job.created_at)),
        update_time: Some(time::timestamp(job.updated_at)),
        broken: format!("the stored definition can't be read: {}", job.problem),
        paused: job.paused.is_some(),
        pause_time: job.paused.as_ref().map(|paused| time::timestamp(paused.since)),
        pause_reason: job.paused.as_ref().map(|paused| paused.reason.clone()).unwrap_or_default(),
        ..v1::Job::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_pairs_or_keys_and_each_wrong_one_is_named() {
        let given = ["team=billing", "tier", "team=billing", "=x", "", "team=other"].map(str::to_owned);
        let mut errors = Vec::new();
        let (labels, keys) = labels("labels", &given, &mut errors);
        assert_eq!(labels, [("team".to_owned(), "billing".to_owned())].into());
        assert_eq!(keys, ["tier"]);
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["labels[3]", "labels[4]", "labels[5]"]);
    }
}
