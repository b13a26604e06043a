//! What upkeep counts.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge};
use store::retention::Table;

/// The instruments of upkeep; clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    days_ahead: Gauge<i64>,
    floor: Gauge<i64>,
    dropped: Counter<u64>,
    held: Counter<u64>,
    expired: Counter<u64>,
}

impl Metrics {
    /// Registers them.
    pub fn new() -> Self {
        let meter = service::telemetry::meter("escapement_ticker");
        let counter =
            |name: &'static str, about: &'static str| meter.u64_counter(name).with_description(about).build();
        let metrics = Self {
            days_ahead: meter
                .i64_gauge("ticker.partitions.days_ahead")
                .with_description("Days after today that have their place in the ledger")
                .build(),
            floor: meter
                .i64_gauge("ticker.ledger.floor")
                .with_unit("s")
                .with_description("The instant below which the ledger keeps nothing, in seconds since 1970")
                .build(),
            dropped: counter(
                "ticker.partitions.dropped",
                "Partitions of the ledger that were dropped by age",
            ),
            held: counter(
                "ticker.partitions.held",
                "Partitions that were to go and stayed for now, by reason",
            ),
            expired: counter("ticker.rows.expired", "Rows that were deleted by age, by table"),
        };
        metrics.dropped.add(0, &[]);
        metrics
    }

    /// So many days after today have partitions.
    pub fn days_ahead(&self, days: i64) {
        self.days_ahead.record(days, &[]);
    }

    /// The floor is here.
    pub fn floor(&self, at: chrono::DateTime<chrono::Utc>) {
        self.floor.record(at.timestamp(), &[]);
    }

    /// A partition is gone.
    pub fn dropped(&self) {
        self.dropped.add(1, &[]);
    }

    /// A partition stays for now: `open` or `busy`.
    pub fn held(&self, why: &'static str) {
        self.held.add(1, &[KeyValue::new("reason", why)]);
    }

    /// Rows are gone.
    pub fn expired(&self, table: Table, rows: u64) {
        self.expired.add(rows, &[KeyValue::new("table", table.as_str())]);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
