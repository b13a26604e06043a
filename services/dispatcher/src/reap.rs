//! Ends sessions whose workers are gone, and gives their runs on.
//!
//! Invariant: a session is ended only as it was seen, with its dispatcher and its connection, and that is looked at
//! again under its lock: a worker that resumed meanwhile keeps its runs. Who is gone is decided by the callers.

use crate::conclude;
use crate::shared::{Reaping, Shared};
use model::attempt::Outcome;
use std::collections::BTreeSet;
use std::time::Duration;
use store::worker_session::{self, Seen};
use store::{StoreError, catch_up, run_end, run_lease};

/// Sessions that one transaction ends at most.
const BATCH_MAX: usize = 50;
/// How long ago it may have been decided that a worker is gone.
const DECISION_AGE_MAX: Duration = Duration::from_secs(3);

/// Gives the runs of dead workers on; how many of the sessions were still as they were seen. Those that it does not come
/// to while `leave` is fresh are left for the next look.
///
/// # Errors
/// [`StoreError`]; the batches before it are committed.
pub async fn reap(shared: &Shared, seen: &[Seen], leave: &Reaping<'_>) -> Result<usize, StoreError> {
    let mut reaped = 0;
    for batch in seen.chunks(BATCH_MAX) {
        reaped += end(shared, batch, Outcome::Lost, Some(leave)).await?;
    }
    shared.metrics.reaped(reaped);
    Ok(reaped)
}

/// Ends the session of a worker that says that it has nothing in hand: a run that is leased to it never arrived.
///
/// # Errors
/// [`StoreError`].
pub async fn leave(shared: &Shared, seen: Seen) -> Result<(), StoreError> {
    end(shared, &[seen], Outcome::Undelivered, None).await.map(drop)
}

async fn end(
    shared: &Shared,
    seen: &[Seen],
    outcome: Outcome,
    leave: Option<&Reaping<'_>>,
) -> Result<usize, StoreError> {
    let mut client = shared.store.client("end sessions").await?;
    let tx = client.begin("end sessions").await?;
    let sessions: Vec<_> = seen.iter().map(|seen| seen.session).collect();
    // In the order of locks: backlogs, sessions, leases. Of what they hold, only the look under the lock counts.
    let jobs: Vec<_> = run_lease::jobs_of_sessions(&tx, &sessions).await?.into_iter().collect();
    catch_up::lock(&tx, &jobs).await?;
    let ended = worker_session::end(&tx, seen).await?;
    let sessions: Vec<_> = ended.iter().copied().collect();
    let held = run_lease::lock_of_sessions(&tx, &sessions).await?;
    let named = held.iter().map(|lease| (lease.key.job_id, lease.generation));
    let definitions = shared.definitions.all(&tx, named).await?;
    let conclusions: Vec<_> = held
        .iter()
        .filter_map(|lease| {
            let definition = &definitions.get(&(lease.key.job_id, lease.generation))?.definition;
            Some(conclude::conclude(lease, conclude::resolve(outcome, lease), &definition.retry, None))
        })
        .collect();
    let (ends, retries) = conclude::parted(&conclusions);
    let written: BTreeSet<_> =
        run_end::end(&tx, &ends).await?.into_iter().chain(run_lease::retry(&tx, &retries).await?).collect();
    if leave.is_some_and(|leave| leave.age() > DECISION_AGE_MAX) {
        // We, or the database, stood still since it was decided: they may live by now.
        tracing::warn!(sessions = seen.len(), "Gave nobody on: it took too long since the look");
        return Ok(0);
    }
    tx.commit().await?;

    for conclusion in &conclusions {
        shared.metrics.attempt_ended(conclusion.became());
    }
    for seen in seen {
        shared.roster().forget(seen.session, seen.connection);
        if ended.contains(&seen.session) {
            tracing::info!(session = %seen.session, session.connection = seen.connection, session.outcome = ?outcome, "Ended a session");
        }
    }
    if !written.is_empty() {
        tracing::info!(runs = written.len(), retries = retries.len(), "Gave on the runs of ended sessions");
        shared.work.notify_one();
    }
    Ok(ended.len())
}

#[cfg(test)]
mod tests;
