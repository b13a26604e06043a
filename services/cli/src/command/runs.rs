//! `escapement runs JOB`, or of all jobs.

use crate::arguments::{Output, Runs};
use crate::client::{Client, encode};
use crate::command::watch;
use crate::table;
use serde_json::Value;

/// Characters of an error that fit beside the other columns.
const ERROR_SHOWN: usize = 60;
/// How the agent says that an HTTP call was answered, and not as expected.
const ANSWERED: &str = "the answer ";

pub async fn run(client: &Client, runs: &Runs, output: Output) -> anyhow::Result<()> {
    if runs.watch {
        return watch::run(client, runs, output).await;
    }
    let answer = client.get(&path(runs)).await?;
    match output {
        Output::Json => table::print_json(&answer),
        Output::Table => {
            print_table(answer["runs"].as_array().map_or(&[], Vec::as_slice));
        }
    }
    Ok(())
}

fn path(runs: &Runs) -> String {
    let mut path = match &runs.job {
        Some(job) => format!("/v1/jobs/{}/runs", encode(job)),
        None => "/v1/runs".to_owned(),
    };
    path.push_str(&format!("?pageSize={}{}", runs.limit, states(runs)));
    for origin in &runs.origin {
        path.push_str(&format!("&origins={}", encode(&origin.to_uppercase())));
    }
    for (name, instant) in [("from", runs.since), ("to", runs.until)] {
        if let Some(instant) = instant {
            let text = instant.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
            path.push_str(&format!("&{name}={}", encode(&text)));
        }
    }
    path
}

/// The states that are asked for, as the end of a query.
pub fn states(runs: &Runs) -> String {
    if runs.planned {
        return "&states=PLANNED".to_owned();
    }
    runs.state.iter().map(|state| format!("&states={}", encode(&state.to_uppercase()))).collect()
}

fn print_table(runs: &[Value]) {
    let row = |run: &Value| {
        vec![
            table::text(&run["name"]),
            outcome(run),
            lateness(run),
            table::text(&run["attempt"]),
            table::text(&run["token"]),
            table::text(&run["worker"]),
            table::text(&run["origin"]),
            error(run, ERROR_SHOWN),
        ]
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    table::print(&["RUN", "STATE", "LATE", "ATTEMPT", "TOKEN", "WORKER", "ORIGIN", "ERROR"], &rows);
}

/// The state in lower case, with its reason and exit status where there is one.
pub fn outcome(run: &Value) -> String {
    let state = table::text(&run["state"]).to_lowercase();
    let reason = table::text(&run["reason"]).to_lowercase();
    let status = run["exitStatus"].as_i64().filter(|status| *status != 0);
    let kind = if is_answered(run) { "HTTP" } else { "exit" };
    let status = status.map(|status| format!("{kind} {status}"));
    let details: Vec<String> = [(reason != "-").then_some(reason), status].into_iter().flatten().collect();
    if details.is_empty() { state } else { format!("{state} ({})", details.join(", ")) }
}

/// True when the status is an HTTP answer's: no process succeeds with one.
fn is_answered(run: &Value) -> bool {
    run["state"] == "SUCCEEDED" || run["error"].as_str().is_some_and(|error| error.starts_with(ANSWERED))
}

/// What the last attempt said about its failure beyond its status, on one line of `most` characters, or a dash.
pub fn error(run: &Value, most: usize) -> String {
    let said = run["error"].as_str().unwrap_or("");
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        _ if line.is_empty() || line == format!("exit status {}", run["exitStatus"]) => "-".to_owned(),
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
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

    #[test]
    fn the_status_of_an_answer_is_told_from_a_process_s() {
        let error = "the answer was 500 Internal Server Error";
        let run = json!({"state": "FAILED", "reason": "WORK_FAILED", "exitStatus": 500, "error": error});
        assert_eq!(outcome(&run), "failed (work_failed, HTTP 500)");
        assert_eq!(outcome(&json!({"state": "SUCCEEDED", "exitStatus": 204})), "succeeded (HTTP 204)");
    }

    #[test]
    fn an_error_is_one_line_that_fits() {
        assert_eq!(error(&json!({"error": "no answer:\n  dns error"}), 60), "no answer: dns error");
        assert_eq!(error(&json!({"error": "ünreachable"}), 3), "ünr…");
        assert_eq!(error(&json!({"error": ""}), 3), "-");
        assert_eq!(error(&json!({"error": "exit status 3", "exitStatus": 3}), 60), "-", "its state says so");
    }
}
