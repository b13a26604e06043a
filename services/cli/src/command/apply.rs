//! `escapement apply -f FILE` and `diff -f FILE`: all documents of all files in one request, stored all or none.

use crate::arguments::{Apply, Diff, Output, Set};
use crate::client::Client;
use crate::command::coming;
use crate::document::{Documents, Found};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::table::say;
use crate::{document, number, table};
use serde_json::{Value, json};
use std::time::Duration;

/// How long the author of documents that are wrong anyway waits for what else is wrong with them.
const BESIDE_LIMIT: Duration = Duration::from_secs(5);

pub async fn run(client: &Client, apply: &Apply, output: Output) -> anyhow::Result<()> {
    show(&send(client, &apply.set, apply.dry_run).await?, output);
    Ok(())
}

/// Stores what is there as documents already.
pub async fn store(client: &Client, request: &Value, output: Output) -> anyhow::Result<()> {
    show(&post(client, request).await?, output);
    Ok(())
}

/// As a dry run, and only what differs.
pub async fn diff(client: &Client, diff: &Diff, output: Output) -> anyhow::Result<()> {
    let mut answer = send(client, &diff.set, true).await?;
    if let Some(results) = answer["results"].as_array_mut() {
        results.retain(|result| result["change"] != "UNCHANGED");
    }
    show(&answer, output);
    Ok(())
}

fn show(answer: &Value, output: Output) {
    match output {
        Output::Json => table::print_json(answer),
        Output::Table => print(answer),
    }
}

async fn send(client: &Client, set: &Set, dry_run: bool) -> anyhow::Result<Value> {
    let documents = Documents::of_files(&set.files)?;
    if !documents.is_sound() {
        return Err(documents.refused(wrong_beside(client, &documents).await).into());
    }
    let mut request = documents.request().clone();
    if set.prune {
        request["prune"] = json!({ "labels": set.selector });
    }
    if dry_run {
        request["dryRun"] = json!(true);
    }
    post(client, &request).await.map_err(|error| match error.downcast() {
        Ok(Failure::Refused { status, head, wrong, next }) => {
            Failure::Refused { status, head, wrong: documents.stood(wrong), next }.into()
        }
        Ok(other) => other.into(),
        Err(error) => error,
    })
}

/// What the registry finds wrong with documents that are not to be stored. It is not asked before all can be read.
pub async fn wrong_beside(client: &Client, documents: &Documents) -> Found {
    if !documents.is_whole() {
        return Found::default();
    }
    let mut request = documents.request().clone();
    request["dryRun"] = json!(true);
    let _progress = Progress::waiting("looking for what else is wrong".to_owned());
    let answer = tokio::time::timeout(BESIDE_LIMIT, client.post("/v1/apply", &request)).await;
    found(answer.unwrap_or_else(|late| Err(late.into())))
}

/// What the answer to a dry run says to be wrong; where it is no judgement of the documents, that it is none.
fn found(answer: anyhow::Result<Value>) -> Found {
    let Err(error) = answer else { return Found::default() };
    match error.downcast() {
        Ok(Failure::Refused { status: 400 | 409 | 412 | 422, wrong, .. }) => {
            Found { wrong, next: Vec::new() }
        }
        _ => Found {
            wrong: Vec::new(),
            next: vec!["the registry could not be asked what else is wrong".to_owned()],
        },
    }
}

/// All in one call: how far it is nobody knows, only how much it is.
async fn post(client: &Client, request: &Value) -> anyhow::Result<Value> {
    let _progress = Progress::waiting(doing(request));
    client.post("/v1/apply", request).await
}

fn doing(request: &Value) -> String {
    let kinds = request.as_object().into_iter().flat_map(serde_json::Map::values);
    let count = kinds.filter_map(Value::as_array).map(Vec::len).sum::<usize>();
    let what = if request["dryRun"] == true { "looking at what would change by" } else { "applying" };
    let definitions = if count == 1 { "definition" } else { "definitions" };
    format!("{what} {} {definitions}", number::grouped(count as u64))
}

fn print(answer: &Value) {
    let results = answer["results"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let dry = answer["dryRun"] == true;
    for result in results {
        say!("{}", line(result, dry));
        for change in result["changes"].as_array().into_iter().flatten() {
            say!("  {}", field(change));
        }
    }
    if results.iter().all(|result| result["change"] == "UNCHANGED") {
        say!("nothing {}", if dry { "would change" } else { "changed" });
    }
    if dry {
        coming::print(&answer["coming"]);
    }
}

fn line(result: &Value, dry: bool) -> String {
    let change = table::text(&result["change"]).to_lowercase();
    let change = match change.as_str() {
        "unchanged" => change,
        _ if dry => format!("would be {change}"),
        _ => change,
    };
    format!("{} {} {change}", table::text(&result["kind"]).to_lowercase(), table::text(&result["name"]))
}

/// `schedule: 0 9 * * * → 0 10 * * *`
fn field(change: &Value) -> String {
    let field = table::text(&change["field"]);
    let value = |side: &str| match change[side].as_str() {
        None => "(none)".to_owned(),
        Some("") => "\"\"".to_owned(),
        Some(text) => document::written(&field, text),
    };
    format!("{field}: {} → {}", value("before"), value("after"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrong::WrongField;

    #[test]
    fn who_could_not_ask_the_registry_what_else_is_wrong_is_told_so() {
        let of = |status| {
            let wrong = vec![WrongField { field: "jobs[0].schedule".to_owned(), message: "x".to_owned() }];
            let found = found(Err(Failure::Refused { status, head: None, wrong, next: Vec::new() }.into()));
            (found.wrong.len(), found.next.len())
        };
        assert_eq!([400, 409, 412, 422].map(of), [(1, 0); 4]);
        assert_eq!([401, 403, 404, 429, 500, 503].map(of), [(0, 1); 6]);
        assert_eq!(found(Err(anyhow::anyhow!("reading the answer"))).next.len(), 1);
        assert_eq!(found(Ok(json!({}))).next.len(), 0);
    }

    #[test]
    fn what_is_done_is_said_with_how_much_it_is() {
        let mut request =
            json!({ "jobs": vec![json!({}); 9_999], "calendars": [{}], "prune": { "labels": ["a"] } });
        assert_eq!(doing(&request), "applying 10,000 definitions");
        request["dryRun"] = json!(true);
        assert_eq!(doing(&request), "looking at what would change by 10,000 definitions");
    }

    #[test]
    fn a_dry_run_says_would() {
        let result = json!({ "kind": "Job", "name": "a", "change": "CREATED" });
        assert_eq!(line(&result, false), "job a created");
        assert_eq!(line(&result, true), "job a would be created");
        let same = json!({ "kind": "Job", "name": "a", "change": "UNCHANGED" });
        assert_eq!(line(&same, true), "job a unchanged");
    }

    #[test]
    fn a_field_is_shown_with_both_values() {
        let change = json!({ "field": "labels.team", "after": "mail" });
        assert_eq!(field(&change), "labels.team: (none) → mail");
        assert_eq!(field(&json!({ "field": "queue", "before": "a", "after": "" })), "queue: a → \"\"");
        let longer = json!({ "field": "retry.backoff", "before": "90s", "after": "5400s" });
        assert_eq!(field(&longer), "retry.backoff: 1m30s → 1h30m");
    }
}
