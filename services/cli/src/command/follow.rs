//! Shows runs as they end, for `escapement dev` in the foreground.

use super::runs::{lateness, outcome};
use crate::client::{Client, encode};
use crate::table::{self, tell};
use chrono::{DateTime, Utc};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often the registry is asked.
const POLL: Duration = Duration::from_millis(500);

/// Runs of one job that one look shows; more in one poll than this are summed up.
const RUNS_SHOWN: usize = 20;

/// Prints a line for each run that ends, until `shutdown`. A look that fails is tried again: the registry may be
/// the very process that somebody is killing.
pub async fn run(client: &Client, shutdown: &CancellationToken) {
    tell!(
        "{:<20}  {:<20}  {:>8}  {:<17}  {:<12}  OUTCOME",
        "SCHEDULED (UTC)",
        "JOB",
        "LATE",
        "TOKEN",
        "WORKER"
    );
    let mut shown: BTreeMap<String, DateTime<Utc>> = BTreeMap::new();
    let started = Utc::now();
    while !shutdown.is_cancelled() {
        if let Ok(jobs) = client.list("/v1/jobs", "jobs").await {
            for job in jobs.iter().filter_map(|job| job["name"].as_str()) {
                let since = shown.entry(job.to_owned()).or_insert(started);
                show_job(client, job, since).await;
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

async fn show_job(client: &Client, job: &str, since: &mut DateTime<Utc>) {
    let path = format!("/v1/jobs/{}/runs?pageSize={RUNS_SHOWN}{}", encode(job), ENDED);
    let Ok(mut page) = client.get(&path).await else { return };
    let Value::Array(mut runs) = page["runs"].take() else { return };
    let finished = |run: &Value| table::instant(&run["finishTime"]).unwrap_or(DateTime::UNIX_EPOCH);
    runs.retain(|run| finished(run) > *since);
    runs.sort_by_key(finished);
    for run in &runs {
        tell!(
            "{:<20}  {:<20}  {:>8}  {:<17}  {:<12}  {}",
            table::exact(&run["scheduledFor"]),
            job,
            lateness(run),
            table::text(&run["token"]),
            table::text(&run["worker"]),
            outcome(run),
        );
        *since = (*since).max(finished(run));
    }
}

/// Restricts a list of runs to those that have ended.
const ENDED: &str =
    "&states=SUCCEEDED&states=FAILED&states=TIMED_OUT&states=LOST&states=CANCELLED&states=SKIPPED";
