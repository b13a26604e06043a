//! Check-ins: what runs elsewhere reports with nothing but its token, and is missed when it does not.

use harness::receiver::{Received, Receiver};
use harness::{Api, Cell, PATIENCE};
use serde_json::{Value, json};
use stack::wait::wait_for;

fn about(oncall: &Receiver, name: &str) -> Vec<Value> {
    let all = oncall.received().iter().map(Received::json).collect::<Vec<_>>();
    all.into_iter().filter(|body| body["data"]["subject"]["name"] == name).collect()
}

async fn told(oncall: &Receiver, name: &str, count: usize) -> Vec<Value> {
    wait_for(PATIENCE, &format!("{count} messages about {name}"), async || {
        let about = about(oncall, name);
        (about.len() >= count).then_some(about)
    })
    .await
}

#[tokio::test]
async fn what_does_not_report_is_missed_and_what_fails_is_told_at_once() {
    let mut cell = Cell::start().await;
    let oncall = Receiver::start().await;
    let channel = json!({"name": "oncall", "webhook": {"url": oncall.url}});
    cell.api.post("/v1/channels", channel).await.expect("stored");
    let written = json!({"name": "backup", "period": "10s", "grace": "1s", "channels": ["oncall"]});
    let created = cell.api.post("/v1/check-ins", written).await.expect("created");
    let path = created["path"].as_str().expect("where to report").to_owned();
    let token = created["token"].as_str().expect("a token").to_owned();
    assert!(path.ends_with(&token) && token.len() > 32, "{created}");
    let shown = cell.api.get("/v1/check-ins").await.expect("listed").to_string();
    assert!(!shown.contains(&token), "the token is shown once");
    let stored = cell.sql("SELECT encode(token_hash, 'escape') || definition::text FROM check_in").await;
    assert!(!stored.contains(&token));

    // Whoever reports has no token of the API, and needs none.
    let elsewhere = Api::new(&cell.stack.endpoints().registry.rest, "");
    assert_eq!(elsewhere.post(&path, json!("done")).await.expect("noted"), json!("noted\n"));
    let opened = told(&oncall, "backup", 1).await.remove(0);
    assert_eq!((&opened["type"], &opened["data"]["cause"]), (&json!("alert.opened"), &json!("NO_CHECK_IN")));
    let found = cell.api.get("/v1/check-ins/backup").await.expect("found");
    assert_eq!((&found["missing"], &found["reports"][0]["kind"]), (&json!(true), &json!("SUCCESS")));
    elsewhere.post(&path, json!("")).await.expect("noted");
    let resolved = told(&oncall, "backup", 2).await.remove(1);
    assert_eq!(resolved["type"], "alert.resolved");

    elsewhere.post(&format!("{path}/start"), json!("")).await.expect("noted");
    elsewhere.post(&format!("{path}/fail"), json!("disk full")).await.expect("noted");
    let failed = told(&oncall, "backup", 3).await.remove(2);
    assert_eq!(failed["data"]["cause"], "REPORTED_FAILURE");
    assert!(failed["data"]["summary"].as_str().is_some_and(|text| text.contains("disk full")), "{failed}");

    let listed = cell.prints(&["checkins", "list"]);
    assert!(listed.contains("backup") && listed.contains("missing"), "{listed}");
    cell.prints(&["checkins", "pause", "backup"]);
    assert_eq!(told(&oncall, "backup", 4).await[3]["type"], "alert.resolved");
    cell.prints(&["checkins", "delete", "backup"]);
    let refused = elsewhere.post(&path, json!("")).await.expect_err("its token is refused");
    assert_eq!(refused.status, 404);
    assert!(!refused.problem.to_string().contains(&token), "{refused:?}");
    cell.stop().await;
}

#[tokio::test]
async fn the_command_line_says_where_to_report_and_what_is_wrong() {
    let cell = Cell::start().await;
    let said = cell.prints(&[
        "checkins",
        "create",
        "nightly",
        "--schedule",
        "@daily",
        "--timezone",
        "Europe/Berlin",
    ]);
    assert!(said.contains("curl -fsS -X POST http://") && said.contains("/v1/checkins/"), "{said}");
    let wrong = json!({"name": "weekly", "schedule": "61 * * * *", "period": "1s", "channels": ["nobody"]});
    let refused = cell.api.post("/v1/check-ins", wrong).await.expect_err("wrong");
    assert_eq!(refused.status, 400);
    assert!(refused.problem.to_string().contains("period"), "{refused:?}");
    let twice = json!({"name": "nightly", "schedule": "@daily"});
    assert_eq!(cell.api.post("/v1/check-ins", twice).await.expect_err("taken").status, 409);
    let stale = json!({"schedule": "@hourly", "generation": "7"});
    assert_eq!(cell.api.put("/v1/check-ins/nightly", stale).await.expect_err("stale").status, 409);
    let changed = json!({"schedule": "@hourly", "generation": "1"});
    let changed = cell.api.put("/v1/check-ins/nightly", changed).await.expect("changed");
    assert_eq!((&changed["schedule"], &changed["generation"]), (&json!("@hourly"), &json!("2")));
    // Files: what is exported, applied again, changes nothing; a token is made anew where it was lost.
    let exported = cell.prints(&["export", "checkins"]);
    assert!(exported.contains("kind: CheckIn\nname: nightly\nschedule: '@hourly'"), "{exported}");
    let file = cell.folder().join("checkins.yaml");
    let weekly = "---\nkind: CheckIn\nname: weekly\nperiod: 7d\ngrace: 1h30m\nseverity: WARNING\n";
    std::fs::write(&file, format!("{exported}\n{weekly}")).expect("written");
    let applied = cell.prints(&["apply", "-f", &file.display().to_string()]);
    assert!(applied.contains("weekly") && !applied.contains("esc_"), "{applied}");
    let found = cell.api.get("/v1/check-ins/weekly").await.expect("stored");
    assert_eq!((&found["period"], &found["grace"]), (&json!("604800s"), &json!("5400s")));
    let nightly = cell.api.get("/v1/check-ins/nightly").await.expect("found");
    assert_eq!(nightly["generation"], "2", "it is as it was");
    let rotated = cell.prints(&["checkins", "rotate", "weekly"]);
    let path =
        rotated.split_whitespace().find(|word| word.contains("/v1/checkins/")).expect("where to report");
    let reported = reqwest::Client::new().post(path).send().await.expect("an answer");
    assert_eq!(reported.status(), 200);
    // Created by a file, it is told where to report, once.
    std::fs::write(&file, "kind: CheckIn\nname: monthly\nperiod: 31d\n").expect("written");
    let created = cell.prints(&["create", "-f", &file.display().to_string()]);
    assert!(created.contains("check-in monthly created") && created.contains("/v1/checkins/"), "{created}");
    cell.stop().await;
}
