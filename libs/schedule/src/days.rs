//! Which days of a month an expression names: the day-of-month and the day-of-week field together.
//!
//! Invariant: a mask has bit `n` for day `n` of the month, 1 to 31, and never a day that the month does not have.

use crate::civil;

/// Both day fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Days {
    /// Days of the month by number.
    pub of_month: u32,
    /// Weekdays, bit 0 is Sunday.
    pub of_week: u8,
    /// Both fields are restricted: a day that either of them names counts. Else both must name it.
    pub either: bool,
    /// What plain sets can't say; most expressions have none.
    pub special: Option<Box<Special>>,
}

/// Days that depend on the month's length and first weekday.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Special {
    /// Bit `n`: the `n`-th day before the last (`L-n`); bit 0 is the last itself (`L`).
    pub before_last: u32,
    /// Bit `n`: the weekday nearest to day `n` within the month (`nW`).
    pub nearest_weekday: u32,
    /// The last Monday-to-Friday day of the month (`LW`).
    pub last_weekday: bool,
    /// For each `k` from 1 to 5, weekdays of which the `k`-th counts (`n#k`).
    pub nth: [u8; 5],
    /// Weekdays of which the last counts (`nL`).
    pub last: u8,
}

impl Days {
    /// The days of a month of `length` days that begins on weekday `first`.
    pub(crate) fn mask(&self, first: u32, length: u32) -> u32 {
        let (of_month, of_week) = self.masks(first, length);
        month_mask(length) & if self.either { of_month | of_week } else { of_month & of_week }
    }

    /// What each of both fields names.
    pub(crate) fn masks(&self, first: u32, length: u32) -> (u32, u32) {
        let mut of_month = self.of_month;
        let mut of_week = spread(self.of_week, first);
        if let Some(special) = &self.special {
            of_month |= special.of_month(first, length);
            of_week |= special.of_week(first, length);
        }
        (of_month, of_week)
    }
}

const fn month_mask(length: u32) -> u32 {
    (u32::MAX >> (31 - length)) & !1
}

/// Every day of a month that begins on weekday `first` and falls on one of `weekdays`.
fn spread(weekdays: u8, first: u32) -> u32 {
    let week = u64::from(weekdays & 0x7f);
    let from_first = (week >> first | week << (7 - first)) & 0x7f;
    let five_weeks = from_first * (1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28);
    (five_weeks << 1) as u32
}

impl Special {
    fn of_month(&self, first: u32, length: u32) -> u32 {
        let mut mask = 0;
        for back in crate::bits::members(u64::from(self.before_last)) {
            if back < length {
                mask |= 1 << (length - back);
            }
        }
        for day in crate::bits::members(u64::from(self.nearest_weekday)) {
            if day <= length {
                mask |= 1 << nearest(day, first, length);
            }
        }
        if self.last_weekday {
            mask |= match (first + length - 1) % 7 {
                0 => 1 << (length - 2),
                6 => 1 << (length - 1),
                _ => 1 << length,
            };
        }
        mask
    }

    fn of_week(&self, first: u32, length: u32) -> u32 {
        let last_seven = month_mask(length) & !month_mask(length - 7);
        let mut mask = spread(self.last, first) & last_seven;
        for (index, weekdays) in self.nth.iter().enumerate() {
            mask |= spread(*weekdays, first) & 0x7f << (7 * index + 1);
        }
        mask
    }
}

/// The Monday-to-Friday day nearest to `day` that lies in the same month.
fn nearest(day: u32, first: u32, length: u32) -> u32 {
    match (first + day - 1) % 7 {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == length => day - 2,
        0 => day + 1,
        _ => day,
    }
}

/// The mask of `month` of `year`.
pub(crate) fn of(days: &Days, year: i32, month: u32) -> u32 {
    days.mask(civil::weekday(civil::month_start(year, month)), civil::month_length(year, month))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_weekdays_over_a_month_as_the_calendar_does() {
        for (year, month) in (2024..2031).flat_map(|year| (1..=12).map(move |month| (year, month))) {
            let start = civil::month_start(year, month);
            let days = Days { of_month: u32::MAX, of_week: 0b010_0001, either: false, special: None };
            let mask = of(&days, year, month);
            for day in 1..=civil::month_length(year, month) {
                let weekday = civil::weekday(start + i64::from(day) - 1);
                assert_eq!(mask >> day & 1 == 1, weekday == 0 || weekday == 5, "{year}-{month}-{day}");
            }
        }
    }
}
