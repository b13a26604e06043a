//! A schedule as an English sentence: `At 09:00 on Monday to Friday, Europe/Berlin time`.
//!
//! Owns wording only. It is made from the same sets that are searched, so that it can't say anything else
//! (`the_sentence_names_the_days_that_come`).

use crate::bits::{self, members};
use crate::calendar::{DateSet, OpenDays};
use crate::days::Days;
use crate::fields::Fields;
use crate::local::Named;
use crate::schedule::{Kind, Schedule};
use chrono::{DateTime, SecondsFormat};
use model::policy::CalendarRule;
use std::sync::Arc;

pub(crate) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

/// Times of a day that are written out one by one.
const TIMES_MAX: u32 = 6;

impl Schedule {
    /// What the schedule says, as a sentence without a full stop.
    pub fn describe(&self) -> String {
        let mut sentence = self.says();
        if let Some(calendars) = self.calendars() {
            sentence.push_str(&exceptions(calendars));
        }
        sentence
    }

    fn says(&self) -> String {
        match &self.kind {
            Kind::Every(every) => {
                let from = DateTime::from_timestamp(every.anchor, 0).unwrap_or_default();
                let from = from.to_rfc3339_opts(SecondsFormat::Secs, true);
                format!("Every {}, counted from {from}", interval(every.step))
            }
            Kind::Wall { local, zone, .. } => {
                let zone = zone.name();
                match &local.named {
                    Named::Once(at) => {
                        let at = DateTime::from_timestamp(*at, 0).unwrap_or_default();
                        format!("Once, on {}, {zone} time", at.format("%-d %B %Y at %H:%M:%S"))
                    }
                    Named::Fields(fields) => format!("{}, {zone} time", sentence(fields)),
                }
            }
        }
    }
}

/// Which days are closed, and where their occurrences go.
fn exceptions(calendars: &OpenDays) -> String {
    let days = |sets: &[Arc<DateSet>], conjunction: &str| {
        let names: Vec<String> = sets.iter().map(|set| format!("{:?}", set.name())).collect();
        let calendars = if names.len() == 1 { "calendar" } else { "calendars" };
        format!("on days of the {calendars} {}", joined(&names, conjunction))
    };
    let mut text = String::new();
    if !calendars.only.is_empty() {
        text.push_str(&format!(", only {}", days(&calendars.only, "or")));
    }
    if !calendars.exclude.is_empty() {
        text.push_str(&format!(", except {}", days(&calendars.exclude, "and")));
    }
    text.push_str(match calendars.rule {
        CalendarRule::Skip => "",
        CalendarRule::NextDay => ", moved to the next open day",
        CalendarRule::PreviousDay => ", moved to the previous open day",
    });
    text
}

fn sentence(fields: &Fields) -> String {
    let (times, names_times) = times(fields);
    let mut sentence = times;
    match dates(&fields.days) {
        Some(dates) => sentence.push_str(&format!(" on {dates}")),
        // "Every minute every day" would say it twice.
        None if names_times => sentence.push_str(" every day"),
        None => {}
    }
    if fields.months != bits::range(1, 12, 1) {
        let months = list(fields.months, |month| MONTHS[month as usize - 1].to_owned());
        sentence.push_str(&format!(" in {months}"));
    }
    let years: Vec<String> = fields.years.members().map(|year| year.to_string()).collect();
    if !years.is_empty() {
        sentence.push_str(&format!(" of {}", joined(&years, "and")));
    }
    sentence
}

/// The times of day, and whether they are named one by one.
fn times(fields: &Fields) -> (String, bool) {
    let (seconds, minutes, hours) = (fields.seconds, fields.minutes, fields.hours);
    let count = seconds.count_ones() * minutes.count_ones() * hours.count_ones();
    if count <= TIMES_MAX {
        let mut times = Vec::new();
        for (hour, minute, second) in members(hours)
            .flat_map(|h| members(minutes).flat_map(move |m| members(seconds).map(move |s| (h, m, s))))
        {
            let second = if seconds == 1 { String::new() } else { format!(":{second:02}") };
            times.push(format!("{hour:02}:{minute:02}{second}"));
        }
        return (format!("At {}", joined(&times, "and")), true);
    }
    let mut parts = Vec::new();
    if seconds != 1 {
        parts.push(unit(seconds, 60, "second"));
    }
    if !(seconds != 1 && is_all(minutes, 60)) {
        parts.push(unit(minutes, 60, "minute"));
    }
    if !is_all(hours, 24) {
        let hours = members(hours).map(|hour| (hour, format!("{hour:02}"))).collect::<Vec<_>>();
        parts.push(format!("hour {}", runs(&hours)));
    } else if parts.last().is_some_and(|part| part.starts_with("minute")) {
        parts.push("every hour".to_owned());
    }
    let mut text = parts.join(" of ");
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    (text, false)
}

