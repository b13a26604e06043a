//! Jobs by the paths of their fields: what differs between two, and copying some fields from one to another. What differs
//! between two of any other message, too.
//!
//! Paths are spelled as in JSON (`misfire.grace`), or as in the contract; a label is `labels.team`. Invariant: values that
//! may be secrets, which the audit trail leaves out too, are never in a difference: only that they differ.

use crate::v1;
use model::validate::FieldError;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, SerializeOptions,
    Value as Field,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Fields that say what became of a job, and are no part of its definition.
const OUTPUT_ONLY: [&str; 9] = [
    "id",
    "generation",
    "createTime",
    "updateTime",
    "nextFireTime",
    "broken",
    "paused",
    "pauseTime",
    "pauseReason",
];

/// Where values stand that may be secrets.
const SECRET: [&str; 4] = ["run.exec.env.", "run.http.headers.", "run.http.body", "run.handler.payload"];

/// Stands for a value that is left out.
const LEFT_OUT: &str = "…";

/// Characters of a value that a difference shows.
const SHOWN_CHARS_MAX: usize = 500;

/// A field that differs. Texts are as they are, other values as JSON; none where there is no such field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its path.
    pub field: String,
    /// What it was.
    pub before: Option<String>,
    /// What it is.
    pub after: Option<String>,
}

/// The fields of the definition that differ, by path.
pub fn differences(before: &v1::Job, after: &v1::Job) -> Vec<Difference> {
    differing(&leaves(in_json(&dynamic(before))), &leaves(in_json(&dynamic(after))))
}

/// The fields of two messages of the contract that are called `name` that differ, by path. Whoever asks has left out what is
/// secret.
pub fn differences_of<M: prost::Message>(name: &str, before: &M, after: &M) -> Vec<Difference> {
    differing(&leaves(json(name, before)), &leaves(json(name, after)))
}

fn differing(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> Vec<Difference> {
    let paths = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
    let mut differing: Vec<_> = paths.filter(|path| before.get(*path) != after.get(*path)).collect();
    differing.sort();
    let shown = |path: &String, value: Option<&Value>| value.map(|value| shown(path, value));
    let difference = |path: &String| Difference {
        field: path.clone(),
        before: shown(path, before.get(path)),
        after: shown(path, after.get(path)),
    };
    differing.into_iter().map(difference).collect()
}

/// `stored` with those fields of `given` that `paths` name, or without any all that `given` has set. A named field that
/// `given` leaves unset gets its default; a label that it leaves out is removed.
///
/// # Errors
/// A [`FieldError`] at `updateMask` for each path that is none, or that nobody can set.
pub fn merge(stored: &v1::Job, given: &v1::Job, paths: &[String]) -> Result<v1::Job, Vec<FieldError>> {
    let mut merged = dynamic(stored);
    let given = dynamic(given);
    let all: Vec<String> = if paths.is_empty() {
        populated(&given, "").into_iter().filter(|path| !OUTPUT_ONLY.contains(&path.as_str())).collect()
    } else {
        paths.iter().flat_map(|paths| paths.split(',')).map(|path| path.trim().to_owned()).collect()
    };
    let wrong = |path: &str, problem: &str| FieldError::new("updateMask", format!("{path:?} {problem}"));
    let mut errors = Vec::new();
    for path in &all {
        let parts: Vec<&str> = path.split('.').collect();
        let first = field(&merged.descriptor(), parts[0]).map(|field| field.json_name().to_owned());
        if first.is_some_and(|first| OUTPUT_ONLY.contains(&first.as_str())) {
            errors.push(wrong(path, "is output only: leave it out"));
        } else if let Err(problem) = copy(&mut merged, &given, &parts) {
            errors.push(wrong(path, problem));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    merged.transcode_to().map_err(|error| vec![wrong("", &error.to_string())])
}

/// Any message of the contract as proto3 JSON, its defaults written out.
pub fn json<M: prost::Message>(name: &str, message: &M) -> Value {
    let Some(kind) = crate::descriptors().get_message_by_name(name) else { return Value::Null };
    let mut dynamic = DynamicMessage::new(kind);
    if dynamic.transcode_from(message).is_err() {
        return Value::Null;
    }
    in_json(&dynamic)
}

fn in_json(message: &DynamicMessage) -> Value {
    let options = SerializeOptions::new().skip_default_fields(false).stringify_64_bit_integers(true);
    message.serialize_with_options(serde_json::value::Serializer, &options).unwrap_or(Value::Null)
}

fn dynamic(job: &v1::Job) -> DynamicMessage {
    let mut dynamic = DynamicMessage::new(kind());
    // The same contract on both sides: a test copies every field there and back.
    let _ = dynamic.transcode_from(job);
    dynamic
}

#[allow(clippy::expect_used, reason = "the contract that is compiled in has jobs, and tests use it")]
fn kind() -> MessageDescriptor {
    crate::descriptors().get_message_by_name("escapement.v1.Job").expect("the contract has jobs")
}

/// Every value of the definition that is no object, by its path.
fn leaves(message: Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let Value::Object(fields) = message else { return found };
    for (name, value) in fields.into_iter().filter(|(name, _)| !OUTPUT_ONLY.contains(&name.as_str())) {
        gather(name, value, &mut found);
    }
    found
}

fn gather(path: String, value: Value, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                gather(format!("{path}.{name}"), value, found);
            }
        }
        leaf => {
            found.insert(path, leaf);
        }
    }
}

