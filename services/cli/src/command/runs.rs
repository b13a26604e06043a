//! `escapement runs JOB`.

use crate::arguments::{Output, Runs};
use crate::client::{Client, encode};
use crate::table;
use serde_json::Value;

pub async fn run(client: &Client, runs: &Runs, output: Output) -> anyhow::Result<()> {
    let states = if runs.planned { "&states=PLANNED" } else { "" };
    let path = format!("/v1/jobs/{}/runs?pageSize={}{states}", encode(&runs.job), runs.limit);
    let answer = client.get(&path).await?;
    match output {
        Output::Json => table::print_json(&answer),
        Output::Table => print_table(answer["runs"].as_array().map_or(&[], Vec::as_slice)),
    }
    Ok(())
}

fn print_table(runs: &[Value]) {
    let row = |run: &Value| {
        vec![
            table::second(&run["scheduledFor"]),
            outcome(run),
            lateness(run),
            table::text(&run["attempt"]),
            table::text(&run["token"]),
            table::text(&run["worker"]),
            table::text(&run["origin"]),
        ]
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    table::print(&["SCHEDULED (UTC)", "STATE", "LATE", "ATTEMPT", "TOKEN", "WORKER", "ORIGIN"], &rows);
}

/// The state in lower case, with its reason and exit status where there is one.
pub fn outcome(run: &Value) -> String {
    let state = table::text(&run["state"]).to_lowercase();
    let reason = table::text(&run["reason"]).to_lowercase();
    let exit =
        run["exitStatus"].as_i64().filter(|status| *status != 0).map(|status| format!("exit {status}"));
    let details: Vec<String> = [(reason != "-").then_some(reason), exit].into_iter().flatten().collect();
    if details.is_empty() { state } else { format!("{state} ({})", details.join(", ")) }
}

/// Milliseconds from due to acceptance.
pub fn lateness(run: &Value) -> String {
    match &run["latenessMs"] {
        Value::String(text) => format!("{text} ms"),
        Value::Number(number) => format!("{number} ms"),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn outcomes_name_reason_and_exit_status() {
        let run = json!({"state": "FAILED", "reason": "WORK_FAILED", "exitStatus": 3});
        assert_eq!(outcome(&run), "failed (work_failed, exit 3)");
        assert_eq!(outcome(&json!({"state": "SUCCEEDED", "reason": "", "exitStatus": 0})), "succeeded");
    }
}
