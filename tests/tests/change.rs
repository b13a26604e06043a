//! Changing and deleting jobs inside the planned window.

use chrono::{TimeDelta, Timelike, Utc};
use harness::{Cell, PATIENCE, instant, job, noop, shell};
use stack::wait::wait_for;

#[tokio::test]
async fn a_job_deleted_before_its_planned_run_leaves_no_run() {
    let mut cell = Cell::start().await;
    cell.leader().await;
    let at = Utc::now() + TimeDelta::seconds(8);
    let schedule = format!("{} {} {} * * *", at.second(), at.minute(), at.hour());
    let created = cell.api.create(job("doomed", &schedule, noop())).await;
    let id = created["id"].as_str().expect("an id").to_owned();
    let planned = format!("SELECT count(*) FROM run WHERE job_id = '{id}'");
    wait_for(PATIENCE, "its row", async || (cell.count(&planned).await == 1).then_some(())).await;
    cell.api.delete("/v1/jobs/doomed").await.expect("deleted");
    let due = instant(&created, "nextFireTime");
    wait_for(PATIENCE, "its second to pass", async || {
        (Utc::now() > due + TimeDelta::seconds(3)).then_some(())
    })
    .await;
    assert_eq!(cell.count(&planned).await, 0);
    let queued = format!("SELECT count(*) FROM run_queue WHERE job_id = '{id}'");
    assert_eq!(cell.count(&queued).await, 0);
    cell.stop().await;
}

#[tokio::test]
async fn a_schedule_changed_inside_the_window_runs_only_by_the_new_one() {
    let cell = Cell::start().await;
    cell.leader().await;
    // Even seconds first, odd ones after the change.
    cell.api.create(job("changing", "*/2 * * * * *", shell("echo even"))).await;
    cell.api.wait_for_runs("changing", "SUCCEEDED", 3).await;
    let changed =
        cell.api.put("/v1/jobs/changing", job("changing", "1-59/2 * * * * *", shell("echo odd"))).await;
    let changed = changed.expect("changed");
    assert_eq!(changed["generation"], "2");
    let at = instant(&changed, "updateTime");
    let runs = wait_for(PATIENCE, "runs of the new definition", async || {
        let runs = cell.api.wait_for_runs("changing", "SUCCEEDED", 3).await;
        let new = runs.iter().filter(|run| instant(run, "scheduledFor") > at).count();
        (new >= 5).then_some(runs)
    })
    .await;
    for run in &runs {
        let scheduled = instant(run, "scheduledFor");
        let (parity, says, generation) = if scheduled > at { (1, "odd\n", "2") } else { (0, "even\n", "1") };
        assert_eq!(scheduled.second() % 2, parity, "{run}");
        assert_eq!((&run["output"], &run["generation"]), (&says.into(), &generation.into()), "{run}");
    }
    let fired: Vec<_> = runs.iter().map(|run| instant(run, "scheduledFor")).filter(|at_| *at_ > at).collect();
    for pair in fired.windows(2) {
        assert_eq!(pair[1] - pair[0], TimeDelta::seconds(2), "no odd second without a run");
    }
    cell.stop().await;
}

#[tokio::test]
async fn a_registry_restarted_under_creates_loses_no_acknowledged_one() {
    let mut cell = Cell::start_with(|mut options| {
        (options.tickers, options.dispatchers, options.agents, options.watchdogs) = (0, 0, 0, 0);
        options
    })
    .await;
    let (api, mut acknowledged) = (cell.api.clone(), Vec::new());
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let creating = tokio::spawn(async move {
        for number in 0.. {
            if *stopped.borrow_and_update() {
                break;
            }
            let name = format!("job-{number}");
            if api.post("/v1/jobs", job(&name, "0 0 1 1 *", noop())).await.is_ok() {
                acknowledged.push(name);
            }
        }
        acknowledged
    });
    let stored = "SELECT count(*) FROM job";
    wait_for(PATIENCE, "some creates", async || (cell.count(stored).await > 20).then_some(())).await;
    cell.stack.service("registry-1").expect("the registry").process().kill().expect("killed");
    stop.send(true).expect("still creating");
    let acknowledged = creating.await.expect("no panic");
    cell.stack.restart("registry-1").await.expect("it starts again");
    let names = cell.sql("SELECT name FROM job WHERE deleted_at IS NULL").await;
    let names: std::collections::BTreeSet<&str> = names.lines().collect();
    for name in &acknowledged {
        assert!(names.contains(name.as_str()), "{name} was acknowledged and is gone");
    }
    assert!(acknowledged.len() >= 20);
    cell.stop().await;
}
