//! Schedules, calendars and answers as people see them: the command line.

use harness::{Cell, job, noop};
use serde_json::{Value, json};

const CALENDARS: &str = "
kind: Job
name: invoices
schedule: 0 9 * * 1-5
timezone: Europe/Berlin
calendars: { exclude: [holidays], rule: NEXT_DAY }
run: { exec: { argv: ['true'] } }
---
kind: Calendar
name: holidays
dates: [2027-05-03, 2027-12-25]
";

#[tokio::test]
async fn a_schedule_is_explained_on_the_command_line() {
    let cell = Cell::start_with(|mut options| {
        (options.tickers, options.dispatchers, options.agents, options.watchdogs) = (1, 0, 0, 0);
        options
    })
    .await;
    let file = cell.folder().join("calendars.yaml");
    std::fs::write(&file, CALENDARS).expect("a file");
    let file = file.to_str().expect("a path");
    let applied = cell.prints(&["apply", "-f", file]);
    assert_eq!(applied, "calendar holidays created\njob invoices created\n");
    assert_eq!(
        cell.prints(&["apply", "-f", file]),
        "calendar holidays unchanged\njob invoices unchanged\nnothing changed\n"
    );
    assert!(cell.prints(&["get", "calendars"]).contains("2027-05-03  2027-12-25"));

    let gap =
        ["preview", "30 2 * * *", "--timezone", "Europe/Berlin", "--from", "2026-03-28T12:00:00Z", "-n", "2"];
    let table = cell.prints(&gap);
    for line in ["2026-03-29T01:00:00Z  2026-03-29T03:00:00+02:00", "2026-03-30T00:30:00Z", "do not exist"] {
        assert!(table.contains(line), "{line} in {table}");
    }
    let skipped = cell.prints(&[gap.as_slice(), &["--dst-gap", "skip"]].concat());
    assert!(skipped.contains("dstGap is SKIP"), "{skipped}");
    let json = cell.prints(&[gap.as_slice(), &["--previous", "-o", "json"]].concat());
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["occurrences"][0]["time"], "2026-03-28T01:30:00Z");

    let of_job = cell.prints(&["preview", "--job", "invoices", "--from", "2027-05-02T00:00:00Z", "-n", "1"]);
    assert!(of_job.contains("2027-05-04T09:00:00+02:00") && of_job.contains("holidays"), "{of_job}");
    let wrong = cell.escapement(&["preview", "61 * * * *", "--timezone", "Berlin", "--exclude", "nobody"]);
    assert_eq!(wrong.status.code(), Some(1));
    let told = String::from_utf8_lossy(&wrong.stderr);
    for field in ["schedule: ", "timezone: ", "calendars.exclude[0]: "] {
        assert!(told.contains(field), "{field} in {told}");
    }

    let why = cell.prints(&["why", "invoices@2027-05-03T09:00"]);
    for line in [
        "was read as local time in Europe/Berlin",
        "a day of the calendar \"holidays\"",
        "moved to 2027-05-04",
    ] {
        assert!(why.contains(line), "{line} in {why}");
    }
    let in_use = cell.escapement(&["delete", "calendar", "holidays"]);
    assert!(String::from_utf8_lossy(&in_use.stderr).contains("\"invoices\""));
    cell.api.delete("/v1/jobs/invoices").await.expect("deleted");
    assert_eq!(cell.prints(&["delete", "calendar", "holidays"]), "calendar holidays deleted\n");
    let named = job("late", "* * * * *", noop());
    let named = json!({ "calendars": { "only": ["holidays"] }, "name": "late", "schedule": "* * * * *", "run": named["run"] });
    let refused = cell.api.post("/v1/jobs", named).await.expect_err("the calendar is gone");
    assert_eq!(refused.status, 400);
    cell.stop().await;
}
