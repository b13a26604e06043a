//! Calendars: named sets of dates that close days, and what becomes of occurrences on a closed day.
//!
//! Every day that an expression names has the same times, so that calendars are a matter of days alone: they turn
//! the days that are named into the days that happen, before a zone makes instants of their times and before
//! the rules for clock changes apply.
//!
//! Invariants: nothing happens on a closed day; a search costs as many steps as it passes runs of closed days, not
//! days (`a_schedule_of_seconds_reaches_a_far_date_at_once`). Deliberately not here: who keeps calendars, and which
//! of their versions is in force.

use crate::civil::{self, SEARCH_FIRST, SEARCH_LAST};
use crate::local::Named;
use crate::way::Way;
use chrono::{Datelike, NaiveDate};
use model::policy::CalendarRule;
use std::sync::Arc;

/// The most days that an occurrence is moved; one that finds no open day within them does not happen.
pub const MOVE_DAYS_MAX: i64 = 366;

/// A named set of dates. Immutable; shared by the schedules of all jobs that use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateSet {
    name: String,
    /// First and last day of each run of consecutive dates, in order; at least one day lies between two runs.
    runs: Vec<(i32, i32)>,
    /// The same dates, bit `n` for day `n` of each month from `first_month` on, so that a month is one look.
    months: Vec<u32>,
    first_month: usize,
}

impl DateSet {
    /// A set of the dates, in whatever order, once or more often. Those that no schedule can name are left out.
    pub fn new(name: impl Into<String>, dates: impl IntoIterator<Item = NaiveDate>) -> Self {
        let years = SEARCH_FIRST..=SEARCH_LAST;
        let within = dates.into_iter().filter(|date| years.contains(&date.year()));
        let mut days: Vec<i32> = within.filter_map(|date| i32::try_from(civil::day_of(date)).ok()).collect();
        days.sort_unstable();
        let mut runs: Vec<(i32, i32)> = Vec::new();
        for day in days {
            match runs.last_mut() {
                Some((_, last)) if day <= *last + 1 => *last = day,
                _ => runs.push((day, day)),
            }
        }
        let month_of = |day: &(i32, i32)| {
            let (year, month, _) = civil::date(i64::from(day.0));
            month_number(year, month)
        };
        let mut set = Self {
            name: name.into(),
            first_month: runs.first().map_or(0, month_of),
            months: Vec::new(),
            runs,
        };
        for day in set.runs.iter().flat_map(|(first, last)| *first..=*last) {
            let (year, month, day) = civil::date(i64::from(day));
            let index = month_number(year, month) - set.first_month;
            set.months.resize(set.months.len().max(index + 1), 0);
            set.months[index] |= 1 << day;
        }
        set
    }

    /// The days of a month that are of the set.
    fn in_month(&self, month: usize) -> u32 {
        month.checked_sub(self.first_month).and_then(|index| self.months.get(index)).copied().unwrap_or(0)
    }

    /// True when no date lies in this month or farther away.
    fn ends_before(&self, month: usize, way: Way) -> bool {
        match way {
            Way::Forward => month >= self.first_month + self.months.len(),
            Way::Backward => month < self.first_month || self.months.is_empty(),
        }
    }

    /// The name by which people know it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True when `date` is one of the set.
    pub fn contains(&self, date: NaiveDate) -> bool {
        self.has(civil::day_of(date))
    }

    fn has(&self, day: i64) -> bool {
        self.first_run_ending_from(day).is_some_and(|(first, _)| first <= day)
    }

    fn first_run_ending_from(&self, day: i64) -> Option<(i64, i64)> {
        let index = self.runs.partition_point(|(_, last)| i64::from(*last) < day);
        self.runs.get(index).map(|(first, last)| (i64::from(*first), i64::from(*last)))
    }

    /// The nearest day of the set.
    fn nearest(&self, from: i64, way: Way) -> Option<i64> {
        match way {
            Way::Forward => self.first_run_ending_from(from).map(|(first, _)| first.max(from)),
            Way::Backward => {
                let until = self.runs.partition_point(|(first, _)| i64::from(*first) <= from);
                let (_, last) = self.runs.get(until.checked_sub(1)?)?;
                Some(i64::from(*last).min(from))
            }
        }
    }

    /// The nearest day that is not of the set.
    fn nearest_without(&self, from: i64, way: Way) -> i64 {
        match self.first_run_ending_from(from) {
            Some((first, last)) if first <= from => match way {
                Way::Forward => last + 1,
                Way::Backward => first - 1,
            },
            _ => from,
        }
    }
}

/// Months counted from the first that a search looks at.
fn month_number(year: i32, month: u32) -> usize {
    usize::try_from((year - SEARCH_FIRST) * 12).unwrap_or(0) + month as usize - 1
}

/// The calendars of a job. A local day is open when no set of `exclude` has it and, if there are sets in `only`,
/// one of these has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenDays {
    /// Sets whose days are closed.
    pub exclude: Vec<Arc<DateSet>>,
    /// Sets outside of which days are closed; an empty list closes none, an empty set closes all.
    pub only: Vec<Arc<DateSet>>,
    /// What becomes of an occurrence on a closed day.
    pub rule: CalendarRule,
}

/// Why a day is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// It is a day of this calendar.
    In(String),
    /// It is a day of none of these calendars.
    Outside(Vec<String>),
}

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::In(name) => write!(f, "a day of the calendar {name:?}"),
            Self::Outside(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
                let calendars = if names.len() == 1 { "calendar" } else { "calendars" };
                write!(f, "no day of the {calendars} {}", names.join(" or "))
            }
        }
    }
}

