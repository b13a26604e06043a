//! Jobs: create, get, update, delete. Listing, pausing, triggering, backfilling and explaining them have files of their
//! own.
//!
//! Each call is one transaction, or nothing. A create or delete whose answer was lost may be repeated: it is told that
//! the job exists, or is gone.

use crate::audit;
use crate::definition::{self, Given};
use crate::failure::{Failure, retrying};
use crate::limits::{Asked, Limits};
use crate::references::{self, Known};
use crate::registry::Registry;
use crate::{backfill, idempotency, job_list, pause, revisions, trigger, why};
use rpc::auth::{Caller, Role};
use rpc::v1;
use rpc::v1::job_service_server::JobService;
use schedule::DateSets;
use store::job::{self, Stored};
use store::{Store, job_change};
use tonic::{Request, Response, Status};

#[tonic::async_trait]
impl JobService for Registry {
    async fn create_job(&self, request: Request<v1::CreateJobRequest>) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let job = given(request.into_inner().job)?;
        let given = definition::read(&job);
        let created = retrying(|| create(&self.store, &caller, &given)).await?;
        tracing::info!(job.name = %created.name, job.id = %created.id, actor = caller.token_name, "Created a job");
        Ok(Response::new(message(&self.store, &created).await?))
    }

    async fn get_job(&self, request: Request<v1::GetJobRequest>) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        Ok(Response::new(job_list::get(&self.store, &caller, &request.into_inner().job).await?))
    }

    async fn list_jobs(
        &self,
        request: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        let request = request.into_inner();
        Ok(Response::new(job_list::list(&self.store, &caller, &request).await?))
    }

    async fn update_job(&self, request: Request<v1::UpdateJobRequest>) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let v1::UpdateJobRequest { name, job } = request.into_inner();
        let mut job = given(job)?;
        let found = find(&self.store, &caller, &name).await?;
        let keeps_name = job.name.is_empty();
        if keeps_name {
            job.name.clone_from(&found.name);
        }
        let wanted = Wanted::Whole { given: Box::new(definition::read(&job)), keeps_name };
        let updated = update_and_tell(&self.store, &caller, &found, &wanted).await?;
        Ok(Response::new(updated))
    }

    async fn patch_job(&self, request: Request<v1::PatchJobRequest>) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let v1::PatchJobRequest { name, job, update_mask } = request.into_inner();
        let found = find(&self.store, &caller, &name).await?;
        let wanted = Wanted::Part { given: Box::new(given(job)?), paths: update_mask };
        let updated = update_and_tell(&self.store, &caller, &found, &wanted).await?;
        Ok(Response::new(updated))
    }

    async fn list_revisions(
        &self,
        request: Request<v1::ListRevisionsRequest>,
    ) -> Result<Response<v1::ListRevisionsResponse>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        Ok(Response::new(revisions::list(&self.store, &caller, &request.into_inner()).await?))
    }

    async fn compare_revisions(
        &self,
        request: Request<v1::CompareRevisionsRequest>,
    ) -> Result<Response<v1::CompareRevisionsResponse>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        Ok(Response::new(revisions::compare(&self.store, &caller, &request.into_inner()).await?))
    }

    async fn delete_job(&self, request: Request<v1::DeleteJobRequest>) -> Result<Response<()>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let found = find(&self.store, &caller, &request.into_inner().job).await?;
        let deleted = retrying(|| delete(&self.store, &caller, &found)).await?;
        tracing::info!(
            job.name = %found.name, job.id = %found.id, runs.removed = deleted.removed.len(),
            runs.cancelled = deleted.cancelled.len(), actor = caller.token_name, "Deleted a job"
        );
        Ok(Response::new(()))
    }

    async fn pause_job(&self, request: Request<v1::PauseJobRequest>) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let job = pause::pause(&self.store, &caller, &request.into_inner()).await?;
        Ok(Response::new(message(&self.store, &job).await?))
    }

    async fn resume_job(&self, request: Request<v1::ResumeJobRequest>) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let job = pause::resume(&self.store, &caller, &request.into_inner()).await?;
        Ok(Response::new(message(&self.store, &job).await?))
    }

    async fn trigger_job(
        &self,
        request: Request<v1::TriggerJobRequest>,
    ) -> Result<Response<v1::JobRun>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        self.by_hand.run(caller.tenant_id)?;
        let key = idempotency::key(&request)?;
        Ok(Response::new(trigger::trigger(&self.store, &caller, &request.into_inner(), key).await?))
    }

    async fn backfill_job(
        &self,
        request: Request<v1::BackfillJobRequest>,
    ) -> Result<Response<v1::BackfillJobResponse>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        self.by_hand.backfill(caller.tenant_id)?;
        let key = idempotency::key(&request)?;
        Ok(Response::new(backfill::backfill(&self.store, &caller, &request.into_inner(), key).await?))
    }

    async fn why_job(
        &self,
        request: Request<v1::WhyJobRequest>,
    ) -> Result<Response<v1::WhyJobResponse>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        Ok(Response::new(why::answer(&self.store, &caller, &request.into_inner()).await?))
    }
}

