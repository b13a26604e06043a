//! `escapement runs JOB`, or of all jobs.

use crate::arguments::{Output, Runs};
use crate::client::{Client, encode};
use crate::command::watch;
use crate::table;
use serde_json::Value;

pub async fn run(client: &Client, runs: &Runs, output: Output) -> anyhow::Result<()> {
    if runs.watch {
        return watch::run(client, runs, output).await;
    }
    let answer = client.get(&path(runs)).await?;
    match output {
        Output::Json => table::print_json(&answer),
        Output::Table => {
            print_table(answer["runs"].as_array().map_or(&[], Vec::as_slice), runs.job.is_none());
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

fn print_table(runs: &[Value], named: bool) {
    let row = |run: &Value| {
        let first = named.then(|| table::text(&run["jobName"]));
        let rest = [
            table::second(&run["scheduledFor"]),
            outcome(run),
            lateness(run),
            table::text(&run["attempt"]),
            table::text(&run["token"]),
            table::text(&run["worker"]),
            table::text(&run["origin"]),
        ];
        first.into_iter().chain(rest).collect()
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    let headings = ["JOB", "SCHEDULED (UTC)", "STATE", "LATE", "ATTEMPT", "TOKEN", "WORKER", "ORIGIN"];
    table::print(if named { &headings } else { &headings[1..] }, &rows);
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
