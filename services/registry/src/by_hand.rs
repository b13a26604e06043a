//! How fast a tenant may ask for runs beside its schedules: each becomes a row of the ledger that others wait behind, so
//! that the rate of requests alone would let one tenant fill the queues of all.
//!
//! Counted in this process only, as requests are, and before anything is looked up; a call that is repeated with its
//! idempotency key counts, too. What it does not do: limit what is due by schedule, or what runs at a time.

use crate::rate::Buckets;
use model::ids::TenantId;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tonic::Status;

/// So many times a second's calls at once after a pause.
const BURST_SECONDS: u32 = 4;

/// What is left to each tenant; clones share it.
#[derive(Debug, Clone)]
pub struct ByHand {
    runs: Option<Arc<Mutex<Buckets>>>,
    backfills: Option<Arc<Mutex<Buckets>>>,
}

impl ByHand {
    /// So many runs and backfills a second, each 0 for any number.
    pub fn new(runs_per_second: u32, backfills_per_second: u32) -> Self {
        let buckets = |rate: u32| {
            let buckets = || Buckets::new(rate, rate.saturating_mul(BURST_SECONDS));
            (rate > 0).then(|| Arc::new(Mutex::new(buckets())))
        };
        Self { runs: buckets(runs_per_second), backfills: buckets(backfills_per_second) }
    }

    /// Counts a run that is triggered, or run again.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED with when to try again.
    pub fn run(&self, tenant: TenantId) -> Result<(), Status> {
        take(self.runs.as_deref(), tenant, "runs by hand")
    }

    /// Counts a backfill, or the estimate of one.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn backfill(&self, tenant: TenantId) -> Result<(), Status> {
        take(self.backfills.as_deref(), tenant, "backfills")
    }
}

fn take(buckets: Option<&Mutex<Buckets>>, tenant: TenantId, what: &str) -> Result<(), Status> {
    let Some(buckets) = buckets else { return Ok(()) };
    let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = buckets.take(tenant.0, Instant::now());
    taken.map_err(|wait| {
        let reason = format!("your tenant asks for more than {} {what} a second", buckets.per_second());
        rpc::status::try_later(&reason, wait)
    })
}
