//! `escapement rerun JOB@TIME` and `escapement cancel JOB@TIME`.

use super::runs::outcome;
use crate::arguments::{Cancel, Output, Rerun, RunName};
use crate::client::{Client, encode};
use crate::table::{self, say};
use serde_json::{Value, json};

pub async fn rerun(client: &Client, rerun: &Rerun, output: Output) -> anyhow::Result<()> {
    let key = rerun.repeat.idempotency_key.as_deref();
    let run = client.post_once(&path(&rerun.run, "rerun"), &json!({}), key).await?;
    match output {
        Output::Json => table::print_json(&run),
        Output::Table => {
            let attempt = run["attempt"].as_i64().unwrap_or(0) + 1;
            say!("{} waits for attempt {attempt}", table::text(&run["name"]));
        }
    }
    Ok(())
}

pub async fn cancel(client: &Client, cancel: &Cancel, output: Output) -> anyhow::Result<()> {
    let run = client.post(&path(&cancel.run, "cancel"), &json!({})).await?;
    match output {
        Output::Json => table::print_json(&run),
        Output::Table => say!("{} {}", table::text(&run["name"]), cancelled(&run)),
    }
    Ok(())
}

fn path(run: &RunName, action: &str) -> String {
    format!("/v1/jobs/{}/runs/{}:{action}", encode(&run.job), encode(&run.time))
}

fn cancelled(run: &Value) -> String {
    if run["finishTime"].is_string() { outcome(run) } else { "is asked to stop".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_a_worker_has_is_asked_to_stop() {
        assert_eq!(cancelled(&json!({ "state": "RUNNING" })), "is asked to stop");
        let ended =
            json!({ "state": "CANCELLED", "reason": "REQUESTED", "finishTime": "2026-11-29T09:00:00Z" });
        assert_eq!(cancelled(&ended), "cancelled (requested)");
    }
}
