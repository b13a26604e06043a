//! A dispatcher that alone has lost the database: its workers move to another one with their runs.

use harness::{Cell, PATIENCE, job, names, shell};
use serde_json::json;
use stack::dev::{Options, Role};
use stack::wait::wait_for;
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_dispatcher_alone_cut_off_from_the_database_sends_its_workers_to_another() {
    let mut cell = Cell::start_with(|options| Options { linked: true, ..options }).await;
    cell.leader().await;
    let mark = cell.folder().join("mark");
    let line = format!("echo started >> {0}; sleep 25; echo ended >> {0}", mark.display());
    cell.api.create(job("long", "0 0 0 1 1 *", shell(&line))).await;
    cell.api.create(job("each-second", "* * * * * *", shell("true"))).await;
    cell.api.post("/v1/jobs/long:trigger", json!({})).await.expect("triggered");
    cell.api.wait_for_runs("long", "RUNNING", 1).await;
    let holder = dispatcher(&mut cell).await;

    cell.stack.links().database(&holder).expect("linked").cut();
    let cut = Instant::now();
    wait_for(PATIENCE, "the worker at another dispatcher", async || {
        (dispatcher(&mut cell).await != holder).then_some(())
    })
    .await;
    let took = cut.elapsed();
    assert!(took < Duration::from_secs(9), "it moved after {took:?}: before it would have stopped its runs");
    let moved = cell.count("SELECT count(*) FROM run WHERE state = 'SUCCEEDED'").await;
    wait_for(PATIENCE, "runs through the other one", async || {
        (cell.count("SELECT count(*) FROM run WHERE state = 'SUCCEEDED'").await >= moved + 5).then_some(())
    })
    .await;
    let ended = cell.api.wait_for_runs("long", "SUCCEEDED", 1).await;
    assert_eq!(ended[0]["attempt"], 1);
    assert_eq!(std::fs::read_to_string(&mark).expect("its mark"), "started\nended\n");
    assert_eq!(cell.count("SELECT count(*) FROM run_outcome WHERE state = 'LOST'").await, 0);
    assert!(cell.log(&holder).contains("sending the workers there"), "it said so");

    // And it is of use again when the database is.
    cell.stack.links().database(&holder).expect("linked").heal();
    let other = names(&cell.stack, Role::Dispatcher).into_iter().find(|name| *name != holder);
    let other = other.expect("two dispatchers");
    cell.stack.service(&other).expect("a dispatcher").process().kill().expect("killed");
    wait_for(PATIENCE, "the worker back", async || (dispatcher(&mut cell).await == holder).then_some(()))
        .await;
    let before = cell.count("SELECT count(*) FROM run WHERE state = 'SUCCEEDED'").await;
    wait_for(PATIENCE, "runs through the first", async || {
        (cell.count("SELECT count(*) FROM run WHERE state = 'SUCCEEDED'").await >= before + 5).then_some(())
    })
    .await;
    assert_eq!(cell.count("SELECT count(*) FROM run_outcome WHERE state = 'LOST'").await, 0);
    cell.stop().await;
}

/// The name of the dispatcher that the agent's session is with.
async fn dispatcher(cell: &mut Cell) -> String {
    let with = "SELECT d.name FROM worker_session s JOIN dispatcher d ON d.id = s.dispatcher_id WHERE s.ended_at IS NULL";
    cell.sql(with).await
}
