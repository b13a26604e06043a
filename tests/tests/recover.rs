//! Recovering: processes are killed and frozen for real, and no occurrence is lost, doubled or late.

use chrono::TimeDelta;
use harness::{Cell, PATIENCE, instant, job, noop, shell, token};
use serde_json::json;
use stack::dev::Role;
use stack::wait::wait_for;
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_run_whose_agent_is_killed_goes_to_another_with_a_higher_token() {
    let mut cell = Cell::start_with(|options| stack::dev::Options { agents: 2, ..options }).await;
    let mark = cell.folder().join("first-attempt");
    // The first attempt waits to be killed; the second finds its mark and succeeds.
    let line = format!("if [ -e {0} ]; then exit 0; fi; touch {0}; sleep 300", mark.display());
    let mut long = job("long", "* * * * * *", shell(&line));
    long["maxRuntime"] = json!("600s");
    cell.api.create(long).await;
    let running = cell.api.wait_for_runs("long", "RUNNING", 1).await[0].clone();
    wait_for(PATIENCE, "the first attempt's mark", async || mark.exists().then_some(())).await;
    let holder = running["worker"].as_str().expect("a worker").to_owned();
    let killed = Instant::now();
    cell.stack.service(&holder).expect("an agent of the cell").process().kill().expect("killed");

    let path = format!("/v1/jobs/long/runs/{}", running["scheduledFor"].as_str().expect("an instant"));
    let ended = wait_for(PATIENCE, "the second attempt's success", async || {
        let run = cell.api.get(&path).await.ok()?;
        (run["state"] == "SUCCEEDED").then_some(run)
    })
    .await;
    // A lease of 15 s, and two for looks and hand-overs.
    assert!(killed.elapsed() < Duration::from_secs(17), "handed on after {:?}", killed.elapsed());
    assert_eq!(ended["attempt"], 2, "a loss spends no attempt of maxAttempts, which is 1 here");
    assert!(token(&ended) > token(&running), "{ended}");
    assert_ne!(ended["worker"], holder);
    assert_eq!(ended["attempts"][0]["state"], "LOST");
    cell.stop().await;
}

#[tokio::test]
async fn a_killed_leader_is_followed_in_seconds_and_no_second_is_missed_or_late() {
    let mut cell = Cell::start().await;
    let (leader, revision) = cell.leader().await;
    cell.api.create(job("each-second", "* * * * * *", noop())).await;
    let before = cell.api.wait_for_runs("each-second", "SUCCEEDED", 5).await;
    let first = instant(&before[0], "scheduledFor");

    let killed = Instant::now();
    cell.stack.service(&leader).expect("the leader").process().kill().expect("killed");
    let (follower, higher) = wait_for(PATIENCE, "another leader", async || {
        let (name, now) = cell.leader().await;
        (name != leader).then_some((name, now))
    })
    .await;
    assert!(killed.elapsed() < Duration::from_secs(15), "followed after {:?}", killed.elapsed());
    assert!(higher > revision, "{follower} leads with revision {higher}, after {revision}");

    let after = before.len() + 20;
    let runs = cell.api.wait_for_runs("each-second", "SUCCEEDED", after).await;
    for (index, run) in runs.iter().enumerate() {
        let expected = first + TimeDelta::seconds(i64::try_from(index).expect("few"));
        assert_eq!(instant(run, "scheduledFor"), expected, "no second without a run");
        let late = instant(run, "acceptTime") - instant(run, "dueTime");
        assert!(late <= TimeDelta::seconds(2), "{} started {late} late", run["name"]);
    }
    let ended = cell
        .sql(&format!("SELECT ended_how FROM term WHERE role = 'ticker' AND revision = {revision}"))
        .await;
    assert_eq!(ended, "LOST", "the follower closed the term that was never resigned");
    cell.stop().await;
}

#[tokio::test]
async fn a_frozen_leader_that_thaws_is_refused_by_the_fence() {
    let mut cell = Cell::start().await;
    let (leader, revision) = cell.leader().await;
    cell.api.create(job("each-second", "* * * * * *", noop())).await;
    cell.api.wait_for_runs("each-second", "SUCCEEDED", 2).await;
    cell.stack.service(&leader).expect("the leader").process().stop().expect("frozen");
    let (_, higher) = wait_for(PATIENCE, "another leader", async || {
        let (name, now) = cell.leader().await;
        (name != leader).then_some((name, now))
    })
    .await;
    assert!(higher > revision);
    cell.stack.service(&leader).expect("the old leader").process().cont().expect("thawed");
    // By its own clock its lease has run out, so it plans nothing more; its last write, the note of how its
    // leadership ended, meets the follower's fence.
    wait_for(PATIENCE, "the fence's refusal in the old leader's log", async || {
        let refused = cell.log(&leader).lines().any(|line| {
            line.contains("the fence refused a write of this leadership")
                && line.contains(&revision.to_string())
        });
        refused.then_some(())
    })
    .await;
    assert!(cell.metric(&leader, "escapement_fence_refusals").await >= 1.0);
    let ended = format!("SELECT ended_how FROM term WHERE role = 'ticker' AND revision = {revision}");
    assert_eq!(cell.sql(&ended).await, "FENCED");
    let foreign = format!(
        "SELECT count(*) FROM run r WHERE r.term = {revision} AND r.scheduled_for > \
         (SELECT began_at + interval '180 seconds' FROM term WHERE role = 'ticker' AND revision = {higher})"
    );
    assert_eq!(cell.count(&foreign).await, 0);
    cell.api.wait_for_runs("each-second", "SUCCEEDED", 10).await;
    cell.stop().await;
}

#[tokio::test]
async fn a_killed_dispatcher_loses_no_run_and_its_workers_move() {
    let mut cell = Cell::start().await;
    let mut long = job("long", "* * * * * *", shell("sleep 8"));
    long["overlap"] = json!("FORBID");
    cell.api.create(long).await;
    let running = cell.api.wait_for_runs("long", "RUNNING", 1).await[0].clone();
    let status = cell.api.get("/v1/status").await.expect("status");
    let holder = status["workers"][0]["dispatcher"].as_str().expect("its dispatcher").to_owned();
    cell.stack.service(&holder).expect("a dispatcher").process().kill().expect("killed");
    let path = format!("/v1/jobs/long/runs/{}", running["scheduledFor"].as_str().expect("an instant"));
    let ended = wait_for(PATIENCE, "the run's success", async || {
        let run = cell.api.get(&path).await.ok()?;
        (run["state"] == "SUCCEEDED").then_some(run)
    })
    .await;
    assert_eq!(ended["attempt"], 1, "the worker lived, so the run is not run twice");
    let status = cell.api.get("/v1/status").await.expect("status");
    assert_ne!(status["workers"][0]["dispatcher"], holder);
    assert_eq!(harness::names(&cell.stack, Role::Dispatcher).len(), 2);
    cell.stop().await;
}
