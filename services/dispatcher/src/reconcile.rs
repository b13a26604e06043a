//! Compares what the database says that our workers hold with what we believe and what they say, and heals the
//! difference: an assignment that never arrived, a claim whose commit was not answered, a run that is no longer ours.
//!
//! Order matters: the roster, with each worker's last list, is looked at first, then the database. A run stays in its
//! worker's list until its end is recorded, so a lease that is read after a list without it was never received. Claims
//! are kept out meanwhile: a lease that is being handed out would look like one that was lost.
//!
//! Invariant: nothing is sent with a token of an older epoch. A database that was restored, or that took over behind the one
//! before, has leases of runs that have ended, and tokens below what a downstream has seen; a worker that lacks such a run
//! gets it, or another does, with a new token.

use crate::epoch;
use crate::finish::{Event, Report};
use crate::message;
use crate::roster::View;
use crate::shared::Shared;
use crate::steady;
use model::attempt::Outcome;
use model::ids::{RunKey, SessionId};
use model::run::Reason;
use rpc::convert::run::AttemptRef;
use service::health::Beat;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};
use store::StoreError;
use store::run_lease::{self, Lease, assignment};
use store::worker_session::{self, Seen};
use tokio_util::sync::CancellationToken;

/// Compares until `stop`.
pub async fn run(shared: &Shared, beat: Beat, stop: CancellationToken) {
    let every = Duration::from_millis(shared.config.reconcile_ms);
    loop {
        beat.beat();
        tokio::select! {
            () = stop.cancelled() => break,
            () = shared.reconcile.notified() => {}
            () = tokio::time::sleep(every) => {}
        }
        if let Err(error) = run_once(shared).await {
            shared.metrics.failed("reconcile");
            tracing::warn!(error = service::runtime::chain(&error), "Could not compare the leases");
        }
        // A worker that lacks a run says so in every heartbeat: not more often than that.
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(every.min(Duration::from_millis(200))) => {}
        }
    }
    beat.done();
}

/// One comparison of all sessions; none while the clock can't be believed, because it says what is overdue.
///
/// # Errors
/// [`StoreError`].
pub async fn run_once(shared: &Shared) -> Result<(), StoreError> {
    if !steady::may_go_on(shared).await? {
        return Ok(());
    }
    let _claiming = shared.claiming.lock().await;
    let view = shared.roster().view();
    let sessions = worker_session::of_dispatcher(&shared.store, shared.id).await?;
    let ids: Vec<SessionId> = sessions.iter().map(|seen| seen.session).collect();
    let leases = match ids.is_empty() {
        true => Vec::new(),
        false => run_lease::of_sessions(&shared.store, &ids, shared.terms.stop_grace()).await?,
    };
    let epoch = epoch::in_use(&shared.store).await?;
    let plan = compare(&view, &sessions, &leases, epoch);
    perform(shared, plan).await
}

/// What heals the differences.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    /// Ours in the database and unknown here: their workers are missed from now on.
    miss: Vec<Seen>,
    /// Known here and no longer ours.
    forget: Vec<(SessionId, i32)>,
    /// To be sent, or sent again, on the connection for which that was found.
    deliver: BTreeMap<(SessionId, i32), BTreeSet<RunKey>>,
    /// Believed to be held, and not leased.
    release: Vec<(SessionId, AttemptRef)>,
    /// To be told to stop, and why.
    cancel: Vec<(SessionId, AttemptRef, &'static str)>,
    /// Over without their workers' word.
    end: Vec<(SessionId, AttemptRef, Outcome)>,
}

