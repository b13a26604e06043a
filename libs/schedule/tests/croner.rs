//! The `croner` crate as a second opinion, in both directions and through clock changes.
//!
//! Croner chooses its rules by the expression: with one second, one minute and one hour it runs a missing time after
//! the gap and a repeated one at its first pass, else it leaves out what is missing and runs both passes. Ours are
//! asked under the same rules. Where the two differ on purpose, or croner is wrong, is left out; [`ZONES`], [`day`],
//! [`week`], [`days`] and [`year`] say what and why at the place. Left out as a whole, because croner has none of it or another
//! meaning:
//!
//! - `H`, `L-3`, `@every`, `@at` and `@midnight`: croner refuses them.
//! - Lists with an empty item: croner reads `,` as nothing at all and then searches for seconds.
//! - Names that are longer than three letters: croner replaces names anywhere in the text, so that `JANSUN` is 10.
//! - Lists that have `L` as well as `LW`: croner keeps one of them.
//! - `*` within a list: croner refuses it.
//! - Years before 2000 and after 2037: the tables of chrono-tz, which croner reads, are compared with ours up to there.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chrono::{DateTime, Offset, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;
use croner::parser::CronParser;
use croner::{Cron, JobType};
use escapement_schedule::Schedule;
use model::policy::{DstFold, DstGap};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::LazyLock;
use support::{any_field, at};

/// Zones north and south, with changes of half an hour and of two hours, at midnight, and without any. Not here:
///
/// - The 22 zones that the newer database corrected (`zone/source.rs` lists them): croner reads the older one.
/// - Pacific/Apia, which left out a day: croner gives up after a gap of two hours.
/// - America/Nuuk and America/Scoresbysund, whose gaps end at midnight: croner wants the day after the gap to match
///   too, and drops the run.
const ZONES: [&str; 20] = [
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Dublin",
    "Europe/Istanbul",
    "Africa/Cairo",
    "Africa/Johannesburg",
    "America/New_York",
    "America/Los_Angeles",
    "America/St_Johns",
    "America/Santiago",
    "America/Sao_Paulo",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Asia/Tokyo",
    "Antarctica/Troll",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Pacific/Auckland",
    "Pacific/Chatham",
];

/// How many occurrences are compared in each direction.
const STEPS: usize = 4;

static CLOCK_CHANGES: LazyLock<HashMap<&str, Vec<DateTime<Utc>>>> =
    LazyLock::new(|| ZONES.map(|zone| (zone, clock_changes(zone))).into_iter().collect());

/// The hours of 2020 to 2037 at the beginning of which the zone's clock has changed.
fn clock_changes(zone: &str) -> Vec<DateTime<Utc>> {
    let zone: Tz = zone.parse().unwrap();
    let offset = |at: DateTime<Utc>| zone.offset_from_utc_datetime(&at.naive_utc()).fix();
    let days = std::iter::successors(Some(first()), |at| Some(*at + TimeDelta::days(1)));
    let changing =
        days.take_while(|at| *at < last()).filter(|at| offset(*at) != offset(*at + TimeDelta::days(1)));
    let hour = |day: DateTime<Utc>| {
        let hours = (1..=24).map(|hour| day + TimeDelta::hours(hour));
        hours.into_iter().find(|at| offset(*at) != offset(day)).unwrap()
    };
    changing.map(hour).collect()
}

fn first() -> DateTime<Utc> {
    at("2020-01-01T00:00:00Z")
}

fn last() -> DateTime<Utc> {
    at("2037-12-31T00:00:00Z")
}

/// A zone and an instant in 2020 to 2037, half of them within a day of a clock change, with and without a fraction.
fn zone_and_instant() -> impl Strategy<Value = (&'static str, DateTime<Utc>)> {
    let zone = proptest::sample::select(ZONES.as_slice());
    let anywhere = 0..(last() - first()).num_seconds();
    let near = proptest::option::of((any::<prop::sample::Index>(), -86_400_i64..86_400));
    (zone, anywhere, near, any::<bool>()).prop_map(|(zone, second, near, fraction)| {
        let fraction = TimeDelta::milliseconds(if fraction { 500 } else { 0 });
        let changes = &CLOCK_CHANGES[zone];
        match near {
            Some((change, near)) if !changes.is_empty() => {
                (zone, *change.get(changes) + TimeDelta::seconds(near) + fraction)
            }
            _ => (zone, first() + TimeDelta::seconds(second) + fraction),
        }
    })
}

/// A day-of-month field that is restricted.
fn day() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => any_field(1, 31).prop_filter("is restricted", |text| !text.starts_with('*')),
        1 => Just("L".to_owned()),
        1 => Just("LW".to_owned()),
        1 => (1_u32..=31).prop_map(|day| format!("{day}W")),
        1 => (1_u32..=28).prop_map(|day| format!("{day},L")),
    ]
}

