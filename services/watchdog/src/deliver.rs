//! The delivery loop: takes what is due out of the outbox, sends it, and records how that went.
//!
//! Every watchdog delivers, leading or not: what is in the outbox was decided under the fence, and a row is taken by
//! one at a time. Invariants: at most so many are being sent, at most half of them of one tenant, and at most so many to
//! one channel, so that slow receivers hold up only their own tenant and memory stays bounded; a place goes to the tenant
//! that has the fewest; a resolution never overtakes its opening (the claim sees to both); a channel that fails is tried once at a time, and rests between tries, so that it takes nothing from
//! others. A sender that dies between taking and recording only delays: the row is due again when its lease ends,
//! with the same id and body.

mod aside;

use crate::channel::{self, Letter, Outcome};
use crate::config::WatchdogConfig;
use crate::metrics::Metrics;
use chrono::{DateTime, Utc};
use model::ids::TenantId;
use service::egress::Egress;
use service::health::{Beat, Condition};
use service::runtime::chain;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use store::alert_delivery::{self, Claim, Failed, Recorded, Taken};
use store::{Store, StoreError};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often the outbox is looked at when nobody says that something is in it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How much longer a delivery is taken for than its try may last.
const LEASE_MARGIN: Duration = Duration::from_secs(20);

/// How long a channel that fails rests at most.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// When tries follow, and when they end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For one answer.
    pub timeout: Duration,
    /// Before the second try.
    pub backoff: Duration,
    /// Between two tries at most.
    pub backoff_max: Duration,
    /// From the event on.
    pub give_up: Duration,
}

impl Patience {
    /// As configured.
    pub fn of(config: &WatchdogConfig) -> Self {
        Self {
            timeout: Duration::from_millis(config.delivery_timeout_ms),
            backoff: Duration::from_millis(config.delivery_backoff_ms),
            backoff_max: Duration::from_millis(config.delivery_backoff_max_ms),
            give_up: Duration::from_millis(config.delivery_give_up_ms),
        }
    }

    /// The wait after the failed try `number` (from 1), `spread` of 256 parts of a quarter longer so that receivers
    /// are not met by all at once; none when the next try would be too late.
    pub fn next_try(
        &self,
        number: i32,
        created_at: DateTime<Utc>,
        now: DateTime<Utc>,
        spread: u8,
    ) -> Option<Duration> {
        let doublings = u32::try_from(number.saturating_sub(1)).unwrap_or(0);
        let base = self.backoff.saturating_mul(2_u32.saturating_pow(doublings)).min(self.backoff_max);
        let wait = (base + base / 4 * u32::from(spread) / 256).min(self.backoff_max);
        let age = (now - created_at).to_std().unwrap_or_default();
        (age.saturating_add(wait) <= self.give_up).then_some(wait)
    }

    /// How long a channel rests after the failure that follows so many others.
    pub fn pause(&self, failures: i32) -> Duration {
        let doublings = u32::try_from(failures).unwrap_or(0);
        let longest = self.backoff_max.min(PAUSE_MAX);
        self.backoff.saturating_mul(2_u32.saturating_pow(doublings)).min(longest)
    }
}

/// What the loop works with.
#[derive(Clone)]
pub struct Deliverer {
    /// The outbox.
    pub store: Store,
    /// The way out.
    pub egress: Egress,
    /// When tries follow.
    pub patience: Patience,
    /// Being sent at most.
    pub in_flight_max: usize,
    /// Being sent to one channel at most.
    pub per_channel_max: usize,
    /// Told when something was put into the outbox.
    pub poke: Arc<Notify>,
    /// Where it counts.
    pub metrics: Metrics,
}

/// The deliveries that are being sent.
#[derive(Default)]
struct InFlight {
    sends: JoinSet<Uuid>,
    by_channel: HashMap<Uuid, Share>,
}

/// What one channel has of it.
struct Share {
    tenant: TenantId,
    count: usize,
}

