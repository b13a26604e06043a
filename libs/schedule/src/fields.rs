//! The wall-clock times that an expression names, as bit sets, searched forward and backward.
//!
//! Owns local time only: seconds counted as if every day had 86,400 of them. No zone, no clock change; `walk`
//! turns what is found here into instants. Every search ends: it looks at most once at each month of 231 years.

use crate::bits;
use crate::civil::{self, DAY, SEARCH_FIRST, SEARCH_LAST};
use crate::days::{self, Days};

/// A parsed expression of 5, 6 or 7 fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Fields {
    pub seconds: u64,
    pub minutes: u64,
    pub hours: u64,
    pub days: Days,
    /// Bits 1 to 12.
    pub months: u64,
    pub years: Years,
    /// The minute or hour field begins with `*`: the schedule follows elapsed time and ignores the DST rules.
    pub elapsed: bool,
}

/// The years that an expression names; none is every year.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Years(pub Option<Box<YearSet>>);

/// Years of 1970 to 2161 as bits.
pub(crate) type YearSet = [u64; 3];

impl Years {
    fn at_least(&self, year: i32) -> Option<i32> {
        let Some(set) = &self.0 else { return (year <= SEARCH_LAST).then_some(year) };
        let from = u32::try_from((year - 1970).max(0)).unwrap_or(0);
        (from / 64..3).find_map(|word| {
            let within = if word == from / 64 { from % 64 } else { 0 };
            bits::at_least(set[word as usize], within).map(|bit| 1970 + (word * 64 + bit) as i32)
        })
    }

    pub(crate) fn has(&self, year: i32) -> bool {
        self.at_least(year) == Some(year)
    }

    /// The years that are named; none when every year is.
    pub(crate) fn members(&self) -> impl Iterator<Item = u32> {
        let words = self.0.iter().flat_map(|set| set.iter());
        (0_u32..)
            .zip(words)
            .flat_map(|(word, set)| bits::members(*set).map(move |bit| 1970 + word * 64 + bit))
    }

    fn at_most(&self, year: i32) -> Option<i32> {
        let Some(set) = &self.0 else { return (year >= SEARCH_FIRST).then_some(year) };
        let upto = u32::try_from(year - 1970).ok()?.min(191);
        (0..=upto / 64).rev().find_map(|word| {
            let within = if word == upto / 64 { upto % 64 } else { 63 };
            bits::at_most(set[word as usize], within).map(|bit| 1970 + (word * 64 + bit) as i32)
        })
    }
}

impl Fields {
    /// The first matching local time that is at least `from`.
    pub(crate) fn at_or_after(&self, from: i64) -> Option<i64> {
        let (day, second) = (from.div_euclid(DAY), from.rem_euclid(DAY) as u32);
        let found = self.day_at_or_after(day)?;
        if found == day {
            if let Some(time) = self.time_at_or_after(second) {
                return Some(day * DAY + i64::from(time));
            }
            let next = self.day_at_or_after(day + 1)?;
            return Some(next * DAY + i64::from(self.first_time()));
        }
        Some(found * DAY + i64::from(self.first_time()))
    }

    /// The last matching local time that is at most `upto`.
    pub(crate) fn at_or_before(&self, upto: i64) -> Option<i64> {
        let (day, second) = (upto.div_euclid(DAY), upto.rem_euclid(DAY) as u32);
        let found = self.day_at_or_before(day)?;
        if found == day {
            if let Some(time) = self.time_at_or_before(second) {
                return Some(day * DAY + i64::from(time));
            }
            let previous = self.day_at_or_before(day - 1)?;
            return Some(previous * DAY + i64::from(self.last_time()));
        }
        Some(found * DAY + i64::from(self.last_time()))
    }

    /// The first matching day, with no regard to the time of day.
    pub(crate) fn day_at_or_after(&self, from: i64) -> Option<i64> {
        self.day_at_or_after_among(from, |_, _| Some(u32::MAX))
    }

