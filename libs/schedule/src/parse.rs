//! Expressions as text: fields, macros, `@every` and `@at`, read whole or refused with every wrong field named.
//!
//! Total over arbitrary text: at most [`EXPRESSION_BYTES_MAX`] bytes are looked at, only ASCII is read, nothing is
//! skipped or trimmed into something else, no value is clamped. An error names the field, the character position
//! counted from 1, the value, what is allowed, and what would be right where that can be guessed.

mod at;
mod days;
mod every;
mod field;

use crate::days::Days;
use crate::fields::{Fields, Years};
use crate::local::Named;
use field::{Kind, Part};

/// Bytes of the longest expression.
pub const EXPRESSION_BYTES_MAX: usize = 256;

/// What an expression says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    /// Local times.
    Local {
        /// Which.
        local: Named,
        /// The zone that `@at` names itself.
        zone: Option<&'a str>,
    },
    /// Each so many seconds.
    Every(i64),
}

pub(crate) const SHORTHANDS: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// Reads an expression; `seed` decides what `H` stands for.
pub(crate) fn expression<'a>(text: &'a str, seed: &str) -> Result<Parsed<'a>, Vec<String>> {
    plain(text).map_err(|message| vec![message])?;
    let words = words(text);
    let Some(first) = words.first() else {
        return Err(vec!["is empty: use five fields such as 0 9 * * 1-5, or @daily".to_owned()]);
    };
    if first.text.starts_with('@') {
        return shorthand(&words).map_err(|message| vec![message]);
    }
    fields(&words, seed).map(|fields| Parsed::Local { local: Named::Fields(fields), zone: None })
}

/// A word of the expression and the character position of its beginning.
#[derive(Debug, Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Word<'a> {
    /// The part from byte `from` to byte `to`; empty when there is none.
    fn part(self, from: usize, to: usize) -> Self {
        Self { text: self.text.get(from..to).unwrap_or(""), position: self.position + from }
    }

    /// What stands before and after the first `separator`.
    fn split(self, separator: char) -> Option<(Self, Self)> {
        let at = self.text.find(separator)?;
        Some((self.part(0, at), self.part(at + 1, self.text.len())))
    }

    /// The pieces between `separator`s, empty ones too.
    fn pieces(self, separator: char) -> impl Iterator<Item = Word<'a>> {
        let mut from = 0;
        self.text.split(separator).map(move |piece| {
            let word = Word { text: piece, position: self.position + from };
            from += piece.len() + 1;
            word
        })
    }
}

/// Words between spaces and tabs; the text is ASCII.
fn words(text: &str) -> Vec<Word<'_>> {
    let separate = |c: char| c == ' ' || c == '\t';
    let mut from = 0;
    let mut words = Vec::with_capacity(8);
    for piece in text.split(separate) {
        if !piece.is_empty() {
            words.push(Word { text: piece, position: from + 1 });
        }
        from += piece.len() + 1;
    }
    words
}

/// Refuses what no expression contains, before anything else looks at it.
fn plain(text: &str) -> Result<(), String> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(format!("has {} bytes: use at most {EXPRESSION_BYTES_MAX}", text.len()));
    }
    let odd = text.chars().enumerate().find(|(_, c)| !matches!(c, ' '..='~' | '\t'));
    if let Some((index, c)) = odd {
        let what = if c.is_control() { "a control character" } else { "not ASCII" };
        let position = index + 1;
        return Err(format!(
            "U+{:04X} (position {position}) is {what}: type the expression anew",
            u32::from(c)
        ));
    }
    let upper = text.trim_start().get(..8).unwrap_or(text.trim_start()).to_ascii_uppercase();
    if upper.starts_with("TZ=") || upper.starts_with("CRON_TZ=") {
        return Err("names a zone in the expression: put it into the timezone field".to_owned());
    }
    Ok(())
}

fn shorthand<'a>(words: &[Word<'a>]) -> Result<Parsed<'a>, String> {
    let (name, arguments) = (words[0], &words[1..]);
    let lower = name.text.to_ascii_lowercase();
    match lower.as_str() {
        "@every" => every::parse(arguments).map(Parsed::Every),
        "@at" => at::parse(arguments),
        "@reboot" => Err("@reboot names no time: use @at with a date, or trigger the job".to_owned()),
        _ => {
            let known = SHORTHANDS.iter().find(|(known, _)| *known == lower).ok_or_else(|| {
                format!(
                    "{} (position {}) is unknown: use @hourly, @daily, @midnight, @weekly, @monthly, @yearly, \
                     @annually, @every 90s or @at 2026-12-24T18:00:00",
                    field::shown(name.text),
                    name.position
                )
            })?;
            if let Some(extra) = arguments.first() {
                let shown = field::shown(extra.text);
                return Err(format!(
                    "{} stands alone: remove {shown} (position {})",
                    known.0, extra.position
                ));
            }
            let fields = fields(&self::words(known.1), "").map_err(|errors| errors.join("; "))?;
            Ok(Parsed::Local { local: Named::Fields(fields), zone: None })
        }
    }
}

const COUNT: &str =
    "use 5 (minute, hour, day-of-month, month, day-of-week), 6 (second first) or 7 (year last)";

fn fields(words: &[Word<'_>], seed: &str) -> Result<Fields, Vec<String>> {
    let (second, rest) = match words.len() {
        5 => (None, words),
        6 | 7 => (Some(words[0]), &words[1..]),
        1 => return Err(vec![format!("1 field: {COUNT}")]),
        count => return Err(vec![format!("{count} fields: {COUNT}")]),
    };
    let (minute, hour, day, month, weekday) = (rest[0], rest[1], rest[2], rest[3], rest[4]);
    let mut errors = Vec::new();
    let mut read = |kind: Kind, word: Word<'_>| {
        field::read(kind, word, seed).unwrap_or_else(|message| {
            errors.push(message);
            Vec::new()
        })
    };

    let seconds = second
        .map_or_else(|| vec![Part::Range { first: 0, last: 0, step: 1 }], |word| read(Kind::Second, word));
    let minutes = read(Kind::Minute, minute);
    let hours = read(Kind::Hour, hour);
    let days_of_month = read(Kind::DayOfMonth, day);
    let months = read(Kind::Month, month);
    let days_of_week = read(Kind::DayOfWeek, weekday);
    let years =
        rest.get(5).map(|word| (word.text.starts_with('*') && word.text.len() == 1, read(Kind::Year, *word)));
    if !errors.is_empty() {
        return Err(errors);
    }

    let is_open = |word: Word<'_>| word.text.starts_with('*') || word.text == "?";
    let fields = Fields {
        seconds: field::set(&seconds),
        minutes: field::set(&minutes),
        hours: field::set(&hours),
        days: Days {
            of_month: field::set(&days_of_month) as u32,
            of_week: days::week(field::set(&days_of_week)),
            either: !is_open(day) && !is_open(weekday),
            special: days::special(&days_of_month, &days_of_week),
        },
        months: field::set(&months),
        years: match years {
            None | Some((true, _)) => Years(None),
            Some((false, parts)) => Years(Some(Box::new(field::year_set(&parts)))),
        },
        elapsed: minute.text.starts_with('*') || hour.text.starts_with('*'),
    };
    if fields.day_at_or_after(0).is_none() {
        let year = rest.get(5).map(|word| format!(" of year {}", word.text)).unwrap_or_default();
        return Err(vec![format!(
            "day-of-month {} (position {}) in month {}{year} with day-of-week {} names no date that ever comes: \
             change one of them",
            day.text, day.position, month.text, weekday.text
        )]);
    }
    Ok(fields)
}
