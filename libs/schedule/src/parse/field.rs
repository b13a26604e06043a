//! One field: lists of values, ranges, steps and `H`, checked against what the field allows.

use super::{Word, days};
use crate::fields::YearSet;
use crate::hash;

/// Which field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Second,
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
    Year,
}

/// One item of a field's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Numbers from `first` to `last` by `step`.
    Range { first: u32, last: u32, step: u32 },
    /// What only the day fields have.
    Day(days::Special),
}

/// The first and last year that the year field takes.
pub(super) const YEARS: (u32, u32) = (1970, 2099);

/// The largest step. None that anybody means is larger, and a number from a fuzzer should not pass for one.
const STEP_MAX: u64 = 999;

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day-of-month",
            Self::Month => "month",
            Self::DayOfWeek => "day-of-week",
            Self::Year => "year",
        }
    }

    /// The smallest and the largest number.
    pub(super) const fn bounds(self) -> (u32, u32) {
        match self {
            Self::Second | Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::DayOfWeek => (0, 7),
            Self::Year => YEARS,
        }
    }

    /// The last number of `*` and of `n/step`: Sunday's second number is for ranges only.
    const fn end(self) -> u32 {
        match self {
            Self::DayOfWeek => 6,
            _ => self.bounds().1,
        }
    }

    /// What stands for `H` without a range: every month has the days 1 to 28.
    const fn hash_range(self) -> (u32, u32) {
        match self {
            Self::DayOfMonth => (1, 28),
            Self::DayOfWeek => (0, 6),
            _ => self.bounds(),
        }
    }

    const fn words(self) -> (&'static [&'static str], u32) {
        match self {
            Self::Month => (&MONTHS, 1),
            Self::DayOfWeek => (&WEEKDAYS, 0),
            _ => (&[], 0),
        }
    }

    /// What is allowed, for messages.
    pub(super) const fn allowed(self) -> &'static str {
        match self {
            Self::Second | Self::Minute => "use 0-59",
            Self::Hour => "use 0-23",
            Self::DayOfMonth => "use 1-31, L, L-3, LW or 15W",
            Self::Month => "use 1-12 or JAN-DEC",
            Self::DayOfWeek => "use 0-7, 0 and 7 are Sunday",
            Self::Year => "use 1970-2099",
        }
    }

    /// `minute 60 (position 1): use 0-59`.
    pub(super) fn refuse(self, word: Word<'_>) -> String {
        format!("{} {} (position {}): {}", self.name(), shown(word.text), word.position, self.allowed())
    }

    /// The same with another explanation.
    pub(super) fn refuse_with(self, word: Word<'_>, why: &str) -> String {
        format!("{} {} (position {}): {why}", self.name(), shown(word.text), word.position)
    }
}

/// A value for a message: short and printable.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(24) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None if text.is_empty() => "\"\"".to_owned(),
        None => text.to_owned(),
    }
}

/// Reads a field's list.
pub(super) fn read(kind: Kind, word: Word<'_>, seed: &str) -> Result<Vec<Part>, String> {
    if word.text == "?" {
        return match kind {
            Kind::DayOfMonth | Kind::DayOfWeek => Ok(vec![every(kind)]),
            _ => {
                Err(kind
                    .refuse_with(word, "? stands for a whole day-of-month or day-of-week field only: use *"))
            }
        };
    }
    word.pieces(',').map(|piece| part(kind, piece, seed)).collect()
}

fn every(kind: Kind) -> Part {
    Part::Range { first: kind.bounds().0, last: kind.end(), step: 1 }
}

fn part(kind: Kind, word: Word<'_>, seed: &str) -> Result<Part, String> {
    if word.text.is_empty() {
        return Err(kind.refuse_with(word, "a list has an empty item: remove the comma"));
    }
    if let Some(special) = days::read(kind, word)? {
        return Ok(Part::Day(special));
    }
    let Some((base, step)) = word.split('/') else { return unstepped(kind, word, seed) };
    let step = read_step(kind, step)?;
    if base.text.is_empty() {
        return Err(kind.refuse_with(word, "a step needs what it steps through: write */5 or 10-30/5"));
    }
    if base.text == "*" {
        return Ok(Part::Range { first: kind.bounds().0, last: kind.end(), step });
    }
    if let Some((low, high)) = hash_range(kind, base)? {
        // Of a stepped H the beginning is drawn, within the first step.
        let first = low + hash::pick(seed, kind.name(), step.min(high - low + 1));
        return Ok(Part::Range { first, last: high, step });
    }
    if base.text.contains('-') {
        let (first, last) = range(kind, base)?;
        return Ok(Part::Range { first, last, step });
    }
    let first = number(kind, base)?;
    Ok(Part::Range { first, last: kind.end().max(first), step })
}

