//! What the ticker counts. No label for a job: their number has no bound.

use crate::plan::Summary;
use model::run::MisfireCause;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram};
use std::time::Duration;

/// The ticker's instruments; clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    cycle: Histogram<f64>,
    failed_cycles: Counter<u64>,
    planned: Counter<u64>,
    missed: Counter<u64>,
    broken: Counter<u64>,
    refusals: Counter<u64>,
    leading: Gauge<u64>,
    term: Gauge<i64>,
    tzdata_behind: Gauge<u64>,
    tzdata_moved: Counter<u64>,
}

impl Metrics {
    /// Registers them.
    pub fn new() -> Self {
        let meter = service::telemetry::meter("escapement_ticker");
        let counter =
            |name: &'static str, about: &'static str| meter.u64_counter(name).with_description(about).build();
        let metrics = Self {
            cycle: meter
                .f64_histogram("ticker.cycle.duration")
                .with_unit("ms")
                .with_description("A planning cycle, from its begin to its last commit")
                .build(),
            failed_cycles: counter("ticker.cycles.failed", "Planning cycles that failed"),
            planned: counter("ticker.runs.planned", "Runs inserted into the ledger"),
            missed: counter(
                "ticker.occurrences.missed",
                "Occurrences that were missed and don't run, by cause",
            ),
            broken: counter("ticker.jobs.broken", "Jobs that were marked as broken"),
            refusals: counter(
                "escapement.fence.refusals",
                "Writes of a deposed leadership that the fence refused",
            ),
            leading: meter.u64_gauge("ticker.leading").with_description("1 while this one leads").build(),
            term: meter
                .i64_gauge("ticker.term")
                .with_description("The revision of the leadership that this one had last")
                .build(),
            tzdata_behind: meter
                .u64_gauge("ticker.tzdata.behind")
                .with_description("1 when plans were made with a newer timezone database than this one has")
                .build(),
            tzdata_moved: counter(
                "ticker.tzdata.jobs_moved",
                "Jobs whose next instant a newer timezone database moved",
            ),
        };
        // So that they are there to be compared before anything has happened.
        metrics.refusals.add(0, &[]);
        metrics.leading.record(0, &[]);
        metrics
    }

    /// A cycle ended.
    pub fn cycle(&self, took: Duration, summary: &Summary) {
        self.cycle.record(took.as_secs_f64() * 1_000.0, &[]);
        self.planned.add(summary.planned, &[]);
        self.broken.add(summary.broken, &[]);
    }

    /// Occurrences were missed and don't run.
    pub fn missed(&self, cause: MisfireCause, count: u64) {
        self.missed.add(count, &[KeyValue::new("cause", cause.as_str().to_lowercase())]);
    }

    /// A cycle failed.
    pub fn cycle_failed(&self) {
        self.failed_cycles.add(1, &[]);
    }

    /// The fence refused a write.
    pub fn refused(&self) {
        self.refusals.add(1, &[]);
    }

    /// Leads with this revision.
    pub fn leads(&self, revision: i64) {
        self.leading.record(1, &[]);
        self.term.record(revision, &[]);
    }

    /// Whether plans were made with a newer timezone database.
    pub fn tzdata_behind(&self, behind: bool) {
        self.tzdata_behind.record(behind.into(), &[]);
    }

    /// A newer timezone database moved the next instant of so many jobs.
    pub fn tzdata_moved(&self, jobs: u64) {
        self.tzdata_moved.add(jobs, &[]);
    }

    /// Leads no longer.
    pub fn stands_by(&self) {
        self.leading.record(0, &[]);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