/// A day-of-week field that is restricted. Without `n/step`: croner steps through to 7, so that `5/2` has Sunday.
fn week() -> impl Strategy<Value = String> {
    let names = proptest::sample::select(vec!["MON", "sun", "MON-FRI", "TUE,THU,SAT", "Wed-Sat", "FRI-SUN"]);
    prop_oneof![
        2 => (0_u32..=7).prop_map(|day| day.to_string()),
        2 => (0_u32..=7, 0_u32..=7).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (0_u32..=6, 0_u32..=6).prop_map(|(a, b)| format!("{a},{b}")),
        1 => names.prop_map(str::to_owned),
        1 => (0_u32..=6).prop_map(|day| format!("{day}L")),
        2 => (0_u32..=6, 1_u32..=5).prop_map(|(day, nth)| format!("{day}#{nth}")),
    ]
}

/// Both day fields. A field like `*/2` stands beside an open one only: for croner nothing but `*` is open, so that it
/// takes either field where crontab wants both.
fn days() -> impl Strategy<Value = (String, String)> {
    let open = || proptest::sample::select(vec!["*", "?"]).prop_map(str::to_owned);
    prop_oneof![
        6 => (open(), Just("*".to_owned())),
        1 => ((2_u32..=15).prop_map(|step| format!("*/{step}")), Just("*".to_owned())),
        1 => (Just("*".to_owned()), (2_u32..=6).prop_map(|step| format!("*/{step}"))),
        3 => (day(), open()),
        3 => (open(), week()),
        3 => (day(), week()),
    ]
}

/// A year field. Without steps: croner counts `*/4` from the year 1, and `2020/4` on to 5000.
fn year() -> impl Strategy<Value = String> {
    let year = 2_020_u32..=2_037;
    prop_oneof![
        Just("*".to_owned()),
        year.clone().prop_map(|year| year.to_string()),
        (year.clone(), year.clone()).prop_map(|(a, b)| format!("{a},{b}")),
        (year.clone(), year).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
    ]
}

/// Second, minute and hour: any, or a single one in the hours in which clocks change.
fn time() -> impl Strategy<Value = (Option<String>, String, String)> {
    let second = || proptest::option::of(any_field(0, 59));
    let one =
        (proptest::sample::select(vec![0, 15, 30, 45, 59]), proptest::sample::select(vec![0, 1, 2, 3, 23]));
    prop_oneof![
        (second(), any_field(0, 59), any_field(0, 23)),
        one.prop_map(|(minute, hour)| (None, minute.to_string(), hour.to_string())),
    ]
}

/// Expressions of five, six and seven fields.
fn expression() -> impl Strategy<Value = String> {
    let year = proptest::option::weighted(0.2, year());
    (time(), days(), any_field(1, 12), year).prop_map(|((second, minute, hour), (day, week), month, year)| {
        let second = second.or_else(|| year.as_ref().map(|_| "0".to_owned()));
        let fields = [
            second.as_ref(),
            Some(&minute),
            Some(&hour),
            Some(&day),
            Some(&month),
            Some(&week),
            year.as_ref(),
        ];
        fields.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ")
    })
}

/// Croner's schedule. `sloppy_ranges` is what lets it read `5/15`, as everybody else does.
fn theirs(when: &str) -> Cron {
    CronParser::builder()
        .sloppy_ranges(true)
        .build()
        .parse(when)
        .unwrap_or_else(|error| panic!("{when}: {error}"))
}

/// Ours under the rules by which croner treats the expression.
fn ours(when: &str, zone: &str, croner: &Cron) -> Option<Schedule> {
    let (gap, fold) = match croner.determine_job_type() {
        JobType::FixedTime => (DstGap::RunAfter, DstFold::First),
        JobType::IntervalWildcard => (DstGap::Skip, DstFold::Both),
    };
    support::parse(when, zone, gap, fold).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn croner_agrees_where_it_is_right(when in expression(), (zone, from) in zone_and_instant()) {
        let croner = theirs(&when);
        let tz: Tz = zone.parse().unwrap();
        let from = from.with_timezone(&tz);
        let Some(schedule) = ours(&when, zone, &croner) else {
            prop_assert!(croner.find_next_occurrence(&from, false).is_err(), "croner finds what we refuse");
            return Ok(());
        };

        let mut reached = from;
        for _ in 0..STEPS {
            let known = |at: &DateTime<Utc>| *at < last();
            let next = croner.find_next_occurrence(&reached, false).ok();
            let expected = next.map(|next| next.to_utc()).filter(known);
            prop_assert_eq!(schedule.next(reached.to_utc()).filter(known), expected, "after {}", reached);
            let Some(expected) = expected else { break };
            reached = expected.with_timezone(&tz);
        }

        let mut reached = from;
        for _ in 0..STEPS {
            let known = |at: &DateTime<Utc>| *at >= at_2000();
            let previous = croner.find_previous_occurrence(&reached, true).ok();
            let expected = previous.map(|previous| previous.to_utc()).filter(known);
            prop_assert_eq!(schedule.previous(reached.to_utc()).filter(known), expected, "at or before {}", reached);
            let Some(expected) = expected else { break };
            reached = (expected - TimeDelta::seconds(1)).with_timezone(&tz);
        }
    }
}

fn at_2000() -> DateTime<Utc> {
    at("2000-01-01T00:00:00Z")
}
