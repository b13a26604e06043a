//! Records what became of attempts, in groups, and answers after the commit.
//!
//! Invariant: an end is recorded only for the lease that has the attempt, the token and the session that reported it;
//! everything else is stale, unless the ledger shows that this very report was recorded before. A worker repeats its
//! report until it is answered, so a group that can't be committed may be dropped, never half answered.

use crate::conclude::{self, Conclusion};
use crate::message;
use crate::pause::Pause;
use crate::roster::Link;
use crate::shared::Shared;
use chrono::{DateTime, Utc};
use model::attempt::Outcome;
use model::ids::{RunKey, SessionId};
use model::run::State;
use rpc::convert::run::AttemptRef;
use rpc::v1::completion_ack::Answer;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};
use store::run_end::{self, Output};
use store::run_lease::{self, Acceptance};
use store::{Retry, StoreError, run_outcome};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Reports that wait to be recorded, at most; a worker repeats what finds no place.
pub const WAITING_MAX: usize = 50_000;
/// Between two looks whether reports must still give way to claims.
const GIVE_WAY_LOOK: Duration = Duration::from_millis(5);
/// Between tries while the database does not answer.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Acceptances later than this are worth a line.
const LATE: Duration = Duration::from_secs(2);
/// How long after its deadline, and the grace, a run is overdue for us: the worker's clock started a little earlier.
const SLACK: Duration = Duration::from_secs(5);

/// What happened to an attempt.
#[derive(Debug, Clone)]
pub struct Report {
    /// The session that says so, or that the dispatcher speaks for.
    pub session: SessionId,
    /// The attempt.
    pub attempt: AttemptRef,
    /// What happened.
    pub event: Event,
    /// When we heard of it.
    pub heard: Instant,
    /// Where the answer goes; none when nobody waits for one.
    pub link: Option<Link>,
}

/// See [`Report`].
#[derive(Debug, Clone)]
pub enum Event {
    /// It has started.
    Accepted,
    /// It has ended.
    Ended(Outcome, Option<Output>),
}

