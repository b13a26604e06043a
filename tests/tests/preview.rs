//! Schedules, calendars and answers as people see them: the command line.

use harness::{Cell, job, noop, terminal};
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

/// Jobs of one midnight, as a file.
fn at_midnight(jobs: usize) -> String {
    let job = |number| {
        format!(
            "kind: Job\nname: night-{number:02}\nschedule: 0 0 * * *\nrun: {{ exec: {{ argv: ['true'] }} }}\n---\n"
        )
    };
    (0..jobs).map(job).collect()
}

#[tokio::test]
async fn the_coming_load_is_drawn_with_whose_its_peaks_are_and_what_spreads_them() {
    let cell = Cell::start_with(|mut options| {
        (options.tickers, options.dispatchers, options.agents, options.watchdogs) = (1, 0, 0, 0);
        options
    })
    .await;
    let file = cell.folder().join("night.yaml");
    std::fs::write(&file, at_midnight(40)).expect("a file");
    let file = file.to_str().expect("a path");

    // Long work shows how far it is: to people at a terminal only.
    let on_terminal = |arguments: &[&str], kind: &str| {
        let mut command = cell.command(arguments);
        command.env("TERM", kind);
        terminal::said(command, 100)
    };
    let applying = "applying 40 definitions";
    assert!(on_terminal(&["apply", "-f", file], "xterm").contains(applying));
    assert!(!on_terminal(&["apply", "-f", file], "dumb").contains(applying));
    assert!(!on_terminal(&["apply", "-f", file, "-q"], "xterm").contains(applying));
    assert!(!on_terminal(&["apply", "-f", file, "-o", "json"], "xterm").contains(applying));
    assert!(cell.escapement(&["apply", "-f", file]).stderr.is_empty(), "nobody looks at a pipe");

    let herd = ["preview", "--herd", "--from", "2090-01-01T12:00:00Z"];
    let piped = cell.prints(&herd);
    for line in [
        "40 jobs, 40 runs from 2090-01-01T12:00:00Z to 2090-01-02T12:00:00Z: 40 in the busiest second, 2090-01-02T00:00:00Z.",
        "      40 |",
        "Each column is 30 minutes (UTC), as high as its busiest second.",
        "  2090-01-02T00:00:00Z: 40 runs in one second",
        "    night-00, night-01, night-02, night-03, night-04, night-05, night-06, night-07, night-08, night-09 and 30 more",
        "    try `jitter: ",
        "    or `schedule: H 0 * * *` instead of `0 0 * * *` in 40 jobs: ",
    ] {
        assert!(piped.lines().any(|told| told.starts_with(line)), "{line} in {piped}");
    }
    assert!(piped.is_ascii(), "{piped}");
    assert!(on_terminal(&herd, "dumb").is_ascii());
    let drawn = on_terminal(&herd, "xterm");
    assert!(drawn.contains("Each column is 20 minutes") && drawn.contains('█'), "{drawn}");
    let picture = drawn.lines().map(str::trim_end).filter(|line| line.contains(['│', '└']));
    assert!(picture.map(|line| line.chars().count()).max() <= Some(100), "{drawn}");

    let figures = |arguments: &[&str]| -> Value {
        serde_json::from_str(&cell.prints(&[arguments, &["-o", "json"]].concat())).expect("JSON")
    };
    let figures_before = figures(&herd);
    let spread = figures_before["peaks"][0]["spreads"]
        .as_array()
        .and_then(|spreads| spreads.iter().find(|spread| spread["schedule"].is_string()));
    let spread = spread.expect("H is suggested");
    let spread_file = cell.folder().join("spread.yaml");
    std::fs::write(&spread_file, at_midnight(40).replace("0 0 * * *", "H 0 * * *")).expect("a file");
    cell.prints(&["apply", "-f", spread_file.to_str().expect("a path")]);
    assert_eq!(figures(&herd)["busiest"]["runs"], spread["peak"], "as was said");

    let hour =
        cell.prints(&["preview", "--herd", "--from", "2090-01-01T12:00:00Z", "--for", "6h", "-l", "team"]);
    assert_eq!(hour, "0 jobs, 0 runs from 2090-01-01T12:00:00Z to 2090-01-01T18:00:00Z: nothing is due.\n");
    let wrong = cell.escapement(&["preview", "--herd", "--for", "8d"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&wrong.stderr).contains("span: 691200 s: use 60 s to 604800 s"),
        "{wrong:?}"
    );
    cell.stop().await;
}
