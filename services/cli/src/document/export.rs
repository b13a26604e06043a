//! Definitions as the API answers them, written as documents of a file.
//!
//! Invariant: what is written, applied to the registry that it came from, changes nothing. What the registry keeps itself
//! (ids, times, generations, pauses) is left out, and so are secrets, which it never shows.

use crate::schema;
use anyhow::Context;
use serde_json::{Map, Value};
use serde_yaml_ng::Mapping;

/// Come first in a document, in this order; others follow by name, and `run` is last.
const FIRST: [&str; 3] = ["name", "schedule", "timezone"];
const LAST: &str = "run";

/// Writes definitions of the API as documents.
pub struct Writer {
    schema: Value,
}

impl Writer {
    /// Knows which fields files have.
    ///
    /// # Errors
    /// As [`schema::documents`].
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self { schema: schema::documents()? })
    }

    /// The fields of a definition that a file has. `kind` is as in documents.
    pub fn fields(&self, kind: &str, definition: &Value) -> Value {
        self.value(definition, &self.schema["$defs"][kind]).unwrap_or_else(|| Value::Object(Map::new()))
    }

    /// A document, with a line above it on what it can't say.
    ///
    /// # Errors
    /// None is known: every value of JSON can be written in YAML.
    pub fn document(&self, kind: &str, definition: &Value) -> anyhow::Result<String> {
        let fields = self.fields(kind, definition);
        let mut document = Mapping::new();
        document.insert("kind".into(), kind.into());
        let names = fields.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
        let middle = names.filter(|name| !FIRST.contains(name) && *name != LAST);
        for name in FIRST.into_iter().chain(middle).chain([LAST]) {
            if let Some(value) = fields.get(name) {
                document.insert(name.into(), serde_yaml_ng::to_value(value).context("writing YAML")?);
            }
        }
        let remark = match kind {
            "Channel" => {
                "# Secrets are never shown: where the channel exists they stay as they are, elsewhere add them.\n"
            }
            "Job" | "CheckIn" if definition["paused"] == true => {
                "# Paused, which is no part of its definition.\n"
            }
            _ => "",
        };
        Ok(format!("{remark}{}", serde_yaml_ng::to_string(&document).context("writing YAML")?))
    }

    /// What of a value a file has; none when that is nothing.
    fn value(&self, value: &Value, node: &Value) -> Option<Value> {
        let node = schema::resolved(&self.schema, node);
        match value {
            Value::Null => None,
            Value::String(text) if text.is_empty() => None,
            Value::String(text) if schema::is_duration(node) => Some(Value::String(short(text))),
            Value::Array(list) if list.is_empty() => None,
            Value::Object(fields) => match node["properties"].as_object() {
                Some(known) => {
                    let written = |(name, value): (&String, &Value)| {
                        Some((name.clone(), self.value(value, known.get(name)?)?))
                    };
                    Some(Value::Object(fields.iter().filter_map(written).collect()))
                }
                None if fields.is_empty() => None, // a map; an empty message says that it is set
                None => Some(value.clone()),
            },
            other => Some(other.clone()),
        }
    }
}

/// A duration of the API as people write it: `5400s` is `1h30m`. What is none stays as it is.
pub fn short(text: &str) -> String {
    let whole_and_part = text.strip_suffix('s').map(|number| number.split_once('.').unwrap_or((number, "")));
    let milliseconds = whole_and_part.and_then(|(whole, part)| {
        let part: u64 = format!("{part:0<3}").get(..3)?.parse().ok()?;
        whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(part)
    });
    let Some(mut rest) = milliseconds else { return text.to_owned() };
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut written = String::new();
    for (unit, length) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
        if rest >= length {
            written.push_str(&format!("{}{unit}", rest / length));
            rest %= length;
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Documents;
    use serde_json::json;

    #[test]
    fn durations_are_written_as_people_do() {
        for (api, people) in [
            ("5400s", "1h30m"),
            ("86400s", "1d"),
            ("90s", "1m30s"),
            ("0s", "0s"),
            ("1.500s", "1s500ms"),
            ("0.02s", "20ms"),
        ] {
            assert_eq!(short(api), people);
        }
        assert_eq!(short("soon"), "soon");
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let job = json!({
            "id": "1", "name": "a", "schedule": "0 9 * * *", "timezone": "UTC", "maxRuntime": "5400s", "generation": "3",
            "labels": {}, "startsAt": null, "paused": true, "pauseReason": "x", "priority": 0,
            "alert": { "repeat": "14400s", "channels": [], "disabled": false, "on": { "runtimeOver": "1.500s" } },
            "run": { "exec": { "argv": ["true"], "env": { "EMPTY": "" }, "shell": "" } },
        });
        let writer = Writer::new().expect("a schema");
        let text = writer.document("Job", &job).expect("YAML");
        let head = "# Paused, which is no part of its definition.\nkind: Job\nname: a\nschedule: 0 9 * * *\ntimezone: UTC\nalert:\n";
        assert!(text.starts_with(head), "{text}");
        let read = Documents::of_text("export", &text).sound().expect("documents");
        let expected = json!({
            "name": "a", "schedule": "0 9 * * *", "timezone": "UTC", "maxRuntime": "5400s", "priority": 0,
            "alert": { "repeat": "14400s", "disabled": false, "on": { "runtimeOver": "1.500s" } },
            "run": { "exec": { "argv": ["true"], "env": { "EMPTY": "" } } },
        });
        assert_eq!(read["jobs"][0], expected);
        let slack = writer.document("Channel", &json!({ "name": "c", "slack": {}, "createTime": "x" }));
        assert!(slack.expect("YAML").ends_with("kind: Channel\nname: c\nslack: {}\n"), "its kind is kept");
    }
}
