//! Messages and enums as JSON Schema, with the contract's comments.

use prost_reflect::{FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The schemas that something refers to.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    written: BTreeMap<String, Value>,
}

impl Schemas {
    /// A reference to the message's schema, which is written once with all that it refers to.
    pub(super) fn message(&mut self, kind: &MessageDescriptor) -> Value {
        if let Some(schema) = well_known(kind) {
            return schema;
        }
        let name = short_name(kind.full_name(), kind.package_name());
        if !self.written.contains_key(&name) {
            // Holds the place, so that a message that contains itself ends.
            self.written.insert(name.clone(), Value::Null);
            let schema = self.object(kind);
            self.written.insert(name.clone(), schema);
        }
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    /// The schema of a field's value, a list or map included.
    pub(super) fn field_type(&mut self, field: &FieldDescriptor) -> Value {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => {
                json!({"type": "object", "additionalProperties": self.kind(&entry.map_entry_value_field().kind())})
            }
            kind if field.is_list() => json!({"type": "array", "items": self.kind(&kind)}),
            kind => self.kind(&kind),
        }
    }

    /// Every schema that was referred to, by name.
    pub(super) fn finish(self) -> Map<String, Value> {
        self.written.into_iter().collect()
    }

    fn object(&mut self, kind: &MessageDescriptor) -> Value {
        let file = kind.parent_file();
        let mut properties = Map::new();
        for field in kind.fields() {
            let comment = comment(&file, field.path());
            let mut property = self.field_type(&field);
            // JSON Schema of OpenAPI 3.1 allows keywords beside `$ref`.
            if is_output_only(&field) {
                property["readOnly"] = true.into();
            }
            if comment.contains("Input only") {
                property["writeOnly"] = true.into();
            }
            if !comment.is_empty() {
                property["description"] = comment.into();
            }
            properties.insert(field.json_name().to_owned(), property);
        }
        let mut schema = json!({"type": "object", "additionalProperties": false, "properties": properties});
        let described = comment(&file, kind.path());
        if !described.is_empty() {
            schema["description"] = described.into();
        }
        for oneof in kind.oneofs().filter(|oneof| !oneof.is_synthetic() && oneof.fields().count() > 1) {
            let given: Vec<Value> =
                oneof.fields().map(|field| json!({"required": [field.json_name()]})).collect();
            let none = json!({"not": {"anyOf": given.clone()}});
            schema["oneOf"] = given.into_iter().chain([none]).collect();
        }
        schema
    }

    fn kind(&mut self, kind: &Kind) -> Value {
        match kind {
            Kind::Double | Kind::Float => json!({"type": "number"}),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!({"type": "integer", "format": "int32"}),
            Kind::Uint32 | Kind::Fixed32 => json!({"type": "integer", "minimum": 0}),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => json!({"type": "string", "format": "int64"}),
            Kind::Uint64 | Kind::Fixed64 => json!({"type": "string", "format": "uint64"}),
            Kind::Bool => json!({"type": "boolean"}),
            Kind::String => json!({"type": "string"}),
            Kind::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
            Kind::Enum(kind) => {
                let names: Vec<String> = kind.values().map(|value| value.name().to_owned()).collect();
                json!({"type": "string", "enum": names})
            }
            Kind::Message(kind) => self.message(kind),
        }
    }
}

/// True for a field that only answers have: its comment begins so.
pub(crate) fn is_output_only(field: &FieldDescriptor) -> bool {
    comment(&field.parent_file(), field.path()).starts_with("Output only")
}

/// The comment in front of what `path` names, as one line.
pub(super) fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let info = file.file_descriptor_proto().source_code_info.as_ref();
    let location = info.and_then(|info| info.location.iter().find(|location| location.path == path));
    let text = location.map(|location| location.leading_comments()).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// True for messages that are written as something else than an object of their fields.
pub(super) fn is_well_known(kind: &MessageDescriptor) -> bool {
    well_known(kind).is_some()
}

fn well_known(kind: &MessageDescriptor) -> Option<Value> {
    match kind.full_name() {
        "google.protobuf.Duration" => {
            Some(json!({"type": "string", "pattern": r"^[0-9]+(\.[0-9]{1,3})?s$", "examples": ["90s"]}))
        }
        "google.protobuf.Timestamp" => Some(json!({"type": "string", "format": "date-time"})),
        "google.protobuf.Empty" => Some(json!({"type": "object", "maxProperties": 0})),
        _ => None,
    }
}

/// `JobRun` for `escapement.v1.JobRun`.
fn short_name(full: &str, package: &str) -> String {
    full.strip_prefix(package).unwrap_or(full).trim_start_matches('.').to_owned()
}
