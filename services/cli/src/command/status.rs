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
    let ledger = &status["ledger"];
    say!(
        "ledger      {} in {} days, the oldest {}",
        size(&ledger["bytes"]),
        table::text(&ledger["days"]),
        ledger["oldestDay"].as_str().and_then(|begin| begin.get(..10)).unwrap_or("-")
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
    // HELD: of those waiting, by a limit.
    let queue = ["queue", "planned", "waiting", "held", "running", "retrying"];
    section(status, "queue", &["QUEUE", "PLANNED", "WAITING", "HELD", "RUNNING", "RETRYING"], &queue);
}

fn section(status: &Value, list: &str, headings: &[&str], fields: &[&str]) {
    let items = status[list].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let row = |item: &Value| fields.iter().map(|field| table::text(&item[*field])).collect();
    say!("");
    table::print(headings, &items.iter().map(row).collect::<Vec<_>>());
}

/// Bytes as people read them; the API says them as text, because they outgrow JSON's numbers.
fn size(bytes: &Value) -> String {
    let bytes: u64 = table::text(bytes).parse().unwrap_or(0);
    let (mut value, mut rest) = (bytes as f64, ["KiB", "MiB", "GiB", "TiB"].iter());
    let mut unit = "bytes";
    while value >= 1_024.0 {
        let Some(larger) = rest.next() else { break };
        (value, unit) = (value / 1_024.0, larger);
    }
    if unit == "bytes" { format!("{bytes} bytes") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sizes_are_readable() {
        for (bytes, expected) in [
            (json!("0"), "0 bytes"),
            (json!("1023"), "1023 bytes"),
            (json!("1536"), "1.5 KiB"),
            (json!("3221225472"), "3.0 GiB"),
            (json!("9007199254740993"), "8192.0 TiB"),
            (Value::Null, "0 bytes"),
        ] {
            assert_eq!(size(&bytes), expected);
        }
    }
}