/// Values of a field of `size`: `every 15 minutes`, `minute 5, 10 and 20 to 25`.
fn unit(set: u64, size: u32, name: &str) -> String {
    let step = set.count_ones();
    if is_all(set, size) {
        return format!("every {name}");
    }
    if size.is_multiple_of(step) && step > 1 && set == bits::range(0, size - 1, size / step) {
        return format!("every {} {name}s", size / step);
    }
    let values = members(set).map(|value| (value, value.to_string())).collect::<Vec<_>>();
    format!("{name} {}", runs(&values))
}

fn is_all(set: u64, size: u32) -> bool {
    set == bits::range(0, size - 1, 1)
}

/// The dates within a month; none when it is every day.
fn dates(days: &Days) -> Option<String> {
    let every_date = days.of_month == bits::range(1, 31, 1) as u32;
    let every_weekday = days.of_week == 0x7f;
    match (days.either, every_date, every_weekday) {
        (_, true, true) => None,
        (true, true, _) | (true, _, true) => None,
        (true, false, false) => Some(format!("{} or on {}", of_month(days), of_week(days))),
        (false, true, false) => Some(of_week(days)),
        (false, false, true) => Some(of_month(days)),
        (false, false, false) => Some(format!("{} if it is {}", of_month(days), of_week(days))),
    }
}

fn of_month(days: &Days) -> String {
    let mut parts = Vec::new();
    if days.of_month != 0 {
        parts.push(format!("day {} of the month", list(u64::from(days.of_month), |day| day.to_string())));
    }
    if let Some(special) = &days.special {
        for back in members(u64::from(special.before_last)) {
            parts.push(match back {
                0 => "the last day of the month".to_owned(),
                1 => "the day before the last of the month".to_owned(),
                _ => format!("the day {back} days before the last of the month"),
            });
        }
        for day in members(u64::from(special.nearest_weekday)) {
            parts.push(format!("the weekday nearest to day {day} of the month"));
        }
        if special.last_weekday {
            parts.push("the last weekday of the month".to_owned());
        }
    }
    joined(&parts, "and")
}

fn of_week(days: &Days) -> String {
    let weekday = |day: u32| WEEKDAYS[day as usize % 7].to_owned();
    let mut parts = Vec::new();
    if days.of_week != 0 {
        // A week that is told from Monday on keeps Saturday and Sunday together.
        let from_monday = u64::from(days.of_week >> 1) | u64::from(days.of_week & 1) << 6;
        parts.push(list(from_monday, |day| weekday(day + 1)));
    }
    if let Some(special) = &days.special {
        for (ordinal, weekdays) in ORDINALS.iter().zip(special.nth) {
            let names = members(u64::from(weekdays)).map(weekday);
            parts.extend(names.map(|name| format!("the {ordinal} {name} of the month")));
        }
        let last = members(u64::from(special.last)).map(weekday);
        parts.extend(last.map(|name| format!("the last {name} of the month")));
    }
    joined(&parts, "and")
}

fn list(set: u64, name: impl Fn(u32) -> String) -> String {
    runs(&members(set).map(|value| (value, name(value))).collect::<Vec<_>>())
}

/// Names in order; three or more neighbours as `first to last`.
fn runs(values: &[(u32, String)]) -> String {
    let mut parts = Vec::new();
    for run in values.chunk_by(|(a, _), (b, _)| a + 1 == *b) {
        match run {
            [(_, first), _, .., (_, last)] => parts.push(format!("{first} to {last}")),
            few => parts.extend(few.iter().map(|(_, name)| name.clone())),
        }
    }
    joined(&parts, "and")
}

/// `a`, `a and b`, `a, b and c`.
fn joined(parts: &[String], conjunction: &str) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}

/// `1 hour and 30 minutes`.
pub(crate) fn interval(seconds: i64) -> String {
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (name, unit) in [("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)] {
        let count = rest / unit;
        rest %= unit;
        match count {
            0 => {}
            1 => parts.push(format!("1 {name}")),
            _ => parts.push(format!("{count} {name}s")),
        }
    }
    joined(&parts, "and")
}
