//! Calendars: which days are closed, where occurrences go, and that both directions agree about it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chrono::{DateTime, Days, NaiveDate, TimeDelta, Utc};
use escapement_schedule::{Closed, DateSet, OpenDays, Schedule};
use model::policy::{CalendarRule, DstFold, DstGap};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::scan::{Matcher, Scan};
use support::{any_expression, any_fold, any_gap, at, dates, except, following, parse, schedule};

fn date(text: &str) -> NaiveDate {
    text.parse().expect(text)
}

/// Christmas of 2026: Thursday 24 to Saturday 26 December, and New Year's Day, a Friday.
fn holidays() -> Arc<DateSet> {
    dates("holidays", &["2026-12-24", "2026-12-25", "2026-12-26", "2027-01-01"])
}

fn weekends() -> Arc<DateSet> {
    let days = date("2026-01-03").iter_days().take(3_000);
    Arc::new(DateSet::new(
        "weekends",
        days.filter(|day| chrono::Datelike::weekday(day).number_from_monday() > 5),
    ))
}

fn closed_by(when: &str, zone: &str, exclude: Vec<Arc<DateSet>>, rule: CalendarRule) -> Schedule {
    schedule(when, zone).with_calendars(OpenDays { exclude, only: Vec::new(), rule }).unwrap()
}

fn days(schedule: &Schedule, after: &str, count: usize) -> String {
    let due = following(schedule, at(after), count);
    let days: Vec<String> = due.iter().map(|at| at.format("%d.%H").to_string()).collect();
    days.join(" ")
}

#[test]
fn closed_days_are_left_out_or_moved() {
    use CalendarRule::{NextDay, PreviousDay, Skip};
    for (when, rule, expected) in [
        ("0 9 * * *", Skip, "22.09 23.09 27.09 28.09 29.09 30.09 31.09 02.09"),
        // The 24th and 25th go to the 27th, which is due itself.
        ("0 9 * * *", NextDay, "22.09 23.09 27.09 28.09 29.09 30.09 31.09 02.09"),
        ("0 9 * * *", PreviousDay, "22.09 23.09 27.09 28.09 29.09 30.09 31.09 02.09"),
        ("0 9 * * 5", Skip, "08.09 15.09"),
        ("0 9 * * 5", NextDay, "27.09 02.09 08.09 15.09"),
        ("0 9 * * 5", PreviousDay, "23.09 31.09 08.09 15.09"),
        // Times of day go along, all of them.
        ("0 9,17 * * 5", NextDay, "27.09 27.17 02.09 02.17"),
        ("0 9,17 25,27 12 *", NextDay, "27.09 27.17"),
        ("*/30 9 * * 5", PreviousDay, "23.09 23.09 31.09 31.09"),
    ] {
        let count = expected.split(' ').count();
        let closed = closed_by(when, "UTC", vec![holidays()], rule);
        assert_eq!(days(&closed, "2026-12-21T12:00:00Z", count), expected, "{when} {rule}");
    }
}

#[test]
fn calendars_close_together() {
    // The Friday and its weekend are closed: Monday takes over, or Wednesday does.
    let both = vec![holidays(), weekends()];
    let next = closed_by("0 9 * * 5", "UTC", both.clone(), CalendarRule::NextDay);
    assert_eq!(days(&next, "2026-12-21T12:00:00Z", 3), "28.09 04.09 08.09");
    let previous = closed_by("0 9 * * 5", "UTC", both, CalendarRule::PreviousDay);
    assert_eq!(days(&previous, "2026-12-21T12:00:00Z", 3), "23.09 31.09 08.09");
}

#[test]
fn a_job_can_be_limited_to_the_days_of_calendars() {
    let only = vec![dates("quarters", &["2026-03-31", "2026-06-30"]), dates("audits", &["2026-05-15"])];
    let calendars =
        |rule| OpenDays { exclude: vec![dates("closed", &["2026-06-30"])], only: only.clone(), rule };
    let limited = |when: &str, rule| schedule(when, "UTC").with_calendars(calendars(rule)).unwrap();
    let begin = at("2026-01-01T00:00:00Z");
    let due = following(&limited("0 9 * * *", CalendarRule::Skip), begin, 9);
    assert_eq!(due, [at("2026-03-31T09:00:00Z"), at("2026-05-15T09:00:00Z")]);
    let due = following(&limited("0 9 1 * *", CalendarRule::NextDay), begin, 9);
    assert_eq!(due, [at("2026-03-31T09:00:00Z"), at("2026-05-15T09:00:00Z")]);
    let due = following(&limited("0 9 1 4 *", CalendarRule::PreviousDay), begin, 2);
    assert_eq!(
        due,
        [at("2026-03-31T09:00:00Z"), at("2026-05-15T09:00:00Z")],
        "1 April 2027 is 321 days after 15 May"
    );
}

