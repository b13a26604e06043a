//! Cancelling a run, and running an ended one again.

use crate::failure::{Failure, retrying};
use crate::idempotency::Call;
use crate::{audit, jobs, runs};
use chrono::{DateTime, Utc};
use model::ids::{RunKey, run_name};
use model::run::Reason;
use rpc::auth::Caller;
use rpc::convert::time;
use rpc::v1;
use store::job::Stored;
use store::run_cancel::{self, Cancelled};
use store::run_rerun::{self, Rerun};
use store::{Store, ledger_floor, manual};

/// Cancels an open run; the run as it is then: ended, or running until its worker has stopped it.
///
/// # Errors
/// When there is no such run, or it has ended.
pub async fn cancel(
    store: &Store,
    caller: &Caller,
    request: &v1::CancelRunRequest,
) -> Result<v1::JobRun, Failure> {
    let scheduled_for = instant(&request.scheduled_for)?;
    let job = jobs::find_or_deleted(store, caller, &request.job).await?;
    retrying(|| cancel_once(store, caller, &job, scheduled_for)).await
}

/// Runs an ended run again; the run as it is then. Or answers as the first call with this key did.
///
/// # Errors
/// When there is no such run, it has not ended, its job is paused, or an open run is in the way.
pub async fn rerun(
    store: &Store,
    caller: &Caller,
    request: &v1::RerunRunRequest,
    key: Option<String>,
) -> Result<v1::JobRun, Failure> {
    let scheduled_for = instant(&request.scheduled_for)?;
    let found = jobs::find(store, caller, &request.job).await?;
    let route = format!("RerunRun {}", RunKey::new(found.id, scheduled_for).idempotency_key());
    let call = Call::new(caller, route, key, &v1::RerunRunRequest::default());
    retrying(|| rerun_once(store, caller, &found, scheduled_for, &call)).await
}

fn instant(text: &str) -> Result<DateTime<Utc>, Failure> {
    time::instant_of_text("scheduledFor", text).map_err(|error| Failure::Invalid(vec![error]))
}

async fn cancel_once(
    store: &Store,
    caller: &Caller,
    job: &Stored,
    scheduled_for: DateTime<Utc>,
) -> Result<v1::JobRun, Failure> {
    let mut client = store.client("cancel a run").await?;
    let tx = client.begin("cancel a run").await?;
    let cancelled = run_cancel::cancel(&tx, RunKey::new(job.id, scheduled_for), Reason::Requested).await?;
    let run = runs::written(&tx, job, scheduled_for).await?;
    if cancelled == Cancelled::NotOpen {
        return match run.finish_time {
            Some(_) => {
                let state = run.state().as_str_name().to_lowercase();
                Err(Failure::Refused(format!("{} has ended already: it is {state}", run.name)))
            }
            None => Err(Failure::Overtaken), // it has moved on between two looks
        };
    }
    let event = audit::run("run.cancel", job, scheduled_for);
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    tx.commit().await?;
    tracing::info!(
        job.name = %job.name, job.id = %job.id, run.scheduled_for = %scheduled_for, actor = caller.token_name,
        run.ended = cancelled == Cancelled::Ended, "Cancelled a run"
    );
    Ok(run)
}

async fn rerun_once(
    store: &Store,
    caller: &Caller,
    found: &Stored,
    scheduled_for: DateTime<Utc>,
    call: &Call,
) -> Result<v1::JobRun, Failure> {
    let mut client = store.client("run a run again").await?;
    let tx = client.begin("run a run again").await?;
    if let Some(answer) = call.begin(&tx).await? {
        return Ok(answer);
    }
    ledger_floor::hold(&tx).await?;
    let moment = manual::hold(&tx, found.id).await?;
    let job = jobs::still_there(moment.job.into_iter().collect(), found)?;
    jobs::not_paused(&job)?;
    let name = run_name(&job.name, scheduled_for);
    let attempt = match run_rerun::rerun(&tx, RunKey::new(job.id, scheduled_for), moment.at).await? {
        Rerun::Queued { attempt } => attempt,
        Rerun::NoRun => return Err(Failure::NotFound { kind: "run", name }),
        Rerun::NotEnded => return Err(Failure::Refused(format!("{name} has not ended: cancel it first"))),
        Rerun::Blocked { by } => {
            let open = run_name(&job.name, by.scheduled_for);
            return Err(Failure::Refused(format!(
                "{open} is open, and runs of this job exclude each other: wait for its end, or cancel it"
            )));
        }
    };
    let event = audit::run("run.rerun", &job, scheduled_for);
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    let answer = runs::written(&tx, &job, scheduled_for).await?;
    call.answer(&tx, &answer).await?;
    tx.commit().await?;
    tracing::info!(
        job.name = %job.name, job.id = %job.id, run.scheduled_for = %scheduled_for, run.attempt = attempt,
        actor = caller.token_name, "Runs a run again"
    );
    Ok(answer)
}
