//! What a job was: every definition that it had, who put it in force, and what changed between two of them.

use crate::failure::{Failure, wrong};
use crate::{jobs, page};
use model::ids::Generation;
use rpc::auth::Caller;
use rpc::convert::job::{Facts, write};
use rpc::convert::time;
use rpc::fields::{self, Difference};
use rpc::v1;
use store::Store;
use store::job::Stored;
use store::job_revision::{self, Past};

/// A page of a job's revisions, the latest first, each with what it changed.
///
/// # Errors
/// [`Failure::NotFound`] and [`Failure::Invalid`].
pub async fn list(
    store: &Store,
    caller: &Caller,
    request: &v1::ListRevisionsRequest,
) -> Result<v1::ListRevisionsResponse, Failure> {
    let size = page::size(request.page_size)?;
    let before = match page::last_key(&request.page_token)? {
        Some(text) => Generation(text.parse().map_err(|_| page::bad_token())?),
        None => Generation(i64::MAX),
    };
    let job = jobs::find_or_deleted(store, caller, &request.job).await?;
    // One more, which the last of the page is compared with.
    let mut found = job_revision::page(store, job.id, before, size as i64 + 1).await?;
    let oldest = found.get(size).cloned();
    let token = page::cut(&mut found, size).map(|last| page::token(&last.generation.0.to_string()));
    let earlier = found.iter().skip(1).chain(oldest.as_ref()).map(Some).chain([None]);
    let revisions = found.iter().zip(earlier).map(|(revision, earlier)| {
        let changes = earlier.map(|earlier| changes(&job, earlier, revision)).unwrap_or_default();
        message(&job, revision, changes)
    });
    Ok(v1::ListRevisionsResponse {
        revisions: revisions.collect(),
        next_page_token: token.unwrap_or_default(),
    })
}

/// What changed between two revisions of a job.
///
/// # Errors
/// [`Failure::NotFound`] and [`Failure::Invalid`].
pub async fn compare(
    store: &Store,
    caller: &Caller,
    request: &v1::CompareRevisionsRequest,
) -> Result<v1::CompareRevisionsResponse, Failure> {
    let job = jobs::find_or_deleted(store, caller, &request.job).await?;
    let to = if request.to == 0 { job.generation.0 } else { request.to };
    let from = if request.from == 0 { to - 1 } else { request.from };
    let (before, after) = (one(store, &job, "from", from).await?, one(store, &job, "to", to).await?);
    for (field, revision) in [("from", &before), ("to", &after)] {
        if let Err(problem) = &revision.definition {
            return Err(wrong(field, format!("the definition can't be read: {problem}")));
        }
    }
    let changes = changes(&job, &before, &after);
    Ok(v1::CompareRevisionsResponse { from: before.generation.0, to: after.generation.0, changes })
}

async fn one(store: &Store, job: &Stored, field: &str, generation: i64) -> Result<Past, Failure> {
    let found = job_revision::page(store, job.id, Generation(generation.saturating_add(1)), 1).await?;
    let exact = found.into_iter().find(|revision| revision.generation.0 == generation);
    exact
        .ok_or_else(|| wrong(field, format!("{generation}: the job has generations 1 to {}", job.generation)))
}

fn changes(job: &Stored, before: &Past, after: &Past) -> Vec<v1::FieldChange> {
    match (definition(job, before), definition(job, after)) {
        (Some(before), Some(after)) => fields::differences(&before, &after).into_iter().map(change).collect(),
        _ => Vec::new(),
    }
}

/// A difference as a message.
pub fn change(difference: Difference) -> v1::FieldChange {
    let Difference { field, before, after } = difference;
    v1::FieldChange { field, before, after }
}

fn message(job: &Stored, revision: &Past, changes: Vec<v1::FieldChange>) -> v1::Revision {
    v1::Revision {
        generation: revision.generation.0,
        in_force_from: Some(time::timestamp(revision.in_force_from)),
        action: v1::revision::Action::from_str_name(&revision.action).unwrap_or_default().into(),
        author: revision.author.clone(),
        reason: revision.reason.clone(),
        paused: revision.paused,
        job: definition(job, revision),
        changes,
        broken: revision.definition.as_ref().err().cloned().unwrap_or_default(),
    }
}

/// The job as the revision has it; names are no part of revisions.
fn definition(job: &Stored, revision: &Past) -> Option<v1::Job> {
    let definition = revision.definition.as_ref().ok()?;
    let facts = Facts {
        id: job.id,
        name: job.name.clone(),
        generation: revision.generation,
        created_at: job.created_at,
        updated_at: revision.in_force_from,
        next_fire_at: None,
        broken: None,
        paused: revision.paused.then(|| (revision.in_force_from, revision.reason.clone())),
    };
    Some(write(definition, facts))
}