#[test]
fn no_occurrence_moves_farther_than_a_year() {
    let begin = date("2026-01-01");
    for (closed, expected) in [(366, Some("2027-01-02T09:00:00Z")), (367, None)] {
        let set = Arc::new(DateSet::new("closed", begin.iter_days().take(closed)));
        let once = closed_by("@at 2026-01-01T09:00:00", "UTC", vec![set], CalendarRule::NextDay);
        assert_eq!(once.next(at("2025-01-01T00:00:00Z")), expected.map(at));
        assert_eq!(once.previous(at("2040-01-01T00:00:00Z")), expected.map(at));
    }
}

#[test]
fn calendars_that_close_every_day_exhaust_a_schedule() {
    let empty = Arc::new(DateSet::new("to be filled", []));
    for rule in CalendarRule::ALL {
        let calendars = OpenDays { exclude: Vec::new(), only: vec![Arc::clone(&empty)], rule: *rule };
        let never = schedule("0 9 * * *", "Europe/Berlin").with_calendars(calendars).unwrap();
        assert_eq!(never.next(DateTime::UNIX_EPOCH), None);
        assert_eq!(never.previous(at("2150-01-01T00:00:00Z")), None);
    }
    let closes_nothing = except(empty, CalendarRule::Skip);
    let daily = schedule("0 9 * * *", "UTC").with_calendars(closes_nothing).unwrap();
    assert_eq!(daily.next(at("2026-01-01T00:00:00Z")), Some(at("2026-01-01T09:00:00Z")));
}

#[test]
fn a_day_is_closed_by_local_date() {
    let closed = dates("holidays", &["2026-12-25"]);
    let tokyo = closed_by("0 8 * * *", "Asia/Tokyo", vec![closed], CalendarRule::Skip);
    let due = following(&tokyo, at("2026-12-23T00:00:00Z"), 2);
    assert_eq!(due, [at("2026-12-23T23:00:00Z"), at("2026-12-25T23:00:00Z")]);
}

#[test]
fn clock_changes_apply_after_the_move() {
    // Saturday's 02:30 moves to Sunday 29 March 2026, on which Berlin has no 02:30.
    let closed = dates("holidays", &["2026-03-28", "2026-10-24"]);
    let moved = |gap, fold| {
        let weekly = parse("30 2 * * 6", "Europe/Berlin", gap, fold).unwrap();
        weekly.with_calendars(except(Arc::clone(&closed), CalendarRule::NextDay)).unwrap()
    };
    let spring = at("2026-03-27T00:00:00Z");
    let after_gap = moved(DstGap::RunAfter, DstFold::First);
    assert_eq!(after_gap.next(spring), Some(at("2026-03-29T01:00:00Z")));
    assert_eq!(moved(DstGap::Skip, DstFold::First).next(spring), Some(at("2026-04-04T00:30:00Z")));
    // And to Sunday 25 October, which has it twice.
    let both = following(&moved(DstGap::Skip, DstFold::Both), at("2026-10-23T00:00:00Z"), 2);
    assert_eq!(both, [at("2026-10-25T00:30:00Z"), at("2026-10-25T01:30:00Z")]);
}

#[test]
fn a_day_that_the_zone_leaves_out_can_be_closed_and_can_be_a_target() {
    // Samoa had no 30 December 2011.
    let skipped =
        closed_by("0 9 30 12 *", "Pacific/Apia", vec![dates("x", &["2011-12-30"])], CalendarRule::Skip);
    assert_eq!(skipped.next(at("2011-01-01T00:00:00Z")), Some(at("2012-12-29T19:00:00Z")));
    let moved =
        closed_by("0 9 29 12 *", "Pacific/Apia", vec![dates("x", &["2011-12-29"])], CalendarRule::NextDay);
    assert_eq!(moved.next(at("2011-01-01T00:00:00Z")), Some(at("2011-12-30T10:00:00Z")));
}

