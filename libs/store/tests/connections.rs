//! Connections that are waited for, given up or gone: clear errors, and nobody waits for somebody else's statement.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::{Duration, Instant};
use store::{Retry, Settings, Store};
use support::Cell;

/// A store with one connection.
fn narrow(cell: &Cell) -> Store {
    let settings = Settings {
        connections_max: 1,
        connect_timeout: Duration::from_millis(500),
        ..cell.store.settings().clone()
    };
    Store::new(settings).expect("sound settings")
}

#[tokio::test]
async fn a_statement_that_was_given_up_delays_nobody_and_ends_on_the_server() {
    let cell = Cell::create().await;
    let store = narrow(&cell);
    let client = store.client("sleep").await.expect("connected");
    let sleep = client.query("sleep", "SELECT pg_sleep(60)::text", &[]);
    assert!(tokio::time::timeout(Duration::from_millis(200), sleep).await.is_err(), "given up");
    drop(client);
    let began = Instant::now();
    let client = store.client("look").await.expect("another connection");
    client.query("look", "SELECT 1", &[]).await.expect("an answer");
    assert!(began.elapsed() < Duration::from_secs(2), "after {:?}", began.elapsed());
    let sleeping =
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)%' AND state = 'active'";
    stack::wait::wait_for(Duration::from_secs(8), "the end of what nobody waits for", async || {
        let rows = client.query("look for sleepers", sleeping, &[]).await.expect("an answer");
        (rows[0].get::<_, i64>(0) == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_pool_without_a_free_connection_says_what_for_and_that_it_may_pass() {
    let cell = Cell::create().await;
    let store = narrow(&cell);
    let held = store.client("hold").await.expect("connected");
    let Err(error) = store.client("claim runs").await else { panic!("there is one connection only") };
    assert!(error.to_string().contains("claim runs"), "{error}");
    assert_eq!(error.retry(), Retry::Later);
    drop(held);
    store.client("claim runs").await.expect("free again");
}