/// Records until `stop`, and then what waits.
pub async fn run(shared: &Shared, mut reports: mpsc::Receiver<Report>, stop: CancellationToken) {
    let (most, wait) =
        (shared.config.commit_batch_max as usize, Duration::from_millis(shared.config.commit_wait_ms));
    let mut batch = Vec::with_capacity(most);
    loop {
        tokio::select! {
            () = stop.cancelled(), if !reports.is_closed() => reports.close(),
            received = reports.recv_many(&mut batch, most) => {
                if received == 0 {
                    break;
                }
            }
        }
        if batch.is_empty() {
            continue;
        }
        give_way(shared, &reports, &stop).await;
        let until = tokio::time::Instant::now() + wait;
        while batch.len() < most {
            let room = most - batch.len();
            match tokio::time::timeout_at(until, reports.recv_many(&mut batch, room)).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        record_all(shared, &batch).await;
        batch.clear();
    }
}

/// Leaves the database to the claims while many runs are due.
async fn give_way(shared: &Shared, reports: &mpsc::Receiver<Report>, stop: &CancellationToken) {
    while !stop.is_cancelled() && shared.rush().holds(reports.len(), WAITING_MAX, Instant::now()) {
        tokio::time::sleep(GIVE_WAY_LOOK).await;
    }
}

/// Records a batch, however often it must be tried; what can't be recorded at all is left to its worker.
async fn record_all(shared: &Shared, batch: &[Report]) {
    let mut pause = Pause::new(PAUSE_MIN, PAUSE_MAX);
    loop {
        let error = match record(shared, batch).await {
            Ok(()) => return,
            Err(error) => error,
        };
        shared.metrics.failed("commit");
        let text = service::runtime::chain(&error);
        match error.retry() {
            Retry::AtOnce => tokio::task::yield_now().await,
            Retry::Later => {
                tracing::warn!(error = text, reports = batch.len(), "Reports wait for the database");
                tokio::time::sleep(pause.failed()).await;
            }
            Retry::Split | Retry::Never if batch.len() > 1 => {
                tracing::warn!(
                    error = text,
                    reports = batch.len(),
                    "A report spoils its group: recording one by one"
                );
                for report in batch {
                    Box::pin(record_all(shared, std::slice::from_ref(report))).await;
                }
                return;
            }
            Retry::Split | Retry::Never => {
                for report in batch {
                    tracing::error!(error = text, run = %report.attempt.key.idempotency_key(), run.attempt = report.attempt.attempt, "A report can't be recorded");
                }
                return;
            }
        }
    }
}

/// One group, one transaction; then the answers.
async fn record(shared: &Shared, batch: &[Report]) -> Result<(), StoreError> {
    let started = Instant::now();
    let mut client = shared.store.client("record reports").await?;
    let tx = client.begin("record reports").await?;
    let keys: BTreeSet<_> = batch.iter().map(|report| report.attempt.key).collect();
    let keys: Vec<_> = keys.into_iter().collect();
    let leases = run_lease::lock(&tx, &keys, shared.terms.stop_grace()).await?;
    let named = leases.values().map(|lease| (lease.key.job_id, lease.generation));
    let definitions = shared.definitions.all(&tx, named).await?;

    // Not from the start: a connection, or a lock, may have been waited for.
    let now = Instant::now();
    let mut plan = Plan::default();
    for report in batch {
        let lease = leases.get(&report.attempt.key).filter(|lease| {
            message::attempt_of(lease) == report.attempt && lease.session == Some(report.session)
        });
        let Some(lease) = lease else {
            if matches!(report.event, Event::Ended(..)) {
                plan.unmatched.push((report.attempt.key, attempt_of(report)));
            }
            continue;
        };
        let Some(spec) = definitions.get(&(lease.key.job_id, lease.generation)) else { continue };
        let definition = &spec.definition;
        match &report.event {
            Event::Accepted => plan.accepted.push(Acceptance {
                key: lease.key,
                attempt: lease.named(),
                limit: definition.max_runtime + shared.terms.stop_grace() + SLACK,
                age: now.saturating_duration_since(report.heard),
            }),
            Event::Ended(outcome, output) if plan.ended.insert(report.attempt) => {
                let outcome = conclude::resolve(*outcome, lease);
                let concluded = conclude::conclude(lease, outcome, &definition.retry, output.clone());
                plan.conclusions.insert(lease.key, concluded);
            }
            Event::Ended(..) => {} // said twice
        }
    }
    let (ends, retries) = conclude::parted(plan.conclusions.values());
    let (starting, begun) = plan.acceptances();
    let mut accepted = run_lease::accept(&tx, &starting).await?;
    let ended = run_end::end_begun(&tx, &ends, &begun).await?;
    let retried = run_lease::retry(&tx, &retries).await?;
    let recorded = run_outcome::recorded(&tx, &plan.unmatched).await?;
    tx.commit().await?;

    shared.metrics.committed(started.elapsed());
    accepted.extend(begun.keys().filter_map(|key| Some((*key, (*ended.get(key)?)?))));
    let mut done = Done { accepted, written: ended.into_keys().chain(retried).collect(), recorded };
    answer_all(shared, batch, &plan, &mut done);
    Ok(())
}

fn attempt_of(report: &Report) -> run_end::Attempt {
    let AttemptRef { attempt, token, .. } = report.attempt;
    run_end::Attempt { number: attempt, token, session: Some(report.session) }
}

/// What a group does.
#[derive(Default)]
struct Plan {
    accepted: Vec<Acceptance>,
    ended: HashSet<AttemptRef>,
    conclusions: HashMap<RunKey, Conclusion>,
    unmatched: Vec<(RunKey, run_end::Attempt)>,
}

impl Plan {
    /// What to record of starts before the ends, and how long ago those runs started that end with the same write.
    fn acceptances(&self) -> (Vec<Acceptance>, BTreeMap<RunKey, Duration>) {
        let ends = |key: &RunKey| matches!(self.conclusions.get(key), Some(Conclusion::End(_)));
        let (ending, starting): (Vec<_>, Vec<_>) =
            self.accepted.iter().copied().partition(|acceptance| ends(&acceptance.key));
        (starting, ending.into_iter().map(|acceptance| (acceptance.key, acceptance.age)).collect())
    }
}

/// What a group did.
struct Done {
    /// Starts that were recorded by this and not before; taken out when they are counted, for a worker may have repeated itself.
    accepted: BTreeMap<RunKey, DateTime<Utc>>,
    written: BTreeSet<RunKey>,
    recorded: BTreeMap<(RunKey, i32), State>,
}

fn answer_all(shared: &Shared, batch: &[Report], plan: &Plan, done: &mut Done) {
    let mut freed = false;
    for report in batch {
        let attempt = &report.attempt;
        match &report.event {
            Event::Accepted => note_acceptance(shared, report, done),
            Event::Ended(outcome, _) => {
                // Of two ends in one group, the worker's and one that we concluded, the first was written.
                let other = |conclusion: &Conclusion| !conclude::agrees(*outcome, conclusion.state());
                let overtaken =
                    report.link.is_some() && plan.conclusions.get(&attempt.key).is_some_and(other);
                let written =
                    plan.ended.contains(attempt) && done.written.contains(&attempt.key) && !overtaken;
                let before = done
                    .recorded
                    .get(&(attempt.key, attempt.attempt))
                    .is_some_and(|state| conclude::agrees(*outcome, *state));
                let answer = if written || before { Answer::Recorded } else { Answer::Stale };
                freed |= shared.roster().release(report.session, attempt);
                shared.metrics.answered(answer.as_str_name());
                if answer == Answer::Stale {
                    tracing::info!(run = %attempt.key.idempotency_key(), run.attempt = attempt.attempt, run.token = %attempt.token, session = %report.session, "Refused a stale report");
                }
                if let Some(link) = &report.link {
                    link.send(message::answer(attempt, answer));
                }
            }
        }
    }
    for key in &done.written {
        if let Some(conclusion) = plan.conclusions.get(key) {
            shared.metrics.attempt_ended(conclusion.became());
        }
    }
    if freed {
        shared.slots.notify_one();
    }
    if !done.written.is_empty() {
        // A retry without a backoff, or the next of a backlog, is due now.
        shared.work.notify_one();
    }
}

fn note_acceptance(shared: &Shared, report: &Report, done: &mut Done) {
    let attempt = &report.attempt;
    let Some(held) = shared.roster().held(report.session, attempt).filter(|held| held.attempt.attempt == 1)
    else {
        return;
    };
    let Some(accepted_at) = done.accepted.remove(&attempt.key) else { return };
    let lateness = accepted_at - held.due_at;
    shared.metrics.accepted(lateness.num_microseconds().map_or(0.0, |micros| micros as f64 / 1_000.0));
    if lateness.to_std().is_ok_and(|lateness| lateness > LATE) {
        let lateness_ms = lateness.num_milliseconds();
        tracing::warn!(run = %attempt.key.idempotency_key(), lateness_ms, session = %report.session, "A run started late");
    }
}

#[cfg(test)]
mod tests;
