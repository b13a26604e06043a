//! The JSON Schema of the YAML files that `apply` takes, drawn from the contract.
//!
//! Invariant: a document that the schema accepts has only fields that the registry knows, and may be written; the
//! contract's comments are its descriptions. Deliberately not here: what only the registry can judge, such as whether a
//! schedule is sound, or a channel is there.

use anyhow::Context;
use serde_json::{Map, Value, json};

/// The kinds of documents, and what each must have.
const KINDS: [(&str, &[&str]); 4] = [
    ("Job", &["kind", "name", "schedule", "run"]),
    ("Channel", &["kind", "name"]),
    ("Calendar", &["kind", "name"]),
    ("CheckIn", &["kind", "name"]),
];

/// What the registry keeps itself, without a comment of its own that says so.
const KEPT: [(&str, &str); 2] = [("Job", "pauseReason"), ("Calendar", "version")];

/// Where the contract's description of the API refers to.
const API: &str = "#/components/schemas/";
/// Where the schema refers to.
const OWN: &str = "#/$defs/";

/// How the API writes durations.
const DURATION_OF_API: &str = r"^[0-9]+(\.[0-9]{1,3})?s$";
/// How files may.
const DURATION: &str = r"^([0-9]+(\.[0-9]+)?(d|h|m|s|ms))+$";

/// The schema of one document of a file.
///
/// # Errors
/// When the contract lacks what is named here, which a test excludes.
pub fn documents() -> anyhow::Result<Value> {
    let api = rpc::openapi::document(0).context("describing the API")?;
    let described = &api["components"]["schemas"];
    let mut definitions = Map::new();
    let mut wanted: Vec<String> = KINDS.iter().map(|(kind, _)| (*kind).to_owned()).collect();
    while let Some(name) = wanted.pop() {
        if definitions.contains_key(&name) {
            continue;
        }
        let mut schema = described[&name].clone();
        if !schema.is_object() {
            anyhow::bail!("the contract has no {name}");
        }
        write(&mut schema, &mut wanted);
        definitions.insert(name, schema);
    }
    for (kind, field) in KEPT {
        definitions[kind]["properties"].as_object_mut().and_then(|fields| fields.remove(field));
    }
    for (kind, required) in KINDS {
        let schema = &mut definitions[kind];
        schema["properties"]["kind"] = json!({ "const": kind });
        schema["required"] = json!(required);
    }
    Ok(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Escapement definitions",
        "description": "One document of a file for `escapement apply`.",
        "type": "object",
        "required": ["kind"],
        "properties": { "kind": {
            "description": "What the document defines.",
            "enum": KINDS.map(|(kind, _)| kind),
        }},
        "allOf": KINDS.map(|(kind, _)| json!({
            "if": { "properties": { "kind": { "const": kind } }, "required": ["kind"] },
            "then": { "$ref": format!("{OWN}{kind}") },
        })),
        "$defs": definitions,
    }))
}

/// Turns a schema of the API into one of files, and adds what it refers to.
fn write(schema: &mut Value, wanted: &mut Vec<String>) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(|schema| write(schema, wanted)),
        Value::Object(keys) => {
            if let Some(Value::Object(fields)) = keys.get_mut("properties") {
                fields.retain(|_, field| field["readOnly"] != true);
            }
            if let Some(Value::Array(values)) = keys.get_mut("enum") {
                values.retain(|value| value != "UNSPECIFIED");
            }
            // The API may leave all of them out, and says then what is missing.
            if let Some(Value::Array(one)) = keys.get_mut("oneOf") {
                one.retain(|alternative| alternative.get("not").is_none());
            }
            if keys.get("pattern").is_some_and(|pattern| pattern == DURATION_OF_API) {
                keys.insert("pattern".to_owned(), json!(DURATION));
                keys.insert("examples".to_owned(), json!(["90s", "1h30m"]));
            }
            if let Some(Value::String(place)) = keys.get_mut("$ref")
                && let Some(name) = place.strip_prefix(API)
            {
                wanted.push(name.to_owned());
                *place = format!("{OWN}{name}");
            }
            keys.values_mut().for_each(|schema| write(schema, wanted));
        }
        _ => {}
    }
}

