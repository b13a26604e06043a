//! What holds for every schedule: order, agreement of both directions, and agreement with the local calendar.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chrono::{DateTime, Datelike, TimeDelta, Utc};
use escapement_schedule::{EXPRESSION_BYTES_MAX, Oddity, Spec};
use model::policy::{DstFold, DstGap};
use proptest::prelude::*;
use std::str::FromStr;
use std::time::{Duration, Instant};
use support::scan::Matcher;
use support::{any_expression, any_fold, any_gap, any_zone, at, following, parse, schedule};

fn any_instant() -> impl Strategy<Value = DateTime<Utc>> {
    (0_i64..4_102_444_800, 0_u32..2)
        .prop_map(|(second, half)| DateTime::from_timestamp(second, half * 500_000_000).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn forward_and_backward_agree(
        when in any_expression(), zone in any_zone(), gap in any_gap(), fold in any_fold(), from in any_instant(),
    ) {
        let schedule = parse(&when, zone, gap, fold).unwrap();
        let forward = following(&schedule, from, 40);
        prop_assert!(forward.first().is_none_or(|first| *first > from));
        prop_assert!(forward.is_sorted_by(|a, b| a < b), "{forward:?}");
        for pair in forward.windows(2) {
            prop_assert_eq!(schedule.previous(pair[1]), Some(pair[1]));
            prop_assert_eq!(schedule.previous(pair[1] - TimeDelta::milliseconds(1)), Some(pair[0]));
            prop_assert_eq!(schedule.next(pair[1] - TimeDelta::milliseconds(1)), Some(pair[1]));
            prop_assert_eq!(schedule.first_from(pair[1]), Some(pair[1]));
        }
    }

    #[test]
    fn nothing_lies_between_an_instant_and_its_neighbours(
        when in any_expression(), zone in any_zone(), gap in any_gap(), fold in any_fold(), from in any_instant(),
    ) {
        let schedule = parse(&when, zone, gap, fold).unwrap();
        if let (Some(before), Some(after)) = (schedule.previous(from), schedule.next(from)) {
            prop_assert!(before <= from && from < after);
            prop_assert_eq!(schedule.next(before), Some(after));
            prop_assert_eq!(schedule.previous(after - TimeDelta::nanoseconds(1)), Some(before));
        }
    }

    #[test]
    fn each_instant_matches_its_fields_in_local_time(
        when in any_expression(), zone in any_zone(), gap in any_gap(), fold in any_fold(), from in any_instant(),
    ) {
        let (schedule, matcher) = (parse(&when, zone, gap, fold).unwrap(), Matcher::new(&when));
        for at in following(&schedule, from, 40) {
            let moved = matches!(schedule.oddity(at), Some(Oddity::AfterGap { .. }));
            let local = schedule.local_time(at).naive_local();
            prop_assert!(moved || matcher.matches(local), "{} in {}: {}", when, zone, local);
            prop_assert!(!moved || gap == DstGap::RunAfter);
        }
    }

    #[test]
    fn bounds_cut_and_move_nothing(when in any_expression(), zone in any_zone(), from in any_instant(), days in 0_i64..900) {
        let whole = schedule(&when, zone);
        let to = from + TimeDelta::days(days);
        let bounded = whole.clone().bounded(Some(from), Some(to));
        prop_assert_eq!(bounded.next(DateTime::UNIX_EPOCH), whole.first_from(from).filter(|at| *at <= to));
        prop_assert_eq!(bounded.previous(at("2150-01-01T00:00:00Z")), whole.previous(to).filter(|at| *at >= from));
    }

    #[test]
    fn any_text_is_read_or_refused_at_once(text in "\\PC{0,300}", zone in "\\PC{0,80}") {
        let begun = Instant::now();
        let _ = parse(&text, &zone, DstGap::RunAfter, DstFold::First);
        prop_assert!(begun.elapsed() < Duration::from_secs(1));
    }

    #[test]
    fn text_made_of_the_right_signs_is_read_or_refused_at_once(text in "[-0-9*/,?#LWHh() @a-zA-Z]{0,40}", from in any_instant()) {
        if let Ok(schedule) = parse(&text, "Europe/Berlin", DstGap::Skip, DstFold::Second) {
            let (next, previous) = (schedule.next(from), schedule.previous(from));
            prop_assert!(next.is_some() || previous.is_some());
        }
    }

    /// The `cron` crate is right in UTC for expressions that restrict only one of the day fields (it wants both
    /// to match, where crontab wants either) and that name weekdays (it counts Sunday as 1). It knows no five fields.
    #[test]
    fn the_cron_crate_agrees_where_it_is_right(
        time in (support::any_field(0, 59), support::any_field(0, 59), support::any_field(0, 23)),
        day in prop_oneof![
            support::any_field(1, 28).prop_map(|day| (day, "*")),
            proptest::sample::select(vec!["MON", "MON-FRI", "SUN", "TUE,THU,SAT"]).prop_map(|week| ("*".to_owned(), week)),
        ],
        month in support::any_field(1, 12),
        from in 1_600_000_000_i64..2_000_000_000,
    ) {
        let (second, minute, hour) = time;
        let when = format!("{second} {minute} {hour} {} {month} {}", day.0, day.1);
        let from = DateTime::from_timestamp(from, 0).unwrap();
        let theirs: Vec<_> = cron::Schedule::from_str(&when).unwrap().after(&from).take(50).collect();
        prop_assert_eq!(following(&schedule(&when, "UTC"), from, theirs.len()), theirs, "{}", when);
    }
}

#[test]
fn labels_of_weekdays_are_those_of_the_days_that_come() {
    for (name, number) in ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"].iter().zip(0..) {
        let schedule = schedule(&format!("0 9 * * {name}"), "Asia/Tokyo");
        for at in following(&schedule, at("2026-01-01T00:00:00Z"), 60) {
            assert_eq!((at + TimeDelta::hours(9)).weekday().num_days_from_sunday(), number);
        }
    }
}