impl Deliverer {
    /// Delivers until `shutdown`, then lets the tries in hand end. `database` learns whether the outbox answers.
    pub async fn run(self, beat: Beat, database: Condition, shutdown: CancellationToken) {
        let mut in_flight = InFlight::default();
        let aside = tokio::spawn(aside::run(self.clone(), shutdown.clone()));
        while !shutdown.is_cancelled() {
            beat.beat();
            let look_again = Instant::now() + LOOK_EVERY;
            match self.take(&mut in_flight).await {
                Ok(()) => database.met(),
                Err(error) => {
                    database.unmet("PostgreSQL can't be asked");
                    tracing::warn!(error = chain(&error), "The outbox can't be read; trying again");
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = sleep_until(look_again) => {}
                () = self.poke.notified() => {}
                Some(ended) = in_flight.sends.join_next() => in_flight.ended(ended),
            }
            // Those that ended together make room together.
            while let Some(ended) = in_flight.sends.try_join_next() {
                in_flight.ended(ended);
            }
        }
        // Each try has its own time limit, shorter than the drain's.
        while in_flight.sends.join_next().await.is_some() {}
        if aside.await.is_err() {
            tracing::error!("Refreshing and testing channels panicked");
        }
        beat.done();
    }

    /// Takes what there is room for, and sends it.
    async fn take(&self, in_flight: &mut InFlight) -> Result<(), StoreError> {
        let room = self.in_flight_max.saturating_sub(in_flight.sends.len());
        if room == 0 {
            return Ok(());
        }
        // A channel gets its next ones when those in hand have ended: its own slowness is its own matter.
        let busy: Vec<_> = in_flight.by_channel.keys().copied().collect();
        let claim = Claim {
            limit: i64::try_from(room).unwrap_or(i64::MAX),
            per_channel: i64::try_from(self.per_channel_max).unwrap_or(i64::MAX),
            per_tenant: i64::try_from(per_tenant_max(self.in_flight_max)).unwrap_or(i64::MAX),
            busy: &busy,
            in_flight: &in_flight.tenants(),
            lease: self.patience.timeout + LEASE_MARGIN,
        };
        for delivery in alert_delivery::claim(&self.store, claim).await? {
            in_flight.began(&delivery);
            let this = self.clone();
            in_flight.sends.spawn(async move {
                // Crash window: taken, not sent. The lease ends and the next try follows.
                this.deliver(&delivery).await;
                delivery.channel_id
            });
        }
        Ok(())
    }

    async fn deliver(&self, taken: &Taken) {
        let outcome = self.send(taken).await;
        // Crash window: sent, not recorded. It is sent again, with the same id: receivers can tell.
        self.metrics.delivered(&outcome);
        if let Err(error) = self.record(taken, outcome).await {
            tracing::warn!(
                delivery.id = %taken.id,
                channel.name = taken.channel_name,
                error = chain(&error),
                "How a delivery went can't be recorded; it is sent again"
            );
        }
    }

    async fn send(&self, taken: &Taken) -> Outcome {
        if taken.channel_deleted {
            return Outcome::Gone { status: None, error: "the channel was deleted".to_owned() };
        }
        let Some(target) = &taken.target else { return unknown_kind() };
        let secret = taken.secret.as_deref();
        let letter = Letter { id: taken.id, body: &taken.body, at: taken.taken_at, target, secret };
        channel::send(&self.egress, letter, self.patience.timeout).await
    }

    async fn record(&self, taken: &Taken, outcome: Outcome) -> Result<(), StoreError> {
        let pause = self.patience.pause(taken.failures);
        let (status, error, next_try, pause) = match outcome {
            Outcome::Received { status } => {
                let refresh = taken.target.as_ref().and_then(channel::refresh_after);
                let status = status.map(i32::from);
                let recorded = alert_delivery::delivered(&self.store, taken, status, refresh).await?;
                tracing::info!(
                    delivery.id = %taken.id,
                    delivery.again = recorded == Recorded::Stale,
                    alert.id = %taken.alert_id,
                    channel.name = taken.channel_name,
                    "Delivered"
                );
                return Ok(());
            }
            Outcome::Failed { status, error, retry_after } => {
                let next =
                    self.patience.next_try(taken.try_number, taken.created_at, taken.taken_at, random_byte());
                let asked = retry_after.unwrap_or_default();
                (status, error, next.map(|wait| wait.max(asked)), pause.max(asked))
            }
            Outcome::Gone { status, error } => (status, error, None, pause),
        };
        match next_try {
            Some(wait) => tracing::warn!(
                delivery.id = %taken.id, delivery.try_number = taken.try_number, channel.name = taken.channel_name,
                wait_ms = wait.as_millis() as u64, error, "A delivery failed; trying again"
            ),
            None => tracing::error!(
                delivery.id = %taken.id, delivery.try_number = taken.try_number, channel.name = taken.channel_name,
                error, "A delivery is given up"
            ),
        }
        let status = status.map(i32::from);
        let error: String = error.chars().take(1_000).collect();
        let failed = Failed { status, error: &error, next_try, pause };
        match alert_delivery::failed(&self.store, taken, failed).await? {
            Recorded::Yes => {}
            Recorded::Stale => {
                tracing::debug!(delivery.id = %taken.id, "Somebody else has taken the delivery since");
            }
        }
        Ok(())
    }
}

impl InFlight {
    /// The tenant of each.
    fn tenants(&self) -> Vec<TenantId> {
        self.by_channel.values().flat_map(|share| std::iter::repeat_n(share.tenant, share.count)).collect()
    }

