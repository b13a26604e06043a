//! `escapement create -f FILE`: each document on its own; what exists is refused, and what was created before it stays.

use crate::arguments::{Create, Output};
use crate::client::Client;
use crate::command::apply;
use crate::table::{self, say};
use anyhow::Context;
use serde_json::{Value, json};

pub async fn run(client: &Client, create: &Create, output: Output) -> anyhow::Result<()> {
    let documents = apply::read_all(&create.files)?;
    let mut created = Vec::new();
    // In this order: jobs name channels and calendars.
    for (collection, kind) in [("channels", "channel"), ("calendars", "calendar"), ("jobs", "job")] {
        for document in documents[collection].as_array().into_iter().flatten() {
            let name = table::text(&document["name"]);
            let answer = client.post(&format!("/v1/{collection}"), document).await;
            let answer = answer.with_context(|| format!("{kind} {name}"))?;
            if output == Output::Table {
                say!("{kind} {name} created");
            }
            created.push(answer);
        }
    }
    if output == Output::Json {
        let answer = match created.as_slice() {
            [one] => one.clone(),
            _ => json!({ "created": Value::Array(created) }),
        };
        table::print_json(&answer);
    }
    Ok(())
}
