//! Calendars that change inside the planned window, on a whole cell.

use chrono::{DateTime, TimeDelta, Timelike, Utc};
use harness::{Cell, PATIENCE, instant, job, noop};
use serde_json::{Value, json};
use stack::wait::wait_for;
use std::collections::BTreeSet;

/// Yesterday, today and tomorrow, whichever of them it is by then.
fn these_days() -> Vec<String> {
    let today = Utc::now().date_naive();
    [-1, 0, 1].into_iter().map(|days| (today + TimeDelta::days(days)).to_string()).collect()
}

fn closed(name: &str, schedule: &str, rule: &str) -> Value {
    let mut job = job(name, schedule, noop());
    job["calendars"] = json!({ "exclude": ["closed"], "rule": rule });
    job["overlap"] = json!("ALLOW");
    job
}

/// Gives the calendar these dates; the moment from which they count.
async fn close(cell: &Cell, dates: &[String]) -> DateTime<Utc> {
    let changed = cell.api.put("/v1/calendars/closed", json!({ "dates": dates })).await;
    instant(&changed.expect("changed"), "updateTime")
}

async fn planned_after(cell: &mut Cell, job: &str, at: DateTime<Utc>) -> i64 {
    cell.count(&format!(
        "SELECT count(*) FROM run r JOIN job j ON j.id = r.job_id WHERE j.name = '{job}' AND r.scheduled_for > '{at}'"
    ))
    .await
}

#[tokio::test]
async fn a_calendar_changed_inside_the_window_leaves_exactly_the_runs_that_the_new_one_asks_for() {
    let mut cell = Cell::start().await;
    cell.leader().await;
    cell.api.post("/v1/calendars", json!({ "name": "closed" })).await.expect("stored");
    cell.api.create(closed("beats", "* * * * * *", "SKIP")).await;
    cell.api.wait_for_runs("beats", "SUCCEEDED", 3).await;
    let ahead = "SELECT count(*) FROM run WHERE scheduled_for > esc_now() + interval '30 seconds'";
    wait_for(PATIENCE, "a planned window", async || (cell.count(ahead).await > 20).then_some(())).await;

    let shut = close(&cell, &these_days()).await;
    assert_eq!(planned_after(&mut cell, "beats", shut).await, 0, "what was planned is taken back at once");
    wait_for(PATIENCE, "some closed seconds", async || {
        (cell.count("SELECT extract(epoch FROM esc_now())::bigint").await > shut.timestamp() + 5)
            .then_some(())
    })
    .await;
    assert_eq!(planned_after(&mut cell, "beats", shut).await, 0);
    let open = close(&cell, &[]).await;
    let runs = wait_for(PATIENCE, "runs of the opened days", async || {
        let runs = cell.api.wait_for_runs("beats", "SUCCEEDED", 3).await;
        let since = runs.iter().filter(|run| instant(run, "scheduledFor") > open).count();
        (since >= 5).then_some(runs)
    })
    .await;

    let fired: BTreeSet<_> = runs.iter().map(|run| instant(run, "scheduledFor")).collect();
    assert_eq!(fired.len(), runs.len());
    let (first, last) = (*fired.first().expect("some"), *fired.last().expect("some"));
    let mut second = first;
    while second <= last {
        let expected = second <= shut || second > open;
        // The newest may still be on their way.
        let settled = second < last - TimeDelta::seconds(2);
        assert!(fired.contains(&second) == expected || !settled, "{second}: shut {shut}, open {open}");
        second += TimeDelta::seconds(1);
    }
    cell.stop().await;
}

#[tokio::test]
async fn what_a_calendar_moves_is_planned_on_the_other_day_and_comes_back() {
    let mut cell = Cell::start().await;
    cell.leader().await;
    cell.api.post("/v1/calendars", json!({ "name": "closed" })).await.expect("stored");
    let due = (Utc::now() + TimeDelta::seconds(45)).with_nanosecond(0).expect("a second");
    let schedule = format!("{} {} {} * * *", due.second(), due.minute(), due.hour());
    cell.api.create(closed("daily", &schedule, "NEXT_DAY")).await;
    let before = Utc::now();
    wait_for(PATIENCE, "its row", async || {
        (planned_after(&mut cell, "daily", before).await == 1).then_some(())
    })
    .await;

    close(&cell, &[due.date_naive().to_string()]).await;
    let why = format!("/v1/jobs/daily:why?time={}", due.to_rfc3339_opts(chrono::SecondsFormat::Secs, true));
    let answer = cell.api.get(&why).await.expect("answered");
    assert_eq!(answer["answer"], "NOT_AN_OCCURRENCE", "{answer}");
    let tomorrow = (due + TimeDelta::days(1)).date_naive().to_string();
    assert!(
        answer["explanation"].as_str().expect("text").contains(&format!("moved to {tomorrow}")),
        "{answer}"
    );
    assert_eq!(planned_after(&mut cell, "daily", before).await, 0);

    close(&cell, &[]).await;
    let runs = cell.api.wait_for_runs("daily", "SUCCEEDED", 1).await;
    assert_eq!(instant(&runs[0], "scheduledFor"), due);
    assert_eq!(runs[0]["generation"], "3");
    cell.stop().await;
}