fn given(job: Option<v1::Job>) -> Result<v1::Job, Failure> {
    job.ok_or_else(|| crate::failure::wrong("job", "is missing: give the job's definition"))
}

/// The caller's job of this name or id, unless it was deleted.
///
/// # Errors
/// As [`find_or_deleted`].
pub async fn find(store: &Store, caller: &Caller, name_or_id: &str) -> Result<Stored, Failure> {
    let found = find_or_deleted(store, caller, name_or_id).await?;
    if found.deleted_at.is_none() { Ok(found) } else { Err(not_found(name_or_id)) }
}

/// The caller's job of this name or id; by its id also when it was deleted.
///
/// # Errors
/// [`Failure::NotFound`], the same whether another tenant has such a job or nobody.
pub async fn find_or_deleted(store: &Store, caller: &Caller, name_or_id: &str) -> Result<Stored, Failure> {
    if name_or_id.contains('\0') {
        return Err(not_found(name_or_id)); // PostgreSQL refuses such a text
    }
    let found = job::find(store, caller.tenant_id, name_or_id).await?;
    found.ok_or_else(|| not_found(name_or_id))
}

fn not_found(name_or_id: &str) -> Failure {
    Failure::NotFound { kind: "job", name: name_or_id.to_owned() }
}

/// A stored job as a message.
///
/// # Errors
/// When the dates of its calendars can't be looked up.
pub async fn message(store: &Store, job: &Stored) -> Result<v1::Job, Failure> {
    let dates = references::dates(store, [(job.tenant, &job.definition)]).await?;
    Ok(definition::message(job, &dates))
}

async fn create(store: &Store, caller: &Caller, given: &Given) -> Result<Stored, Failure> {
    let mut client = store.client("create a job").await?;
    let tx = client.begin("create a job").await?;
    let known = Known::hold(&tx, caller, &given.named).await?;
    let at = job_change::now(&tx).await?;
    let owner = definition::new_owner(caller.tenant_id, at);
    let written = given.resolved(&known, None, owner, at).map_err(Failure::Invalid)?;
    let asked = Asked { index: None, definition: &written.definition, before: None, owner };
    Limits::hold(&tx, caller, true).await?.check(&tx, caller, at, &[asked], 1).await?;
    let new = definition::creation(&written, owner, known.dates());
    let created = job_change::create(&tx, caller.tenant_id, at, &caller.token_name, &[new]).await;
    created.map_err(|error| name_taken(error, &written.name))?;
    let event = audit::job_created(&written.name, new.id, &written.definition);
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    tx.commit().await?;
    Ok(definition::created(&new, caller.tenant_id, at))
}

/// What a job is to become.
enum Wanted {
    /// This; by the name that it has by then, if `keeps_name`.
    Whole { given: Box<Given>, keeps_name: bool },
    /// What it is by then, with those fields of `given` that `paths` name.
    Part { given: Box<v1::Job>, paths: Vec<String> },
}

