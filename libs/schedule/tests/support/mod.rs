//! What several test files share: making schedules, and generating expressions.

#![allow(clippy::unwrap_used, clippy::expect_used, dead_code)]

pub mod scan;

use chrono::{DateTime, NaiveDate, Utc};
use escapement_schedule::{DateSet, OpenDays, Schedule, Spec, SpecError};
use model::policy::{CalendarRule, DstFold, DstGap};
use proptest::prelude::*;
use std::sync::Arc;

/// Zones with every kind of clock change: north and south, half an hour and two hours, at midnight, across a
/// date line, with a footer rule of negative or more than 24 hours, moved by a calendar of its own, and without any.
pub const ZONES: [&str; 54] = [
    "UTC",
    "Europe/London",
    "Europe/Dublin",
    "Europe/Lisbon",
    "Europe/Berlin",
    "Europe/Paris",
    "Europe/Helsinki",
    "Europe/Athens",
    "Europe/Istanbul",
    "Europe/Moscow",
    "Africa/Cairo",
    "Africa/Johannesburg",
    "America/New_York",
    "America/Chicago",
    "America/Denver",
    "America/Phoenix",
    "America/Los_Angeles",
    "America/Anchorage",
    "America/Adak",
    "America/Halifax",
    "America/St_Johns",
    "Asia/Gaza",
    "America/Santiago",
    "America/Asuncion",
    "America/Sao_Paulo",
    "America/Mexico_City",
    "America/Nuuk",
    "Atlantic/Azores",
    "Asia/Beirut",
    "Asia/Jerusalem",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Sydney",
    "Australia/Adelaide",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Easter",
    "Pacific/Norfolk",
    "Pacific/Fiji",
    "Pacific/Apia",
    "Europe/Kyiv",
    "Europe/Madrid",
    "Europe/Bucharest",
    "America/Toronto",
    "America/Port-au-Prince",
    "America/Scoresbysund",
    "America/Miquelon",
    "Atlantic/Bermuda",
    "Australia/Hobart",
    "Asia/Amman",
];

pub fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect(text)
}

pub fn parse(when: &str, zone: &str, gap: DstGap, fold: DstFold) -> Result<Schedule, Vec<SpecError>> {
    Schedule::parse(&Spec {
        expression: when,
        timezone: zone,
        dst_gap: gap,
        dst_fold: fold,
        seed: "tests",
        anchor: at("2026-01-01T00:00:00Z"),
    })
}

/// A schedule with the default rules.
pub fn schedule(when: &str, zone: &str) -> Schedule {
    parse(when, zone, DstGap::RunAfter, DstFold::First).unwrap_or_else(|errors| panic!("{when}: {errors:?}"))
}

/// A set of dates written like 2026-12-25.
pub fn dates(name: &str, texts: &[&str]) -> Arc<DateSet> {
    let dates = texts.iter().map(|text| text.parse::<NaiveDate>().expect(text));
    Arc::new(DateSet::new(name, dates))
}

/// Calendars that close the days of one set.
pub fn except(set: Arc<DateSet>, rule: CalendarRule) -> OpenDays {
    OpenDays { exclude: vec![set], only: Vec::new(), rule }
}

/// Every error's message, for the expression in UTC.
pub fn refused(when: &str) -> Vec<String> {
    let errors = parse(when, "UTC", DstGap::RunAfter, DstFold::First).err();
    let errors = errors.unwrap_or_else(|| panic!("{when:?} is accepted"));
    errors.into_iter().map(|error| error.message).collect()
}

pub fn following(schedule: &Schedule, after: DateTime<Utc>, count: usize) -> Vec<DateTime<Utc>> {
    std::iter::successors(schedule.next(after), |at| schedule.next(*at)).take(count).collect()
}

pub fn any_gap() -> impl Strategy<Value = DstGap> {
    proptest::sample::select(DstGap::ALL)
}

pub fn any_fold() -> impl Strategy<Value = DstFold> {
    proptest::sample::select(DstFold::ALL)
}

pub fn any_zone() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(ZONES.as_slice())
}

/// Text of a field with values from `min` to `max`: stars, steps, ranges, values and lists of them.
pub fn any_field(min: u32, max: u32) -> impl Strategy<Value = String> {
    let value = min..=max;
    let range = (value.clone(), value.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)));
    let item = prop_oneof![
        3 => value.clone().prop_map(|value| value.to_string()),
        2 => range.clone(),
        1 => (range, 1..=max).prop_map(|(range, step)| format!("{range}/{step}")),
        1 => (value, 1..=max).prop_map(|(value, step)| format!("{value}/{step}")),
    ];
    prop_oneof![
        3 => Just("*".to_owned()),
        1 => (1..=max).prop_map(|step| format!("*/{step}")),
        4 => proptest::collection::vec(item, 1..4).prop_map(|items| items.join(",")),
    ]
}

/// Expressions of five or six fields that name at least one date.
pub fn any_expression() -> impl Strategy<Value = String> {
    let fields = (any_field(0, 59), any_field(0, 23), any_field(1, 31), any_field(1, 12), any_field(0, 6));
    (proptest::option::of(any_field(0, 59)), fields)
        .prop_map(|(second, (minute, hour, day, month, weekday))| {
            let five = format!("{minute} {hour} {day} {month} {weekday}");
            second.map_or(five.clone(), |second| format!("{second} {five}"))
        })
        .prop_filter("names a date", |when| parse(when, "UTC", DstGap::RunAfter, DstFold::First).is_ok())
}
