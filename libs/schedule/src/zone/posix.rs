//! The rule in a zone file's footer, which goes on for ever: `EST5EDT,M3.2.0,M11.1.0` (POSIX `TZ`, with hours from
//! -167 to 167 as RFC 9636 allows).

use super::Stretch;
use crate::civil::{self, DAY};

/// Offsets, and when they change in each year.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rule {
    standard: i32,
    summer: Option<Summer>,
}

#[derive(Debug, PartialEq, Eq)]
struct Summer {
    offset: i32,
    /// Begins, on the clock of standard time.
    begins: Moment,
    /// Ends, on the clock of summer time.
    ends: Moment,
}

/// A local time that each year has once.
#[derive(Debug, PartialEq, Eq)]
struct Moment {
    day: DayRule,
    /// Seconds after that day's midnight, also negative or past the day's end.
    time: i64,
}

#[derive(Debug, PartialEq, Eq)]
enum DayRule {
    /// `Mm.w.d`: the `week`-th such weekday of the month, the fifth is the last.
    Weekday { month: u32, week: u32, weekday: u32 },
    /// `Jn`: the `n`-th day, 29 February not counted.
    Julian(i64),
    /// `n`: the `n`-th day from 0, 29 February counted.
    Ordinal(i64),
}

impl Rule {
    /// Reads a rule; none when it isn't one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = skip_name(text)?;
        let (standard, rest) = split_offset(rest);
        // The sign is the other way round: 5 is five hours west.
        let standard = -seconds(standard)?;
        if rest.is_empty() {
            return Some(Self { standard: i32::try_from(standard).ok()?, summer: None });
        }
        let rest = skip_name(rest)?;
        let (offset, rest) = split_offset(rest);
        let offset = if offset.is_empty() { standard + 3_600 } else { -seconds(offset)? };
        let (begins, ends) = rest.strip_prefix(',')?.split_once(',')?;
        let summer = Summer {
            offset: i32::try_from(offset).ok()?,
            begins: Moment::parse(begins)?,
            ends: Moment::parse(ends)?,
        };
        Some(Self { standard: i32::try_from(standard).ok()?, summer: Some(summer) })
    }

    /// The changes after `after`, through `through`.
    pub(super) fn changes(&self, after: i64, through: i64) -> Vec<Stretch> {
        let Some(summer) = &self.summer else { return Vec::new() };
        let mut changes = Vec::new();
        let first = civil::date(after.max(-DAY).div_euclid(DAY)).0 - 1;
        let last = civil::date(through.div_euclid(DAY)).0 + 1;
        for year in first..=last {
            let begins = summer.begins.in_year(year) - i64::from(self.standard);
            let ends = summer.ends.in_year(year) - i64::from(summer.offset);
            changes.push(Stretch { start: begins, offset: summer.offset });
            changes.push(Stretch { start: ends, offset: self.standard });
        }
        changes.retain(|change| change.start > after && change.start <= through);
        changes.sort_by_key(|change| change.start);
        changes
    }
}

impl Moment {
    fn parse(text: &str) -> Option<Self> {
        let (day, time) = text.split_once('/').unwrap_or((text, "2"));
        let day = if let Some(weekday) = day.strip_prefix('M') {
            let mut parts = weekday.split('.').map(str::parse);
            let (month, week) = (parts.next()?.ok()?, parts.next()?.ok()?);
            let weekday = parts.next()?.ok()?;
            let legal = (1..=12).contains(&month) && (1..=5).contains(&week) && weekday < 7;
            legal.then_some(DayRule::Weekday { month, week, weekday })?
        } else if let Some(julian) = day.strip_prefix('J') {
            DayRule::Julian(julian.parse().ok()?)
        } else {
            DayRule::Ordinal(day.parse().ok()?)
        };
        Some(Self { day, time: seconds(time)? })
    }

    fn in_year(&self, year: i32) -> i64 {
        let day = match self.day {
            DayRule::Weekday { month, week, weekday } => {
                let start = civil::month_start(year, month);
                let first = (weekday + 7 - civil::weekday(start)) % 7;
                let mut in_month = first + 7 * (week - 1);
                if in_month >= civil::month_length(year, month) {
                    in_month -= 7;
                }
                start + i64::from(in_month)
            }
            DayRule::Julian(day) => {
                let leap = i64::from(day >= 60 && civil::month_length(year, 2) == 29);
                civil::month_start(year, 1) + day - 1 + leap
            }
            DayRule::Ordinal(day) => civil::month_start(year, 1) + day,
        };
        day * DAY + self.time
    }
}

/// What follows a zone abbreviation: letters, or anything in angle brackets.
fn skip_name(text: &str) -> Option<&str> {
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split_once('>').map(|(_, rest)| rest);
    }
    let rest = text.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    (rest.len() < text.len()).then_some(rest)
}

/// The offset at the beginning, possibly empty, and what follows it.
fn split_offset(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '+' | '-' | ':')));
    text.split_at(end.unwrap_or(text.len()))
}

/// `[+-]hh[:mm[:ss]]` in seconds.
fn seconds(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut sum = 0;
    for (part, unit) in digits.split(':').zip([3_600, 60, 1]) {
        sum += part.parse::<u16>().ok().map(i64::from)? * unit;
    }
    Some(sign * sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_2026(rule: &str) -> Vec<(i64, i32)> {
        let changes = Rule::parse(rule).expect("a rule").changes(1_767_225_600, 1_798_761_599);
        changes.into_iter().map(|change| (change.start, change.offset)).collect()
    }

    #[test]
    fn weekday_rules_with_default_and_odd_times() {
        // 2026-03-08T07:00Z and 2026-11-01T06:00Z
        assert_eq!(in_2026("EST5EDT,M3.2.0,M11.1.0"), [(1_772_953_200, -14_400), (1_793_512_800, -18_000)]);
        // Lord Howe moves by half an hour: 2026-04-04T15:00Z and 2026-10-03T15:30Z.
        assert_eq!(
            in_2026("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"),
            [(1_775_314_800, 37_800), (1_791_041_400, 39_600)]
        );
        // Nuuk: the day before the last Sunday, 22:00 local on the clock of UTC-2.
        assert_eq!(in_2026("<-02>2<-01>,M3.5.0/-1,M10.5.0/0")[0], (1_774_746_000, -3_600));
    }

    #[test]
    fn numbered_days_count_29_february_or_not() {
        let leap = |rule: &str| Rule::parse(rule).expect("a rule").changes(1_704_067_200, 1_735_689_599);
        assert_eq!(leap("AAA0BBB,J60/0,J300/0")[0].start, 1_709_251_200); // 2024-03-01
        assert_eq!(leap("AAA0BBB,59/0,300/0")[0].start, 1_709_164_800); // 2024-02-29
    }

    #[test]
    fn what_is_no_rule_is_none() {
        for text in
            ["", "5", "EST", "EST5EDT", "EST5EDT,M13.1.0,M1.1.0", "EST5EDT,M3.2.0", "<EST5", "EST5EDT,x,y"]
        {
            assert_eq!(Rule::parse(text), None, "{text:?}");
        }
    }
}
