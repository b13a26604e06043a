//! Previews: what happens, what a rule moved or doubled, and what it dropped.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use escapement_schedule::{DROPPED_MAX, DateSet, Effect, OpenDays, Preview, Schedule, Way};
use model::policy::{CalendarRule, DstFold, DstGap};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{any_expression, any_fold, any_gap, any_zone, at, dates, except, following, parse, schedule};

/// One line an entry: local time, effect, note.
fn lines(preview: &Preview) -> Vec<String> {
    let line = |entry: &escapement_schedule::Entry| {
        let effect = entry.effect.map(|effect| format!(" {effect:?}")).unwrap_or_default();
        let note = entry.note().map(|note| format!(": {note}")).unwrap_or_default();
        format!("{}{effect}{note}", entry.local)
    };
    preview.entries.iter().map(line).collect()
}

fn forward(schedule: &Schedule, from: &str, count: usize) -> Vec<String> {
    lines(&schedule.preview(at(from), count, Way::Forward))
}

/// Both ways show the same lines.
fn both_ways(schedule: &Schedule, from: &str, count: usize, expected: &[&str]) {
    assert_eq!(forward(schedule, from, count), expected);
    let last = following(schedule, at(from), count).pop().unwrap();
    let mut backward = lines(&schedule.preview(last, count, Way::Backward));
    backward.reverse();
    // What was dropped before the first occurrence comes only with the one before it.
    let (before, rest) = expected.split_at(expected.len() - backward.len());
    assert_eq!(backward, rest);
    assert!(before.iter().all(|line| line.contains(" Dropped: ")), "{backward:#?}");
}

#[test]
fn a_gap_moves_or_drops() {
    let times = |gap| parse("0,30 2,3 * * *", "Europe/Berlin", gap, DstFold::First).unwrap();
    let moved = "Moved: the times from 02:00 to 03:00 do not exist on 2026-03-29: moved to the first instant after them";
    both_ways(
        &times(DstGap::RunAfter),
        "2026-03-28T02:00:00Z",
        3,
        &[
            "2026-03-28T03:30:00+01:00",
            &format!("2026-03-29T03:00:00+02:00 {moved}"),
            "2026-03-29T03:30:00+02:00",
        ],
    );
    let skipped =
        "Dropped: skipped: the times from 02:00 to 03:00 on 2026-03-29 do not exist, and dstGap is SKIP";
    both_ways(
        &times(DstGap::Skip),
        "2026-03-28T02:00:00Z",
        3,
        &[
            "2026-03-28T03:30:00+01:00",
            &format!("2026-03-29T02:00:00 {skipped}"),
            &format!("2026-03-29T02:30:00 {skipped}"),
            "2026-03-29T03:00:00+02:00",
            "2026-03-29T03:30:00+02:00",
        ],
    );
}

#[test]
fn a_fold_chooses_a_pass_or_doubles() {
    let daily = |fold| parse("30 2 * * *", "Europe/Berlin", DstGap::RunAfter, fold).unwrap();
    let (first, second) =
        ("this local time comes twice: the first pass", "this local time comes twice: the second pass");
    let dropped = |pass: &str, fold: &str| {
        format!(
            "Dropped: skipped: this local time comes twice, this is the {pass} pass, and dstFold is {fold}"
        )
    };
    both_ways(
        &daily(DstFold::First),
        "2026-10-24T12:00:00Z",
        2,
        &[
            &format!("2026-10-25T02:30:00+02:00: {first}"),
            &format!("2026-10-25T02:30:00+01:00 {}", dropped("second", "FIRST")),
            "2026-10-26T02:30:00+01:00",
        ],
    );
    both_ways(
        &daily(DstFold::Second),
        "2026-10-24T00:00:00Z",
        3,
        &[
            "2026-10-24T02:30:00+02:00",
            &format!("2026-10-25T02:30:00+02:00 {}", dropped("first", "SECOND")),
            &format!("2026-10-25T02:30:00+01:00: {second}"),
            "2026-10-26T02:30:00+01:00",
        ],
    );
    both_ways(
        &daily(DstFold::Both),
        "2026-10-24T12:00:00Z",
        3,
        &[
            &format!("2026-10-25T02:30:00+02:00 Doubled: {first}"),
            &format!("2026-10-25T02:30:00+01:00 Doubled: {second}"),
            "2026-10-26T02:30:00+01:00",
        ],
    );
}

#[test]
fn half_an_hour_is_a_gap_and_a_fold_too() {
    // Lord Howe skips 02:00 to 02:30 on 4 October 2026 and repeats 01:30 to 02:00 on 5 April.
    let skipped = "skipped: the times from 02:00 to 02:30 on 2026-10-04 do not exist, and dstGap is SKIP";
    both_ways(
        &parse("15,45 2 * * *", "Australia/Lord_Howe", DstGap::Skip, DstFold::First).unwrap(),
        "2026-10-03T00:00:00Z",
        2,
        &[
            &format!("2026-10-04T02:15:00 Dropped: {skipped}"),
            "2026-10-04T02:45:00+11:00",
            "2026-10-05T02:15:00+11:00",
        ],
    );
    both_ways(
        &schedule("45 1 * * *", "Australia/Lord_Howe"),
        "2026-04-04T00:00:00Z",
        2,
        &[
            "2026-04-05T01:45:00+11:00: this local time comes twice: the first pass",
            "2026-04-05T01:45:00+10:30 Dropped: skipped: this local time comes twice, this is the second pass, and \
             dstFold is FIRST",
            "2026-04-06T01:45:00+10:30",
        ],
    );
}

