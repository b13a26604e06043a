//! `escapement backfill JOB --from TIME --to TIME`.

use crate::arguments::{Backfill, Output};
use crate::client::{Client, encode};
use crate::progress::Progress;
use crate::table::{self, say};
use serde_json::{Value, json};
use std::time::Duration;

/// How often it is looked what is left.
const POLL: Duration = Duration::from_secs(1);

/// Pages of runs that are counted at each look; what lies beyond them is only known to be more.
const PAGES_MAX: usize = 10;

/// Runs that have not ended.
const OPEN: &str = "pageSize=1000&states=PLANNED&states=WAITING&states=RUNNING&states=RETRYING";

pub async fn run(client: &Client, backfill: &Backfill, output: Output) -> anyhow::Result<()> {
    let path = format!("/v1/jobs/{}:backfill", encode(&backfill.job));
    let mut body = json!({ "from": backfill.from, "to": backfill.to, "dryRun": backfill.dry_run });
    if let Some(pace) = &backfill.pace {
        body["pace"] = json!(pace);
    }
    let answer = client.post_once(&path, &body, backfill.repeat.idempotency_key.as_deref()).await?;
    match output {
        Output::Json => table::print_json(&answer),
        Output::Table => say!("{}", sentence(&answer, &backfill.job)),
    }
    if backfill.follow {
        follow(client, &backfill.job, added(&answer), output).await?;
    }
    Ok(())
}

fn sentence(answer: &Value, job: &str) -> String {
    let count = |field: &str| answer[field].as_str().unwrap_or("0").to_owned();
    let (added, existing) = (count("added"), count("existing"));
    let would = if answer["dryRun"] == json!(true) { "would be " } else { "" };
    let span = match table::second(&answer["first"]).as_str() {
        "-" => String::new(),
        first => format!(", from {first} to {}", table::second(&answer["last"])),
    };
    format!("{added} runs of {job} {would}added{span}; {existing} of the range were there already")
}

fn added(answer: &Value) -> u64 {
    answer["added"].as_str().and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Says how many runs of backfills are left, each time that changes, until there are none. On a terminal a bar shows it
/// instead.
async fn follow(client: &Client, job: &str, added: u64, output: Output) -> anyhow::Result<()> {
    let path = format!("/v1/jobs/{}/runs?{OPEN}", encode(job));
    let mut progress = None;
    let mut shown = None;
    loop {
        let look = look(client, &path).await?;
        // Runs of an earlier backfill may be left, too.
        let total = added.max(look.left);
        let progress = progress.get_or_insert_with(|| Progress::of(total, format!("runs of {job}")));
        if !look.more {
            progress.reach(total.saturating_sub(look.left));
        }
        let ended = look.left == 0 && !look.more;
        if shown != Some(look) && (ended || !progress.is_shown()) {
            progress.aside(|| look.print(output));
        }
        shown = Some(look);
        if ended {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What there is still to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    left: u64,
    /// There are more that were not counted.
    more: bool,
}

impl Look {
    fn print(self, output: Output) {
        let Self { left, more } = self;
        match output {
            Output::Json => table::print_json(&json!({ "left": left, "more": more })),
            Output::Table => say!("{left}{} left", if more { " or more" } else { "" }),
        }
    }
}

async fn look(client: &Client, path: &str) -> anyhow::Result<Look> {
    let (mut counted, mut token) = (0, String::new());
    for _ in 0..PAGES_MAX {
        let page = client.get(&format!("{path}&pageToken={}", encode(&token))).await?;
        counted += left(&page);
        match page["nextPageToken"].as_str() {
            None | Some("") => return Ok(Look { left: counted, more: false }),
            Some(next) => next.clone_into(&mut token),
        }
    }
    Ok(Look { left: counted, more: true })
}

fn left(page: &Value) -> u64 {
    let runs = page["runs"].as_array().map_or(&[][..], Vec::as_slice);
    runs.iter().filter(|run| run["origin"] == "BACKFILL").count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_what_was_done_or_would_be() {
        let done = json!({ "added": "4", "existing": "1", "first": "2026-11-01T03:00:00Z", "last": "2026-11-01T06:00:00Z" });
        assert_eq!(
            sentence(&done, "invoices"),
            "4 runs of invoices added, from 2026-11-01T03:00:00Z to 2026-11-01T06:00:00Z; 1 of the range were there already"
        );
        assert_eq!(
            sentence(&json!({ "dryRun": true, "existing": "2" }), "invoices"),
            "0 runs of invoices would be added; 2 of the range were there already"
        );
    }

    #[test]
    fn only_runs_of_backfills_are_counted() {
        let page = json!({ "runs": [{ "origin": "BACKFILL" }, { "origin": "SCHEDULE" }] });
        assert_eq!((left(&page), left(&json!({}))), (1, 0));
        assert_eq!((added(&json!({ "added": "12" })), added(&json!({}))), (12, 0));
    }
}