/// Decides, from what was believed before the leases were read. Without an `epoch` in use nothing is sent yet.
fn compare(view: &HashMap<SessionId, View>, sessions: &[Seen], leases: &[Lease], epoch: Option<u32>) -> Plan {
    let mut plan = Plan::default();
    let ours: HashMap<SessionId, i32> = sessions.iter().map(|seen| (seen.session, seen.connection)).collect();
    plan.miss = sessions.iter().filter(|seen| !view.contains_key(&seen.session)).copied().collect();
    for (id, session) in view {
        if ours.get(id) != Some(&session.connection) {
            plan.forget.push((*id, session.connection));
        }
    }
    let mut leased: BTreeSet<(SessionId, RunKey, i32)> = BTreeSet::new();
    for lease in leases {
        let Some(id) = lease.session else { continue };
        leased.insert((id, lease.key, lease.attempt));
        let Some(session) = view.get(&id).filter(|session| session.connection == lease.connection) else {
            continue;
        };
        compare_lease(&mut plan, id, session, lease, epoch);
    }
    for (id, session) in view {
        let gone = session
            .held
            .values()
            .filter(|held| !leased.contains(&(*id, held.attempt.key, held.attempt.attempt)));
        plan.release.extend(gone.map(|held| (*id, held.attempt)));
    }
    plan
}

fn compare_lease(plan: &mut Plan, id: SessionId, session: &View, lease: &Lease, epoch: Option<u32>) {
    let attempt = message::attempt_of(lease);
    if lease.given_up {
        let outcome = lease.cancel.map_or(Outcome::TimedOut, Outcome::Cancelled);
        plan.end.push((id, attempt, outcome));
        return;
    }
    let mut lacking = |again: u32| match epoch {
        None => {}
        Some(epoch) if again == 0 && epoch::is_current(lease.token, epoch) => {
            plan.deliver.entry((id, session.connection)).or_default().insert(lease.key);
        }
        Some(_) => plan.end.push((id, attempt, Outcome::Undelivered)),
    };
    match session.held.get(&lease.key).filter(|held| held.attempt == attempt) {
        // A claim whose commit was not answered.
        None => lacking(0),
        Some(held) if session.said.as_ref().is_some_and(|said| said.lacks(held)) => lacking(held.again),
        Some(_) if lease.cancel.is_some() || lease.overdue => {
            let reason = lease.cancel.map_or(Reason::MaxRuntime.as_str(), Reason::as_str);
            plan.cancel.push((id, attempt, reason));
        }
        Some(_) => {}
    }
}

async fn perform(shared: &Shared, plan: Plan) -> Result<(), StoreError> {
    {
        let mut roster = shared.roster();
        let now = Instant::now();
        plan.miss.iter().for_each(|seen| roster.miss(*seen, now));
        plan.forget.iter().for_each(|(id, connection)| roster.forget(*id, *connection));
        for (id, attempt) in &plan.release {
            if roster.release(*id, attempt) {
                shared.slots.notify_one();
            }
        }
        for (id, attempt, reason) in &plan.cancel {
            roster.send(*id, message::cancel(attempt, reason));
        }
    }
    for (session, attempt, outcome) in plan.end {
        tracing::warn!(session = %session, run = %attempt.key.idempotency_key(), run.attempt = attempt.attempt, attempt.outcome = ?outcome, "Ending an attempt without its worker's word");
        let event = Event::Ended(outcome, None);
        // No place: found again at the next comparison.
        let heard = Instant::now();
        let _ = shared.reports.try_send(Report { session, attempt, event, heard, link: None });
    }
    if plan.deliver.is_empty() {
        return Ok(());
    }
    let ids: Vec<SessionId> = plan.deliver.keys().map(|(id, _)| *id).collect();
    let assignments = assignment::of_sessions(&shared.store, &ids).await?;
    let wanted = assignments.into_iter().filter(|assignment| {
        let lease = &assignment.lease;
        let of_connection = lease.session.and_then(|id| plan.deliver.get(&(id, lease.connection)));
        of_connection.is_some_and(|keys| keys.contains(&assignment.lease.key))
    });
    let handouts = shared.definitions.handouts(&shared.store, wanted.collect()).await?;
    {
        let mut roster = shared.roster();
        handouts.iter().for_each(|handout| roster.deliver(handout));
    }
    let sent = handouts.len();
    shared.metrics.redelivered(sent);
    tracing::info!(runs = sent, "Sent runs again that their workers lack");
    Ok(())
}

#[cfg(test)]
mod tests;
