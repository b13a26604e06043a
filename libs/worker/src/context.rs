//! What work is told about its run.

use crate::assignment::{Assignment, Attempt};
use crate::live::Live;
use crate::payload::{self, PayloadError};
use chrono::{DateTime, Utc};
use model::ids::{RunKey, run_name};
use model::job::Work;
use model::token::Token;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// One attempt of one run, as its work sees it; clones share it.
#[derive(Debug, Clone)]
pub struct RunContext(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    assignment: Assignment,
    deadline: DateTime<Utc>,
    kill_grace: Duration,
    stop: CancellationToken,
    live: Live,
}

impl RunContext {
    pub(crate) fn new(
        assignment: Assignment,
        accepted_at: DateTime<Utc>,
        kill_grace: Duration,
        stop: CancellationToken,
    ) -> Self {
        let limit = chrono::TimeDelta::from_std(assignment.max_runtime).unwrap_or(chrono::TimeDelta::MAX);
        let deadline = accepted_at.checked_add_signed(limit).unwrap_or(DateTime::<Utc>::MAX_UTC);
        Self(Arc::new(Inner { assignment, deadline, kill_grace, stop, live: Live::default() }))
    }

    /// The job's name.
    pub fn job_name(&self) -> &str {
        &self.0.assignment.job_name
    }

    /// The run's name for people and logs: `invoices@2026-11-29T09:00:00Z`.
    pub fn run_name(&self) -> String {
        run_name(self.job_name(), self.scheduled_for())
    }

    /// The run's identity: the job's id and the scheduled instant.
    pub fn run(&self) -> RunKey {
        self.0.assignment.attempt.run
    }

    /// The instant that the schedule names; the same for every attempt.
    pub fn scheduled_for(&self) -> DateTime<Utc> {
        self.run().scheduled_for
    }

    /// Counted from 1.
    pub fn attempt(&self) -> u32 {
        self.0.assignment.attempt.number
    }

    /// Where the run came from: `SCHEDULE`, `CATCH_UP`, `BACKFILL` or `MANUAL`.
    pub fn origin(&self) -> &str {
        &self.0.assignment.origin
    }

    /// The queue that it came through.
    pub fn queue(&self) -> &str {
        &self.0.assignment.queue
    }

    /// The same for every attempt of the run: a downstream that remembers it applies the effect once.
    pub fn idempotency_key(&self) -> &str {
        &self.0.assignment.idempotency_key
    }

    /// Higher for each newer lease of the [guard key](Self::guard_key): a downstream that compares refuses what an
    /// older attempt still writes.
    pub fn fencing_token(&self) -> Token {
        self.0.assignment.attempt.token
    }

    /// What tokens are compared under: the job when its runs exclude each other, else the run.
    pub fn guard_key(&self) -> &str {
        &self.0.assignment.guard_key
    }

    /// How long the attempt may run, from its acceptance.
    pub fn max_runtime(&self) -> Duration {
        self.0.assignment.max_runtime
    }

    /// When `max_runtime` will be over, on this machine's wall clock. For showing and passing on: the stop itself
    /// follows a clock that nobody sets.
    pub fn deadline(&self) -> DateTime<Utc> {
        self.0.deadline
    }

    /// W3C trace context, if the run has one.
    pub fn traceparent(&self) -> Option<&str> {
        Some(self.0.assignment.traceparent.as_str()).filter(|context| !context.is_empty())
    }

    /// How long work may take to stop after [`cancelled`](Self::cancelled), before it is dropped.
    pub fn kill_grace(&self) -> Duration {
        self.0.kill_grace
    }

    /// What is to be done; none when this version of the worker does not know its kind.
    pub fn work(&self) -> Option<&Work> {
        self.0.assignment.work.as_ref()
    }

    /// The handler's payload. An empty one reads as JSON's `null`. A handler that needs nothing else for telling whether
    /// it can start is better registered with [`typed_handler`](crate::WorkerBuilder::typed_handler).
    ///
    /// # Errors
    /// [`PayloadError`], which names the field, when it isn't JSON of a `T`.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, PayloadError> {
        let text = match self.work() {
            Some(Work::Handler(handler)) => handler.payload.as_str(),
            _ => "",
        };
        payload::read(text, || self.run_name())
    }

    /// Resolves when the work must stop: it was cancelled, its time is over, the worker lost its lease, or ends.
    /// Whatever the work reports after that, it counts as stopped.
    pub async fn cancelled(&self) {
        self.0.stop.cancelled().await;
    }

    /// True when the work must stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.stop.is_cancelled()
    }

    /// Shows a line while the run goes on (`escapement logs -f JOB@TIME`), within about two seconds; the last
    /// [`OUTPUT_MAX_BYTES`](crate::OUTPUT_MAX_BYTES) of what a handler logs are kept as the attempt's output. Costs no
    /// round trip and never waits.
    pub fn log(&self, line: impl AsRef<str>) {
        let mut line = line.as_ref().to_owned();
        line.push('\n');
        self.0.live.push(line.as_bytes());
    }

    /// The same for output as it comes, in pieces of any size.
    pub fn output(&self, bytes: &[u8]) {
        self.0.live.push(bytes);
    }

    /// Shows how far the run is, 0 to 1, and what it is at, of which [`NOTE_MAX_CHARS`](crate::NOTE_MAX_CHARS) are
    /// kept. The last one counts.
    pub fn progress(&self, fraction: f64, note: impl AsRef<str>) {
        self.0.live.progress(fraction, note.as_ref());
    }

    pub(crate) fn live(&self) -> &Live {
        &self.0.live
    }

    pub(crate) fn identity(&self) -> Attempt {
        self.0.assignment.attempt
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ids::JobId;
    use model::job::Handler;

    fn context(payload: &str) -> RunContext {
        let attempt = Attempt {
            run: RunKey::new(JobId::random(), DateTime::UNIX_EPOCH),
            number: 1,
            token: Token::from_i64(7).expect("positive"),
        };
        let assignment = Assignment {
            attempt,
            job_name: "invoices".into(),
            origin: "SCHEDULE".into(),
            queue: "default".into(),
            idempotency_key: attempt.run.idempotency_key(),
            guard_key: "job".into(),
            max_runtime: Duration::from_secs(60),
            traceparent: String::new(),
            work: Some(Work::Handler(Handler { name: "invoice".into(), payload: payload.into() })),
        };
        let stop = CancellationToken::new();
        RunContext::new(assignment, DateTime::UNIX_EPOCH, Duration::from_secs(4), stop)
    }

    #[test]
    fn a_payload_is_read_as_the_type_that_the_handler_names() {
        assert_eq!(context("[7]").payload::<Vec<u32>>().expect("valid"), [7]);
        assert_eq!(context("").payload::<Option<u32>>().expect("null"), None);
        let error = context("7").payload::<String>().expect_err("a number");
        assert_eq!(error.run, "invoices@1970-01-01T00:00:00Z");
    }

    #[test]
    fn the_deadline_follows_from_acceptance() {
        assert_eq!(context("").deadline().timestamp(), 60);
    }
}
