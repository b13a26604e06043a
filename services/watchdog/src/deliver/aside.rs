//! Beside the outbox: telling openings again to receivers that forget, and sending tests of channels.
//!
//! Neither is owed to anybody: what fails is told again a minute later, and a test that fails says so. So nothing is
//! retried here, and one round ends before the next begins: at most as many calls at once as there are channels to
//! refresh, in groups of bounded size.

use super::{Deliverer, LOOK_EVERY, unknown_kind};
use crate::channel::{self, Letter, Outcome};
use crate::message::Message;
use service::runtime::chain;
use std::collections::BTreeMap;
use store::alert_delivery::{self, Refresh};
use store::channel_test::{self, Ended, Taken};
use store::{Store, StoreError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Openings that one round tells again at most; the rest follows in the next.
const REFRESHED_MAX: i64 = 2_000;

/// Openings in one call.
const TOGETHER_MAX: usize = 200;

/// Tests that one round sends at most.
const TESTS_MAX: i64 = 8;

/// Works until `shutdown`.
pub async fn run(deliverer: Deliverer, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        let (refreshed, tested) = tokio::join!(refresh(&deliverer), test(&deliverer));
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
}

async fn refresh(deliverer: &Deliverer) -> Result<(), StoreError> {
    let due = alert_delivery::refresh(&deliverer.store, REFRESHED_MAX, channel::REFRESH_EVERY).await?;
    let mut by_channel: BTreeMap<Uuid, Vec<Refresh>> = BTreeMap::new();
    for opening in due {
        by_channel.entry(opening.channel_id).or_default().push(opening);
    }
    let mut calls = JoinSet::new();
    for openings in by_channel.into_values() {
        let deliverer = deliverer.clone();
        calls.spawn(async move {
            for together in openings.chunks(TOGETHER_MAX) {
                tell_again(&deliverer, together).await;
            }
        });
    }
    while calls.join_next().await.is_some() {}
    Ok(())
}

/// Tells openings again that are all of one channel.
async fn tell_again(deliverer: &Deliverer, openings: &[Refresh]) {
    let Some(first) = openings.first() else { return };
    let Some(target) = &first.target else { return };
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
    }
}

async fn test(deliverer: &Deliverer) -> Result<(), StoreError> {
    let mut tests = JoinSet::new();
    for taken in channel_test::claim(&deliverer.store, TESTS_MAX).await? {
        let deliverer = deliverer.clone();
        tests.spawn(async move {
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
    while tests.join_next().await.is_some() {}
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