#[test]
fn a_steady_interval_drops_closed_days_and_refuses_to_move() {
    let closed = dates("holidays", &["2026-03-29"]);
    let every = closed_by("@every 6h", "Europe/Berlin", vec![Arc::clone(&closed)], CalendarRule::Skip);
    // The closed day has 23 hours, from 23:00 to 22:00 UTC.
    let due = following(&every, at("2026-03-28T12:00:00Z"), 3);
    assert_eq!(due, ["2026-03-28T18:00:00Z", "2026-03-30T00:00:00Z", "2026-03-30T06:00:00Z"].map(at));
    assert_eq!(every.previous(at("2026-03-29T23:00:00Z")), Some(at("2026-03-28T18:00:00Z")));
    for rule in [CalendarRule::NextDay, CalendarRule::PreviousDay] {
        let error =
            schedule("@every 6h", "UTC").with_calendars(except(Arc::clone(&closed), rule)).unwrap_err();
        let expected = format!("@every keeps a steady interval, which {rule} would break: use the rule SKIP");
        assert_eq!(error.message, expected);
    }
}

#[test]
fn a_schedule_of_seconds_reaches_a_far_date_at_once() {
    let far = || vec![dates("far", &["2060-01-01"])];
    let odd = date("2020-01-01").iter_days().step_by(2).take(4_000);
    let odd = vec![Arc::new(DateSet::new("odd days", odd))];
    for rule in CalendarRule::ALL {
        for (when, exclude, only) in [
            ("* * * * * *", Vec::new(), far()),
            ("0 9 * * *", odd.clone(), far()),
            ("0 0 29 2 *", odd.clone(), Vec::new()),
            ("* * * * * *", odd.clone(), odd.clone()),
        ] {
            let calendars = OpenDays { exclude, only, rule: *rule };
            let limited = schedule(when, "Europe/Berlin").with_calendars(calendars).unwrap();
            let begun = Instant::now();
            let _ = (limited.next(at("2026-01-01T00:00:00Z")), limited.previous(at("2099-01-01T00:00:00Z")));
            // A walk over all seconds until then takes minutes.
            assert!(begun.elapsed() < Duration::from_secs(1), "{when} {rule}: {:?}", begun.elapsed());
        }
    }
    let calendars = OpenDays { exclude: Vec::new(), only: far(), rule: CalendarRule::Skip };
    let limited = schedule("* * * * * *", "Europe/Berlin").with_calendars(calendars).unwrap();
    assert_eq!(limited.next(at("2026-01-01T00:00:00Z")), Some(at("2059-12-31T23:00:00Z")));
    assert_eq!(limited.previous(at("2099-01-01T00:00:00Z")), Some(at("2060-01-01T22:59:59Z")));
}

#[test]
fn bounds_apply_to_the_instant_that_results() {
    let moved = closed_by("0 9 25 12 *", "UTC", vec![holidays()], CalendarRule::NextDay);
    let begins = |text: &str| moved.clone().bounded(Some(at(text)), None).next(DateTime::UNIX_EPOCH);
    assert_eq!(begins("2026-12-26T00:00:00Z"), Some(at("2026-12-27T09:00:00Z")));
    assert_eq!(begins("2026-12-27T09:00:01Z"), Some(at("2027-12-25T09:00:00Z")));
}

#[test]
fn why_a_day_is_closed() {
    let calendars = OpenDays {
        exclude: vec![holidays()],
        only: vec![dates("trading", &["2026-12-23", "2026-12-24"])],
        rule: CalendarRule::Skip,
    };
    assert_eq!(calendars.closes(date("2026-12-23")), None);
    assert_eq!(calendars.closes(date("2026-12-24")), Some(Closed::In("holidays".into())));
    assert_eq!(
        calendars.closes(date("2026-12-28")).unwrap().to_string(),
        "no day of the calendar \"trading\""
    );
}

#[test]
fn the_sentence_names_the_calendars() {
    let quarters = dates("quarters", &["2026-03-31"]);
    for (exclude, only, rule, expected) in [
        (vec![holidays()], vec![], CalendarRule::Skip, ", except on days of the calendar \"holidays\""),
        (
            vec![holidays(), weekends()],
            vec![],
            CalendarRule::NextDay,
            ", except on days of the calendars \"holidays\" and \"weekends\", moved to the next open day",
        ),
        (
            vec![],
            vec![quarters],
            CalendarRule::PreviousDay,
            ", only on days of the calendar \"quarters\", moved to the previous open day",
        ),
        (vec![], vec![], CalendarRule::NextDay, ""),
    ] {
        let daily = schedule("0 9 * * *", "UTC").with_calendars(OpenDays { exclude, only, rule }).unwrap();
        assert_eq!(daily.describe(), format!("At 09:00 every day, UTC time{expected}"));
    }
}

