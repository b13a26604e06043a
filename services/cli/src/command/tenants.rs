//! `escapement tenants create|list|get|set`.

use crate::arguments::{Limit, Output, TenantAction, TenantLimits};
use crate::client::{Client, encode};
use crate::table::{self, say};
use serde_json::{Value, json};

pub async fn run(client: &Client, action: &TenantAction, output: Output) -> anyhow::Result<()> {
    let tenant = match action {
        TenantAction::List => return list(client, output).await,
        TenantAction::Get { name } => client.get(&of(name.as_deref().unwrap_or("-"))).await?,
        TenantAction::Create { name, limits } => {
            let limits = changed(&json!({}), limits);
            let created = client.post("/v1/tenants", &json!({ "name": name, "limits": limits })).await?;
            if output == Output::Table {
                eprintln!(
                    "tenant {name} created; next: escapement tokens create NAME --role admin --tenant {name}"
                );
            }
            created
        }
        TenantAction::Set { name, limits } => {
            let found = client.get(&of(name)).await?;
            // Its generation comes along: whoever changed it meanwhile is not overwritten.
            let wanted = json!({
                "name": name,
                "generation": found["generation"],
                "limits": changed(&found["limits"], limits),
            });
            client.put(&of(name), &wanted).await?
        }
    };
    match output {
        Output::Json => table::print_json(&tenant),
        Output::Table => print_one(&tenant),
    }
    Ok(())
}

/// The path of one tenant.
fn of(name: &str) -> String {
    format!("/v1/tenants/{}", encode(name))
}

/// `limits` with the ones that are named on the command line in their places.
fn changed(limits: &Value, named: &TenantLimits) -> Value {
    let mut limits = limits.clone();
    let number = |limit: &Limit<i32>| match limit {
        Limit::Of(number) => json!(number),
        Limit::None => Value::Null,
    };
    if let Some(weight) = named.weight {
        limits["weight"] = json!(weight);
    }
    for (field, limit) in [
        ("maxRunning", &named.max_running),
        ("maxStartsPerSecond", &named.max_starts_per_second),
        ("maxJobs", &named.max_jobs),
        ("maxPayloadBytes", &named.max_payload_bytes),
        ("historyDays", &named.history_days),
    ] {
        if let Some(limit) = limit {
            limits[field] = number(limit);
        }
    }
    match named.min_interval {
        Some(Limit::Of(least)) => limits["minInterval"] = json!(format!("{}s", least.as_secs())),
        Some(Limit::None) => limits["minInterval"] = Value::Null,
        None => {}
    }
    for (queue, limit) in &named.queue {
        match limit {
            Limit::Of(running) => limits["maxRunningByQueue"][queue] = json!(running),
            Limit::None => {
                if let Some(queues) = limits["maxRunningByQueue"].as_object_mut() {
                    queues.remove(queue);
                }
            }
        }
    }
    limits
}

async fn list(client: &Client, output: Output) -> anyhow::Result<()> {
    let tenants = client.list("/v1/tenants", "tenants").await?;
    match output {
        Output::Json => table::print_json(&json!({ "tenants": tenants })),
        Output::Table => {
            let row = |tenant: &Value| {
                let (limits, used) = (&tenant["limits"], &tenant["use"]);
                vec![
                    table::text(&tenant["name"]),
                    table::text(&limits["weight"]),
                    of_most(&used["jobs"], &limits["maxJobs"]),
                    of_most(&used["running"], &limits["maxRunning"]),
                    table::text(&limits["maxStartsPerSecond"]),
                    table::text(&limits["minInterval"]),
                    table::second(&tenant["createTime"]),
                ]
            };
            let rows: Vec<_> = tenants.iter().map(row).collect();
            table::print(
                &["TENANT", "WEIGHT", "JOBS", "RUNNING", "STARTS/S", "INTERVAL", "MADE (UTC)"],
                &rows,
            );
        }
    }
    Ok(())
}

/// What is used, and of how much.
fn of_most(used: &Value, most: &Value) -> String {
    match table::text(most).as_str() {
        "-" => table::text(used),
        most => format!("{} of {most}", table::text(used)),
    }
}

fn print_one(tenant: &Value) {
    let (limits, used) = (&tenant["limits"], &tenant["use"]);
    say!(
        "tenant {} ({}), made {}",
        table::text(&tenant["name"]),
        table::text(&tenant["id"]),
        table::second(&tenant["createTime"])
    );
    let line = |what: &str, limit: &Value, used: &Value| {
        vec![what.to_owned(), table::text(limit), table::text(used)]
    };
    let none = Value::Null;
    let mut rows = vec![
        line("weight", &limits["weight"], &none),
        line("jobs", &limits["maxJobs"], &used["jobs"]),
        line("running", &limits["maxRunning"], &used["running"]),
        line("starts a second", &limits["maxStartsPerSecond"], &none),
        line("shortest interval", &limits["minInterval"], &none),
        line("payload bytes", &limits["maxPayloadBytes"], &none),
        line("history days", &limits["historyDays"], &none),
    ];
    for (queue, running) in limits["maxRunningByQueue"].as_object().into_iter().flatten() {
        rows.push(line(&format!("running of queue {queue}"), running, &none));
    }
    table::print(&["LIMIT", "MOST", "NOW"], &rows);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn limits_that_are_not_named_stay_and_none_takes_one_away() {
        let named = TenantLimits {
            weight: None,
            max_running: Some(Limit::None),
            queue: vec![("mail".to_owned(), Limit::None), ("bulk".to_owned(), Limit::Of(2))],
            max_starts_per_second: None,
            max_jobs: Some(Limit::Of(10)),
            min_interval: Some(Limit::Of(Duration::from_secs(60))),
            max_payload_bytes: None,
            history_days: None,
        };
        let before = json!({ "weight": 3, "maxRunning": 5, "maxRunningByQueue": { "mail": 1 } });
        assert_eq!(
            changed(&before, &named),
            json!({ "weight": 3, "maxRunning": null, "maxRunningByQueue": { "bulk": 2 }, "maxJobs": 10, "minInterval": "60s" })
        );
        assert_eq!(changed(&json!({}), &named)["maxRunningByQueue"], json!({ "bulk": 2 }));
    }
}
