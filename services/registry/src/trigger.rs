//! Running a job now, once, beside its schedule: a run of an instant that no occurrence has.

use crate::failure::{Failure, retrying};
use crate::idempotency::Call;
use crate::{audit, jobs, runs};
use model::ids::run_name;
use model::policy::OverlapPolicy;
use rpc::auth::Caller;
use rpc::v1;
use store::job::Stored;
use store::{Store, ledger_floor, manual, partition};

/// Runs a job now, or answers as the first call with this key did.
///
/// # Errors
/// When there is no such job, it is paused, or an open run of it is in the way.
pub async fn trigger(
    store: &Store,
    caller: &Caller,
    request: &v1::TriggerJobRequest,
    key: Option<String>,
) -> Result<v1::JobRun, Failure> {
    let found = jobs::find(store, caller, &request.job).await?;
    let body = v1::TriggerJobRequest { job: String::new(), ..request.clone() };
    let call = Call::new(caller, format!("TriggerJob {}", found.id), key, &body);
    retrying(|| trigger_once(store, caller, &found, request.wait, &call)).await
}

async fn trigger_once(
    store: &Store,
    caller: &Caller,
    found: &Stored,
    wait: bool,
    call: &Call,
) -> Result<v1::JobRun, Failure> {
    let mut client = store.client("run a job now").await?;
    let tx = client.begin("run a job now").await?;
    if let Some(answer) = call.begin(&tx).await? {
        return Ok(answer);
    }
    ledger_floor::hold(&tx).await?;
    let moment = manual::hold(&tx, found.id).await?;
    let job = jobs::still_there(moment.job.into_iter().collect(), found)?;
    jobs::not_paused(&job)?;
    if !partition::days(&tx).await?.contains(&moment.at.date_naive()) {
        let message = "the ledger has no place for today's runs: a ticker makes it, once one leads";
        return Err(Failure::Refused(message.to_owned()));
    }
    // A claim may open a run in the next moment: then this one waits for it, as with `wait`.
    if job.definition.overlap == OverlapPolicy::Forbid
        && !wait
        && let Some(open) = manual::open_run(&tx, job.id).await?
    {
        let open = run_name(&job.name, open.scheduled_for);
        return Err(Failure::Refused(format!(
            "{open} is open, and runs of this job exclude each other: wait for its end, cancel it, or set `wait`"
        )));
    }
    let trace = service::telemetry::traceparent(&tracing::Span::current());
    let run = manual::insert(&tx, &job, moment.at, trace.as_deref()).await?;
    let event = audit::job_triggered(&job, run.scheduled_for);
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    let answer = runs::written(&tx, &job, run.scheduled_for).await?;
    call.answer(&tx, &answer).await?;
    // Crash window: committed and not answered; the caller repeats the call with its key and gets this run.
    tx.commit().await?;
    tracing::info!(
        job.name = %job.name, job.id = %job.id, run.scheduled_for = %run.scheduled_for, actor = caller.token_name,
        "Runs a job now"
    );
    Ok(answer)
}
