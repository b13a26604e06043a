//! Calendars: named sets of dates that open or close days to a job.
//!
//! A definition names versions, which never change; [`DateSet`] is what a version holds.

use crate::policy::CalendarRule;
use chrono::{Datelike, NaiveDate};
use serde::{Deserialize, Serialize};

/// Which days are open to a job, and what becomes of occurrences on the others.
///
/// A day is open when no calendar of `exclude` has it and, unless `only` is empty, one of `only` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calendars {
    /// Their dates are closed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<CalendarVersion>,
    /// Only their dates are open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<CalendarVersion>,
    /// What becomes of an occurrence on a closed day.
    #[serde(default, skip_serializing_if = "CalendarRule::is_skip")]
    pub rule: CalendarRule,
}

impl Calendars {
    /// Every version that is named.
    pub fn versions(&self) -> impl Iterator<Item = &CalendarVersion> {
        self.exclude.iter().chain(&self.only)
    }

    /// True when every day is open.
    pub fn is_empty(&self) -> bool {
        self.exclude.is_empty() && self.only.is_empty()
    }
}

/// One version of a tenant's calendar.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CalendarVersion {
    /// The calendar's name.
    pub name: String,
    /// Counted from 1; 0 in a definition that was read and not stored yet.
    pub version: i64,
}

/// An immutable set of dates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateSet {
    name: String,
    /// Days of the common era, rising.
    days: Vec<i32>,
}

impl DateSet {
    /// The set of `dates` under the name that explanations use.
    pub fn new(name: impl Into<String>, dates: impl IntoIterator<Item = NaiveDate>) -> Self {
        let mut days: Vec<i32> = dates.into_iter().map(|date| date.num_days_from_ce()).collect();
        days.sort_unstable();
        days.dedup();
        Self { name: name.into(), days }
    }

    /// The calendar's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True when `date` belongs to it.
    pub fn contains(&self, date: NaiveDate) -> bool {
        self.has_day(date.num_days_from_ce())
    }

    /// True when the day, counted in the common era, belongs to it.
    pub fn has_day(&self, day: i32) -> bool {
        self.days.binary_search(&day).is_ok()
    }

    /// The first of its days that is at least `day`.
    pub fn first_from(&self, day: i32) -> Option<i32> {
        self.days.get(self.days.partition_point(|have| *have < day)).copied()
    }

    /// The last of its days that is at most `day`.
    pub fn last_through(&self, day: i32) -> Option<i32> {
        self.days.get(self.days.partition_point(|have| *have <= day).checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_finds_its_dates_and_their_neighbours() {
        let date = |day| NaiveDate::from_ymd_opt(2026, 12, day).expect("a date");
        let set = DateSet::new("holidays", [date(26), date(25), date(25)]);
        assert!(set.contains(date(25)) && set.contains(date(26)) && !set.contains(date(24)));
        let day = |day| date(day).num_days_from_ce();
        assert_eq!(set.first_from(day(1)), Some(day(25)));
        assert_eq!(set.last_through(day(31)), Some(day(26)));
        assert_eq!((set.first_from(day(27)), set.last_through(day(24))), (None, None));
    }
}
