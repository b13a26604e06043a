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

/// Where a document stood that a request holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What the registry calls it: `jobs[0]`.
    field: String,
    /// What its author does: the file, the document's number and its name.
    stood: String,
}

/// Adds the documents of `text` to an `ApplyRequest`, and tells where each stood. `origin` names the file in messages.
pub fn add(request: &mut Value, origin: &str, text: &str) -> anyhow::Result<Vec<Place>> {
    let mut places = Vec::new();
    for (index, document) in serde_yaml_ng::Deserializer::from_str(text).enumerate() {
        let place = format!("{origin}, document {}", index + 1);
        let document = Document::deserialize(document).with_context(|| format!("{place} is not YAML"))?;
        if document.value.is_null() {
            continue; // an empty document, such as after a last ---
        }
        let (collection, document) = once(document).and_then(sort).with_context(|| place.clone())?;
        let name = document["name"].as_str().map(|name| format!(" ({name})")).unwrap_or_default();
        let index = request[collection].as_array().map_or(0, Vec::len);
        places.push(Place { field: format!("{collection}[{index}]"), stood: format!("{place}{name}") });
        match &mut request[collection] {
            Value::Array(list) => list.push(document),
            other => *other = json!([document]),
        }
    }
    Ok(places)
}

/// What the registry says about wrong fields, a line each, with their documents named as their author does.
pub fn placed(text: &str, places: &[Place]) -> String {
    let line = |line: &str| {
        let field = line.trim_start();
        let found = places.iter().find_map(|place| {
            let rest = field.strip_prefix(place.field.as_str())?;
            let rest = rest.strip_prefix('.').or_else(|| rest.strip_prefix(": "))?;
            Some(format!("{}: {rest}", place.stood))
        });
        let indent = &line[..line.len() - field.len()];
        found.map_or_else(|| line.to_owned(), |found| format!("{indent}{found}"))
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
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
    fn what_the_registry_says_of_a_document_is_said_of_where_it_stood() {
        let mut request = json!({});
        let mut places = add(&mut request, "a.yaml", "kind: Job\nname: a\n").expect("sound");
        places
            .extend(add(&mut request, "b.yaml", "---\nkind: Job\n---\nkind: Job\nname: c\n").expect("sound"));
        let of = |text: &str| placed(text, &places);
        assert_eq!(of("jobs[0].schedule: is missing"), "a.yaml, document 1 (a): schedule: is missing");
        let several = "several fields are wrong\n  jobs[1]: use an object\n  jobs[2].run.http.url: x\n  jobs[20].name: y";
        assert_eq!(
            of(several),
            "several fields are wrong\n  b.yaml, document 1: use an object\n  b.yaml, document 2 (c): run.http.url: x\n  \
             jobs[20].name: y"
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