impl OpenDays {
    /// True when no day is closed.
    pub fn is_empty(&self) -> bool {
        self.exclude.is_empty() && self.only.is_empty()
    }

    /// Why `date` is closed; none when it is open.
    pub fn closes(&self, date: NaiveDate) -> Option<Closed> {
        let day = civil::day_of(date);
        if let Some(set) = self.exclude.iter().find(|set| set.has(day)) {
            return Some(Closed::In(set.name.clone()));
        }
        let outside = !self.only.is_empty() && !self.only.iter().any(|set| set.has(day));
        outside.then(|| Closed::Outside(self.only.iter().map(|set| set.name.clone()).collect()))
    }

    /// The open days of a month; none when no day is open from there on.
    pub(crate) fn open_in_month(&self, year: i32, month: u32, way: Way) -> Option<u32> {
        let month = month_number(year, month);
        if !self.only.is_empty() && self.only.iter().all(|set| set.ends_before(month, way)) {
            return None;
        }
        let any = |sets: &[Arc<DateSet>]| sets.iter().fold(0, |mask, set| mask | set.in_month(month));
        let only = if self.only.is_empty() { u32::MAX } else { any(&self.only) };
        Some(only & !any(&self.exclude))
    }

    /// The nearest open day.
    pub(crate) fn open(&self, from: i64, way: Way) -> Option<i64> {
        let mut day = from;
        loop {
            let before = day;
            for set in &self.exclude {
                day = set.nearest_without(day, way);
            }
            if !self.only.is_empty() {
                let nearest = self.only.iter().filter_map(|set| set.nearest(day, way));
                day = nearest.reduce(|a, b| way.nearer(a, b))?;
            }
            if day == before {
                return Some(day);
            }
        }
    }

    pub(crate) fn is_open(&self, day: i64) -> bool {
        self.open(day, Way::Forward) == Some(day)
    }

    /// The way in which occurrences leave closed days; none when they don't happen.
    const fn moves(&self) -> Option<Way> {
        match self.rule {
            CalendarRule::Skip => None,
            CalendarRule::NextDay => Some(Way::Forward),
            CalendarRule::PreviousDay => Some(Way::Backward),
        }
    }

    /// The day on which the occurrences of `day` happen; none when they don't.
    pub(crate) fn target(&self, day: i64) -> Option<i64> {
        if self.is_open(day) {
            return Some(day);
        }
        self.open(day, self.moves()?).filter(|open| (open - day).abs() <= MOVE_DAYS_MAX)
    }

    /// The day farthest away whose occurrences would happen on the open day `open`.
    pub(crate) fn farthest_source(&self, open: i64) -> i64 {
        let Some(moves) = self.moves() else { return open };
        let back = moves.reversed();
        let limit = back.from(open, MOVE_DAYS_MAX);
        match self.open(back.from(open, 1), back) {
            Some(other) => back.nearer(moves.from(other, 1), limit),
            None => limit,
        }
    }

    /// The nearest day on which something happens.
    pub(crate) fn day(&self, from: i64, way: Way, named: &Named) -> Option<i64> {
        let nearest = |day, way| named.day(day, way);
        match self.moves() {
            None => named.day_among(from, way, self),
            Some(moves) if moves == way => self.moved_along(from, way, nearest),
            Some(moves) => self.moved_against(from, way, moves, nearest),
        }
    }

    /// The search goes the way in which occurrences move.
    fn moved_along(&self, from: i64, way: Way, named: impl Fn(i64, Way) -> Option<i64>) -> Option<i64> {
        let mut open = self.open(from, way)?;
        loop {
            let day = named(self.farthest_source(open), way)?;
            if !way.is_beyond(day, open) {
                return Some(open);
            }
            open = self.open(day, way)?;
        }
    }

    /// The search meets an open day before the days whose occurrences it takes over.
    fn moved_against(
        &self,
        from: i64,
        way: Way,
        moves: Way,
        named: impl Fn(i64, Way) -> Option<i64>,
    ) -> Option<i64> {
        let mut open = self.open(from, way)?;
        loop {
            let day = named(open, way)?;
            if !way.is_beyond(day, self.farthest_source(open)) {
                return Some(open);
            }
            open = match self.open(day, moves) {
                Some(target) if target != open => target,
                // Too far from `open`: it does not happen, and neither does what lies between it and the next open day.
                _ => self.open(day, way)?,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> NaiveDate {
        text.parse().expect(text)
    }

    #[test]
    fn a_set_keeps_each_date_once_and_knows_its_neighbours() {
        let dates = ["2026-12-26", "2026-12-24", "2026-12-25", "2026-12-25", "2027-01-01", "9999-01-01"];
        let set = DateSet::new("holidays", dates.map(date));
        assert_eq!(set.runs.len(), 2);
        for (text, has) in
            [("2026-12-23", false), ("2026-12-24", true), ("2026-12-26", true), ("2026-12-27", false)]
        {
            assert_eq!(set.contains(date(text)), has, "{text}");
        }
        let day = |text: &str| civil::day_of(date(text));
        assert_eq!(set.nearest(day("2026-12-27"), Way::Forward), Some(day("2027-01-01")));
        assert_eq!(set.nearest(day("2026-12-27"), Way::Backward), Some(day("2026-12-26")));
        assert_eq!(set.nearest(day("2027-01-02"), Way::Forward), None);
        assert_eq!(set.nearest(day("2026-12-23"), Way::Backward), None);
        assert_eq!(set.nearest_without(day("2026-12-25"), Way::Forward), day("2026-12-27"));
        assert_eq!(set.nearest_without(day("2026-12-25"), Way::Backward), day("2026-12-23"));
    }
}