#[test]
fn a_missing_day_is_a_gap() {
    let daily = |gap| parse("0 9 * * *", "Pacific/Apia", gap, DstFold::First).unwrap();
    let times = "the times from 2011-12-30 00:00 to 2011-12-31 00:00";
    both_ways(
        &daily(DstGap::Skip),
        "2011-12-29T00:00:00Z",
        2,
        &[
            "2011-12-29T09:00:00-10:00",
            &format!("2011-12-30T09:00:00 Dropped: skipped: {times} do not exist, and dstGap is SKIP"),
            "2011-12-31T09:00:00+14:00",
        ],
    );
    let moved = forward(&daily(DstGap::RunAfter), "2011-12-29T00:00:00Z", 2);
    assert!(moved[1].starts_with("2011-12-31T00:00:00+14:00 Moved: "), "{moved:?}");
}

#[test]
fn a_missing_day_can_be_closed_or_moved_to() {
    let yearly = |when: &str, closed: &str, rule| {
        let calendars = except(dates("closed", &[closed]), rule);
        schedule(when, "Pacific/Apia").with_calendars(calendars).unwrap()
    };
    let moved =
        forward(&yearly("0 9 29 12 *", "2011-12-29", CalendarRule::NextDay), "2011-12-01T00:00:00Z", 1);
    let expected = "2011-12-31T00:00:00+14:00 Moved: moved from 2011-12-29: a day of the calendar \"closed\"; the times \
                    from 2011-12-30 00:00 to 2011-12-31 00:00 do not exist: moved to the first instant after them";
    assert_eq!(moved, [expected]);
    let skipped =
        forward(&yearly("0 9 30 12 *", "2011-12-30", CalendarRule::Skip), "2011-12-01T00:00:00Z", 1);
    assert!(skipped[0].contains(" Dropped: skipped: 2011-12-30 is a day of the calendar"), "{skipped:?}");
    assert_eq!(skipped[1], "2012-12-30T09:00:00+14:00");
}

#[test]
fn elapsed_time_drops_and_doubles_nothing() {
    for (when, from) in [
        ("*/20 2 * * *", "2026-03-28T12:00:00Z"),
        ("*/20 2 * * *", "2026-10-24T12:00:00Z"),
        ("0 * * * *", "2026-03-28T12:00:00Z"),
        ("@every 30m", "2026-10-24T12:00:00Z"),
    ] {
        let schedule = parse(when, "Europe/Berlin", DstGap::Skip, DstFold::First).unwrap();
        let preview = schedule.preview(at(from), 60, Way::Forward);
        assert!(preview.entries.iter().all(|entry| entry.effect.is_none()), "{when}: {preview:?}");
        assert_eq!(preview.entries.len(), 60);
    }
}

#[test]
fn calendars_move_and_drop() {
    let closed = || dates("holidays", &["2026-12-25", "2026-12-26"]);
    let skipping =
        schedule("0 9,17 * * *", "UTC").with_calendars(except(closed(), CalendarRule::Skip)).unwrap();
    assert_eq!(
        forward(&skipping, "2026-12-24T12:00:00Z", 2),
        [
            "2026-12-24T17:00:00+00:00",
            "2026-12-25T09:00:00+00:00 Dropped: skipped: 2026-12-25 is a day of the calendar \"holidays\"",
            "2026-12-26T09:00:00+00:00 Dropped: skipped: 2026-12-26 is a day of the calendar \"holidays\"",
            "2026-12-27T09:00:00+00:00",
        ]
    );
    let backward = skipping.preview(at("2026-12-27T12:00:00Z"), 2, Way::Backward);
    assert_eq!(
        lines(&backward),
        [
            "2026-12-27T09:00:00+00:00",
            "2026-12-26T17:00:00+00:00 Dropped: skipped: 2026-12-26 is a day of the calendar \"holidays\"",
            "2026-12-25T17:00:00+00:00 Dropped: skipped: 2026-12-25 is a day of the calendar \"holidays\"",
            "2026-12-24T17:00:00+00:00",
        ]
    );
    let moving =
        schedule("0 9 * * 5", "UTC").with_calendars(except(closed(), CalendarRule::NextDay)).unwrap();
    both_ways(
        &moving,
        "2026-12-20T00:00:00Z",
        2,
        &[
            "2026-12-27T09:00:00+00:00 Moved: moved from 2026-12-25: a day of the calendar \"holidays\"",
            "2027-01-01T09:00:00+00:00",
        ],
    );
    let steady = schedule("@every 12h", "UTC").with_calendars(except(closed(), CalendarRule::Skip)).unwrap();
    let effects: Vec<_> = steady.preview(at("2026-12-24T00:00:00Z"), 2, Way::Forward).entries;
    let effects: Vec<_> = effects.iter().map(|entry| entry.effect).collect();
    assert_eq!(effects, [None, Some(Effect::Dropped), Some(Effect::Dropped), None]);
}

