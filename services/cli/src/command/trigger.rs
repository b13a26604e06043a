//! `escapement trigger JOB`.

use super::runs::outcome;
use crate::arguments::{Output, Trigger};
use crate::client::{Client, encode};
use crate::table::{self, say};
use serde_json::json;

pub async fn run(client: &Client, trigger: &Trigger, output: Output) -> anyhow::Result<()> {
    let path = format!("/v1/jobs/{}:trigger", encode(&trigger.job));
    let key = trigger.repeat.idempotency_key.as_deref();
    let run = client.post_once(&path, &json!({ "wait": trigger.wait }), key).await?;
    match output {
        Output::Json => table::print_json(&run),
        Output::Table => say!("{} {}", table::text(&run["name"]), outcome(&run)),
    }
    Ok(())
}
