//! What the agent counts: runs going on and in hand, and how work ended. No label per job.

use opentelemetry::KeyValue;
use opentelemetry::metrics::Counter;
use tokio::sync::watch;
use worker::{End, Status};

/// The agent's instruments.
#[derive(Debug, Clone)]
pub struct Metrics {
    ended: Counter<u64>,
}

impl Metrics {
    /// Registers them. The gauges follow `status`.
    pub fn new(status: &watch::Receiver<Status>) -> Self {
        let meter = service::telemetry::meter("escapement_agent");
        let gauge = |name: &'static str, about: &'static str, read: fn(&Status) -> u64| {
            let status = status.clone();
            let observe = meter.u64_observable_gauge(name).with_description(about);
            // The meter keeps it.
            let _ = observe.with_callback(move |gauge| gauge.observe(read(&status.borrow()), &[])).build();
        };
        gauge("agent.runs.running", "Runs whose work goes on", |status| status.running as u64);
        gauge("agent.runs.in_hand", "Runs that are not given back yet", |status| status.in_hand as u64);
        gauge("agent.connected", "1 with a dispatcher, 0 without", |status| status.connected.into());
        let ended =
            meter.u64_counter("agent.work.ended").with_description("Work that ended, by kind and end");
        Self { ended: ended.build() }
    }

    /// Work has ended.
    pub fn ended(&self, kind: &'static str, end: End) {
        let end = match end {
            End::Succeeded => "succeeded",
            End::Failed => "failed",
            End::NotStarted => "not_started",
        };
        self.ended.add(1, &[KeyValue::new("work.kind", kind), KeyValue::new("work.end", end)]);
    }
}
