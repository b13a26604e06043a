//! `escapement checkins create|update|list|get|delete|pause|resume|rotate`.

use crate::arguments::{CheckInAction, CheckInDefinition, CheckIns, Output};
use crate::client::{Client, encode};
use crate::document;
use crate::table::{self, say};
use serde_json::{Map, Value, json};

pub async fn run(client: &Client, check_ins: &CheckIns, output: Output) -> anyhow::Result<()> {
    let path = |name: &str| format!("/v1/check-ins/{}", encode(name));
    let found = match &check_ins.action {
        CheckInAction::Create(written) => client.post("/v1/check-ins", &body(written)).await?,
        CheckInAction::Update(written) => client.put(&path(&written.name), &body(written)).await?,
        CheckInAction::List => {
            let found = client.list("/v1/check-ins", "checkIns").await?;
            match output {
                Output::Json => table::print_json(&json!({ "checkIns": found })),
                Output::Table => print_table(&found),
            }
            return Ok(());
        }
        CheckInAction::Get(named) => client.get(&path(&named.name)).await?,
        CheckInAction::Delete(named) => {
            let answer = client.delete(&path(&named.name)).await?;
            match output {
                Output::Json => table::print_json_of(&named.name, &answer),
                Output::Table => say!("check-in {} is deleted", named.name),
            }
            return Ok(());
        }
        CheckInAction::Pause(named) => {
            client.post(&format!("{}:pause", path(&named.name)), &json!({})).await?
        }
        CheckInAction::Resume(named) => {
            client.post(&format!("{}:resume", path(&named.name)), &json!({})).await?
        }
        CheckInAction::Rotate(named) => {
            client.post(&format!("{}:rotate", path(&named.name)), &json!({})).await?
        }
    };
    match output {
        Output::Json => table::print_json(&found),
        Output::Table => print_one(client, &found),
    }
    Ok(())
}

fn body(written: &CheckInDefinition) -> Value {
    let mut body = Map::new();
    body.insert("name".to_owned(), json!(written.name));
    let given = [
        ("schedule", &written.schedule),
        ("timezone", &written.timezone),
        ("period", &written.period),
        ("grace", &written.grace),
        ("maxRuntime", &written.max_runtime),
    ];
    let given = given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?))));
    body.extend(given);
    if !written.channels.is_empty() {
        body.insert("channels".to_owned(), json!(written.channels));
    }
    Value::Object(body)
}

pub fn print_table(check_ins: &[Value]) {
    let row = |one: &Value| {
        let state = match (&one["paused"], &one["missing"]) {
            (Value::Bool(true), _) => "paused",
            (_, Value::Bool(true)) => "missing",
            _ => "ok",
        };
        let expected = match table::text(&one["schedule"]).as_str() {
            "-" => format!("every {}", duration(one, "period")),
            schedule => schedule.to_owned(),
        };
        vec![
            table::text(&one["name"]),
            expected,
            duration(one, "grace"),
            table::second(&one["lastSuccessTime"]),
            table::second(&one["nextDeadline"]),
            state.to_owned(),
        ]
    };
    let rows: Vec<_> = check_ins.iter().map(row).collect();
    table::print(&["CHECK-IN", "EXPECTED", "GRACE", "LAST SUCCESS (UTC)", "DEADLINE (UTC)", "STATE"], &rows);
}

/// A duration of a check-in as it is written in files, or a dash.
fn duration(one: &Value, field: &str) -> String {
    document::written(field, &table::text(&one[field]))
}

/// A check-in as a table, with its address while that is known, and its newest reports.
pub fn print_one(client: &Client, found: &Value) {
    print_table(std::slice::from_ref(found));
    if let Some(path) = found["path"].as_str().filter(|path| !path.is_empty()) {
        say!("");
        say!("Report each success; the token in this address is shown only now:");
        say!("  curl -fsS -X POST {}{path}", client.server());
        say!("A start may be reported with /start, a failure with /fail behind it.");
    }
    let reports = found["reports"].as_array().map_or(&[][..], Vec::as_slice);
    if !reports.is_empty() {
        let row = |report: &Value| {
            let message = table::text(&report["message"]);
            let line = message.lines().next().unwrap_or_default().chars().take(80).collect();
            vec![table::second(&report["time"]), table::text(&report["kind"]).to_lowercase(), line]
        };
        let rows: Vec<_> = reports.iter().map(row).collect();
        table::print(&["REPORTED (UTC)", "WHAT", "MESSAGE"], &rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_typed_is_sent() {
        let written = CheckInDefinition {
            name: "backup".to_owned(),
            schedule: None,
            timezone: None,
            period: Some("60s".to_owned()),
            grace: None,
            max_runtime: None,
            channels: vec!["oncall".to_owned()],
        };
        assert_eq!(body(&written), json!({"name": "backup", "period": "60s", "channels": ["oncall"]}));
    }
}
