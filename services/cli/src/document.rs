//! YAML documents as the API's JSON: `kind` chooses the collection, and durations may be written `1h30m`.

mod export;
mod places;

use anyhow::{Context, bail};
pub use export::Writer;
pub use places::{Documents, Found};
use serde_json::{Value, json};

/// Fields that hold a duration, by their path.
const DURATIONS: [&str; 13] = [
    "/misfire/grace",
    "/misfire/catchUpWindow",
    "/maxRuntime",
    "/retry/backoff",
    "/retry/backoffMax",
    "/jitter",
    "/alert/successWithin",
    "/alert/repeat",
    "/alert/on/runtimeOver",
    "/run/http/timeout",
    "/period",
    "/grace",
    "/repeat",
];

/// A document without its kind, and the collection in which it belongs.
fn sort(mut document: Value) -> Result<(&'static str, Value), String> {
    let Some(object) = document.as_object_mut() else {
        return Err("is not a mapping: begin with `kind: Job`".to_owned());
    };
    let collection = match object.remove("kind").as_ref().and_then(Value::as_str) {
        Some("Job") => "jobs",
        Some("Channel") => "channels",
        Some("Calendar") => "calendars",
        Some("CheckIn") => "checkIns",
        Some(other) => return Err(format!("kind {other:?}: use Job, Channel, Calendar or CheckIn")),
        None => {
            return Err(
                "kind is missing: use `kind: Job`, `kind: Channel`, `kind: Calendar` or `kind: CheckIn`"
                    .to_owned(),
            );
        }
    };
    Ok((collection, document))
}

/// Puts a document's durations in the API's form. Which are none is told, by path and why; they stay as they are.
fn wrong_durations(document: &mut Value) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    for path in DURATIONS {
        let Some(field) = document.pointer_mut(path) else { continue };
        match field.as_str().map(seconds) {
            None => {}
            Some(Ok(read)) => *field = json!(read),
            Some(Err(error)) => {
                wrong.push((path.trim_start_matches('/').replace('/', "."), format!("{error:#}")));
            }
        }
    }
    wrong
}

/// A duration such as `90s`, `1h30m` or `500ms` in the API's form, seconds with an `s`.
pub fn seconds(text: &str) -> anyhow::Result<String> {
    let mut milliseconds: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let factor: f64 = match unit {
            "d" => 86_400_000.0,
            "h" => 3_600_000.0,
            "m" => 60_000.0,
            "s" => 1_000.0,
            "ms" => 1.0,
            _ => bail!("{text:?} is not a duration: use numbers with d, h, m, s or ms, such as 1h30m"),
        };
        let number: f64 =
            number.parse().with_context(|| format!("{text:?} is not a duration: {number:?} is no number"))?;
        milliseconds = milliseconds.saturating_add((number * factor).round() as u64);
        rest = after;
    }
    if text.is_empty() {
        bail!("a duration is missing: use one such as 1h30m");
    }
    let (whole, fraction) = (milliseconds / 1_000, milliseconds % 1_000);
    Ok(if fraction == 0 { format!("{whole}s") } else { format!("{whole}.{fraction:03}s") })
}

/// A duration that was typed, in the API's form: as in files, or in seconds without a unit.
///
/// # Errors
/// When it is neither; the text says what would be right.
pub fn length(text: &str) -> Result<String, String> {
    let bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let written = if bare { format!("{text}s") } else { text.to_owned() };
    seconds(&written).map_err(|error| format!("{error:#}"))
}

/// A duration of the API at `field` of a definition as files have it; anything else as it is.
pub fn written(field: &str, value: &str) -> String {
    let path = format!("/{}", field.replace('.', "/"));
    if DURATIONS.contains(&path.as_str()) { export::short(value) } else { value.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_become_seconds() {
        for (text, expected) in [
            ("90s", "90s"),
            ("1h30m", "5400s"),
            ("1d", "86400s"),
            ("1500ms", "1.500s"),
            ("0s", "0s"),
            ("2.5m", "150s"),
        ] {
            assert_eq!(seconds(text).expect("a duration"), expected, "{text}");
        }
        for text in ["", "90", "1x", "h", "-5s", "1h 30m"] {
            assert!(seconds(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn typed_durations_may_be_seconds_alone() {
        assert_eq!(length("30m").as_deref(), Ok("1800s"));
        assert_eq!(length("90").as_deref(), Ok("90s"));
        assert!(length("soon").expect_err("none").contains("such as 1h30m"));
    }

    #[test]
    fn every_duration_of_the_contract_may_be_written_so() {
        let whole = crate::schema::documents().expect("a schema");
        let mut found = Vec::new();
        let mut open: Vec<(String, &Value)> = ["Job", "Channel", "Calendar", "CheckIn"]
            .map(|kind| (String::new(), &whole["$defs"][kind]))
            .into();
        while let Some((path, node)) = open.pop() {
            let node = crate::schema::resolved(&whole, node);
            if crate::schema::is_duration(node) {
                found.push(path.clone());
            }
            let fields = node["properties"].as_object().into_iter().flatten();
            open.extend(fields.map(|(name, field)| (format!("{path}/{name}"), field)));
        }
        found.sort();
        found.dedup(); // of several kinds
        let mut known = DURATIONS;
        known.sort_unstable();
        assert_eq!(found, known);
    }
}
