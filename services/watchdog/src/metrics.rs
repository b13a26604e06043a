//! What the watchdog counts. No label for a job or a channel: their number has no bound.

use crate::channel::Outcome;
use crate::check::Summary;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram};
use std::time::Duration;

/// The watchdog's instruments; clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    cycle: Histogram<f64>,
    judged: Counter<u64>,
    missed: Counter<u64>,
    withdrawn: Counter<u64>,
    opened: Counter<u64>,
    resolved: Counter<u64>,
    failed_cycles: Counter<u64>,
    deliveries: Counter<u64>,
    leading: Gauge<u64>,
    ticker_silent: Gauge<f64>,
    reachable: Gauge<u64>,
    known_channels: Gauge<u64>,
    heartbeats: Counter<u64>,
}

impl Metrics {
    /// Registers them.
    pub fn new() -> Self {
        let meter = service::telemetry::meter("escapement_watchdog");
        let counter =
            |name: &'static str, about: &'static str| meter.u64_counter(name).with_description(about).build();
        Self {
            cycle: meter
                .f64_histogram("watchdog.cycle.duration")
                .with_unit("ms")
                .with_description("A check cycle, from its begin to its last commit")
                .build(),
            judged: counter("watchdog.occurrences.judged", "Occurrences whose deadline has passed"),
            missed: counter("watchdog.occurrences.missed", "Occurrences without success by their deadline"),
            withdrawn: counter(
                "watchdog.occurrences.withdrawn",
                "Occurrences that nobody waited for any more when they were judged",
            ),
            opened: counter("watchdog.alerts.opened", "Alerts opened"),
            resolved: counter("watchdog.alerts.resolved", "Alerts resolved"),
            failed_cycles: counter("watchdog.cycles.failed", "Check cycles that failed"),
            deliveries: counter("watchdog.deliveries", "Tries to deliver, by outcome"),
            leading: meter.u64_gauge("watchdog.leading").with_description("1 while this one leads").build(),
            ticker_silent: meter
                .f64_gauge("watchdog.ticker.silent")
                .with_unit("s")
                .with_description("Since the last cycle that a ticker finished")
                .build(),
            reachable: meter
                .u64_gauge("watchdog.reachable")
                .with_description("1 while it answers, of PostgreSQL and etcd")
                .build(),
            known_channels: meter
                .u64_gauge("watchdog.known.channels")
                .with_description("Channels that would be told now of the loss of PostgreSQL")
                .build(),
            heartbeats: counter("watchdog.heartbeats", "Calls of the heartbeat's address, by outcome"),
        }
    }

    /// A cycle ended.
    pub fn cycle(&self, took: Duration, summary: Summary) {
        let count = |counter: &Counter<u64>, value: usize| counter.add(value as u64, &[]);
        self.cycle.record(took.as_secs_f64() * 1_000.0, &[]);
        count(&self.judged, summary.judged);
        count(&self.missed, summary.missed);
        count(&self.withdrawn, summary.withdrawn);
        count(&self.opened, summary.opened);
        count(&self.resolved, summary.resolved);
    }

    /// A cycle failed.
    pub fn cycle_failed(&self) {
        self.failed_cycles.add(1, &[]);
    }

    /// Leads, or no longer.
    pub fn leads(&self, leads: bool) {
        self.leading.record(leads.into(), &[]);
    }

    /// How long no ticker has finished a cycle.
    pub fn ticker_silent(&self, silent: Duration) {
        self.ticker_silent.record(silent.as_secs_f64(), &[]);
    }

    /// Whether PostgreSQL and etcd have answered.
    pub fn reaches(&self, database: bool, etcd: bool) {
        self.reachable.record(database.into(), &[KeyValue::new("of", "postgresql")]);
        self.reachable.record(etcd.into(), &[KeyValue::new("of", "etcd")]);
    }

    /// How many channels would be told of the loss of PostgreSQL.
    pub fn knows(&self, channels: usize) {
        self.known_channels.record(channels as u64, &[]);
    }

    /// The heartbeat's address was called, and answered or not.
    pub fn heartbeat(&self, answered: bool) {
        let outcome = if answered { "answered" } else { "failed" };
        self.heartbeats.add(1, &[KeyValue::new("outcome", outcome)]);
    }

    /// A try to deliver ended.
    pub fn delivered(&self, outcome: &Outcome) {
        let outcome = match outcome {
            Outcome::Received { .. } => "received",
            Outcome::Failed { .. } => "failed",
            Outcome::Gone { .. } => "gone",
        };
        self.deliveries.add(1, &[KeyValue::new("outcome", outcome)]);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
