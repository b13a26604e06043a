//! proto3 JSON to a message, with every wrong field named at once; and back.

use super::unread::Unread;
use crate::openapi::is_output_only;
use crate::status;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, SerializeOptions, Value as Field,
};
use serde_json::{Map, Value};
use std::collections::HashMap;
use tonic::Status;

/// Characters of a wrong value that an error repeats.
const SHOWN_MAX: usize = 64;

/// Reads `value` as a message of `kind` at `path`; what is wrong is added to `unread` and left out, but for the elements of
/// lists, which hold a default instead.
pub(super) fn read(
    kind: &MessageDescriptor,
    value: &Value,
    path: &str,
    unread: &mut Unread,
) -> DynamicMessage {
    let mut message = DynamicMessage::new(kind.clone());
    let Value::Object(members) = value else {
        unread.add(path, || wrong(value, "use an object"));
        return message;
    };
    let mut given: Vec<FieldDescriptor> = Vec::new();
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        let member = join(path, name);
        let Some(field) = field(kind, name) else {
            misspelt(kind, members, path, name, unread);
            continue;
        };
        if let Some(clash) = given.iter().find(|other| excludes(other, &field)) {
            unread.add(member, || format!("is given together with {}: use one", clash.json_name()));
            continue;
        }
        if let Some(value) = read_field(&field, value, &member, unread) {
            message.set_field(&field, value);
        }
        given.push(field);
    }
    message
}

/// The message as proto3 JSON: defaults written out, 64-bit numbers as text.
pub(super) fn write(message: &DynamicMessage) -> Result<Vec<u8>, Status> {
    let options = SerializeOptions::new().skip_default_fields(false).stringify_64_bit_integers(true);
    let mut serializer = serde_json::Serializer::new(Vec::new());
    message
        .serialize_with_options(&mut serializer, &options)
        .map_err(|error| status::internal("writing the answer", &error))?;
    Ok(serializer.into_inner())
}

/// The field that `name` means, in JSON's spelling or in the contract's.
pub(super) fn field(kind: &MessageDescriptor, name: &str) -> Option<FieldDescriptor> {
    kind.get_field_by_json_name(name).or_else(|| kind.get_field_by_name(name))
}

/// True for messages that proto3 JSON writes as something else than an object of their fields.
pub(super) fn is_well_known(kind: &MessageDescriptor) -> bool {
    kind.full_name().starts_with("google.protobuf.")
}

/// Reads one value of `field`: the field itself, or an element of it when it is a list.
pub(super) fn read_one(
    field: &FieldDescriptor,
    value: &Value,
    path: &str,
    unread: &mut Unread,
) -> Option<Field> {
    if let Kind::Message(kind) = field.kind()
        && !is_well_known(&kind)
    {
        return Some(Field::Message(read(&kind, value, path, unread)));
    }
    let read = read_leaf(field, value);
    if read.is_none() {
        unread.add(path, || wrong(value, &expected(&field.kind())));
    }
    read
}

fn read_field(field: &FieldDescriptor, value: &Value, path: &str, unread: &mut Unread) -> Option<Field> {
    if field.is_map() {
        return read_map(field, value, path, unread);
    }
    if !field.is_list() {
        return read_one(field, value, path, unread);
    }
    let Value::Array(elements) = value else {
        unread.add(path, || wrong(value, "use an array"));
        return None;
    };
    let read = elements.iter().enumerate().map(|(index, element)| {
        let read = read_one(field, element, &format!("{path}[{index}]"), unread);
        // What follows a wrong one is to keep its place.
        read.unwrap_or_else(|| Field::default_value(&field.kind()))
    });
    Some(Field::List(read.collect()))
}

/// Maps of the contract have text keys; one with others would be read as wrong.
fn read_map(field: &FieldDescriptor, value: &Value, path: &str, unread: &mut Unread) -> Option<Field> {
    let (Value::Object(members), Kind::Message(entry)) = (value, field.kind()) else {
        unread.add(path, || wrong(value, "use an object"));
        return None;
    };
    let value_field = entry.map_entry_value_field();
    let mut read = HashMap::new();
    for (key, value) in members {
        if let Some(value) = read_one(&value_field, value, &join(path, key), unread) {
            read.insert(MapKey::String(key.clone()), value);
        }
    }
    Some(Field::Map(read))
}

/// Reads a scalar, an enum or a well-known message, as part of a message that has nothing else.
fn read_leaf(field: &FieldDescriptor, value: &Value) -> Option<Field> {
    let value = if field.is_list() { Value::Array(vec![value.clone()]) } else { value.clone() };
    let alone = Value::Object(Map::from_iter([(field.json_name().to_owned(), value)]));
    let message = DynamicMessage::deserialize(field.parent_message().clone(), alone).ok()?;
    match message.get_field(field).into_owned() {
        Field::List(elements) if field.is_list() => elements.into_iter().next(),
        // Null is read as unset, which is no value where one must be.
        value => message.has_field(field).then_some(value).or_else(|| default_of(field)),
    }
}

