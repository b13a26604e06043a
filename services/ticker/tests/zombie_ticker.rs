//! A deposed ticker writes nothing: its successor waits for the batch that holds the fence, and the next one is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use model::policy::{MisfirePolicy, OverlapPolicy};
use stack::wait::wait_for;
use store::fence::{self, Raised, Role, Term};
use store::misfire;
use store::{Store, StoreError, ledger_floor};
use support::{Cell, LIMIT, each_second};

/// Waits until so many sessions wait for a lock.
async fn blocked(cell: &Cell, sessions: i64) {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    wait_for(LIMIT, "sessions that wait for a lock", async || {
        (cell.count(waiting).await == sessions).then_some(())
    })
    .await;
}

/// A store whose sessions may stand still for as long as a test needs.
fn patient(cell: &Cell) -> Store {
    let mut settings = cell.store.settings().clone();
    settings.idle_in_transaction_timeout = LIMIT;
    settings.lock_timeout = LIMIT;
    Store::new(settings).expect("sound settings")
}

#[tokio::test]
async fn a_successor_waits_for_the_batch_in_hand_and_the_next_one_is_refused() {
    let cell = Cell::create().await;
    let mut old = cell.ticker(1).await;
    old.planner.store = patient(&cell);
    let definition = each_second(MisfirePolicy::Once, OverlapPolicy::Forbid);
    let job = cell.create_job("job", &definition).await;
    old.plan().await;
    cell.pass(90).await;

    // A claim holds an overdue run: the old leader's batch stands between its fence and its writes.
    let claims = patient(&cell);
    let mut client = claims.client("claim").await.expect("connected");
    let claim = client.begin("claim").await.expect("begun");
    misfire::waiting(&claim, &[job], cell.now().await).await.expect("locked");
    let planner = old.planner.clone();
    let batch = tokio::spawn(async move { planner.run_once(old.ledger, || true).await });
    blocked(&cell, 1).await;

    let successor = Term { role: Role::Ticker, revision: 2, holder: model::ids::HolderId::random() };
    let store = patient(&cell);
    let raising = tokio::spawn(async move { fence::raise(&store, successor).await });
    blocked(&cell, 2).await;
    assert!(!batch.is_finished() && !raising.is_finished());

    claim.commit().await.expect("committed");
    let raised = raising.await.expect("no panic").expect("raised");
    assert_eq!(raised, Raised::Held);
    let planned = cell.count("SELECT count(*) FROM run").await;
    // The batch in hand was finished before the fence rose; whatever the old leader began after that is refused.
    match batch.await.expect("no panic") {
        Ok(_) | Err(StoreError::Fenced { .. }) => {}
        Err(error) => panic!("{error:?}"),
    }
    assert!(planned > 121, "the batch in hand was committed first");
    cell.pass(90).await;
    let refused = old.planner.run_once(old.ledger, || true).await;
    assert!(matches!(refused, Err(StoreError::Fenced { revision: 1, .. })), "{refused:?}");
    assert_eq!(cell.count("SELECT count(*) FROM run").await, planned, "nothing was written");
}

#[tokio::test]
async fn the_ledgers_floor_waits_for_the_batch_that_relies_on_it() {
    let cell = Cell::create().await;
    let mut ticker = cell.ticker(1).await;
    ticker.planner.store = patient(&cell);
    let job = cell.create_job("job", &each_second(MisfirePolicy::Once, OverlapPolicy::Forbid)).await;
    ticker.plan().await;
    cell.pass(90).await;
    let claims = patient(&cell);
    let mut client = claims.client("claim").await.expect("connected");
    let claim = client.begin("claim").await.expect("begun");
    misfire::waiting(&claim, &[job], cell.now().await).await.expect("locked");
    let planner = ticker.planner.clone();
    let batch = tokio::spawn(async move { planner.run_once(ticker.ledger, || true).await });
    blocked(&cell, 1).await;
    let store = patient(&cell);
    let rising = tokio::spawn(async move {
        let client = store.client("raise the floor").await.expect("connected");
        client.query("raise the floor", "UPDATE ledger_floor SET floor = esc_now()", &[]).await.map(drop)
    });
    blocked(&cell, 2).await;
    claim.commit().await.expect("committed");
    batch.await.expect("no panic").expect("planned");
    rising.await.expect("no panic").expect("raised");
    let mut client = cell.store.client("look").await.expect("connected");
    let tx = client.begin("look").await.expect("begun");
    assert!(ledger_floor::hold(&tx).await.expect("a floor") > chrono::DateTime::UNIX_EPOCH);
}

#[tokio::test]
async fn a_leadership_that_another_holder_took_is_refused_at_the_same_revision() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(7).await;
    cell.create_job("job", &each_second(MisfirePolicy::Once, OverlapPolicy::Forbid)).await;
    cell.execute("UPDATE fence SET holder = gen_random_uuid() WHERE role = 'ticker'").await;
    let refused = ticker.planner.run_once(ticker.ledger, || true).await;
    assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
    assert_eq!(cell.count("SELECT count(*) FROM run").await, 0);
}
