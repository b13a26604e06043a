//! `@at 2026-12-24T18:00:00 Europe/Berlin`: one wall-clock time, once.

use super::{Parsed, Word, field::shown};
use crate::local::Named;
use chrono::{Datelike, NaiveDateTime};

const FORM: &str = "write it like 2026-12-24T18:00:00, with the zone behind it or in the timezone field";

/// The local time and, if it is there, the zone.
pub(super) fn parse<'a>(arguments: &[Word<'a>]) -> Result<Parsed<'a>, String> {
    let (word, zone) = match *arguments {
        [word] => (word, None),
        [word, zone] => (word, Some(zone.text)),
        _ => return Err(format!("@at takes a date with a time: {FORM}")),
    };
    let refuse = |why: &str| Err(format!("@at {} (position {}) {why}", shown(word.text), word.position));
    let (text, zone) = match (word.text.strip_suffix(['Z', 'z']), zone) {
        (Some(_), Some(_)) => return refuse("ends with Z and is followed by a zone: remove one of them"),
        (Some(text), None) => (text, Some("UTC")),
        (None, zone) => (word.text, zone),
    };
    if text.get(10..).is_some_and(|time| time.contains(['+', '-'])) {
        return refuse(&format!("has a fixed offset: {FORM}"));
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b':' | b'T'));
    let read = match text.len() {
        19 if digits => NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S"),
        16 if digits => NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M"),
        _ => return refuse(&format!("is no date with a time: {FORM}")),
    };
    match read {
        Ok(time) if !(1970..=2099).contains(&time.year()) => refuse("lies outside of the years 1970 to 2099"),
        // chrono reads second 60 as a leap second; clocks on walls have none.
        Ok(time) if !text.ends_with(":60") => {
            Ok(Parsed::Local { local: Named::Once(time.and_utc().timestamp()), zone })
        }
        _ => refuse("does not exist: check month, day, hour, minute and second"),
    }
}