/// The value of a field without presence that was given its default.
fn default_of(field: &FieldDescriptor) -> Option<Field> {
    (!field.supports_presence()).then(|| field.default_value())
}

fn excludes(given: &FieldDescriptor, field: &FieldDescriptor) -> bool {
    let one_of = |field: &FieldDescriptor| field.containing_oneof().map(|oneof| oneof.full_name().to_owned());
    given == field || (one_of(given).is_some() && one_of(given) == one_of(field))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Adds the member `name`, which is no field: with the one that was meant, by its letters, else with all that may be given.
fn misspelt(
    kind: &MessageDescriptor,
    members: &Map<String, Value>,
    path: &str,
    name: &str,
    unread: &mut Unread,
) {
    if unread.is_full() {
        unread.more += 1;
        return;
    }
    let fields = kind.fields().filter(|field| !is_output_only(field));
    let mut names: Vec<String> = fields.map(|field| field.json_name().to_owned()).collect();
    names.sort();
    let message = match nearest(name, &names) {
        Some(meant) => {
            let is_given = members
                .keys()
                .any(|other| field(kind, other).is_some_and(|field| field.json_name() == meant));
            if !is_given {
                unread.meant.push(join(path, meant));
            }
            format!("is no field: did you mean {meant}?")
        }
        None => format!("is no field: use {}", names.join(", ")),
    };
    unread.add(join(path, name), || message);
}

/// Which of `names` was meant by `name`, if it is near enough to one.
fn nearest<'a>(name: &str, names: &'a [String]) -> Option<&'a str> {
    let length = name.chars().take(SHOWN_MAX + 1).count();
    if length > SHOWN_MAX {
        return None; // longer than any field's, and dear to compare
    }
    let distances = names.iter().map(|known| (strsim::osa_distance(name, known), known.as_str()));
    let near = distances.filter(|(distance, _)| *distance <= (length / 3).max(1)).min();
    near.map(|(_, meant)| meant)
}

fn wrong(value: &Value, expected: &str) -> String {
    let text = value.to_string();
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    let rest = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown}{rest}: {expected}")
}

