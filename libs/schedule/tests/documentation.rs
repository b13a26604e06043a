//! `docs/schedules.md` says what the code does: every example's sentence and next times are recomputed.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chrono::{DateTime, NaiveDateTime, Utc};
use escapement_schedule::{DateSet, OpenDays, Schedule, Spec, Way};
use model::policy::{CalendarRule, DstFold, DstGap};
use std::sync::Arc;
use support::{at, dates, following};

const PAGE: &str = include_str!("../../../docs/schedules.md");
const TIMES: usize = 3;

/// Cells of the table rows that begin with this many columns and an example in the second.
fn rows(columns: usize) -> Vec<(&'static str, Vec<&'static str>)> {
    rows_of(PAGE, columns)
}

/// Those of one section.
fn rows_under(heading: &str, columns: usize) -> Vec<(&'static str, Vec<&'static str>)> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).expect(heading);
    let rows = rows_of(section.split("\n## ").next().unwrap_or(section), columns);
    assert!(rows.len() >= 3, "{heading} has {} rows", rows.len());
    rows
}

fn rows_of(text: &'static str, columns: usize) -> Vec<(&'static str, Vec<&'static str>)> {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let cells = |line: &'static str| line.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>();
    rows.map(|line| (line, cells(line)))
        .filter(|(_, cells)| cells.len() == columns && cells[1].starts_with('`'))
        .collect()
}

/// Compares each row with itself, its last cells made anew.
fn check(rows: &[(&str, Vec<&str>)], kept: usize, anew: impl Fn(&[&str]) -> Vec<String>) {
    let mut wrong = Vec::new();
    for (line, cells) in rows {
        let expected = format!("| {} | {} |", cells[..kept].join(" | "), anew(cells).join(" | "));
        if *line != expected {
            wrong.push(expected);
        }
    }
    assert!(wrong.is_empty(), "these rows should read:\n{}", wrong.join("\n"));
}

fn bare(cell: &str) -> &str {
    cell.trim_matches('`')
}

fn holidays() -> Arc<DateSet> {
    dates("holidays", &["2026-12-24", "2026-12-25", "2026-12-26", "2027-01-01"])
}

fn sets(cell: &str) -> Vec<Arc<DateSet>> {
    match bare(cell) {
        "none" => Vec::new(),
        "holidays" => vec![holidays()],
        "quarters" => vec![dates("quarters", &["2026-12-31", "2027-03-31"])],
        other => panic!("the calendar {other} is not described"),
    }
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

#[test]
fn every_bound_does_what_its_row_shows() {
    check(&rows_under("Beginning and end", 5), 4, |cells| {
        let bound = |cell: &str| (cell != "none").then(|| instant(cell));
        let spec = Spec {
            expression: bare(cells[1]),
            timezone: "UTC",
            dst_gap: DstGap::RunAfter,
            dst_fold: DstFold::First,
            seed: "invoices",
            anchor: bound(cells[2]).unwrap(),
        };
        let schedule = Schedule::parse(&spec).unwrap().bounded(bound(cells[2]), bound(cells[3]));
        vec![times(&schedule, instant("2026-11-29 00:00:00"))]
    });
}

#[test]
fn every_calendar_does_what_its_row_shows() {
    check(&rows_under("Calendars", 6), 5, |cells| {
        let rule = bare(cells[4]).parse().unwrap();
        let calendars = OpenDays { exclude: sets(cells[2]), only: sets(cells[3]), rule };
        let schedule =
            read(cells, "UTC", DstGap::RunAfter, DstFold::First).with_calendars(calendars).unwrap();
        vec![times(&schedule, instant("2026-12-22 12:00:00"))]
    });
}

#[test]
fn every_preview_marks_what_its_row_shows() {
    check(&rows_under("Previews", 8), 6, |cells| {
        let (gap, fold) = (bare(cells[3]).parse().unwrap(), bare(cells[4]).parse().unwrap());
        let schedule = read(cells, bare(cells[2]), gap, fold);
        let entries = schedule.preview(instant(cells[5]), 2, Way::Forward).entries;
        let mark = |entry: &escapement_schedule::Entry| {
            entry.effect.map_or("none".to_owned(), |effect| format!("{effect:?}").to_lowercase())
        };
        let times: Vec<String> = entries.iter().map(|entry| entry.local.clone()).collect();
        let marks: Vec<String> = entries.iter().map(mark).collect();
        vec![times.join(", "), marks.join(", ")]
    });
}

#[test]
fn every_explanation_reads_as_its_row_shows() {
    check(&rows_under("Why, and why not", 5), 4, |cells| {
        let mut schedule = read(cells, bare(cells[2]), DstGap::RunAfter, DstFold::First);
        if !cells[1].contains('@') {
            let calendars =
                OpenDays { exclude: vec![holidays()], only: Vec::new(), rule: CalendarRule::NextDay };
            schedule = schedule.with_calendars(calendars).unwrap();
        }
        vec![schedule.explain(instant(cells[3])).to_string()]
    });
}
