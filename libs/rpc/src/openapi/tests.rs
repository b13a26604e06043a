use super::*;
use std::collections::BTreeSet;

fn written() -> Value {
    document(4_711).expect("every rule can be served")
}

/// Every value of the member `name`, anywhere.
fn members<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                if key == name {
                    found.push(value);
                }
                members(value, name, found);
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| members(element, name, found)),
        _ => {}
    }
}

fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let each = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods");
        methods.iter().map(move |(method, operation)| (method.clone(), path.clone(), operation))
    });
    each.collect()
}

#[test]
fn every_method_with_a_rule_is_an_operation() {
    let document = written();
    let operations: BTreeSet<String> = operations(&document)
        .into_iter()
        .map(|(method, path, operation)| {
            format!("{method} {path} {}", operation["operationId"].as_str().unwrap_or(""))
        })
        .collect();
    let rules = rules(crate::descriptors()).expect("every rule can be served");
    let streams = streams(crate::descriptors()).expect("every stream is there");
    let expected: BTreeSet<String> = rules
        .iter()
        .chain(&streams)
        .map(|rule| format!("{} {} {}", rule.method.as_str().to_lowercase(), rule.pattern, rule.rpc.name()))
        .collect();
    assert_eq!(operations, expected);
    assert!(operations.contains("post /v1/jobs CreateJob"));
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_referred_to() {
    let document = written();
    let mut references = Vec::new();
    members(&document, "$ref", &mut references);
    let named: BTreeSet<&str> = references
        .iter()
        .filter_map(|reference| reference.as_str()?.strip_prefix("#/components/schemas/"))
        .collect();
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    assert_eq!(named, schemas.keys().map(String::as_str).collect());
    assert!(schemas.values().all(Value::is_object));
}

#[test]
fn every_variable_of_a_path_is_a_parameter_and_none_is_there_twice() {
    let document = written();
    for (method, path, operation) in operations(&document) {
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = parameters.iter().filter_map(|parameter| parameter["name"].as_str()).collect();
        let in_path: BTreeSet<&str> = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "path" && parameter["required"] == true)
            .filter_map(|parameter| parameter["name"].as_str())
            .collect();
        let variables: BTreeSet<&str> = path.split(['{', '}']).skip(1).step_by(2).collect();
        assert_eq!(in_path, variables, "{method} {path}");
        assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len(), "{method} {path}");
    }
}

#[test]
fn comments_of_the_contract_are_the_descriptions() {
    let document = written();
    let create = &document["paths"]["/v1/jobs"]["post"];
    assert_eq!(create["summary"], "Stores a new job.");
    assert_eq!(create["tags"], json!(["Job"]));
    let job = &document["components"]["schemas"]["Job"]["properties"];
    assert_eq!(job["timezone"]["description"], "IANA name, for example Europe/Berlin; UTC when empty.");
    assert_eq!(job["generation"]["readOnly"], true);
    assert_eq!(document["components"]["schemas"]["Webhook"]["properties"]["secret"]["writeOnly"], true);
}

