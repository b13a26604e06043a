//! Beside the outbox: telling openings again to receivers that forget, and sending tests of channels.
//!
//! Neither is owed to anybody: what fails is told again a minute later, and a test that fails says so. So nothing is
//! retried here. Invariants: a receiver that is slow keeps nobody else waiting: what is due is begun with every look, a
//! channel that is still being told again is left for the next minute, and no tenant's tests take all places; and at
//! most so many openings and tests are held at once.

use super::{Deliverer, LOOK_EVERY, unknown_kind};
use crate::channel::{self, Letter, Outcome};
use crate::message::Message;
use service::runtime::chain;
use std::collections::{BTreeMap, HashMap};
use store::alert_delivery::{self, Refresh};
use store::channel_test::{self, Ended, Taken};
use store::{Store, StoreError};
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Openings that are being told again at most; the rest follows when there is room.
const REFRESHED_MAX: usize = 2_000;

/// Openings in one call.
const TOGETHER_MAX: usize = 200;

/// Tests that are being sent at most.
const TESTS_MAX: usize = 32;

/// Tests of one tenant's channels that are being sent at most, by all watchdogs.
const TESTS_OF_TENANT_MAX: i64 = 8;

/// What is being told again.
#[derive(Default)]
struct Refreshing {
    calls: JoinSet<()>,
    /// The channel of each call, and how many openings it tells.
    about: HashMap<Id, (Uuid, usize)>,
}

impl Refreshing {
    /// Forgets what has ended.
    fn reap(&mut self) {
        while let Some(ended) = self.calls.try_join_next_with_id() {
            let id = ended.map_or_else(|panicked| panicked.id(), |(id, ())| id);
            self.about.remove(&id);
        }
    }

    fn room(&self) -> usize {
        let held: usize = self.about.values().map(|(_, openings)| openings).sum();
        REFRESHED_MAX.saturating_sub(held)
    }

    fn is_told(&self, channel: Uuid) -> bool {
        self.about.values().any(|(told, _)| *told == channel)
    }
}

/// Works until `shutdown`, then lets the calls in hand end: each has its own time limit.
pub async fn run(deliverer: Deliverer, shutdown: CancellationToken) {
    let (mut refreshing, mut testing) = (Refreshing::default(), JoinSet::new());
    while !shutdown.is_cancelled() {
        refreshing.reap();
        while testing.try_join_next().is_some() {}
        let (refreshed, tested) =
            tokio::join!(refresh(&deliverer, &mut refreshing), test(&deliverer, &mut testing));
        for (what, result) in [("Refreshing open alerts", refreshed), ("Testing channels", tested)] {
            if let Err(error) = result {
                tracing::warn!(error = chain(&error), "{what} failed; trying again");
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
    while refreshing.calls.join_next().await.is_some() {}
    while testing.join_next().await.is_some() {}
}

async fn refresh(deliverer: &Deliverer, refreshing: &mut Refreshing) -> Result<(), StoreError> {
    let room = i64::try_from(refreshing.room()).unwrap_or(i64::MAX);
    if room == 0 {
        return Ok(());
    }
    let due = alert_delivery::refresh(&deliverer.store, room, channel::REFRESH_EVERY).await?;
    let mut by_channel: BTreeMap<Uuid, Vec<Refresh>> = BTreeMap::new();
    for opening in due {
        by_channel.entry(opening.channel_id).or_default().push(opening);
    }
    by_channel.retain(|channel, _| !refreshing.is_told(*channel));
    for (channel, openings) in by_channel {
        let (deliverer, count) = (deliverer.clone(), openings.len());
        let call = refreshing.calls.spawn(async move {
            for together in openings.chunks(TOGETHER_MAX) {
                // A receiver that does not take these takes no others now.
                if !tell_again(&deliverer, together).await {
                    break;
                }
            }
        });
        refreshing.about.insert(call.id(), (channel, count));
    }
    Ok(())
}

/// Tells openings again that are all of one channel; whether it has them.
async fn tell_again(deliverer: &Deliverer, openings: &[Refresh]) -> bool {
    let Some(first) = openings.first() else { return true };
    let Some(target) = &first.target else { return false };
    let bodies: Vec<_> = openings.iter().map(|opening| opening.body.as_str()).collect();
    let (secret, timeout) = (first.secret.as_deref(), deliverer.patience.timeout);
    let outcome = channel::refresh(&deliverer.egress, target, secret, &bodies, first.taken_at, timeout).await;
    deliverer.metrics.delivered(&outcome);
    if let Outcome::Failed { error, .. } | Outcome::Gone { error, .. } = outcome {
        tracing::warn!(
            channel.name = first.channel_name,
            alerts = openings.len(),
            error,
            "Open alerts can't be told again; trying again in a minute"
        );
        return false;
    }
    true
}

async fn test(deliverer: &Deliverer, testing: &mut JoinSet<()>) -> Result<(), StoreError> {
    let room = i64::try_from(TESTS_MAX.saturating_sub(testing.len())).unwrap_or(i64::MAX);
    if room == 0 {
        return Ok(());
    }
    for taken in channel_test::claim(&deliverer.store, room, TESTS_OF_TENANT_MAX).await? {
        let deliverer = deliverer.clone();
        testing.spawn(async move {
            let ended = ended(send(&deliverer, &taken).await);
            tracing::info!(
                channel.name = taken.channel_name,
                received = ended.received,
                status = ended.status,
                error = ended.error,
                "Tested a channel"
            );
            record(&deliverer.store, taken.id, &ended).await;
        });
    }
    Ok(())
}

async fn send(deliverer: &Deliverer, taken: &Taken) -> Outcome {
    let Some(target) = &taken.target else { return unknown_kind() };
    let body = Message::test(taken.id, &taken.channel_name, taken.taken_at).body();
    let secret = taken.secret.as_deref();
    let letter = Letter { id: taken.id, body: &body, at: taken.taken_at, target, secret };
    channel::send(&deliverer.egress, letter, deliverer.patience.timeout).await
}

fn ended(outcome: Outcome) -> Ended {
    let (received, status, error) = match outcome {
        Outcome::Received { status } => (true, status, None),
        Outcome::Failed { status, error, .. } | Outcome::Gone { status, error } => {
            (false, status, Some(error.chars().take(1_000).collect()))
        }
    };
    Ended { received, status: status.map(i32::from), error }
}

async fn record(store: &Store, id: Uuid, ended: &Ended) {
    if let Err(error) = channel_test::end(store, id, ended).await {
        tracing::warn!(error = chain(&error), "How a test of a channel went can't be recorded");
    }
}