#[test]
fn a_long_row_of_closed_days_is_cut() {
    let first = "2026-01-01".parse::<NaiveDate>().unwrap();
    let closed =
        |days| except(Arc::new(DateSet::new("long", first.iter_days().take(days))), CalendarRule::Skip);
    for (days, note) in [(112, "skipped: 12 more"), (3_000, "skipped: at least 1000 more")] {
        let daily = schedule("0 9 * * *", "Europe/Berlin").with_calendars(closed(days)).unwrap();
        let preview = daily.preview(at("2025-12-31T12:00:00Z"), 1, Way::Forward);
        assert_eq!(preview.entries.len(), DROPPED_MAX + 2);
        assert_eq!(preview.entries[DROPPED_MAX].note().unwrap(), note);
        assert!(!preview.entries[DROPPED_MAX + 1].is_dropped());
    }
    // A whole missing day of seconds is cut alike.
    let seconds = parse("0-59 0-59 0-23 * * *", "Pacific/Apia", DstGap::Skip, DstFold::First).unwrap();
    let preview = seconds.preview(at("2011-12-30T09:59:59Z"), 1, Way::Forward);
    assert_eq!(preview.entries.len(), DROPPED_MAX + 2);
}

#[test]
fn no_preview_takes_long() {
    let empty = || Arc::new(DateSet::new("empty", []));
    for when in ["* * * * * *", "0-59 0-59 0-23 * * *", "0 9 * * *", "0 0 29 2 *"] {
        for rule in CalendarRule::ALL {
            let calendars = OpenDays { exclude: Vec::new(), only: vec![empty()], rule: *rule };
            let never = schedule(when, "Europe/Berlin").with_calendars(calendars).unwrap();
            for way in [Way::Forward, Way::Backward] {
                let begun = Instant::now();
                let preview = never.preview(at("2026-01-01T00:00:00Z"), 10, way);
                assert!(begun.elapsed() < Duration::from_millis(500), "{when} {rule}: {:?}", begun.elapsed());
                assert!(preview.exhausted && preview.entries.iter().all(|entry| entry.is_dropped()));
                assert!(preview.entries.len() <= DROPPED_MAX + 1);
            }
        }
    }
}

#[test]
fn an_exhausted_schedule_says_so() {
    let once = schedule("@at 2026-12-24T18:00:00", "UTC");
    let preview = once.preview(at("2026-01-01T00:00:00Z"), 2, Way::Forward);
    assert_eq!(lines(&preview), ["2026-12-24T18:00:00+00:00"]);
    assert!(preview.exhausted);
    assert!(!once.preview(at("2026-01-01T00:00:00Z"), 1, Way::Forward).exhausted);
    let past = schedule("0 0 0 1 1 ? 1990", "UTC");
    assert_eq!(past.next(at("2026-01-01T00:00:00Z")), None);
    let preview = past.preview(at("2026-01-01T00:00:00Z"), 3, Way::Forward);
    assert!(preview.exhausted && preview.entries.is_empty());
    let backward = past.preview(at("1990-01-01T00:00:00Z"), 1, Way::Backward);
    assert_eq!(lines(&backward), ["1990-01-01T00:00:00+00:00"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_dropped_doesnt_count(
        when in any_expression(), zone in any_zone(), gap in any_gap(), fold in any_fold(),
        rule in proptest::option::of(proptest::sample::select(CalendarRule::ALL)), hours in 0_i64..24 * 365,
    ) {
        let mut schedule = parse(&when, zone, gap, fold).unwrap();
        if let Some(rule) = rule {
            let closed = ["2026-03-28", "2026-03-29", "2026-10-24", "2026-10-31", "2026-11-01", "2026-06-15"];
            schedule = schedule.with_calendars(except(dates("closed", &closed), rule)).unwrap();
        }
        let from = at("2026-01-01T00:00:00Z") + TimeDelta::hours(hours);
        let preview = schedule.preview(from, 30, Way::Forward);
        let happen = |entries: &[escapement_schedule::Entry]| -> Vec<DateTime<Utc>> {
            entries.iter().filter(|entry| !entry.is_dropped()).map(|entry| entry.at).collect()
        };
        let expected = following(&schedule, from, 30);
        prop_assert_eq!(&happen(&preview.entries), &expected);
        prop_assert!(preview.entries.is_sorted_by_key(|entry| entry.at));
        prop_assert!(preview.entries.iter().all(|entry| entry.at > from));
        for entry in preview.entries.iter().filter(|entry| entry.is_dropped()) {
            prop_assert!(!entry.notes.is_empty());
        }
        // Backward from the last, the same entries come in the other order.
        if let (Some(last), false) = (expected.last(), preview.exhausted) {
            let mut backward = schedule.preview(*last, 30, Way::Backward);
            backward.entries.reverse();
            prop_assert_eq!(happen(&backward.entries), expected);
        }
    }
}