fn shown(path: &str, value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if SECRET.iter().any(|secret| path.starts_with(secret)) && !text.is_empty() {
        return LEFT_OUT.to_owned();
    }
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}{LEFT_OUT}", &text[..end]),
        None => text,
    }
}

/// The paths of everything that `message` has set; a list is one, each entry of a map is one.
fn populated(message: &DynamicMessage, prefix: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (field, value) in message.fields() {
        let path = format!("{prefix}{}", field.json_name());
        match value {
            Field::Map(entries) => {
                paths.extend(entries.keys().filter_map(|key| Some(format!("{path}.{}", key.as_str()?))));
            }
            Field::Message(inner) if has_parts(&field) => paths.extend(populated(inner, &format!("{path}."))),
            _ => paths.push(path),
        }
    }
    paths
}

/// Copies what `path` names, or clears it where `given` lacks it.
fn copy(target: &mut DynamicMessage, given: &DynamicMessage, path: &[&str]) -> Result<(), &'static str> {
    let Some((name, rest)) = path.split_first() else { return Err("is no field of a job") };
    let field = field(&target.descriptor(), name).ok_or("is no field of a job")?;
    if rest.is_empty() {
        if given.has_field(&field) {
            target.set_field(&field, given.get_field(&field).into_owned());
        } else {
            target.clear_field(&field);
        }
        return Ok(());
    }
    if field.is_map() {
        let key = MapKey::String(rest.join("."));
        let value = given.get_field(&field).as_map().and_then(|entries| entries.get(&key).cloned());
        if let Some(entries) = target.get_field_mut(&field).as_map_mut() {
            match value {
                Some(value) => drop(entries.insert(key, value)),
                None => drop(entries.remove(&key)),
            }
        }
        return Ok(());
    }
    if !has_parts(&field) {
        return Err("names a part of a field that has none");
    }
    let given = given.get_field(&field);
    match (target.get_field_mut(&field), given.as_message()) {
        (Field::Message(target), Some(given)) => copy(target, given, rest),
        _ => Err("names a part of a field that has none"),
    }
}

fn has_parts(field: &FieldDescriptor) -> bool {
    let is_ours =
        matches!(field.kind(), Kind::Message(kind) if !kind.full_name().starts_with("google.protobuf."));
    is_ours && !field.is_list() && !field.is_map()
}