#[test]
fn messages_look_as_the_gateway_writes_them() {
    let schemas = written()["components"]["schemas"].clone();
    let duration = json!({"type": "string", "pattern": r"^[0-9]+(\.[0-9]{1,3})?s$", "examples": ["90s"]});
    let described = |mut schema: Value, text: &str| {
        schema["description"] = text.into();
        schema
    };
    assert_eq!(
        schemas["Retry"],
        json!({
            "type": "object",
            "additionalProperties": false,
            "description": "What becomes of attempts that fail or are lost.",
            "properties": {
                "maxAttempts": {
                    "type": "integer", "format": "int32",
                    "description": "Attempts that may end failed or timed out; 1 when unset.",
                },
                "backoff": described(
                    duration.clone(),
                    "Before the second attempt, doubled for each further one; 10 s when unset."
                ),
                "backoffMax": described(duration, "The longest wait; 10 min when unset."),
                "maxLost": {
                    "type": "integer", "format": "int32",
                    "description": "The loss of a worker that ends the run; 3 when unset.",
                },
                "jitterPercent": {
                    "type": "integer", "format": "int32",
                    "description": "Each wait is shortened by up to this share of it, so that what failed together is not tried together; 0 is none, 10 when unset.",
                },
                "outcomes": {
                    "type": "array",
                    "items": {
                        "type": "string",
                        "enum": ["UNSPECIFIED", "FAILED", "NOT_STARTED", "TIMED_OUT", "LOST"],
                    },
                    "description": "The ends that another attempt follows, as long as one is left; all of them when empty.",
                },
                "finalStatuses": {
                    "type": "array",
                    "items": {"type": "integer", "format": "int32"},
                    "description": "Exit statuses of a process, or statuses of an HTTP answer, with which a failure ends the run at once.",
                },
            },
        })
    );
    let job = &schemas["Job"]["properties"];
    assert_eq!(job["overlap"]["enum"], json!(["UNSPECIFIED", "FORBID", "ALLOW", "QUEUE", "REPLACE"]));
    assert_eq!(job["labels"]["additionalProperties"], json!({"type": "string"}));
    assert_eq!(
        (&job["generation"]["type"], &job["generation"]["format"]),
        (&json!("string"), &json!("int64"))
    );
    assert_eq!(job["run"]["$ref"], "#/components/schemas/Run");
    assert_eq!(schemas["Run"]["oneOf"].as_array().map(Vec::len), Some(4));
}

#[test]
fn streams_are_events_with_their_parameters() {
    let document = written();
    let output = &document["paths"]["/v1/jobs/{job}/runs/{scheduled_for}/output"]["get"];
    assert_eq!(
        output["responses"]["200"]["content"],
        json!({"text/event-stream": {"schema": {"$ref": "#/components/schemas/WatchOutputResponse"}}})
    );
    let names = |operation: &Value| -> Vec<String> {
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        parameters.iter().filter_map(|parameter| parameter["name"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(names(output), ["job", "scheduled_for", "once"]);
    assert_eq!(names(&document["paths"]["/v1/runs:watch"]["get"]), ["job", "states", "resumeToken"]);
}

#[test]
fn calls_that_may_be_repeated_have_the_header_for_it() {
    let document = written();
    let has_key = |operation: &Value| {
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        parameters
            .iter()
            .any(|parameter| parameter["in"] == "header" && parameter["name"] == "Idempotency-Key")
    };
    let with_key: Vec<&str> = operations(&document)
        .into_iter()
        .filter(|(_, _, operation)| has_key(operation))
        .filter_map(|(_, _, operation)| operation["operationId"].as_str())
        .collect();
    assert_eq!(with_key, ["RerunRun", "BackfillJob", "TriggerJob"]);
}

#[test]
fn parameters_are_what_neither_path_nor_body_gives() {
    let document = written();
    let names = |path: &str, method: &str| -> Vec<String> {
        let parameters =
            document["paths"][path][method]["parameters"].as_array().cloned().unwrap_or_default();
        parameters.iter().filter_map(|parameter| parameter["name"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(
        names("/v1/jobs/{job}/runs", "get"),
        ["job", "pageSize", "pageToken", "states", "from", "to", "origins"]
    );
    assert_eq!(names("/v1/jobs", "post"), [""; 0]);
    assert_eq!(names("/v1/jobs/{name}", "put"), ["name"]);
    assert_eq!(
        document["paths"]["/v1/jobs/{job}"]["delete"]["responses"]["200"]["content"]["application/json"]["schema"]
            ["maxProperties"],
        0
    );
}

#[test]
fn every_method_says_what_it_does() {
    let document = written();
    let silent: Vec<_> = operations(&document)
        .into_iter()
        .filter(|(_, _, operation)| operation["summary"].as_str().is_none_or(str::is_empty))
        .map(|(method, path, _)| format!("{method} {path}"))
        .collect();
    assert_eq!(silent, [""; 0]);
}
