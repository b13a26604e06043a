//! `docs/schedules.md` says what the code does: every example's sentence and next times are recomputed.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chrono::{DateTime, NaiveDateTime, Utc};
use escapement_schedule::{Schedule, Spec};
use model::policy::{DstFold, DstGap};
use support::{at, following};

const PAGE: &str = include_str!("../../../docs/schedules.md");
const TIMES: usize = 3;

/// Cells of the table rows that begin with this many columns and an example in the second.
fn rows(columns: usize) -> Vec<(&'static str, Vec<&'static str>)> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| "));
    let cells = |line: &'static str| line.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>();
    rows.map(|line| (line, cells(line)))
        .filter(|(_, cells)| cells.len() == columns && cells[1].starts_with('`'))
        .collect()
}

fn instant(text: &str) -> DateTime<Utc> {
    NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").expect(text).and_utc()
}

fn times(schedule: &Schedule, after: DateTime<Utc>) -> String {
    let due = following(schedule, after, TIMES);
    let mut texts: Vec<String> = due.iter().map(|at| at.format("%Y-%m-%d %H:%M:%S").to_string()).collect();
    if due.len() < TIMES {
        texts.push("then none".to_owned());
    }
    texts.join(", ")
}

fn read(cells: &[&str], timezone: &str, gap: DstGap, fold: DstFold) -> Schedule {
    let spec = Spec {
        expression: cells[1].trim_matches('`'),
        timezone,
        dst_gap: gap,
        dst_fold: fold,
        seed: "invoices",
        anchor: at("2026-01-01T00:00:00Z"),
    };
    Schedule::parse(&spec).unwrap_or_else(|errors| panic!("{}: {errors:?}", cells[1]))
}

#[test]
fn every_syntax_says_and_does_what_its_row_shows() {
    let rows = rows(4);
    assert!(rows.len() > 30, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for (line, cells) in rows {
        let schedule = read(&cells, "UTC", DstGap::RunAfter, DstFold::First);
        let sentence = schedule.describe();
        let sentence = sentence.trim_end_matches(", UTC time");
        let expected = format!(
            "| {} | {} | {sentence} | {} |",
            cells[0],
            cells[1],
            times(&schedule, instant("2026-11-29 00:00:00"))
        );
        if line != expected {
            wrong.push(expected);
        }
    }
    assert!(wrong.is_empty(), "these rows should read:\n{}", wrong.join("\n"));
}

#[test]
fn every_clock_change_does_what_its_row_shows() {
    let rows = rows(7);
    assert!(rows.len() > 10, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for (line, cells) in rows {
        let cell = |index: usize| cells[index].trim_matches('`');
        let schedule = read(&cells, cell(2), cell(3).parse().unwrap(), cell(4).parse().unwrap());
        let expected = format!("| {} | {} |", cells[..6].join(" | "), times(&schedule, instant(cells[5])));
        if line != expected {
            wrong.push(expected);
        }
    }
    assert!(wrong.is_empty(), "these rows should read:\n{}", wrong.join("\n"));
}
