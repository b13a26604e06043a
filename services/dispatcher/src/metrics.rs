//! What the dispatcher counts. No label for a job, a queue or a worker: their number has no bound.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram};
use std::time::Duration;
use store::run_parked::Parked;
use store::run_queue::Claimed;

/// The dispatcher's instruments; clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    lateness: Histogram<f64>,
    claim: Histogram<f64>,
    commit: Histogram<f64>,
    claimed: Counter<u64>,
    skipped: Counter<u64>,
    postponed: Counter<u64>,
    parked: Counter<u64>,
    superseded: Counter<u64>,
    replaced: Counter<u64>,
    reports: Counter<u64>,
    attempts: Counter<u64>,
    reaped: Counter<u64>,
    moved: Counter<u64>,
    redelivered: Counter<u64>,
    failures: Counter<u64>,
    stranded: Gauge<u64>,
    held: Gauge<u64>,
    sessions: Gauge<u64>,
    slots: Gauge<u64>,
}

impl Metrics {
    /// Registers them.
    pub fn new() -> Self {
        let meter = service::telemetry::meter("escapement_dispatcher");
        let counter =
            |name: &'static str, about: &'static str| meter.u64_counter(name).with_description(about).build();
        let gauge =
            |name: &'static str, about: &'static str| meter.u64_gauge(name).with_description(about).build();
        let histogram = |name: &'static str, about: &'static str| {
            meter.f64_histogram(name).with_unit("ms").with_description(about).build()
        };
        Self {
            lateness: histogram("dispatcher.run.lateness", "From due to the acceptance of the first attempt"),
            claim: histogram("dispatcher.claim.duration", "A claim, from its begin to its commit"),
            commit: histogram(
                "dispatcher.commit.duration",
                "A group of reports, from its begin to its commit",
            ),
            claimed: counter("dispatcher.runs.claimed", "Runs taken out of the queue"),
            skipped: counter("dispatcher.runs.skipped", "Occurrences that met an open run of their job"),
            postponed: counter("dispatcher.runs.postponed", "Times that a run had to wait for another"),
            parked: counter("dispatcher.runs.parked", "Runs that wait aside for an earlier one of their job"),
            superseded: counter("dispatcher.runs.superseded", "Runs whose place a newer one took"),
            replaced: counter("dispatcher.runs.replaced", "Open runs asked to stop for a newer one"),
            reports: counter("dispatcher.reports", "Ends of attempts that workers reported, by answer"),
            attempts: counter("dispatcher.attempts.ended", "Attempts that ended, by what became of the run"),
            reaped: counter("dispatcher.sessions.reaped", "Workers given up for dead"),
            moved: counter(
                "dispatcher.sessions.moved",
                "Workers sent to another dispatcher, because this one had more than its share",
            ),
            redelivered: counter("dispatcher.assignments.redelivered", "Assignments that were sent again"),
            failures: counter("dispatcher.failures", "Steps that failed, by step"),
            stranded: gauge("dispatcher.leases.stranded", "Leases that nothing will move; must be 0"),
            held: gauge(
                "dispatcher.runs.held",
                "Due runs of the cell that a tenant's or a queue's limit keeps back",
            ),
            sessions: gauge("dispatcher.sessions", "Workers that are connected or missed"),
            slots: gauge("dispatcher.slots.free", "Runs that the connected workers could take now"),
        }
    }

    /// A claim has committed.
    pub fn claimed(&self, took: Duration, claimed: &Claimed) {
        let count = |value: i64| u64::try_from(value).unwrap_or(0);
        self.claim.record(took.as_secs_f64() * 1_000.0, &[]);
        self.claimed.add(count(claimed.started), &[]);
        self.skipped.add(count(claimed.skipped), &[]);
        self.postponed.add(count(claimed.postponed), &[]);
    }

    /// Runs were parked.
    pub fn parked(&self, parked: &Parked) {
        self.parked.add(parked.parked.len() as u64, &[]);
        self.superseded.add(parked.superseded.len() as u64, &[]);
        self.replaced.add(parked.replacing.len() as u64, &[]);
    }

    /// A group of reports has committed.
    pub fn committed(&self, took: Duration) {
        self.commit.record(took.as_secs_f64() * 1_000.0, &[]);
    }

    /// A first attempt was accepted so late.
    pub fn accepted(&self, lateness_ms: f64) {
        self.lateness.record(lateness_ms, &[]);
    }

    /// A report was answered.
    pub fn answered(&self, answer: &'static str) {
        self.reports.add(1, &[KeyValue::new("answer", answer)]);
    }

    /// An attempt has ended, and its run with it (a state) or not (`RETRY`).
    pub fn attempt_ended(&self, became: &'static str) {
        self.attempts.add(1, &[KeyValue::new("became", became)]);
    }

    /// Workers were given up for dead.
    pub fn reaped(&self, sessions: usize) {
        self.reaped.add(sessions as u64, &[]);
    }

    /// A worker was sent to another dispatcher, for the balance.
    pub fn moved(&self) {
        self.moved.add(1, &[]);
    }

    /// Assignments were sent again.
    pub fn redelivered(&self, assignments: usize) {
        self.redelivered.add(assignments as u64, &[]);
    }

    /// A step failed.
    pub fn failed(&self, step: &'static str) {
        self.failures.add(1, &[KeyValue::new("step", step)]);
    }

    /// Leases that nothing will move.
    pub fn stranded(&self, leases: usize) {
        self.stranded.record(leases as u64, &[]);
    }

    /// Due runs that limits keep back.
    pub fn held(&self, runs: u64) {
        self.held.record(runs, &[]);
    }

    /// Who is here.
    pub fn attached(&self, sessions: usize, free_slots: usize) {
        self.sessions.record(sessions as u64, &[]);
        self.slots.record(free_slots as u64, &[]);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
