//! Why: what is or was to happen at any instant, past or future, by what is recorded and by the definition in force
//! then.
//!
//! What lies further back than the caller's tenant sees is answered from definitions alone.
//!
//! Invariant: an occurrence of which nothing is recorded is one to come, of a pause, or older than the ledger
//! or than what the tenant sees; else the answer is that nothing is known (`every_occurrence_is_accounted_for`, in the end-to-end tests).

mod finding;
mod instant;
mod text;

use crate::failure::Failure;
use crate::status::ALIVE_WITHIN;
use crate::{jobs, limits, runs};
use finding::{Answer, Finding};
use model::ids::run_name;
use model::policy::MisfirePolicy;
use rpc::auth::Caller;
use rpc::convert::time;
use rpc::v1;
use rpc::v1::why_job_response::Answer as Word;
use schedule::{DateSets, Schedule};
use store::Store;
use store::job::Stored;
use store::why::{Found, Missed, Record};

/// Says what is or was to happen at an instant.
///
/// # Errors
/// When the tenant has no such job, the time is none, or the database can't be asked.
pub async fn answer(
    store: &Store,
    caller: &Caller,
    request: &v1::WhyJobRequest,
) -> Result<v1::WhyJobResponse, Failure> {
    let job = jobs::find_or_deleted(store, caller, &request.job).await?;
    let asked =
        instant::read(&request.time, &job.definition).map_err(|error| Failure::Invalid(vec![error]))?;
    let mut record = store::why::read(store, caller.tenant_id, job.id, asked.at, ALIVE_WITHIN).await?;
    let shown = limits::is_shown(store, caller, asked.at).await?;
    if !shown {
        (record.run, record.missed) = (None, None);
    }
    let mut dates = DateSets::default();
    for (version, found) in &record.dates {
        dates.add(version.clone(), found.iter().copied());
    }
    let mut answer = finding::find(&job, &record, &dates, asked.at);
    if !shown && matches!(answer.finding, Finding::TooOld | Finding::Nothing) {
        answer.finding = Finding::NotShown;
    }
    Ok(message(&job, &record, &asked, &answer))
}

fn message(job: &Stored, record: &Record, asked: &instant::Asked, answer: &Answer<'_>) -> v1::WhyJobResponse {
    let at = asked.at;
    let (previous, next) = neighbours(answer.schedule.as_ref(), asked);
    let due_at = match &answer.finding {
        Finding::ToBePlanned { due_at, .. } => Some(*due_at),
        _ => None,
    };
    v1::WhyJobResponse {
        job_id: job.id.to_string(),
        job_name: job.name.clone(),
        time: Some(time::timestamp(at)),
        local_time: text::local(answer.schedule.as_ref(), at),
        answer: word(&answer.finding).into(),
        explanation: text::explain(&run_name(&job.name, at), record, asked, answer),
        run: match &answer.finding {
            Finding::Run(found) => Some(run(job, found)),
            _ => None,
        },
        missed: match &answer.finding {
            Finding::Missed(found) => Some(missed(found)),
            _ => None,
        },
        due_time: due_at.map(time::timestamp),
        generation: answer.revision.map_or(0, |revision| revision.generation.0),
        previous_time: previous.map(time::timestamp),
        next_time: next.map(time::timestamp),
    }
}

/// The occurrences before and after the instant by the definition in force then.
fn neighbours(
    schedule: Option<&Schedule>,
    asked: &instant::Asked,
) -> (Option<chrono::DateTime<chrono::Utc>>, Option<chrono::DateTime<chrono::Utc>>) {
    let Some(schedule) = schedule else { return (None, None) };
    let before = asked.at.checked_sub_signed(chrono::TimeDelta::nanoseconds(1));
    (before.and_then(|before| schedule.previous(before)), schedule.next(asked.at))
}

const fn word(finding: &Finding<'_>) -> Word {
    match finding {
        Finding::Run(_) => Word::Run,
        Finding::Missed(_) => Word::Missed,
        Finding::ToBePlanned { .. } => Word::ToBePlanned,
        Finding::Not(_) => Word::NotAnOccurrence,
        Finding::Paused { .. } => Word::Paused,
        Finding::NotYet | Finding::Deleted => Word::NoJob,
        Finding::Unusable(_) | Finding::TooOld | Finding::NotShown | Finding::Nothing => Word::Unknown,
    }
}

fn run(job: &Stored, found: &Found) -> v1::JobRun {
    let attempts = found.attempts.iter().cloned().map(runs::attempt).collect();
    v1::JobRun { attempts, ..runs::message(job, found.run.clone()) }
}

fn missed(found: &Missed) -> v1::Missed {
    let policy = match found.policy {
        MisfirePolicy::Skip => v1::misfire::Policy::Skip,
        MisfirePolicy::Once => v1::misfire::Policy::Once,
        MisfirePolicy::CatchUp => v1::misfire::Policy::CatchUp,
    };
    v1::Missed {
        first: Some(time::timestamp(found.first)),
        last: Some(time::timestamp(found.last)),
        count: found.count,
        cause: found.cause.to_string(),
        outcome: found.outcome.to_string(),
        policy: policy.into(),
        term: found.term.to_string(),
        ticker: found.ticker.clone().unwrap_or_default(),
        record_time: Some(time::timestamp(found.recorded_at)),
    }
}
