//! Parameters and variables of a path: texts that become fields.

use super::json;
use super::rule::{Body, Rule};
use super::unread::Unread;
use prost_reflect::{DynamicMessage, Kind, ReflectMessage, Value as Field};
use serde_json::Value;

/// Sets the fields that `query` names; a list takes every occurrence of its name.
pub(super) fn parameters(message: &mut DynamicMessage, query: &str, rule: &Rule, unread: &mut Unread) {
    let mut seen: Vec<String> = Vec::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let path: Vec<String> = name.split('.').map(str::to_owned).collect();
        if let Some(problem) = taken(message, &path, rule) {
            unread.add(name, || problem.to_owned());
            continue;
        }
        let is_list = json::field(&message.descriptor(), &path[0]).is_some_and(|field| field.is_list());
        if !is_list && seen.iter().any(|other| *other == name) {
            unread.add(name, || "is given twice: give it once".to_owned());
            continue;
        }
        set(message, &path, &value, unread);
        seen.push(name.into_owned());
    }
}

/// Why a parameter may not be given, when path or body give it already.
fn taken(message: &DynamicMessage, path: &[String], rule: &Rule) -> Option<&'static str> {
    let first = json::field(&message.descriptor(), &path[0])?;
    match &rule.body {
        Body::Whole => return Some("is a parameter: put it into the body"),
        Body::Field(field, _) if *field == first => return Some("is a parameter: put it into the body"),
        Body::Field(..) | Body::None => {}
    }
    let by_path =
        rule.variables().any(|variable| variable.len() == path.len() && variable[0] == first.name());
    by_path.then_some("is given by the path already")
}

/// Sets the field at `path` from its text, or adds to it when it is a list.
pub(super) fn set(message: &mut DynamicMessage, path: &[String], text: &str, unread: &mut Unread) {
    let (mut message, mut left) = (message, path);
    let whole = path.join(".");
    loop {
        let Some((name, rest)) = left.split_first() else { return };
        let Some(field) = json::field(&message.descriptor(), name) else {
            unread.add(whole, || "is no parameter of this request".to_owned());
            return;
        };
        let inner = match field.kind() {
            Kind::Message(kind) => field.is_map() || !json::is_well_known(&kind),
            _ => false,
        };
        match (inner, rest.is_empty()) {
            (false, true) => {
                let value = as_json(&field.kind(), text);
                let Some(value) = json::read_one(&field, &value, &whole, unread) else { return };
                match message.get_field_mut(&field) {
                    Field::List(elements) if field.is_list() => elements.push(value),
                    single => *single = value,
                }
                return;
            }
            (true, false) if !field.is_list() && !field.is_map() => match message.get_field_mut(&field) {
                Field::Message(next) => (message, left) = (next, rest),
                _ => return,
            },
            _ => {
                unread.add(whole, || "is no parameter of this request: name a single field".to_owned());
                return;
            }
        }
    }
}

/// The text as JSON would have it; numbers may stay text in proto3 JSON.
fn as_json(kind: &Kind, text: &str) -> Value {
    match kind {
        Kind::Bool => text.parse().map_or_else(|_| text.into(), Value::Bool),
        Kind::Enum(_) => text.parse::<i32>().map_or_else(|_| text.into(), Value::from),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcode::rules;

    fn rule(rpc: &str) -> Rule {
        let all = rules(crate::descriptors()).expect("all rules can be served");
        all.into_iter().find(|rule| rule.rpc.name() == rpc).expect("it has a rule")
    }

    fn read(rpc: &str, query: &str) -> (serde_json::Value, Vec<String>) {
        let rule = rule(rpc);
        let mut message = DynamicMessage::new(rule.rpc.input());
        let mut unread = Unread::default();
        parameters(&mut message, query, &rule, &mut unread);
        let text = json::write(&message).expect("it is written");
        let fields = unread.errors.into_iter().map(|error| error.field).collect();
        (serde_json::from_slice(&text).expect("JSON"), fields)
    }

    #[test]
    fn parameters_are_read_in_both_spellings_and_lists_gather() {
        let (message, errors) = read("ListRuns", "page_size=7&states=FAILED&states=8&pageToken=a%20b%2Bc");
        assert_eq!(errors, [""; 0]);
        assert_eq!(message["pageSize"], 7);
        assert_eq!(message["states"], serde_json::json!(["FAILED", "LOST"]));
        assert_eq!(message["pageToken"], "a b+c");
    }

    #[test]
    fn what_is_unknown_wrong_taken_or_twice_is_named() {
        let query = "colour=red&pageSize=many&states=GONE&job=other&pageToken=a&pageToken=b&pageToken.x=1";
        let (_, errors) = read("ListRuns", query);
        assert_eq!(errors, ["colour", "pageSize", "states", "job", "pageToken", "pageToken.x"]);
        assert_eq!(read("CreateJob", "job.name=a").1, ["job.name"]);
    }

    #[test]
    fn nested_fields_are_reached_by_dots() {
        let descriptor =
            crate::descriptors().get_message_by_name("escapement.v1.UpdateJobRequest").expect("there");
        let mut message = DynamicMessage::new(descriptor);
        let mut unread = Unread::default();
        let path = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
        set(&mut message, &path("job.misfire.grace"), "90s", &mut unread);
        set(&mut message, &path("job.alert.disabled"), "true", &mut unread);
        set(&mut message, &path("job.alert.channels"), "a", &mut unread);
        assert_eq!(unread, Unread::default());
        let text: serde_json::Value =
            serde_json::from_slice(&json::write(&message).expect("written")).expect("JSON");
        assert_eq!(text["job"]["misfire"]["grace"], "90s");
        assert_eq!(
            text["job"]["alert"],
            serde_json::json!({"disabled": true, "channels": ["a"], "severity": "UNSPECIFIED"})
        );
        for none in ["job", "job.labels", "job.labels.a", "job.misfire"] {
            set(&mut message, &path(none), "x", &mut unread);
            assert_eq!(unread.errors.pop().map(|error| error.field).as_deref(), Some(none));
        }
    }
}
