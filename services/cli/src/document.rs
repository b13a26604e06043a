//! YAML documents as the API's JSON: `kind` chooses the collection, and durations may be written `1h30m`.

mod export;

use anyhow::{Context, bail};
pub use export::Writer;
use rpc::document::{Document, REPEATED};
use serde::Deserialize;
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

/// Adds the documents of `text` to an `ApplyRequest`. `origin` names the file in messages.
pub fn add(request: &mut Value, origin: &str, text: &str) -> anyhow::Result<()> {
    for (index, document) in serde_yaml_ng::Deserializer::from_str(text).enumerate() {
        let place = format!("{origin}, document {}", index + 1);
        let document = Document::deserialize(document).with_context(|| format!("{place} is not YAML"))?;
        if document.value.is_null() {
            continue; // an empty document, such as after a last ---
        }
        let (collection, document) = once(document).and_then(sort).with_context(|| place.clone())?;
        match &mut request[collection] {
            Value::Array(list) => list.push(document),
            other => *other = json!([document]),
        }
    }
    Ok(())
}

/// What the document holds, if each of its keys is given once.
fn once(Document { value, repeated }: Document) -> anyhow::Result<Value> {
    if repeated.is_empty() {
        return Ok(value);
    }
    let keys: Vec<_> = repeated.into_iter().collect();
    bail!("{} {REPEATED}", keys.join(", "))
}

fn sort(mut document: Value) -> anyhow::Result<(&'static str, Value)> {
    let Some(object) = document.as_object_mut() else { bail!("is not a mapping: begin with `kind: Job`") };
    let collection = match object.remove("kind").as_ref().and_then(Value::as_str) {
        Some("Job") => "jobs",
        Some("Channel") => "channels",
        Some("Calendar") => "calendars",
        Some("CheckIn") => "checkIns",
        Some(other) => bail!("kind {other:?}: use Job, Channel, Calendar or CheckIn"),
        None => {
            bail!("kind is missing: use `kind: Job`, `kind: Channel`, `kind: Calendar` or `kind: CheckIn`")
        }
    };
    for path in DURATIONS {
        if let Some(field) = document.pointer_mut(path)
            && let Some(text) = field.as_str()
        {
            let name = path.trim_start_matches('/').replace('/', ".");
            *field = json!(seconds(text).with_context(|| name)?);
        }
    }
    Ok((collection, document))
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

    #[test]
    fn documents_are_sorted_by_kind() {
        let text = "kind: Job\nname: a\nmaxRuntime: 1h30m\n---\nkind: Channel\nname: c\n---\n\
                    kind: Calendar\nname: holidays\ndates: [2026-12-25]\n---\n";
        let mut request = json!({});
        add(&mut request, "jobs.yaml", text).expect("sound documents");
        assert_eq!(
            request,
            json!({
                "jobs": [{"name": "a", "maxRuntime": "5400s"}],
                "channels": [{"name": "c"}],
                "calendars": [{"name": "holidays", "dates": ["2026-12-25"]}],
            })
        );
    }

    #[test]
    fn a_wrong_document_is_named_with_its_place() {
        let error =
            add(&mut json!({}), "jobs.yaml", "kind: Job\nname: a\n---\nkind: Joob\n").expect_err("Joob");
        assert_eq!(
            format!("{error:#}"),
            "jobs.yaml, document 2: kind \"Joob\": use Job, Channel, Calendar or CheckIn"
        );
        let error = add(&mut json!({}), "jobs.yaml", "kind: Job\nmaxRuntime: long\n").expect_err("long");
        assert!(
            format!("{error:#}").starts_with("jobs.yaml, document 1: maxRuntime: \"long\" is not a duration"),
            "{error:#}"
        );
    }

    #[test]
    fn a_key_that_is_given_twice_is_named_with_its_place() {
        let twice = "kind: Job\nname: a\nrun:\n  exec: {argv: [a]}\n  exec: {argv: [b]}\nname: b\n";
        for (text, place) in [
            (twice.to_owned(), "jobs.yaml, document 1"),
            (format!("kind: Job\nname: z\n---\n{twice}"), "jobs.yaml, document 2"),
        ] {
            let error = add(&mut json!({}), "jobs.yaml", &text).expect_err("twice");
            assert_eq!(
                format!("{error:#}"),
                format!("{place}: name, run.exec is given more than once: keep one")
            );
        }
    }
}
