//! Pausing and resuming a job. Both may be repeated: what is so already stays as it is.

use crate::failure::{Failure, retrying, wrong};
use crate::{audit, jobs, occurrences};
use rpc::auth::Caller;
use rpc::v1;
use store::job::{Paused, Stored};
use store::{Store, job_change};

/// The longest reason, in characters.
const REASON_CHARS_MAX: usize = 256;

/// Pauses a job; the job as it is then.
///
/// # Errors
/// When there is no such job, or the reason is none.
pub async fn pause(store: &Store, caller: &Caller, request: &v1::PauseJobRequest) -> Result<Stored, Failure> {
    let reason = reason(&request.reason)?;
    let found = jobs::find(store, caller, &request.job).await?;
    retrying(|| pause_once(store, caller, &found, reason)).await
}

/// Resumes a job; the job as it is then.
///
/// # Errors
/// When there is no such job.
pub async fn resume(
    store: &Store,
    caller: &Caller,
    request: &v1::ResumeJobRequest,
) -> Result<Stored, Failure> {
    let found = jobs::find(store, caller, &request.job).await?;
    retrying(|| resume_once(store, caller, &found, request.catch_up)).await
}

fn reason(text: &str) -> Result<&str, Failure> {
    if text.chars().count() > REASON_CHARS_MAX {
        return Err(wrong("reason", format!("is too long: use at most {REASON_CHARS_MAX} characters")));
    }
    if text.contains('\0') {
        return Err(wrong("reason", "contains a NUL character: leave it out"));
    }
    Ok(text)
}

async fn pause_once(store: &Store, caller: &Caller, found: &Stored, reason: &str) -> Result<Stored, Failure> {
    let mut client = store.client("pause a job").await?;
    let tx = client.begin("pause a job").await?;
    let locked = job_change::lock(&tx, &[found.id]).await?;
    let job = jobs::still_there(locked.jobs, found)?;
    if job.paused.is_some() {
        return Ok(job);
    }
    let (at, author) = (locked.at, caller.token_name.as_str());
    let first = occurrences::first_after(&tx, &job, at).await?;
    let held = job_change::pause(&tx, at, author, &job, first, reason).await?;
    store::audit::record(&tx, caller.tenant_id, author, &[audit::job_paused(&job, reason)]).await?;
    tx.commit().await?;
    tracing::info!(
        job.name = %job.name, job.id = %job.id, runs.removed = held.removed.len(), runs.held = held.held, actor = author,
        "Paused a job"
    );
    let paused = Some(Paused { since: at, reason: reason.to_owned() });
    Ok(Stored { generation: job.generation.next(), updated_at: at, seen_at: at, paused, ..job })
}

async fn resume_once(
    store: &Store,
    caller: &Caller,
    found: &Stored,
    catch_up: bool,
) -> Result<Stored, Failure> {
    let mut client = store.client("resume a job").await?;
    let tx = client.begin("resume a job").await?;
    let locked = job_change::lock(&tx, &[found.id]).await?;
    let job = jobs::still_there(locked.jobs, found)?;
    if job.paused.is_none() {
        return Ok(job);
    }
    let (at, author) = (locked.at, caller.token_name.as_str());
    let first = occurrences::first_after(&tx, &job, at).await?;
    let released = job_change::resume(&tx, at, author, &job, first, catch_up).await?;
    let event = audit::job_resumed(&job, catch_up, released.cancelled.len());
    store::audit::record(&tx, caller.tenant_id, author, &[event]).await?;
    tx.commit().await?;
    tracing::info!(
        job.name = %job.name, job.id = %job.id, runs.cancelled = released.cancelled.len(), runs.released = released.released,
        job.catches_up = catch_up, actor = author, "Resumed a job"
    );
    Ok(Stored { generation: job.generation.next(), updated_at: at, seen_at: at, paused: None, ..job })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_short_text() {
        let longest = "ß".repeat(REASON_CHARS_MAX);
        for sound in ["", "maintenance", &longest] {
            assert_eq!(reason(sound).ok(), Some(sound));
        }
        for unsound in [format!("{longest}ß"), "\0".to_owned()] {
            assert!(matches!(reason(&unsound), Err(Failure::Invalid(_))), "{unsound:?}");
        }
    }
}