/// Sets of dates around the windows that are scanned, dense and sparse.
fn any_set() -> impl Strategy<Value = Arc<DateSet>> {
    let days = proptest::collection::vec((0_u64..60, 1_usize..12), 0..8);
    days.prop_map(|runs| {
        let first = |offset: u64| date("2026-10-01") + Days::new(offset);
        Arc::new(DateSet::new(
            "any",
            runs.into_iter().flat_map(|(from, count)| first(from).iter_days().take(count)),
        ))
    })
}

fn any_calendars() -> impl Strategy<Value = OpenDays> {
    let sets = || proptest::collection::vec(any_set(), 0..3);
    let rule = proptest::sample::select(CalendarRule::ALL);
    (sets(), sets(), rule).prop_map(|(exclude, only, rule)| OpenDays { exclude, only, rule })
}

/// Where the occurrences of a day go, found by walking.
fn target(calendars: &OpenDays, named: NaiveDate) -> Option<NaiveDate> {
    let mut day = named;
    for _ in 0..=366 {
        if calendars.closes(day).is_none() {
            return Some(day);
        }
        day = match calendars.rule {
            CalendarRule::Skip => return None,
            CalendarRule::NextDay => day.succ_opt()?,
            CalendarRule::PreviousDay => day.pred_opt()?,
        };
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// In windows of six days from 25 September to 9 November 2026, in which clocks change in Australia, Europe and
    /// North America.
    #[test]
    fn a_scan_of_each_minute_agrees(
        when in any_expression().prop_filter("has whole minutes", |when| when.split(' ').count() == 5),
        zone in proptest::sample::select(vec!["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
        gap in any_gap(), fold in any_fold(), calendars in any_calendars(), begin in 0_i64..14,
    ) {
        let matcher = Matcher::new(&when);
        let named = date("2025-09-01").iter_days().take(900).filter(|day| matcher.names_date(*day));
        let happen: std::collections::BTreeSet<NaiveDate> =
            named.filter_map(|day| target(&calendars, day)).collect();
        let schedule = parse(&when, zone, gap, fold).unwrap().with_calendars(calendars).unwrap();
        let from = at("2026-09-25T00:00:00Z") + TimeDelta::days(begin * 3);
        let to = from + TimeDelta::days(6);
        let elapsed = matcher.follows_elapsed_time();
        let scan = Scan { zone: zone.parse().unwrap(), gap, fold, step: TimeDelta::minutes(1), elapsed };
        let expected: Vec<DateTime<Utc>> = scan
            .due(|local| happen.contains(&local.date()) && matcher.names_time(local.time()), from, to)
            .into_iter()
            .collect();
        let forward: Vec<_> = schedule.between(from - TimeDelta::seconds(1), to).collect();
        prop_assert_eq!(&forward, &expected);
        let before = |at: &DateTime<Utc>| schedule.previous(*at - TimeDelta::seconds(1));
        let mut backward: Vec<_> =
            std::iter::successors(schedule.previous(to), before).take_while(|at| *at >= from).collect();
        backward.reverse();
        prop_assert_eq!(backward, expected);
    }

    #[test]
    fn forward_and_backward_agree_about_a_steady_interval(
        hours in 1_i64..100, calendars in any_calendars(), zone in support::any_zone(), from in 0_i64..200,
    ) {
        let calendars = OpenDays { rule: CalendarRule::Skip, ..calendars };
        let whole = schedule(&format!("@every {hours}h"), zone);
        let closed = whole.clone().with_calendars(calendars.clone()).unwrap();
        let from = at("2026-09-25T00:00:00Z") + TimeDelta::hours(from);
        let to = from + TimeDelta::days(60);
        let open = |at: &DateTime<Utc>| calendars.closes(whole.local_time(*at).date_naive()).is_none();
        let expected: Vec<_> = whole.between(from, to).filter(open).collect();
        prop_assert_eq!(&closed.between(from, to).collect::<Vec<_>>(), &expected);
        let before = |at: &DateTime<Utc>| closed.previous(*at - TimeDelta::seconds(1));
        let backward = std::iter::successors(closed.previous(to), before).take_while(|at| *at > from);
        prop_assert!(backward.eq(expected.iter().rev().copied()));
    }
}
