//! Why an instant is an occurrence, or why it is none: in examples, and for every instant of windows.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chrono::{DateTime, TimeDelta, Utc};
use escapement_schedule::{Reason, Schedule, Verdict};
use model::policy::{CalendarRule, DstFold, DstGap};
use proptest::prelude::*;
use support::{any_expression, any_fold, any_gap, any_zone, at, dates, except, parse, schedule};

fn explained(schedule: &Schedule, cases: &[(&str, &str)]) {
    for (instant, expected) in cases {
        assert_eq!(schedule.explain(at(instant)).to_string(), *expected, "{}", schedule.describe());
    }
}

#[test]
fn fields_are_named_with_their_value_and_what_they_allow() {
    explained(
        &schedule("0 9 * * 1-5", "Europe/Berlin"),
        &[
            ("2026-11-27T08:00:00Z", "2026-11-27T09:00:00+01:00 is an occurrence"),
            (
                "2026-11-28T08:00:00Z",
                "2026-11-28T09:00:00+01:00 is not an occurrence: day-of-week is Saturday (6), the expression allows 1-5",
            ),
            (
                "2026-11-27T08:30:15Z",
                "2026-11-27T09:30:15+01:00 is not an occurrence: second is 15, the expression allows 0; minute is 30, \
                 the expression allows 0",
            ),
            (
                "2026-11-27T08:00:00.5Z",
                "2026-11-27T09:00:00.500+01:00 is not an occurrence: it is not a whole second",
            ),
        ],
    );
    explained(
        &schedule("0 0 13,L * 5,1#1", "UTC"),
        &[(
            "2026-11-14T00:00:00Z",
            "2026-11-14T00:00:00+00:00 is not an occurrence: day-of-month or day-of-week is 14 or Saturday (6), the \
             expression allows 13,L or 5,1#1",
        )],
    );
    explained(
        &schedule("0 0 0 L-3,15W,LW 3-5,12 ? 2026-2030/2", "UTC"),
        &[(
            "2027-02-01T00:00:00Z",
            "2027-02-01T00:00:00+00:00 is not an occurrence: year is 2027, the expression allows 2026,2028,2030; \
             month is February (2), the expression allows 3-5,12; day-of-month is 1, the expression allows L-3,15W,LW",
        )],
    );
    explained(
        &schedule("1-59/2 * * * *", "UTC"),
        &[(
            "2026-11-28T00:02:00Z",
            "2026-11-28T00:02:00+00:00 is not an occurrence: minute is 2, the expression allows \
             1,3,5,7,9,11,13,15,17,19,21,23,…",
        )],
    );
}

#[test]
fn bounds_are_named() {
    let begin = Some(at("2026-02-01T00:00:00Z"));
    let bounded = schedule("0 9 * * *", "UTC").bounded(begin, Some(at("2026-03-01T00:00:00Z")));
    explained(
        &bounded,
        &[
            (
                "2026-01-31T09:00:00Z",
                "2026-01-31T09:00:00+00:00 is not an occurrence: the schedule begins at 2026-02-01T00:00:00Z",
            ),
            (
                "2026-03-01T09:00:00Z",
                "2026-03-01T09:00:00+00:00 is not an occurrence: the schedule ends at 2026-03-01T00:00:00Z",
            ),
        ],
    );
}

#[test]
fn clock_changes_are_named() {
    let daily = |gap, fold| parse("30 2 * * *", "Europe/Berlin", gap, fold).unwrap();
    explained(
        &daily(DstGap::RunAfter, DstFold::First),
        &[
            (
                "2026-03-29T01:00:00Z",
                "2026-03-29T03:00:00+02:00 is an occurrence: the times from 02:00 to 03:00 do not exist on 2026-03-29: \
                 moved to the first instant after them",
            ),
            (
                "2026-10-25T00:30:00Z",
                "2026-10-25T02:30:00+02:00 is an occurrence: this local time comes twice: the first pass",
            ),
            (
                "2026-10-25T01:30:00Z",
                "2026-10-25T02:30:00+01:00 is not an occurrence: this local time comes twice, this is the second pass, \
                 and dstFold is FIRST",
            ),
        ],
    );
    explained(
        &daily(DstGap::Skip, DstFold::Second),
        &[
            (
                "2026-03-29T01:00:00Z",
                "2026-03-29T03:00:00+02:00 is not an occurrence: minute is 0, the expression allows 30; hour is 3, the \
                 expression allows 2; the times from 02:00 to 03:00 on 2026-03-29 do not exist, and dstGap is SKIP",
            ),
            (
                "2026-10-25T00:30:00Z",
                "2026-10-25T02:30:00+02:00 is not an occurrence: this local time comes twice, this is the first pass, \
                 and dstFold is SECOND",
            ),
        ],
    );
    explained(
        &schedule("*/15 2 * * *", "Europe/Berlin"),
        &[(
            "2026-03-29T01:00:00Z",
            "2026-03-29T03:00:00+02:00 is not an occurrence: hour is 3, the expression allows 2; the times from 02:00 \
             to 03:00 on 2026-03-29 do not exist, and the expression follows elapsed time, which has no gap",
        )],
    );
}

