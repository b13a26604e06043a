//! Runs: the history of a job, planned runs on demand, and one run with its attempts.

use crate::failure::Failure;
use crate::registry::Registry;
use crate::{idempotency, jobs, output, page, rerun};
use chrono::{DateTime, Utc};
use model::ids::{RunKey, instant_text, run_name};
use model::run::Phase;
use rpc::auth::{Caller, Role};
use rpc::convert::{run, time};
use rpc::v1;
use rpc::v1::run_service_server::RunService;
use store::history::{self, PastAttempt, Run};
use store::job::Stored;
use store::{Store, Transaction};
use tonic::{Request, Response, Status};

/// After every occurrence: schedules end with the year 2199. (PostgreSQL and chrono disagree about their own maxima.)
const END_OF_TIME: DateTime<Utc> = match DateTime::from_timestamp(32_503_680_000, 0) {
    Some(year_3000) => year_3000,
    None => DateTime::UNIX_EPOCH,
};

#[tonic::async_trait]
impl RunService for Registry {
    async fn list_runs(
        &self,
        request: Request<v1::ListRunsRequest>,
    ) -> Result<Response<v1::ListRunsResponse>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        Ok(Response::new(list(&self.store, &caller, &request.into_inner()).await?))
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
        let key = idempotency::key(&request)?;
        Ok(Response::new(rerun::rerun(&self.store, &caller, &request.into_inner(), key).await?))
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

async fn list(
    store: &Store,
    caller: &Caller,
    request: &v1::ListRunsRequest,
) -> Result<v1::ListRunsResponse, Failure> {
    let size = page::size(request.page_size)?;
    let mut phases = run::phases("states", &request.states).map_err(Failure::Invalid)?;
    if phases.is_empty() {
        // A window of a per-second job is over a hundred planned runs: they would hide what happened.
        phases.extend(Phase::ALL.iter().copied().filter(|phase| *phase != Phase::Planned));
    }
    let before = match page::last_key(&request.page_token)? {
        Some(text) => time::instant_of_text("pageToken", &text).map_err(|_| page::bad_token())?,
        None => END_OF_TIME,
    };
    let job = jobs::find_or_deleted(store, caller, &request.job).await?;
    let mut runs = history::page(store, caller.tenant_id, job.id, before, &phases, size as i64 + 1).await?;
    let last = page::cut(&mut runs, size).map(|last| page::token(&instant_text(last.scheduled_for)));
    let runs = runs.into_iter().map(|run| message(&job, run)).collect();
    Ok(v1::ListRunsResponse { runs, next_page_token: last.unwrap_or_default() })
}

async fn get(store: &Store, caller: &Caller, request: &v1::GetRunRequest) -> Result<v1::JobRun, Failure> {
    let scheduled_for = time::instant_of_text("scheduledFor", &request.scheduled_for)
        .map_err(|error| Failure::Invalid(vec![error]))?;
    let job = jobs::find_or_deleted(store, caller, &request.job).await?;
    let found = history::get(store, caller.tenant_id, job.id, scheduled_for).await?;
    let name = || run_name(&job.name, scheduled_for);
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

/// A run as a message, without its attempts.
pub fn message(job: &Stored, found: Run) -> v1::JobRun {
    // Of the first attempt: a later one waited for the end of another, not for us.
    let lateness = found.accepted_at.filter(|_| found.attempt == 1);
    let lateness = lateness.map(|accepted| (accepted - found.due_at).num_milliseconds());
    v1::JobRun {
        name: run_name(&job.name, found.scheduled_for),
        job_id: job.id.to_string(),
        job_name: job.name.clone(),
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
        idempotency_key: RunKey::new(job.id, found.scheduled_for).idempotency_key(),
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
