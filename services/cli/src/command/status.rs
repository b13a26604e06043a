//! `escapement status`.

use crate::arguments::Output;
use crate::client::Client;
use crate::table::{self, say};
use serde_json::Value;

pub async fn run(client: &Client, output: Output) -> anyhow::Result<()> {
    let status = client.get("/v1/status").await?;
    match output {
        Output::Json => table::print_json(&status),
        Output::Table => print_sections(&status),
    }
    Ok(())
}

fn print_sections(status: &Value) {
    let leader = &status["ticker"]["leader"];
    match leader["name"].as_str() {
        Some(name) => say!(
            "ticker      {name} leads (pid {}, revision {}, since {})",
            table::text(&leader["pid"]),
            table::text(&leader["revision"]),
            table::second(&leader["since"]),
        ),
        None => say!("ticker      NO LEADER: nothing new is planned"),
    }
    say!(
        "planned     through {} (last cycle {})",
        table::second(&status["ticker"]["plannedThrough"]),
        table::second(&status["ticker"]["lastCycleTime"])
    );
    let lateness = &status["lateness"];
    let milliseconds =
        |name: &str| lateness[name].as_f64().map_or_else(|| "-".to_owned(), |value| format!("{value:.0} ms"));
    say!(
        "lateness    p50 {}, p99 {}, max {} over {} runs in 5 min",
        milliseconds("p50Ms"),
        milliseconds("p99Ms"),
        milliseconds("maxMs"),
        table::text(&lateness["runs"])
    );
    say!(
        "jobs        {} defined, {} alerts open",
        table::text(&status["jobs"]),
        table::text(&status["openAlerts"])
    );
    section(
        status,
        "dispatchers",
        &["DISPATCHER", "PID", "WORKERS", "ALIVE"],
        &["name", "pid", "workers", "alive"],
    );
    section(
        status,
        "workers",
        &["WORKER", "SLOTS", "RUNNING", "DISPATCHER"],
        &["name", "slots", "running", "dispatcher"],
    );
    let queue = ["queue", "planned", "waiting", "running", "retrying"];
    section(status, "queue", &["QUEUE", "PLANNED", "WAITING", "RUNNING", "RETRYING"], &queue);
}

fn section(status: &Value, list: &str, headings: &[&str], fields: &[&str]) {
    let items = status[list].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let row = |item: &Value| fields.iter().map(|field| table::text(&item[*field])).collect();
    say!("");
    table::print(headings, &items.iter().map(row).collect::<Vec<_>>());
}
