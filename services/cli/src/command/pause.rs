//! `escapement pause JOB` and `escapement resume JOB`.

use crate::arguments::{Output, Pause, Resume};
use crate::client::{Client, encode};
use crate::table::{self, say};
use serde_json::json;

pub async fn pause(client: &Client, pause: &Pause, output: Output) -> anyhow::Result<()> {
    let path = format!("/v1/jobs/{}:pause", encode(&pause.job));
    let job = client.post(&path, &json!({ "reason": pause.reason })).await?;
    match output {
        Output::Json => table::print_json(&job),
        Output::Table => {
            let (name, since) = (table::text(&job["name"]), table::second(&job["pauseTime"]));
            match table::text(&job["pauseReason"]).as_str() {
                "-" => say!("job {name} is paused since {since}"),
                reason => say!("job {name} is paused since {since}: {reason}"),
            }
        }
    }
    Ok(())
}

pub async fn resume(client: &Client, resume: &Resume, output: Output) -> anyhow::Result<()> {
    let path = format!("/v1/jobs/{}:resume", encode(&resume.job));
    let job = client.post(&path, &json!({ "catchUp": resume.catch_up })).await?;
    match output {
        Output::Json => table::print_json(&job),
        Output::Table => {
            let (name, next) = (table::text(&job["name"]), table::second(&job["nextFireTime"]));
            say!("job {name} is resumed; next: {next}");
        }
    }
    Ok(())
}