    fn began(&mut self, taken: &Taken) {
        let none = Share { tenant: taken.tenant_id, count: 0 };
        self.by_channel.entry(taken.channel_id).or_insert(none).count += 1;
    }

    fn ended(&mut self, ended: Result<Uuid, tokio::task::JoinError>) {
        let Ok(channel) = ended else {
            // A try that panicked: which channel's is not known, so none is held back for it.
            self.by_channel.clear();
            return;
        };
        if let Some(share) = self.by_channel.get_mut(&channel) {
            share.count -= 1;
            if share.count == 0 {
                self.by_channel.remove(&channel);
            }
        }
    }
}

/// Of so many places those that one tenant may have: always one, and never all when there is more than one.
fn per_tenant_max(in_flight_max: usize) -> usize {
    (in_flight_max / 2).max(1)
}

/// A later release has stored a channel whose kind this one does not know; one of that release delivers.
fn unknown_kind() -> Outcome {
    Outcome::unanswered("this release can't read where the channel leads")
}

/// For spreading only: without randomness nothing is spread.
fn random_byte() -> u8 {
    let mut byte = [0];
    match getrandom::fill(&mut byte) {
        Ok(()) => byte[0],
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        timeout: Duration::from_secs(10),
        backoff: Duration::from_secs(5),
        backoff_max: Duration::from_secs(3_600),
        give_up: Duration::from_secs(3 * 86_400),
    };

    fn wait(number: i32, age: i64, spread: u8) -> Option<Duration> {
        let created = DateTime::UNIX_EPOCH;
        PATIENCE.next_try(number, created, created + chrono::Duration::seconds(age), spread)
    }

    #[test]
    fn waits_double_from_5_s_to_an_hour() {
        assert_eq!(wait(1, 0, 0), Some(Duration::from_secs(5)));
        assert_eq!(wait(2, 0, 0), Some(Duration::from_secs(10)));
        assert_eq!(wait(10, 0, 0), Some(Duration::from_secs(2_560)));
        for number in [11, 40, i32::MAX] {
            assert_eq!(wait(number, 0, 255), Some(Duration::from_secs(3_600)), "{number}");
        }
    }

    #[test]
    fn spreading_only_lengthens_and_by_a_quarter_at_most() {
        let longest = wait(2, 0, 255).expect("tried again");
        assert!(longest > Duration::from_secs(12) && longest < Duration::from_millis(12_500), "{longest:?}");
    }

    #[test]
    fn a_channel_that_keeps_failing_rests_longer_up_to_five_minutes() {
        for (failures, seconds) in [(0, 5), (1, 10), (5, 160), (6, 300), (i32::MAX, 300)] {
            assert_eq!(PATIENCE.pause(failures), Duration::from_secs(seconds), "{failures}");
        }
    }

    #[test]
    fn after_three_days_it_is_given_up() {
        assert!(wait(70, 3 * 86_400 - 3_600, 0).is_some());
        assert_eq!(wait(70, 3 * 86_400 - 3_599, 0), None);
    }
}