    /// The first matching day among the days of each month that `open` names; none once it answers none.
    pub(crate) fn day_at_or_after_among(
        &self,
        from: i64,
        open: impl Fn(i32, u32) -> Option<u32>,
    ) -> Option<i64> {
        let (mut year, mut month, mut day) = civil::date(from);
        if year < SEARCH_FIRST {
            (year, month, day) = (SEARCH_FIRST, 1, 1);
        }
        loop {
            let allowed = self.years.at_least(year)?;
            if allowed != year {
                (year, month, day) = (allowed, 1, 1);
            }
            while let Some(found) = bits::at_least(self.months, month) {
                if found != month {
                    (month, day) = (found, 1);
                }
                let mask = days::of(&self.days, year, month) & open(year, month)?;
                if let Some(first) = bits::at_least(u64::from(mask), day) {
                    return Some(civil::month_start(year, month) + i64::from(first) - 1);
                }
                (month, day) = (month + 1, 1);
            }
            (year, month, day) = (year + 1, 1, 1);
        }
    }

    pub(crate) fn day_at_or_before(&self, upto: i64) -> Option<i64> {
        self.day_at_or_before_among(upto, |_, _| Some(u32::MAX))
    }

    /// The last matching day among the days of each month that `open` names; none once it answers none.
    pub(crate) fn day_at_or_before_among(
        &self,
        upto: i64,
        open: impl Fn(i32, u32) -> Option<u32>,
    ) -> Option<i64> {
        let (mut year, mut month, mut day) = civil::date(upto);
        if year > SEARCH_LAST {
            (year, month, day) = (SEARCH_LAST, 12, 31);
        }
        loop {
            let allowed = self.years.at_most(year)?;
            if allowed != year {
                (year, month, day) = (allowed, 12, 31);
            }
            while let Some(found) = bits::at_most(self.months, month) {
                if found != month {
                    (month, day) = (found, 31);
                }
                let mask = days::of(&self.days, year, month) & open(year, month)?;
                if let Some(last) = bits::at_most(u64::from(mask), day) {
                    return Some(civil::month_start(year, month) + i64::from(last) - 1);
                }
                (month, day) = (month - 1, 31);
            }
            (year, month, day) = (year - 1, 12, 31);
        }
    }

    pub(crate) fn time_at_or_after(&self, time: u32) -> Option<u32> {
        let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(second) = bits::at_least(self.seconds, second)
            {
                return Some(hour * 3_600 + minute * 60 + second);
            }
            if let Some(minute) = bits::at_least(self.minutes, minute + 1) {
                return Some(hour * 3_600 + minute * 60 + self.seconds.trailing_zeros());
            }
        }
        let hour = bits::at_least(self.hours, hour + 1)?;
        Some(hour * 3_600 + self.minutes.trailing_zeros() * 60 + self.seconds.trailing_zeros())
    }

    pub(crate) fn time_at_or_before(&self, time: u32) -> Option<u32> {
        let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(second) = bits::at_most(self.seconds, second)
            {
                return Some(hour * 3_600 + minute * 60 + second);
            }
            let earlier = minute.checked_sub(1).and_then(|minute| bits::at_most(self.minutes, minute));
            if let Some(minute) = earlier {
                return Some(hour * 3_600 + minute * 60 + last(self.seconds));
            }
        }
        let hour = bits::at_most(self.hours, hour.checked_sub(1)?)?;
        Some(hour * 3_600 + last(self.minutes) * 60 + last(self.seconds))
    }

    /// The first time of a matching day; the parser admits no empty set.
    fn first_time(&self) -> u32 {
        self.hours.trailing_zeros() * 3_600
            + self.minutes.trailing_zeros() * 60
            + self.seconds.trailing_zeros()
    }

    fn last_time(&self) -> u32 {
        last(self.hours) * 3_600 + last(self.minutes) * 60 + last(self.seconds)
    }
}

/// The largest member of a set that is not empty.
const fn last(set: u64) -> u32 {
    63_u32.saturating_sub(set.leading_zeros())
}