fn unstepped(kind: Kind, word: Word<'_>, seed: &str) -> Result<Part, String> {
    if word.text == "*" {
        return Ok(every(kind));
    }
    if let Some((low, high)) = hash_range(kind, word)? {
        let drawn = low + hash::pick(seed, kind.name(), high - low + 1);
        return Ok(Part::Range { first: drawn, last: drawn, step: 1 });
    }
    if word.text.contains('-') {
        let (first, last) = range(kind, word)?;
        return Ok(Part::Range { first, last, step: 1 });
    }
    let value = number(kind, word)?;
    Ok(Part::Range { first: value, last: value, step: 1 })
}

/// Reads a step. One that passes the end of its field names the first value only, as in Vixie cron: `*/90` in the
/// minute field is minute 0, once an hour. It is accepted because crontabs hold such lines; `Schedule::describe` and
/// a preview show what it means.
fn read_step(kind: Kind, step: Word<'_>) -> Result<u32, String> {
    match digits(step.text) {
        Some(value) if (1..=STEP_MAX).contains(&value) => Ok(value as u32),
        _ => {
            let (name, text) = (kind.name(), shown(step.text));
            Err(format!("{name} step {text} (position {}): use 1-{STEP_MAX}", step.position))
        }
    }
}

/// The range of `H` or `H(low-high)`; none when the item is something else.
fn hash_range(kind: Kind, word: Word<'_>) -> Result<Option<(u32, u32)>, String> {
    if !word.text.starts_with(['H', 'h']) {
        return Ok(None);
    }
    if kind == Kind::Year {
        return Err(kind.refuse_with(word, "H would hide the job for decades: use 1970-2099"));
    }
    if word.text.len() == 1 {
        return Ok(Some(kind.hash_range()));
    }
    if word.text.get(1..2) != Some("(") || !word.text.ends_with(')') {
        return Err(kind.refuse_with(word, "write H, H(0-5) or H/2"));
    }
    let (low, high) = range(kind, word.part(2, word.text.len() - 1))?;
    Ok(Some((low, high)))
}

fn range(kind: Kind, word: Word<'_>) -> Result<(u32, u32), String> {
    let Some((first, last)) = word.split('-') else { return Err(kind.refuse(word)) };
    if first.text.is_empty() || last.text.is_empty() {
        return Err(kind.refuse(word));
    }
    let low = number(kind, first)?;
    let high = match number(kind, last)? {
        // FRI-SUN: the week may end with Sunday as well as begin with it.
        0 if kind == Kind::DayOfWeek && low > 0 => 7,
        high => high,
    };
    if low > high {
        let (min, max) = (kind.bounds().0, kind.end());
        let why = format!("a range must rise: write {low}-{max},{min}-{high}");
        return Err(kind.refuse_with(word, &why));
    }
    Ok((low, high))
}

/// A number or a name within the field's bounds.
pub(super) fn number(kind: Kind, word: Word<'_>) -> Result<u32, String> {
    let (min, max) = kind.bounds();
    if let Some(value) = digits(word.text) {
        let within = (u64::from(min)..=u64::from(max)).contains(&value);
        return if within { Ok(value as u32) } else { Err(kind.refuse(word)) };
    }
    let (names, first) = kind.words();
    if let Some(index) = names.iter().position(|name| name.eq_ignore_ascii_case(word.text)) {
        return Ok(index as u32 + first);
    }
    let begins = |name: &&&str| word.text.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(name));
    match names.iter().find(begins) {
        Some(name) => Err(kind.refuse_with(word, &format!("use three letters, such as {name}"))),
        None => Err(kind.refuse(word)),
    }
}

/// ASCII digits as a number; a number too large for the type is larger than anything allowed.
fn digits(text: &str) -> Option<u64> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().unwrap_or(u64::MAX))
}

/// The numbers of a field below 64.
pub(super) fn set(parts: &[Part]) -> u64 {
    parts.iter().fold(0, |set, part| match *part {
        Part::Range { first, last, step } => set | crate::bits::range(first, last, step),
        Part::Day(_) => set,
    })
}

/// The years of a year field.
pub(super) fn year_set(parts: &[Part]) -> YearSet {
    let mut set = YearSet::default();
    for part in parts {
        if let Part::Range { first, last, step } = *part {
            for year in (first..=last).step_by(step as usize) {
                let bit = year - YEARS.0;
                set[(bit / 64) as usize] |= 1 << (bit % 64);
            }
        }
    }
    set
}
