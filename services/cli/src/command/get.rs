//! `escapement get jobs|channels|calendars|checkins [NAME]`.

use crate::arguments::{Get, Kind, Order, Output};
use crate::client::{Client, encode};
use crate::command::{channels, check_ins};
use crate::table;
use anyhow::bail;
use serde_json::{Value, json};

pub async fn run(client: &Client, get: &Get, output: Output) -> anyhow::Result<()> {
    let field = get.kind.field();
    let path = format!("/v1/{}", get.kind.collection());
    let items = match &get.name {
        Some(name) => {
            let item = client.get(&format!("{path}/{}", encode(name))).await?;
            if output == Output::Json {
                table::print_json(&item);
                return Ok(());
            }
            vec![item]
        }
        None if get.kind == Kind::Jobs => client.list(&format!("{path}?{}", query(get)), field).await?,
        None if !query(get).is_empty() => bail!("only jobs have labels, queues, pauses and orders"),
        None => client.list(&path, field).await?,
    };
    match (output, get.kind) {
        (Output::Json, _) => table::print_json(&json!({ field: items })),
        (Output::Table, Kind::Jobs) => print_jobs(&items),
        (Output::Table, Kind::Channels) => channels::print(&items),
        (Output::Table, Kind::Calendars) => print_calendars(&items),
        (Output::Table, Kind::CheckIns) => check_ins::print_table(&items),
    }
    Ok(())
}

/// The filters and the order, as a query.
fn query(get: &Get) -> String {
    let mut parts: Vec<String> =
        get.selector.iter().map(|label| format!("labels={}", encode(label))).collect();
    parts.extend(get.queue.as_ref().map(|queue| format!("queue={}", encode(queue))));
    parts.extend(get.paused.map(|paused| format!("paused={paused}")));
    parts.extend(get.prefix.as_ref().map(|prefix| format!("namePrefix={}", encode(prefix))));
    parts.extend(get.order.map(|order| {
        let order = match order {
            Order::Name => "NAME",
            Order::Next => "NEXT_FIRE_TIME",
            Order::Changed => "UPDATE_TIME",
        };
        format!("order={order}")
    }));
    parts.join("&")
}

fn print_jobs(jobs: &[Value]) {
    let row = |job: &Value| {
        let state = match (table::text(&job["broken"]).as_str(), &job["paused"]) {
            ("-", Value::Bool(true)) => "paused",
            ("-", _) => "ok",
            _ => "broken",
        };
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

fn print_calendars(calendars: &[Value]) {
    let row = |calendar: &Value| {
        let dates = calendar["dates"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        let day = |date: Option<&Value>| table::text(date.unwrap_or(&Value::Null));
        vec![
            table::text(&calendar["name"]),
            table::text(&calendar["version"]),
            dates.len().to_string(),
            day(dates.first()),
            day(dates.last()),
            table::second(&calendar["updateTime"]),
        ]
    };
    let rows: Vec<_> = calendars.iter().map(row).collect();
    table::print(&["CALENDAR", "VERSION", "DATES", "FIRST", "LAST", "CHANGED (UTC)"], &rows);
}