fn field(kind: &MessageDescriptor, name: &str) -> Option<FieldDescriptor> {
    kind.get_field_by_json_name(name).or_else(|| kind.get_field_by_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_types::Duration;

    fn job() -> v1::Job {
        let http = v1::Http {
            url: "http://a/".to_owned(),
            headers: [("authorization".to_owned(), "old-s3cret".to_owned())].into(),
            ..v1::Http::default()
        };
        v1::Job {
            id: "1".to_owned(),
            name: "invoices".to_owned(),
            schedule: "0 9 * * *".to_owned(),
            priority: 3,
            labels: [("team".to_owned(), "billing".to_owned()), ("tier".to_owned(), "1".to_owned())].into(),
            misfire: Some(v1::Misfire {
                grace: Some(Duration { seconds: 60, nanos: 0 }),
                catch_up_limit: 5,
                ..v1::Misfire::default()
            }),
            run: Some(v1::Run { kind: Some(v1::run::Kind::Http(http)) }),
            ..v1::Job::default()
        }
    }

    fn paths(paths: &[&str]) -> Vec<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    #[test]
    fn a_job_comes_back_as_it_was() {
        assert_eq!(dynamic(&job()).transcode_to::<v1::Job>().expect("the same contract"), job());
    }

    #[test]
    fn named_fields_are_copied_and_cleared_and_others_stay() {
        let given = v1::Job {
            schedule: "0 10 * * *".to_owned(),
            labels: [("team".to_owned(), "payments".to_owned())].into(),
            ..v1::Job::default()
        };
        let mask = paths(&["schedule,labels.team", "labels.tier", "misfire.catch_up_limit", "priority"]);
        let merged = merge(&job(), &given, &mask).expect("sound paths");
        assert_eq!((merged.schedule.as_str(), merged.priority), ("0 10 * * *", 0));
        assert_eq!(merged.labels, [("team".to_owned(), "payments".to_owned())].into());
        let misfire = merged.misfire.expect("it stays");
        assert_eq!((misfire.grace.map(|grace| grace.seconds), misfire.catch_up_limit), (Some(60), 0));
        assert_eq!(merged.run, job().run);
    }

    #[test]
    fn without_a_mask_what_is_set_is_copied() {
        let exec = v1::Exec { argv: vec!["true".to_owned()], ..v1::Exec::default() };
        let given = v1::Job {
            id: "2".to_owned(),
            labels: [("team".to_owned(), "payments".to_owned())].into(),
            misfire: Some(v1::Misfire { catch_up_limit: 9, ..v1::Misfire::default() }),
            run: Some(v1::Run { kind: Some(v1::run::Kind::Exec(exec)) }),
            ..v1::Job::default()
        };
        let merged = merge(&job(), &given, &[]).expect("all is sound");
        assert_eq!(
            (merged.id.as_str(), merged.schedule.as_str(), merged.labels.len()),
            ("1", "0 9 * * *", 2)
        );
        let misfire = merged.misfire.expect("it stays");
        assert_eq!((misfire.grace.map(|grace| grace.seconds), misfire.catch_up_limit), (Some(60), 9));
        assert_eq!(merged.run, given.run, "one kind of work takes the other's place");
    }

    #[test]
    fn every_path_that_is_none_is_named() {
        let mask = paths(&["colour", "generation", "update_time", "schedule.minute", "misfire.colour", ""]);
        let errors = merge(&job(), &v1::Job::default(), &mask).expect_err("all are wrong");
        assert_eq!(errors.len(), mask.len(), "{errors:?}");
        assert!(errors.iter().all(|error| error.field == "updateMask"));
        assert!(errors[1].message.contains("output only"), "{errors:?}");
    }

    #[test]
    fn differences_name_each_field_and_no_secret() {
        let mut after = job();
        after.generation = 9;
        after.priority = 0;
        after.labels.remove("tier");
        if let Some(v1::run::Kind::Http(http)) = after.run.as_mut().and_then(|run| run.kind.as_mut()) {
            http.headers.insert("authorization".to_owned(), "new-s3cret".to_owned());
        }
        let found = differences(&job(), &after);
        let text = |difference: &Difference| {
            let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
            format!("{} {} {}", difference.field, shown(&difference.before), shown(&difference.after))
        };
        assert_eq!(
            found.iter().map(text).collect::<Vec<_>>(),
            ["labels.tier 1 -", "priority 3 0", "run.http.headers.authorization … …"]
        );
        assert_eq!(differences(&after, &after), []);
    }
}
