//! Days of the Gregorian calendar as numbers, counted from 1970-01-01. Owns nothing but arithmetic; knows no
//! zones and no times of day.

use chrono::{Datelike, NaiveDate};

/// Seconds of a day without clock changes.
pub(crate) const DAY: i64 = 86_400;

/// The first year that a search looks at: the last hours of 1969 are local time west of Greenwich when 1970 begins.
pub(crate) const SEARCH_FIRST: i32 = 1969;
/// The last year that a search looks at, for the same reason in the east.
pub(crate) const SEARCH_LAST: i32 = 2200;

/// 1970-01-01, counted from the first day of year 1 as 1.
const EPOCH_FROM_CE: i64 = 719_163;

const BEFORE_MONTH: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

const fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days of `month` (1 to 12).
pub(crate) const fn month_length(year: i32, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The day on which `year` begins.
const fn year_start(year: i32) -> i64 {
    let past = year as i64 - 1;
    past * 365 + past / 4 - past / 100 + past / 400 - 719_162
}

/// The first day of `month` (1 to 12).
pub(crate) fn month_start(year: i32, month: u32) -> i64 {
    let leap_day = i64::from(month > 2 && is_leap(year));
    year_start(year) + BEFORE_MONTH[(month as usize).clamp(1, 12) - 1] + leap_day
}

/// Year, month and day of month of `day`, which lies in a year after 0.
pub(crate) fn date(day: i64) -> (i32, u32, u32) {
    let mut year = 1970 + i32::try_from((day * 400).div_euclid(146_097)).unwrap_or(0);
    while year_start(year) > day {
        year -= 1;
    }
    while year_start(year + 1) <= day {
        year += 1;
    }
    let mut month = u32::try_from((day - year_start(year)) / 31 + 1).unwrap_or(1).min(12);
    if month < 12 && month_start(year, month + 1) <= day {
        month += 1;
    }
    let day_of_month = u32::try_from(day - month_start(year, month) + 1).unwrap_or(1);
    (year, month, day_of_month)
}

/// The number of a date.
pub(crate) fn day_of(date: NaiveDate) -> i64 {
    i64::from(date.num_days_from_ce()) - EPOCH_FROM_CE
}

/// The date of a number; none when it lies beyond all dates that chrono knows.
pub(crate) fn date_of(day: i64) -> Option<NaiveDate> {
    NaiveDate::from_num_days_from_ce_opt(i32::try_from(day + EPOCH_FROM_CE).ok()?)
}

/// The weekday of `day`, 0 is Sunday.
pub(crate) fn weekday(day: i64) -> u32 {
    u32::try_from((day + 4).rem_euclid(7)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_chrono_on_every_day_of_the_search() {
        let mut date_there = NaiveDate::from_ymd_opt(SEARCH_FIRST, 1, 1).expect("a date");
        let mut day = month_start(SEARCH_FIRST, 1);
        while date_there.year() <= SEARCH_LAST {
            assert_eq!(date(day), (date_there.year(), date_there.month(), date_there.day()));
            assert_eq!((day_of(date_there), date_of(day)), (day, Some(date_there)));
            assert_eq!(weekday(day), date_there.weekday().num_days_from_sunday());
            if date_there.day() == 1 {
                assert_eq!(month_start(date_there.year(), date_there.month()), day);
                let length = u32::from(date_there.num_days_in_month());
                assert_eq!(month_length(date_there.year(), date_there.month()), length);
            }
            date_there = date_there.succ_opt().expect("a date");
            day += 1;
        }
    }
}