/// The part of `whole` that a node stands for, wherever it refers to.
pub fn resolved<'a>(whole: &'a Value, node: &'a Value) -> &'a Value {
    let place = node["$ref"].as_str().and_then(|place| place.strip_prefix(OWN));
    place.map_or(node, |name| &whole["$defs"][name])
}

/// Whether a node is a duration.
pub fn is_duration(node: &Value) -> bool {
    node["pattern"] == DURATION
}

#[cfg(test)]
mod tests {
    use super::*;
    use boon::{Compiler, Schemas};
    use serde::Deserialize;

    /// What is wrong with each document of a file.
    fn wrong(text: &str) -> Vec<Option<String>> {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource("schema.json", documents().expect("a schema")).expect("a new one");
        let index = compiler.compile("schema.json", &mut schemas).expect("a sound schema");
        let documents = serde_yaml_ng::Deserializer::from_str(text);
        let values = documents.map(|document| Value::deserialize(document).expect("YAML"));
        let values = values.filter(|value| !value.is_null());
        values.map(|value| schemas.validate(&value, index).err().map(|error| format!("{error:#}"))).collect()
    }

    #[test]
    fn the_examples_are_valid() {
        for text in [
            include_str!("../../../examples/jobs.yaml"),
            "kind: Channel\nname: ops\nmatch: {labels: {team: a}, severities: [CRITICAL]}\nwebhook: {url: 'https://a.example/x'}",
            "kind: CheckIn\nname: backup\nperiod: 1d\ngrace: 30m\nmaxRuntime: 2h\nchannels: [ops]\nseverity: WARNING\nlabels: {team: a}",
            "kind: Calendar\nname: holidays\ndates: [2026-12-25, 2027-01-01]",
            "kind: Job\nname: a\nschedule: '@daily'\nstartsAt: 2026-12-01T00:00:00Z\ncalendars: {exclude: [holidays], rule: NEXT_DAY}\n\
             alert: {repeat: 2h30m, on: {failuresInRow: 3, runtimeOver: 500ms}}\nrun: {http: {url: 'https://a.example', headers: {a: b}}}",
        ] {
            let wrong: Vec<_> = wrong(text).into_iter().flatten().collect();
            assert!(wrong.is_empty(), "{text}\n{wrong:?}");
        }
    }

    #[test]
    fn what_apply_would_refuse_is_not() {
        let job = "kind: Job\nname: a\nschedule: '@daily'\nrun: {handler: {name: h}}\n";
        assert_eq!(wrong(job), [None]);
        for (document, said) in [
            ("name: a".to_owned(), "kind"),
            ("kind: Joob\nname: a".to_owned(), "kind"),
            (format!("{job}scheduel: x"), "scheduel"),
            (format!("{job}overlap: forbid"), "overlap"),
            (format!("{job}overlap: UNSPECIFIED"), "overlap"),
            (format!("{job}maxRuntime: long"), "maxRuntime"),
            (format!("{job}maxRuntime: 60"), "maxRuntime"),
            (format!("{job}retry: {{maxAttempts: two}}"), "maxAttempts"),
            (format!("{job}nextFireTime: 2026-12-25T00:00:00Z"), "nextFireTime"),
            (format!("{job}pauseReason: x"), "pauseReason"),
            ("kind: Job\nname: a\nschedule: '@daily'".to_owned(), "run"),
            ("kind: Job\nname: a\nschedule: '@daily'\nrun: {}".to_owned(), "run"),
            ("kind: Channel\nname: a\nslack: {}\nemail: {}".to_owned(), "oneOf"),
            ("kind: Channel\nname: a".to_owned(), "oneOf"),
        ] {
            let found = wrong(&document);
            assert!(found[0].as_ref().is_some_and(|text| text.contains(said)), "{document}\n{found:?}");
        }
    }
}
