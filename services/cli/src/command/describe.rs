//! `escapement describe job NAME`: all that there is to know of one, on a page.

use crate::arguments::{Describe, Kind, Output};
use crate::client::{Client, encode};
use crate::command::runs::{lateness, outcome};
use crate::document;
use crate::table::{self, say};
use serde_json::{Value, json};

/// Runs, revisions and coming occurrences that are shown.
const SHOWN: usize = 5;

pub async fn run(client: &Client, describe: &Describe, output: Output) -> anyhow::Result<()> {
    let name = encode(&describe.name);
    let collection = describe.kind.collection();
    let item = client.get(&format!("/v1/{collection}/{name}")).await?;
    if describe.kind != Kind::Jobs {
        match output {
            Output::Json => table::print_json(&item),
            Output::Table => print_fields(&item),
        }
        return Ok(());
    }
    let runs = client.get(&format!("/v1/jobs/{name}/runs?pageSize={SHOWN}")).await?;
    let revisions = client.get(&format!("/v1/jobs/{name}/revisions?pageSize={SHOWN}")).await?;
    let coming = if item["broken"] == "" {
        client.post("/v1/schedule:preview", &json!({ "job": describe.name, "count": SHOWN })).await?
    } else {
        Value::Null
    };
    match output {
        Output::Json => {
            let whole = json!({
                "job": item, "runs": runs["runs"], "revisions": revisions["revisions"], "coming": coming["occurrences"],
            });
            table::print_json_of(&table::text(&item["name"]), &whole);
        }
        Output::Table => {
            print_fields(&item);
            print_coming(&coming, item["paused"] == true);
            print_runs(&runs);
            print_revisions(&revisions);
        }
    }
    Ok(())
}

fn print_fields(item: &Value) {
    for (field, value) in fields(item) {
        say!("{field:24} {value}");
    }
}

/// Every field that has a value, nested ones by their path.
fn fields(item: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    gather(String::new(), item, &mut found);
    found
}

fn gather(path: String, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                gather(path, value, found);
            }
        }
        Value::Array(elements) if elements.is_empty() => {}
        Value::Array(elements) => {
            let texts: Vec<_> = elements
                .iter()
                .map(|element| element.as_str().map_or_else(|| element.to_string(), str::to_owned))
                .collect();
            found.push((path, texts.join(", ")));
        }
        Value::Null => {}
        Value::String(text) if text.is_empty() => {}
        leaf => {
            let text = document::written(&path, &table::text(leaf));
            found.push((path, text));
        }
    }
}

fn print_coming(coming: &Value, paused: bool) {
    let Some(occurrences) = coming["occurrences"].as_array() else { return };
    say!("\nnext occurrences{}:", if paused { ", were it not paused" } else { "" });
    for occurrence in occurrences {
        let note = occurrence["note"].as_str().filter(|note| !note.is_empty());
        let note = note.map(|note| format!("  {note}")).unwrap_or_default();
        say!("  {}{note}", table::text(&occurrence["local"]));
    }
}

fn print_runs(runs: &Value) {
    say!("\nlatest runs:");
    let row = |run: &Value| {
        vec![
            format!("  {}", table::exact(&run["scheduledFor"])),
            outcome(run),
            lateness(run),
            table::text(&run["attempt"]),
        ]
    };
    let rows: Vec<_> = runs["runs"].as_array().into_iter().flatten().map(row).collect();
    table::print(&["  SCHEDULED (UTC)", "STATE", "LATE", "ATTEMPT"], &rows);
}

fn print_revisions(revisions: &Value) {
    say!("\nlatest revisions:");
    let row = |revision: &Value| {
        let changes = revision["changes"].as_array().into_iter().flatten();
        let fields: Vec<_> = changes.map(|change| table::text(&change["field"])).collect();
        vec![
            format!("  {}", table::text(&revision["generation"])),
            table::second(&revision["inForceFrom"]),
            table::text(&revision["action"]).to_lowercase(),
            table::text(&revision["author"]),
            fields.join(", "),
        ]
    };
    let rows: Vec<_> = revisions["revisions"].as_array().into_iter().flatten().map(row).collect();
    table::print(&["  GENERATION", "SINCE (UTC)", "ACTION", "BY", "CHANGED"], &rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_have_a_value_are_shown_by_their_path() {
        let job = json!({ "name": "a", "broken": "", "alert": { "channels": ["x", "y"], "disabled": false },
                          "labels": {}, "maxRuntime": "5400s", "priority": 0, "startsAt": null });
        let shown: Vec<_> =
            fields(&job).into_iter().map(|(field, value)| format!("{field}={value}")).collect();
        assert_eq!(
            shown,
            ["alert.channels=x, y", "alert.disabled=false", "maxRuntime=1h30m", "name=a", "priority=0"]
        );
    }
}
