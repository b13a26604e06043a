//! The REST side as OpenAPI 3.1, written from the same descriptors and rules that the gateway serves.
//!
//! Invariant: the document describes what [`crate::transcode`] does and where [`crate::events`] are served, because all
//! read the same rules; the contract's comments are its descriptions. Deliberately not here: anything said of one
//! particular method. That a call may be repeated with a key is read from its comment.

mod schema;

use crate::transcode::{Body, GatewayError, Rule, rules, streams};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use schema::Schemas;
pub(crate) use schema::is_output_only;
use serde_json::{Map, Value, json};

/// The document.
///
/// # Errors
/// As [`crate::transcode::Gateway::new`].
pub fn document(body_bytes_max: usize) -> Result<Value, GatewayError> {
    let mut schemas = Schemas::default();
    let mut rules = rules(crate::descriptors())?;
    rules.extend(streams(crate::descriptors())?);
    rules.sort_by(|a, b| a.pattern.cmp(&b.pattern));
    let mut paths = Map::new();
    for rule in &rules {
        let path = paths.entry(rule.pattern.clone()).or_insert_with(|| json!({}));
        path[rule.method.as_str().to_lowercase()] = operation(rule, &mut schemas);
    }
    let mut components = schemas.finish();
    components.insert("Problem".to_owned(), problem());
    Ok(json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Escapement",
            "version": "v1",
            "description": format!(
                "A distributed cron. Bodies are proto3 JSON of at most {body_bytes_max} bytes: enums by name, \
                 durations as \"90s\", 64-bit numbers as text. Unknown fields are refused."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }))
}

fn operation(rule: &Rule, schemas: &mut Schemas) -> Value {
    let rpc = &rule.rpc;
    let comment = schema::comment(&rpc.parent_file(), rpc.path());
    let mut operation = json!({
        "operationId": rpc.name(),
        "tags": [rpc.parent_service().name().trim_end_matches("Service")],
        "description": comment.clone(),
        "summary": first_sentence(&comment),
        "responses": {
            "200": success(rule, schemas),
            "default": {
                "description": "What went wrong, with every wrong field.",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    });
    let mut parameters = parameters(rule, schemas);
    if comment.contains("`Idempotency-Key`") {
        parameters.push(idempotency_key());
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    let body = match &rule.body {
        Body::None => None,
        Body::Whole => Some(schemas.message(&rpc.input())),
        Body::Field(_, kind) => Some(schemas.message(kind)),
    };
    if let Some(body) = body {
        operation["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": body}}});
    }
    operation
}

fn success(rule: &Rule, schemas: &mut Schemas) -> Value {
    let (what, kind) = if rule.rpc.is_server_streaming() {
        let what = "Server-sent events: the data of each is a message like this; one named `error`, with a `detail`, says \
                    why no more come.";
        (what, "text/event-stream")
    } else {
        ("Done.", "application/json")
    };
    json!({"description": what, "content": {kind: {"schema": schemas.message(&rule.rpc.output())}}})
}

fn idempotency_key() -> Value {
    json!({
        "in": "header",
        "name": "Idempotency-Key",
        "required": false,
        "description": "Of the caller's choice: the same call with the same key, within 24 h, is made once and has the \
                        same answer; another call with it is refused.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    })
}

/// The variables of the path, then what may follow as `?name=value`.
fn parameters(rule: &Rule, schemas: &mut Schemas) -> Vec<Value> {
    let input = rule.rpc.input();
    let mut parameters: Vec<Value> =
        rule.variables().map(|path| path_parameter(&input, path, schemas)).collect();
    if matches!(rule.body, Body::Whole) {
        return parameters;
    }
    let body = match &rule.body {
        Body::Field(field, _) => Some(field),
        Body::None | Body::Whole => None,
    };
    let bound = |field: &FieldDescriptor| {
        body == Some(field)
            || rule.variables().any(|path| path.first().is_some_and(|name| name == field.name()))
    };
    for field in input.fields().filter(|field| !bound(field) && !field.is_map()) {
        if matches!(field.kind(), Kind::Message(kind) if !schema::is_well_known(&kind)) {
            continue;
        }
        parameters.push(parameter("query", field.json_name(), &field, false, schemas));
    }
    parameters
}

fn path_parameter(input: &MessageDescriptor, path: &[String], schemas: &mut Schemas) -> Value {
    let name = path.join(".");
    let mut message = Some(input.clone());
    let mut found = None;
    for part in path {
        found = message.as_ref().and_then(|message| message.get_field_by_name(part));
        message = found.as_ref().and_then(|field| field.kind().as_message().cloned());
    }
    match found {
        Some(field) => parameter("path", &name, &field, true, schemas),
        None => json!({"in": "path", "name": name, "required": true, "schema": {"type": "string"}}),
    }
}

fn parameter(
    place: &str,
    name: &str,
    field: &FieldDescriptor,
    required: bool,
    schemas: &mut Schemas,
) -> Value {
    json!({
        "in": place,
        "name": name,
        "required": required,
        "description": schema::comment(&field.parent_message().parent_file(), field.path()),
        "schema": schemas.field_type(field),
    })
}

fn first_sentence(comment: &str) -> &str {
    match comment.find(". ") {
        Some(end) => &comment[..=end],
        None => comment,
    }
}

/// What every error looks like; see [`crate::transcode`].
fn problem() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    json!({
        "type": "object",
        "description": "What went wrong (RFC 9457).",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": text("urn:escapement:problem: and the kind, for example invalid or not-found."),
            "title": text("The kind, for people."),
            "status": {"type": "integer", "description": "The HTTP status."},
            "detail": text("What went wrong here."),
            "errors": {
                "type": "array",
                "description": "Every wrong field.",
                "items": {
                    "type": "object",
                    "required": ["field", "message"],
                    "properties": {
                        "field": text("Its path: misfire.grace."),
                        "message": text("What is wrong and what would be right."),
                    },
                },
            },
        },
    })
}

#[cfg(test)]
mod tests;
