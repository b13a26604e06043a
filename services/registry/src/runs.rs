//! Runs: one with its attempts, and as messages. Lists of them and watching them have files of their own.

use crate::failure::Failure;
use crate::registry::Registry;
use crate::{idempotency, jobs, limits, output, rerun, run_list, watch_runs};
use chrono::{DateTime, Utc};
use model::ids::{JobId, RunKey, run_name};
use rpc::auth::{Caller, Role};
use rpc::convert::{run, time};
use rpc::v1;
use rpc::v1::run_service_server::RunService;
use store::history::{self, PastAttempt, Run};
use store::job::Stored;
use store::{Store, Transaction};
use tonic::{Request, Response, Status};

#[tonic::async_trait]
impl RunService for Registry {
    async fn list_runs(
        &self,
        request: Request<v1::ListRunsRequest>,
    ) -> Result<Response<v1::ListRunsResponse>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        Ok(Response::new(run_list::list(&self.store, &caller, &request.into_inner()).await?))
    }

    async fn search_runs(
        &self,
        request: Request<v1::SearchRunsRequest>,
    ) -> Result<Response<v1::ListRunsResponse>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        Ok(Response::new(run_list::search(&self.store, &caller, &request.into_inner()).await?))
    }

    async fn get_run(&self, request: Request<v1::GetRunRequest>) -> Result<Response<v1::JobRun>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        Ok(Response::new(get(&self.store, &caller, &request.into_inner()).await?))
    }

    async fn cancel_run(
        &self,
        request: Request<v1::CancelRunRequest>,
    ) -> Result<Response<v1::JobRun>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        Ok(Response::new(rerun::cancel(&self.store, &caller, &request.into_inner()).await?))
    }

    async fn rerun_run(&self, request: Request<v1::RerunRunRequest>) -> Result<Response<v1::JobRun>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        self.by_hand.run(caller.tenant_id)?;
        let key = idempotency::key(&request)?;
        Ok(Response::new(rerun::rerun(&self.store, &caller, &request.into_inner(), key).await?))
    }

    type WatchRunsStream = watch_runs::Messages;

    async fn watch_runs(
        &self,
        request: Request<v1::WatchRunsRequest>,
    ) -> Result<Response<Self::WatchRunsStream>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        let request = request.into_inner();
        Ok(Response::new(watch_runs::watch(&self.store, &self.watching, &caller, &request).await?))
    }

    type WatchOutputStream = output::Messages;

    async fn watch_output(
        &self,
        request: Request<v1::WatchOutputRequest>,
    ) -> Result<Response<Self::WatchOutputStream>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        let request = request.into_inner();
        Ok(Response::new(output::watch(&self.store, &self.watching, &caller, &request).await?))
    }
}

async fn get(store: &Store, caller: &Caller, request: &v1::GetRunRequest) -> Result<v1::JobRun, Failure> {
    let scheduled_for = time::instant_of_text("scheduledFor", &request.scheduled_for)
        .map_err(|error| Failure::Invalid(vec![error]))?;
    let job = jobs::find_or_deleted(store, caller, &request.job).await?;
    let name = || run_name(&job.name, scheduled_for);
    limits::still_shown(store, caller, scheduled_for, name).await?;
    let found = history::get(store, caller.tenant_id, job.id, scheduled_for).await?;
    let found = found.ok_or_else(|| Failure::NotFound { kind: "run", name: name() })?;
    let attempts = history::attempts(store, caller.tenant_id, job.id, scheduled_for).await?;
    let attempts = attempts.into_iter().map(attempt).collect();
    Ok(v1::JobRun { attempts, ..message(&job, found) })
}

/// A run as the transaction sees it that has just written it, without its attempts.
///
/// # Errors
/// [`Failure::NotFound`].
pub async fn written(
    tx: &Transaction<'_>,
    job: &Stored,
    scheduled_for: DateTime<Utc>,
) -> Result<v1::JobRun, Failure> {
    let found = history::get_in(tx, job.tenant, job.id, scheduled_for).await?;
    let name = || run_name(&job.name, scheduled_for);
    found.map(|found| message(job, found)).ok_or_else(|| Failure::NotFound { kind: "run", name: name() })
}

/// A run of `job` as a message, without its attempts.
pub fn message(job: &Stored, found: Run) -> v1::JobRun {
    message_of(job.id, &job.name, found)
}

/// A run of the job of this identity and name as a message, without its attempts.
pub fn message_of(job: JobId, job_name: &str, found: Run) -> v1::JobRun {
    // Of the first attempt: a later one waited for the end of another, not for us.
    let lateness = found.accepted_at.filter(|_| found.attempt == 1);
    let lateness = lateness.map(|accepted| (accepted - found.due_at).num_milliseconds());
    v1::JobRun {
        name: run_name(job_name, found.scheduled_for),
        job_id: job.to_string(),
        job_name: job_name.to_owned(),
        scheduled_for: Some(time::timestamp(found.scheduled_for)),
        due_time: Some(time::timestamp(found.due_at)),
        state: run::phase(found.phase).into(),
        reason: found.reason.unwrap_or_default(),
        origin: found.origin,
        generation: found.generation.0,
        attempt: found.attempt,
        token: found.token.map(|token| token.to_string()).unwrap_or_default(),
        worker: found.worker.unwrap_or_default(),
        claim_time: found.claimed_at.map(time::timestamp),
        accept_time: found.accepted_at.map(time::timestamp),
        finish_time: found.finished_at.map(time::timestamp),
        lateness_ms: lateness,
        exit_status: found.exit_status,
        output: String::from_utf8_lossy(&found.output).into_owned(),
        error: found.error,
        idempotency_key: RunKey::new(job, found.scheduled_for).idempotency_key(),
        attempts: Vec::new(),
        term: found.term.to_string(),
    }
}

/// An attempt that did not end its run, as a message.
pub fn attempt(past: PastAttempt) -> v1::Attempt {
    v1::Attempt {
        attempt: past.attempt,
        token: past.token.map(|token| token.to_string()).unwrap_or_default(),
        worker: past.worker.unwrap_or_default(),
        state: run::phase(past.state).into(),
        reason: past.reason,
        claim_time: past.claimed_at.map(time::timestamp),
        accept_time: past.accepted_at.map(time::timestamp),
        finish_time: Some(time::timestamp(past.finished_at)),
        exit_status: past.exit_status,
        error: past.error,
    }
}
