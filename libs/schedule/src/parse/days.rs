//! What only the day fields have: `L`, `L-3`, `LW` and `15W` of the month, `5L` and `5#2` of the week.

use super::Word;
use super::field::{Kind, Part, number};

/// One such item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    /// So many days before the last.
    BeforeLast(u32),
    /// The weekday nearest to this day.
    NearestWeekday(u32),
    /// The last weekday of the month.
    LastWeekday,
    /// The last such day of the week.
    LastOfWeek(u32),
    /// Such a day of the week, and which of them, 1 to 5.
    Nth(u32, u32),
}

/// The most days before the last: every month has that day.
const BEFORE_LAST_MAX: u32 = 27;

/// Reads a special item; none when it is an ordinary one.
pub(super) fn read(kind: Kind, word: Word<'_>) -> Result<Option<Special>, String> {
    match kind {
        Kind::DayOfMonth => of_month(word),
        Kind::DayOfWeek => of_week(word),
        _ => Ok(None),
    }
}

fn of_month(word: Word<'_>) -> Result<Option<Special>, String> {
    let kind = Kind::DayOfMonth;
    let upper = word.text.to_ascii_uppercase();
    if upper == "L" {
        return Ok(Some(Special::BeforeLast(0)));
    }
    if upper == "LW" {
        return Ok(Some(Special::LastWeekday));
    }
    if upper.starts_with("L-") {
        let back = word.part(2, word.text.len());
        let days = back.text.parse::<u32>().ok().filter(|_| back.text.bytes().all(|b| b.is_ascii_digit()));
        return match days {
            Some(days) if (1..=BEFORE_LAST_MAX).contains(&days) => Ok(Some(Special::BeforeLast(days))),
            _ => Err(kind.refuse_with(word, "use L-1 to L-27, days that every month has")),
        };
    }
    if upper.ends_with('W') {
        let day = word.part(0, word.text.len() - 1);
        if !day.text.is_empty() && day.text.bytes().all(|byte| byte.is_ascii_digit()) {
            return number(kind, day).map(|day| Some(Special::NearestWeekday(day)));
        }
        return Err(kind.refuse_with(word, "W follows one day: use 1W to 31W or LW"));
    }
    if upper.starts_with('L') || upper.starts_with('W') {
        return Err(kind.refuse(word));
    }
    Ok(None)
}

fn of_week(word: Word<'_>) -> Result<Option<Special>, String> {
    let kind = Kind::DayOfWeek;
    if let Some((day, nth)) = word.split('#') {
        let day = if day.text.is_empty() { None } else { Some(number(kind, day)?) };
        return match (day, nth.text) {
            (Some(day), "1" | "2" | "3" | "4" | "5") => {
                Ok(Some(Special::Nth(day % 7, u32::from(nth.text.as_bytes()[0] - b'0'))))
            }
            _ => {
                Err(kind
                    .refuse_with(word, "use a day and which of the month, such as 5#2 or FRI#2, #1 to #5"))
            }
        };
    }
    if word.text.starts_with(['L', 'l']) {
        return Err(
            kind.refuse_with(word, "L follows the day: use 5L or FRIL for the last Friday of the month")
        );
    }
    if word.text.ends_with(['L', 'l']) {
        let day = number(kind, word.part(0, word.text.len() - 1))?;
        return Ok(Some(Special::LastOfWeek(day % 7)));
    }
    Ok(None)
}

/// Weekdays with Sunday's two numbers as one.
pub(super) const fn week(set: u64) -> u8 {
    ((set | set >> 7) & 0x7f) as u8
}

/// All special items together; none when there are none.
pub(super) fn special(of_month: &[Part], of_week: &[Part]) -> Option<Box<crate::days::Special>> {
    let mut all = crate::days::Special::default();
    for part in of_month.iter().chain(of_week) {
        let Part::Day(special) = part else { continue };
        match *special {
            Special::BeforeLast(days) => all.before_last |= 1 << days,
            Special::NearestWeekday(day) => all.nearest_weekday |= 1 << day,
            Special::LastWeekday => all.last_weekday = true,
            Special::LastOfWeek(day) => all.last |= 1 << day,
            Special::Nth(day, nth) => all.nth[nth as usize - 1] |= 1 << day,
        }
    }
    (all != crate::days::Special::default()).then(|| Box::new(all))
}