#[test]
fn calendars_are_named() {
    let holidays = || dates("holidays", &["2026-12-25", "2026-12-26"]);
    let weekly = |rule| schedule("0 9 * * 5", "UTC").with_calendars(except(holidays(), rule)).unwrap();
    explained(
        &weekly(CalendarRule::Skip),
        &[(
            "2026-12-25T09:00:00Z",
            "2026-12-25T09:00:00+00:00 is not an occurrence: 2026-12-25 is a day of the calendar \"holidays\": skipped",
        )],
    );
    explained(
        &weekly(CalendarRule::NextDay),
        &[
            (
                "2026-12-25T09:00:00Z",
                "2026-12-25T09:00:00+00:00 is not an occurrence: 2026-12-25 is a day of the calendar \"holidays\": \
                 moved to 2026-12-27",
            ),
            (
                "2026-12-27T09:00:00Z",
                "2026-12-27T09:00:00+00:00 is an occurrence: moved from 2026-12-25: a day of the calendar \"holidays\"",
            ),
            (
                "2026-12-27T10:00:00Z",
                "2026-12-27T10:00:00+00:00 is not an occurrence: hour is 10, the expression allows 9",
            ),
        ],
    );
    let daily = schedule("0 9 * * *", "UTC");
    explained(
        &daily.with_calendars(except(holidays(), CalendarRule::PreviousDay)).unwrap(),
        &[(
            "2026-12-24T09:00:00Z",
            "2026-12-24T09:00:00+00:00 is an occurrence: stands also for 2026-12-25, 2026-12-26: 2026-12-25 is a day of \
             the calendar \"holidays\"",
        )],
    );
}

#[test]
fn neighbours_are_named_where_there_are_no_fields() {
    explained(
        &schedule("@every 1h30m", "UTC"),
        &[
            ("2026-01-01T01:30:00Z", "2026-01-01T01:30:00+00:00 is an occurrence"),
            (
                "2026-01-01T02:00:00Z",
                "2026-01-01T02:00:00+00:00 is not an occurrence: it is no beat of @every: 2026-01-01T01:30:00Z is 30 \
                 minutes before it, 2026-01-01T03:00:00Z is 1 hour after it",
            ),
            (
                "2025-12-31T23:59:00Z",
                "2025-12-31T23:59:00+00:00 is not an occurrence: it is no beat of @every: 2026-01-01T00:00:00Z is 1 \
                 minute after it",
            ),
        ],
    );
    let closed = except(dates("closed", &["2026-01-02"]), CalendarRule::Skip);
    explained(
        &schedule("@every 12h", "UTC").with_calendars(closed).unwrap(),
        &[(
            "2026-01-02T12:00:00Z",
            "2026-01-02T12:00:00+00:00 is not an occurrence: 2026-01-02 is a day of the calendar \"closed\": skipped",
        )],
    );
    explained(
        &schedule("@at 2026-12-24T18:00:00 Europe/Berlin", "UTC"),
        &[
            ("2026-12-24T17:00:00Z", "2026-12-24T18:00:00+01:00 is an occurrence"),
            (
                "2026-12-24T18:00:00Z",
                "2026-12-24T19:00:00+01:00 is not an occurrence: the schedule names one instant only, \
                 2026-12-24T17:00:00Z",
            ),
        ],
    );
}

/// Each second would be too many: each minute, and the seconds at its edges.
fn instants(from: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> {
    (0..400).flat_map(move |minute| {
        let minute = from + TimeDelta::minutes(minute);
        [0, 1, 30, 59].map(|second| minute + TimeDelta::seconds(second))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_instant_is_explained(
        when in any_expression(), zone in any_zone(), gap in any_gap(), fold in any_fold(),
        rule in proptest::option::of(proptest::sample::select(CalendarRule::ALL)), hours in 0_i64..24 * 365,
    ) {
        let mut schedule = parse(&when, zone, gap, fold).unwrap();
        if let Some(rule) = rule {
            let closed = ["2026-03-28", "2026-03-29", "2026-10-24", "2026-10-31", "2026-11-01", "2026-06-15"];
            schedule = schedule.with_calendars(except(dates("closed", &closed), rule)).unwrap();
        }
        // Half of the windows lie at European and American clock changes.
        let from = match hours % 6 {
            0 => at("2026-03-28T20:00:00Z"),
            1 => at("2026-10-24T22:00:00Z"),
            2 => at("2026-11-01T03:00:00Z"),
            _ => at("2026-01-01T00:00:00Z") + TimeDelta::hours(hours),
        };
        for instant in instants(from) {
            let explanation = schedule.explain(instant);
            let comes = schedule.next(instant - TimeDelta::seconds(1)) == Some(instant);
            prop_assert_eq!(explanation.is_occurrence(), comes, "{}", explanation);
            if let Verdict::Not(reasons) = &explanation.verdict {
                prop_assert!(!reasons.is_empty(), "{}", explanation);
                let gap_alone = reasons.iter().all(|reason| matches!(reason, Reason::Missing { .. }));
                prop_assert!(!gap_alone, "{}", explanation);
            }
        }
    }
}
