//! What was told to a channel, and whether it works.

use crate::failure::Failure;
use crate::page;
use rpc::convert::time;
use rpc::v1;
use rpc::v1::delivery::State;
use std::time::Duration;
use store::alert_channel::Channel;
use store::alert_delivery::{self, Told, Try};
use store::{Store, channel_test};
use tokio::time::{Instant, sleep};

/// How long a test may take until a watchdog has it and its receiver has answered: a second, and the delivery's own limit.
const TEST_LIMIT: Duration = Duration::from_secs(15);

/// How often its end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Has a watchdog send a test, and waits for how that went.
///
/// # Errors
/// [`Failure::NoWatchdog`] when none said so in time.
pub async fn test(store: &Store, channel: &Channel) -> Result<v1::TestChannelResponse, Failure> {
    let mut client = store.client("test a channel").await?;
    let tx = client.begin("test a channel").await?;
    let id = channel_test::insert(&tx, channel.id).await?;
    tx.commit().await?;
    drop(client); // a connection is not kept while others work
    let until = Instant::now() + TEST_LIMIT;
    loop {
        if let Some(ended) = channel_test::find(store, id).await? {
            return Ok(v1::TestChannelResponse {
                received: ended.received,
                status: ended.status.unwrap_or_default(),
                error: ended.error.unwrap_or_default(),
            });
        }
        if Instant::now() >= until {
            return Err(Failure::NoWatchdog { seconds: TEST_LIMIT.as_secs() });
        }
        sleep(LOOK_EVERY).await;
    }
}

/// A page of what was told.
///
/// # Errors
/// [`Failure::Invalid`] for a page that none of our answers held.
pub async fn list(
    store: &Store,
    channel: &Channel,
    request: &v1::ListDeliveriesRequest,
) -> Result<v1::ListDeliveriesResponse, Failure> {
    let size = page::size(request.page_size)?;
    let before = match page::last_key(&request.page_token)? {
        Some(text) => Some(text.parse().map_err(|_| page::bad_token())?),
        None => None,
    };
    let mut told = alert_delivery::page(store, channel.id, before, size + 1).await?;
    let next_page_token = page::cut(&mut told, size).map(|last| page::token(&last.sequence.to_string()));
    Ok(v1::ListDeliveriesResponse {
        deliveries: told.into_iter().map(message).collect(),
        next_page_token: next_page_token.unwrap_or_default(),
    })
}

fn message(told: Told) -> v1::Delivery {
    let state = match (told.delivered_at, told.given_up_at) {
        (Some(_), _) => State::Delivered,
        (None, Some(_)) => State::GivenUp,
        (None, None) => State::Pending,
    };
    let next_try = (state == State::Pending).then_some(told.next_try_at);
    v1::Delivery {
        id: told.id.to_string(),
        alert: told.alert_id.to_string(),
        event: told.event,
        state: state.into(),
        tries: told.tries,
        status: told.status.unwrap_or_default(),
        error: told.error.unwrap_or_default(),
        create_time: Some(time::timestamp(told.created_at)),
        end_time: told.delivered_at.or(told.given_up_at).map(time::timestamp),
        next_try_time: next_try.map(time::timestamp),
        newest_tries: told.newest.into_iter().map(tried).collect(),
    }
}

fn tried(tried: Try) -> v1::DeliveryTry {
    v1::DeliveryTry {
        number: tried.number,
        time: Some(time::timestamp(tried.at)),
        status: tried.status.unwrap_or_default(),
        error: tried.error.unwrap_or_default(),
    }
}
