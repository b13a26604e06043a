//! `escapement get jobs|channels [NAME]`.

use crate::arguments::{Get, Kind, Output};
use crate::client::{Client, encode};
use crate::table;
use serde_json::{Value, json};

pub async fn run(client: &Client, get: &Get, output: Output) -> anyhow::Result<()> {
    let collection = match get.kind {
        Kind::Jobs => "jobs",
        Kind::Channels => "channels",
    };
    let path = format!("/v1/{collection}");
    let items = match &get.name {
        Some(name) => {
            let item = client.get(&format!("{path}/{}", encode(name))).await?;
            if output == Output::Json {
                table::print_json(&item);
                return Ok(());
            }
            vec![item]
        }
        None if get.kind == Kind::Jobs => client.list(&path, collection).await?,
        None => client.get(&path).await?[collection].as_array().cloned().unwrap_or_default(),
    };
    match (output, get.kind) {
        (Output::Json, _) => table::print_json(&json!({ collection: items })),
        (Output::Table, Kind::Jobs) => print_jobs(&items),
        (Output::Table, Kind::Channels) => print_channels(&items),
    }
    Ok(())
}

fn print_jobs(jobs: &[Value]) {
    let row = |job: &Value| {
        let state = if table::text(&job["broken"]) == "-" { "ok" } else { "broken" };
        vec![
            table::text(&job["name"]),
            table::text(&job["schedule"]),
            table::text(&job["timezone"]),
            table::second(&job["nextFireTime"]),
            table::text(&job["overlap"]),
            table::text(&job["misfire"]["policy"]),
            table::text(&job["queue"]),
            state.to_owned(),
        ]
    };
    let rows: Vec<_> = jobs.iter().map(row).collect();
    table::print(
        &["JOB", "SCHEDULE", "TIMEZONE", "NEXT (UTC)", "OVERLAP", "MISFIRE", "QUEUE", "STATE"],
        &rows,
    );
}

fn print_channels(channels: &[Value]) {
    let row = |channel: &Value| vec![table::text(&channel["name"]), table::text(&channel["webhook"]["url"])];
    table::print(&["CHANNEL", "WEBHOOK"], &channels.iter().map(row).collect::<Vec<_>>());
}