/// What would be right for a leaf of `kind`.
fn expected(kind: &Kind) -> String {
    match kind {
        Kind::Double | Kind::Float => "use a number".to_owned(),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            format!("use a whole number, {} to {}", i32::MIN, i32::MAX)
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => "use a whole number".to_owned(),
        Kind::Uint32 | Kind::Uint64 | Kind::Fixed32 | Kind::Fixed64 => "use a whole number from 0".to_owned(),
        Kind::Bool => "use true or false".to_owned(),
        Kind::String => "use a text".to_owned(),
        Kind::Bytes => "use a text in base64".to_owned(),
        Kind::Enum(kind) => {
            let named = kind.values().filter(|value| value.number() != 0);
            let names: Vec<String> = named.map(|value| value.name().to_owned()).collect();
            format!("use one of {}", names.join(", "))
        }
        Kind::Message(kind) => match kind.name() {
            "Duration" => "use seconds with an s, for example \"90s\"".to_owned(),
            "Timestamp" => "use RFC 3339, for example \"2026-11-29T09:00:00Z\"".to_owned(),
            _ => "use an object".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcode::unread::NAMED_MAX;
    use serde_json::json;

    fn kind(name: &str) -> MessageDescriptor {
        crate::descriptors().get_message_by_name(&format!("escapement.v1.{name}")).expect("it is there")
    }

    fn problems(value: Value) -> Vec<(String, String)> {
        let mut unread = Unread::default();
        read(&kind("Job"), &value, "", &mut unread);
        unread.errors.into_iter().map(|error| (error.field, error.message)).collect()
    }

    fn fields(value: Value) -> Vec<String> {
        let mut fields: Vec<String> = problems(value).into_iter().map(|(field, _)| field).collect();
        fields.sort();
        fields
    }

    #[test]
    fn a_message_comes_back_as_it_was() {
        let job = json!({
            "name": "invoices", "misfire": {"policy": "CATCH_UP", "grace": "90.500s", "catchUpLimit": 5},
            "labels": {"team": "billing"}, "alert": {"channels": ["a", "b"], "disabled": true},
            "run": {"exec": {"argv": ["true"], "env": {"A": ""}}}, "generation": "3",
            "createTime": "2026-11-29T09:00:00Z"
        });
        let mut unread = Unread::default();
        let message = read(&kind("Job"), &job, "", &mut unread);
        assert_eq!(unread, Unread::default());
        let back: Value = serde_json::from_slice(&write(&message).expect("it is written")).expect("JSON");
        for (name, value) in job.as_object().expect("an object") {
            match value {
                Value::Object(members) => members.iter().for_each(|(member, value)| {
                    if member != "exec" {
                        assert_eq!(&back[name][member], value, "{name}.{member}");
                    }
                }),
                value => assert_eq!(&back[name], value, "{name}"),
            }
        }
        assert_eq!(back["run"]["exec"]["env"]["A"], "");
        assert_eq!(back["priority"], 0, "defaults are written out");
        assert_eq!(back.get("nextFireTime"), None, "what is unset is left out");
        assert_eq!(back["run"].get("http"), None);
    }

    #[test]
    fn every_wrong_field_is_named_with_its_path_and_what_would_be_right() {
        let found = problems(json!({
            "name": 5, "overlap": "SOMETIMES", "maxRuntime": "soon", "priority": 1.5, "shedule": "* * * * *",
            "misfire": {"grace": 60, "catchUpLimit": "many"}, "labels": {"a": 1}, "alert": {"channels": "oncall"},
            "run": {"exec": {"argv": ["ok", 7, null]}}
        }));
        let mut fields: Vec<&str> = found.iter().map(|(field, _)| field.as_str()).collect();
        fields.sort_unstable();
        let all = [
            "alert.channels",
            "labels.a",
            "maxRuntime",
            "misfire.catchUpLimit",
            "misfire.grace",
            "name",
            "overlap",
            "priority",
            "run.exec.argv[1]",
            "run.exec.argv[2]",
            "shedule",
        ];
        assert_eq!(fields, all);
        let message = |field: &str| found.iter().find(|(name, _)| name == field).map_or("", |(_, text)| text);
        assert_eq!(message("overlap"), "\"SOMETIMES\": use one of FORBID, ALLOW, QUEUE, REPLACE");
        assert_eq!(message("maxRuntime"), "\"soon\": use seconds with an s, for example \"90s\"");
        assert!(message("shedule").contains("schedule"));
    }

    #[test]
    fn what_is_no_field_is_answered_with_the_nearest_or_with_all_that_may_be_given() {
        let message = |value| problems(value).remove(0).1;
        assert_eq!(message(json!({"shedule": "@daily"})), "is no field: did you mean schedule?");
        assert_eq!(message(json!({"maxRuntme": "1s"})), "is no field: did you mean maxRuntime?");
        let all = message(json!({"cron": "@daily"}));
        assert!(all.starts_with("is no field: use alert, ") && all.contains("schedule"), "{all}");
        assert!(!all.contains("createTime") && !all.contains("nextFireTime"), "{all}");
    }

    #[test]
    fn what_a_misspelt_field_means_is_known_unless_it_is_given_too() {
        let meant = |value| {
            let mut unread = Unread::default();
            read(&kind("Job"), &value, "", &mut unread);
            unread.meant
        };
        assert_eq!(
            meant(json!({"shedule": "@daily", "run": {"exec": {"arv": ["a"]}}})),
            ["run.exec.argv", "schedule"]
        );
        assert_eq!(meant(json!({"maxRuntme": "1s", "max_runtime": "1s", "cron": "@daily"})), [""; 0]);
    }

    #[test]
    fn of_ever_so_many_wrong_fields_the_first_are_named_and_the_others_counted() {
        let unknown = (0..10_000).map(|number| (format!("field-{number}"), json!(1)));
        let wrong = json!({"channels": vec![7; 10_000], "disabled": 7});
        let mut unread = Unread::default();
        read(&kind("Job"), &Value::Object(unknown.collect()), "", &mut unread);
        read(&kind("JobAlert"), &wrong, "alert", &mut unread);
        assert_eq!((unread.errors.len(), unread.more), (NAMED_MAX, 20_001 - NAMED_MAX));
        let told = unread.told();
        assert_eq!(told.len(), NAMED_MAX + 1);
        assert!(told[NAMED_MAX].message.starts_with("19951 more fields are wrong"), "{:?}", told[NAMED_MAX]);
    }

    #[test]
    fn a_long_name_is_no_misspelt_one() {
        assert_eq!(nearest(&"schedule".repeat(10), &["schedule".repeat(11)]), None);
        assert_eq!(nearest("shedule", &["run".to_owned(), "schedule".to_owned()]), Some("schedule"));
    }

    #[test]
    fn two_of_a_kind_are_refused() {
        assert_eq!(
            fields(json!({"run": {"exec": {"argv": ["a"]}, "http": {"url": "http://x"}}})),
            ["run.http"]
        );
        assert_eq!(fields(json!({"maxRuntime": "1s", "max_runtime": "2s"})), ["max_runtime"]);
    }

    #[test]
    fn null_is_unset_and_both_spellings_are_read() {
        assert_eq!(fields(json!({"name": null, "misfire": null, "max_runtime": "1s"})), [""; 0]);
    }

    #[test]
    fn numbers_out_of_range_and_odd_durations_are_named() {
        for wrong in [
            json!({"priority": 4_294_967_296_u64}),
            json!({"priority": "x"}),
            json!({"jitter": "NaNs"}),
            json!({"jitter": "99999999999999999999s"}),
            json!({"jitter": "1h"}),
            json!({"createTime": "yesterday"}),
            json!({"misfire": []}),
            json!({"run": "true"}),
        ] {
            assert_eq!(problems(wrong.clone()).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn a_long_value_is_not_repeated_whole() {
        let found = problems(json!({"priority": "x".repeat(10_000)}));
        assert!(found[0].1.len() < 200, "{}", found[0].1);
    }
}
