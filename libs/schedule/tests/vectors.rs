//! Expected answers, written down independently of the code: what is due, what is refused, what means the same.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chrono::{DateTime, Utc};
use escapement_schedule::SpecField;
use model::policy::{DstFold, DstGap};
use serde::Deserialize;
use support::parse;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Due {
    when: String,
    zone: String,
    gap: Option<DstGap>,
    fold: Option<DstFold>,
    after: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
    due: Vec<DateTime<Utc>>,
    #[serde(default)]
    then_none: bool,
    note: Option<String>,
}

fn lines<'a, T: Deserialize<'a>>(text: &'a str) -> Vec<T> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn what_is_due() {
    let cases: Vec<Due> = lines(include_str!("data/due.jsonl"));
    assert!(cases.len() > 190, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let (gap, fold) = (case.gap.unwrap_or(DstGap::RunAfter), case.fold.unwrap_or(DstFold::First));
        let schedule =
            parse(&case.when, &case.zone, gap, fold).unwrap_or_else(|e| panic!("{}: {e:?}", case.when));
        let wanted = case.due.len() + usize::from(case.then_none);
        let found: Vec<DateTime<Utc>> = match (case.after, case.until) {
            (Some(after), None) => {
                std::iter::successors(schedule.next(after), |at| schedule.next(*at)).take(wanted).collect()
            }
            (None, Some(until)) => {
                let before = |at: &DateTime<Utc>| schedule.previous(*at - chrono::TimeDelta::seconds(1));
                std::iter::successors(schedule.previous(until), before).take(wanted).collect()
            }
            _ => panic!("{}: a case looks either forward or backward", case.when),
        };
        if found != case.due {
            wrong.push(format!(
                "{} in {} ({:?}): {found:?} is not {:?}",
                case.when, case.zone, case.note, case.due
            ));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_refused() {
    let cases: Vec<(String, String)> = lines(include_str!("data/refused.jsonl"));
    assert!(cases.len() > 60, "{} cases", cases.len());
    for (when, why) in &cases {
        let errors = parse(when, "UTC", DstGap::RunAfter, DstFold::First)
            .err()
            .unwrap_or_else(|| panic!("{when:?} is accepted: {why}"));
        assert!(errors.iter().all(|error| error.field == SpecField::Expression), "{when:?}: {errors:?}");
        assert!(errors.iter().all(|error| error.message.len() < 400), "{when:?}: {errors:?}");
    }
}

#[test]
fn what_means_the_same() {
    let cases: Vec<(String, String)> = lines(include_str!("data/same.jsonl"));
    assert!(cases.len() > 20, "{} cases", cases.len());
    for (one, other) in &cases {
        let [one_due, other_due] = [one, other].map(|when| {
            let schedule = parse(when, "Europe/Berlin", DstGap::RunAfter, DstFold::First).expect(when);
            let start = "2026-02-25T11:59:30Z".parse().unwrap();
            std::iter::successors(schedule.next(start), |at| schedule.next(*at)).take(300).collect::<Vec<_>>()
        });
        assert_eq!(one_due, other_due, "{one:?} and {other:?}");
    }
}

#[test]
fn the_hosts_own_timezone_changes_no_answer() {
    let tests = std::env::current_exe().unwrap();
    let zones = [
        "UTC",
        "Europe/London",
        "America/New_York",
        "Asia/Kathmandu",
        "Pacific/Apia",
        "Nowhere/At_All",
        ":/dev/null",
    ];
    for zone in zones.into_iter().map(Some).chain([None]) {
        let mut command = std::process::Command::new(&tests);
        // No zone files where one would look for them either.
        command.arg("what_").env_remove("TZ").env("TZDIR", "/nowhere");
        let output = command.envs(zone.map(|zone| ("TZ", zone))).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("3 passed"), "TZ={zone:?}: {text}");
    }
}
