//! Filling the past: each occurrence once, oldest first, at its pace, whoever dies meanwhile.

use chrono::TimeDelta;
use harness::{Cell, PATIENCE, instant, job, names, noop, shell, terminal};
use serde_json::json;
use stack::dev::Role;
use stack::wait::wait_for;

#[tokio::test]
async fn a_range_runs_once_oldest_first_and_one_at_a_time_while_a_dispatcher_is_killed() {
    let mut cell = Cell::start().await;
    cell.leader().await;
    let created = cell.api.create(job("hourly", "0 * * * *", shell("sleep 0.2"))).await;
    let to = instant(&created, "createTime");
    let range = json!({ "from": to - TimeDelta::hours(30), "to": to, "pace": "0.1s" });
    let dry = {
        let mut dry = range.clone();
        dry["dryRun"] = json!(true);
        cell.api.post("/v1/jobs/hourly:backfill", dry).await.expect("estimated")
    };
    assert_eq!((&dry["added"], &dry["existing"]), (&json!("30"), &json!("0")));
    assert_eq!(cell.count("SELECT count(*) FROM run").await, 0);
    let (one, two) = tokio::join!(
        cell.api.post("/v1/jobs/hourly:backfill", range.clone()),
        cell.api.post("/v1/jobs/hourly:backfill", range.clone()),
    );
    let count = |answer: &serde_json::Value, field: &str| -> i64 {
        answer[field].as_str().map_or(0, |text| text.parse().expect("a number"))
    };
    let answers = [one.expect("filled"), two.expect("filled")];
    assert_eq!(answers.iter().map(|answer| count(answer, "added")).sum::<i64>(), 30, "{answers:?}");
    assert_eq!(answers.iter().map(|answer| count(answer, "existing")).sum::<i64>(), 30, "{answers:?}");

    cell.api.wait_for_runs("hourly", "SUCCEEDED", 5).await;
    let dispatcher = names(&cell.stack, Role::Dispatcher).remove(0);
    cell.stack.service(&dispatcher).expect("a dispatcher").process().kill().expect("killed");
    let runs = cell.api.wait_for_runs("hourly", "SUCCEEDED", 30).await;
    assert!(runs.iter().all(|run| run["origin"] == "BACKFILL"));
    for pair in runs.windows(2) {
        assert_eq!(
            instant(&pair[1], "scheduledFor") - instant(&pair[0], "scheduledFor"),
            TimeDelta::hours(1)
        );
        assert!(instant(&pair[1], "claimTime") >= instant(&pair[0], "finishTime"), "{pair:?}");
    }
    let left = "SELECT count(*) FROM catch_up";
    wait_for(PATIENCE, "the backlog to close", async || (cell.count(left).await == 0).then_some(())).await;
    let again = cell.api.post("/v1/jobs/hourly:backfill", range).await.expect("nothing to do");
    assert_eq!((count(&again, "added"), count(&again, "existing")), (0, 30));
    assert_eq!(cell.count("SELECT count(*) FROM run WHERE origin = 'BACKFILL'").await, 30);
    cell.stop().await;
}

#[tokio::test]
async fn runs_beside_each_other_start_no_closer_than_the_pace() {
    let cell = Cell::start().await;
    cell.leader().await;
    let mut daily = job("daily", "0 12 * * *", noop());
    daily["overlap"] = json!("ALLOW");
    let created = cell.api.create(daily).await;
    let to = instant(&created, "createTime");
    let range = json!({ "from": to - TimeDelta::days(20), "to": to, "pace": "0.5s" });
    let answer = cell.api.post("/v1/jobs/daily:backfill", range).await.expect("filled");
    assert_eq!(answer["added"], "20", "days that had no partition, too");
    let mut runs = cell.api.wait_for_runs("daily", "SUCCEEDED", 20).await;
    runs.sort_by_key(|run| instant(run, "dueTime"));
    for pair in runs.windows(2) {
        assert!(instant(&pair[0], "scheduledFor") < instant(&pair[1], "scheduledFor"), "oldest first");
        let apart = instant(&pair[1], "dueTime") - instant(&pair[0], "dueTime");
        assert!(apart >= TimeDelta::milliseconds(500), "{apart}");
        assert!(instant(&pair[1], "acceptTime") >= instant(&pair[1], "dueTime"));
    }
    cell.stop().await;
}

#[tokio::test]
async fn who_follows_at_a_terminal_sees_how_far_it_is() {
    let cell = Cell::start().await;
    cell.leader().await;
    let created = cell.api.create(job("early", "0 * * * *", noop())).await;
    let to = instant(&created, "createTime");
    let (from, to) = ((to - TimeDelta::hours(3)).to_rfc3339(), to.to_rfc3339());
    let command = cell.command(&["backfill", "early", "--from", &from, "--to", &to, "--follow"]);
    let said = terminal::said(command, 100);
    for shown in ["3 runs of early added", "runs of early ", " of 3, ", "0 left"] {
        assert!(said.contains(shown), "{shown} in {said:?}");
    }
    assert!(!said.contains("3 left"), "the bar says so: {said:?}");
    cell.stop().await;
}
