//! Reads what runs execute some seconds before they become due.
//!
//! A herd's second is short of processor time, and a definition is the longest thing that a claim would have to read for
//! each run. Each turn looks at the rows that have come within sight since the last one; what it misses (a run that was
//! planned late) is read by its claim. Deliberately not here: which runs start, which only a claim decides.

use crate::definitions::REMEMBERED_MAX;
use crate::shared::Shared;
use chrono::{DateTime, Utc};
use model::ids::TenantId;
use service::health::Beat;
use std::time::{Duration, Instant};
use store::{StoreError, run_queue};
use tokio_util::sync::CancellationToken;

/// Runs that become due within this are looked at: longer than it takes to read the definitions of a herd.
const AHEAD: Duration = Duration::from_secs(5);
const EVERY: Duration = Duration::from_secs(1);

/// Reads ahead until `stop`.
pub async fn run(shared: &Shared, beat: Beat, stop: CancellationToken) {
    let mut sight = Sight::default();
    loop {
        beat.beat();
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(EVERY) => {}
        }
        // Claims press, or may not be made at all: not the time for what can be had later.
        if !shared.epoch_ready() || shared.rush().presses(Instant::now()) {
            continue;
        }
        if let Err(error) = sight.run_once(shared).await {
            shared.metrics.failed("ahead");
            tracing::warn!(error = service::runtime::chain(&error), "Could not read definitions ahead");
        }
    }
    beat.done();
}

/// How far was looked, and for whom.
#[derive(Default)]
struct Sight {
    through: Option<DateTime<Utc>>,
    queues: Vec<String>,
    tenants: Option<Vec<TenantId>>,
}

impl Sight {
    /// One look at what has come within sight since the last.
    async fn run_once(&mut self, shared: &Shared) -> Result<(), StoreError> {
        let groups = shared.roster().groups(1);
        if groups.is_empty() {
            return Ok(());
        }
        let mut queues: Vec<String> = groups.iter().flat_map(|group| group.queues.iter().cloned()).collect();
        queues.sort_unstable();
        queues.dedup();
        let tenants: Option<Vec<TenantId>> = groups.iter().map(|group| group.tenant).collect();
        if (&self.queues, &self.tenants) != (&queues, &tenants) {
            *self = Self { through: None, queues, tenants };
        }
        let coming = run_queue::coming(
            &shared.store,
            &self.queues,
            self.tenants.as_deref(),
            self.through,
            AHEAD,
            REMEMBERED_MAX as i64,
        )
        .await?;
        let read = shared.definitions.read_ahead(&shared.store, coming.keys).await?;
        self.through = Some(coming.through);
        if read > 0 {
            tracing::debug!(definitions = read, "Read definitions ahead");
        }
        Ok(())
    }
}