impl Wanted {
    /// As a whole, over the locked `job`.
    fn over(&self, job: &Stored) -> Result<(Given, bool), Failure> {
        match self {
            Self::Whole { given, keeps_name } => Ok(((**given).clone(), *keeps_name)),
            Self::Part { given, paths } => {
                let stored = definition::message(job, &DateSets::default());
                let mut merged = rpc::fields::merge(&stored, given, paths).map_err(Failure::Invalid)?;
                merged.generation = given.generation;
                Ok((definition::read(&merged), false))
            }
        }
    }
}

async fn update_and_tell(
    store: &Store,
    caller: &Caller,
    found: &Stored,
    wanted: &Wanted,
) -> Result<v1::Job, Failure> {
    let updated = retrying(|| update(store, caller, found, wanted)).await?;
    tracing::info!(
        job.name = %updated.name, job.id = %updated.id, job.generation = updated.generation.0,
        actor = caller.token_name, "Updated a job"
    );
    message(store, &updated).await
}

async fn update(store: &Store, caller: &Caller, found: &Stored, wanted: &Wanted) -> Result<Stored, Failure> {
    let mut client = store.client("update a job").await?;
    let tx = client.begin("update a job").await?;
    let locked = job_change::lock(&tx, &[found.id]).await?;
    let job = still_there(locked.jobs, found)?;
    let (given, keeps_name) = wanted.over(&job)?;
    let known = Known::hold(&tx, caller, &given.named).await?;
    let resolved = given.resolved(&known, Some(&job), definition::owner(&job), locked.at);
    let mut written = resolved.map_err(Failure::Invalid)?;
    if keeps_name {
        written.name.clone_from(&job.name); // somebody may have renamed it since it was found
    }
    if let Some(expected) = written.generation.filter(|expected| *expected != job.generation) {
        return Err(Failure::ChangedSince { name: job.name, expected, stored: job.generation });
    }
    let change = definition::change(&job, &written, known.dates(), locked.at);
    let Some(change) = change else { return Ok(job) };
    let asked = Asked {
        index: None,
        definition: &written.definition,
        before: Some(&job.definition),
        owner: definition::owner(&job),
    };
    Limits::hold(&tx, caller, false).await?.check(&tx, caller, locked.at, &[asked], 0).await?;
    let generation = change.generation;
    let changed =
        job_change::change(&tx, locked.at, &caller.token_name, job_change::Action::Changed, &[change]).await;
    changed.map_err(|error| name_taken(error, &written.name))?;
    let event = audit::job_changed(&job, &written, generation);
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    tx.commit().await?;
    Ok(Stored {
        generation,
        updated_at: locked.at,
        name: written.name,
        definition: written.definition,
        broken: None,
        seen_at: locked.at,
        ..job
    })
}

async fn delete(store: &Store, caller: &Caller, found: &Stored) -> Result<job_change::Deleted, Failure> {
    let mut client = store.client("delete a job").await?;
    let tx = client.begin("delete a job").await?;
    let locked = job_change::lock(&tx, &[found.id]).await?;
    let job = still_there(locked.jobs, found)?;
    let deleted = job_change::delete(&tx, locked.at, &caller.token_name, &job).await?;
    let event = audit::job_deleted(&job);
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    tx.commit().await?;
    Ok(deleted)
}

/// The locked job, which somebody may have deleted since it was found.
///
/// # Errors
/// [`Failure::NotFound`].
pub fn still_there(locked: Vec<Stored>, found: &Stored) -> Result<Stored, Failure> {
    let job = locked.into_iter().find(|job| job.id == found.id && job.deleted_at.is_none());
    job.ok_or_else(|| not_found(&found.name))
}

/// Refuses what a paused job does not do.
///
/// # Errors
/// [`Failure::Refused`].
pub fn not_paused(job: &Stored) -> Result<(), Failure> {
    match job.paused {
        None => Ok(()),
        Some(_) => Err(Failure::Refused("the job is paused: resume it first".to_owned())),
    }
}

/// The failure of a write that stores jobs' names.
fn name_taken(error: store::StoreError, name: &str) -> Failure {
    if error.violates(job_change::NAME_TAKEN) {
        Failure::Exists { kind: "job", name: name.to_owned() }
    } else {
        error.into()
    }
}
