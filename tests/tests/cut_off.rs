//! Workers that a dispatcher sends to another one, with their runs: all of them when it alone has lost the database, and one
//! after the other when it has more than its share.

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

#[tokio::test]
async fn workers_that_are_all_at_one_dispatcher_come_to_be_at_both_and_keep_their_runs() {
    let options = |options: Options| {
        let options = Options { agents: 4, agent_slots: 2, ..options };
        // Longer than a dispatcher that was killed is listed: nobody is sent to it.
        options.setting(Role::Dispatcher, "spread_after_ms = 10000")
    };
    let mut cell = Cell::start_with(options).await;
    cell.leader().await;
    cell.stack.service("dispatcher-2").expect("a dispatcher").process().kill().expect("killed");
    wait_for(PATIENCE, "all workers at the first", async || (spread(&mut cell).await == [4]).then_some(()))
        .await;
    let (marks, gate) = (cell.folder().join("marks"), cell.folder().join("gate"));
    // As many as there are slots: whoever moves has two runs in hand.
    let line = format!(
        "echo started >> {0}; while [ ! -e {1} ]; do sleep 0.1; done; echo ended >> {0}",
        marks.display(),
        gate.display()
    );
    let jobs: Vec<String> = (1..=8).map(|number| format!("long-{number}")).collect();
    for name in &jobs {
        let mut long = job(name, "0 0 0 1 1 *", shell(&line));
        long["maxRuntime"] = json!("600s");
        cell.api.create(long).await;
        cell.api.post(&format!("/v1/jobs/{name}:trigger"), json!({})).await.expect("triggered");
    }
    for name in &jobs {
        cell.api.wait_for_runs(name, "RUNNING", 1).await;
    }

    let before = cell.metric("dispatcher-1", "dispatcher_sessions_moved").await;
    cell.stack.restart("dispatcher-2").await.expect("started again");
    wait_for(PATIENCE, "two workers at each", async || (spread(&mut cell).await == [2, 2]).then_some(()))
        .await;
    let moved = cell.metric("dispatcher-1", "dispatcher_sessions_moved").await - before;
    assert!(moved >= 2.0, "they were sent since then, not before: {moved}");
    assert!(cell.log("dispatcher-1").contains("this one has more than its share"), "it said so");
    std::fs::write(&gate, "").expect("opened");
    for name in &jobs {
        let ended = cell.api.wait_for_runs(name, "SUCCEEDED", 1).await;
        assert_eq!(ended[0]["attempt"], 1);
    }
    let said = std::fs::read_to_string(&marks).expect("marks");
    let times = |what: &str| said.lines().filter(|line| *line == what).count();
    assert_eq!((times("started"), times("ended")), (8, 8));
    assert_eq!(cell.count("SELECT count(*) FROM run_outcome").await, 0, "no attempt was lost");
    cell.stop().await;
}

/// How many workers the dispatchers have that have any.
async fn spread(cell: &mut Cell) -> Vec<i64> {
    let sql = "SELECT count(*) FROM worker_session WHERE ended_at IS NULL GROUP BY dispatcher_id";
    cell.sql(sql).await.lines().filter_map(|count| count.trim().parse().ok()).collect()
}

/// The name of the dispatcher that the agent's session is with.
async fn dispatcher(cell: &mut Cell) -> String {
    let with = "SELECT d.name FROM worker_session s JOIN dispatcher d ON d.id = s.dispatcher_id WHERE s.ended_at IS NULL";
    cell.sql(with).await
}