#[test]
fn the_year_list_is_walked_backward_without_wandering() {
    let schedule = schedule("0 30 12 * * * 2020", "UTC");
    assert_eq!(schedule.previous(at("2026-03-15T10:20:30Z")), Some(at("2020-12-31T12:30:00Z")));
    assert_eq!(schedule.next(at("2020-12-31T12:30:00Z")), None);
    assert_eq!(schedule.previous(at("2020-01-01T12:29:59Z")), None);
}

#[test]
fn every_extreme_instant_has_an_answer() {
    for when in ["* * * * * *", "0 0 29 2 *", "@every 366d", "@at 2099-12-31T23:59:59", "0 0 0 1 1 * 1970"] {
        for zone in ["UTC", "Pacific/Kiritimati", "Etc/GMT+12", "Africa/Monrovia"] {
            let schedule = schedule(when, zone);
            for instant in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC, DateTime::UNIX_EPOCH] {
                let (next, previous) = (schedule.next(instant), schedule.previous(instant));
                assert!(next.is_none_or(|next| next > instant));
                assert!(previous.is_none_or(|previous| previous <= instant));
            }
        }
    }
}

#[test]
fn hostile_expressions_are_refused_at_once() {
    let begun = Instant::now();
    let long = [
        "* ".repeat(5_000),
        "1,".repeat(5_000),
        "9".repeat(10_240),
        format!("{} * * * *", "1,".repeat(EXPRESSION_BYTES_MAX)),
        format!("*/{} * * * *", "9".repeat(200)),
        format!("@every {}s", "9".repeat(200)),
        "\0".repeat(100),
        "H(".repeat(80),
        "L-L-L-L-".repeat(30),
    ];
    for when in &long {
        let message = support::refused(when).join("; ");
        assert!(message.len() < 300, "{} bytes: {message}", message.len());
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn expression_and_timezone_are_judged_together() {
    let spec = Spec {
        expression: "60 25 * * 8",
        timezone: "Europe/Berln",
        dst_gap: DstGap::RunAfter,
        dst_fold: DstFold::First,
        seed: "",
        anchor: DateTime::UNIX_EPOCH,
    };
    let errors = escapement_schedule::Schedule::parse(&spec).unwrap_err();
    let texts: Vec<String> = errors.iter().map(|error| format!("{:?} {error}", error.field)).collect();
    assert_eq!(
        texts,
        [
            "Expression minute 60 (position 1): use 0-59",
            "Expression hour 25 (position 4): use 0-23",
            "Expression day-of-week 8 (position 11): use 0-7, 0 and 7 are Sunday",
            "Timezone \"Europe/Berln\" is not in the timezone database: did you mean Europe/Berlin?",
        ]
    );
}
