//! `escapement runs --watch`: a line for each run that is handed out, sent back for another attempt, or ends.
//!
//! Invariant: a stream that breaks off is opened anew from the last token, so that nothing is missed and nothing is shown
//! twice, as long as some registry answers within [`PATIENCE`].

use crate::arguments::{Output, Runs};
use crate::client::{Client, encode};
use crate::command::runs::{lateness, outcome, states};
use crate::table::{self, say};
use anyhow::{Context, bail};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Between two tries to open the stream again.
const AGAIN: Duration = Duration::from_millis(500);
/// For how long it is tried.
const PATIENCE: Duration = Duration::from_secs(300);

pub async fn run(client: &Client, runs: &Runs, output: Output) -> anyhow::Result<()> {
    let mut watch = Watch { events: Events::default(), output, token: String::new() };
    let filter = match &runs.job {
        Some(job) => format!("job={}{}", encode(job), states(runs)),
        None => states(runs).trim_start_matches('&').to_owned(),
    };
    if output == Output::Table {
        say!("{:<20}  {:<24}  {:>8}  {:<12}  OUTCOME", "SCHEDULED (UTC)", "JOB", "LATE", "WORKER");
    }
    let mut lost_at: Option<Instant> = None;
    loop {
        let path = format!("/v1/runs:watch?{filter}&resumeToken={}", encode(&watch.token));
        match client.stream(&path).await {
            Ok(mut response) => {
                lost_at = None;
                watch.events = Events::default(); // the rest of an event that was cut off comes again
                while let Ok(Some(bytes)) = response.chunk().await {
                    watch.take(&bytes)?;
                }
            }
            // At the first time the arguments are wrong, or the address.
            Err(error) if watch.token.is_empty() => return Err(error),
            Err(error) if lost_at.is_some_and(|since| since.elapsed() > PATIENCE) => {
                return Err(error.context("watching was interrupted for too long"));
            }
            Err(_) => {}
        }
        lost_at.get_or_insert_with(Instant::now);
        tokio::time::sleep(AGAIN).await;
    }
}

struct Watch {
    events: Events,
    output: Output,
    token: String,
}

impl Watch {
    fn take(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        for event in self.events.push(bytes) {
            if event.kind == "error" {
                let detail: Value = serde_json::from_str(&event.data).unwrap_or_default();
                eprintln!("escapement: {}", table::text(&detail["detail"]));
                continue; // the stream ends after it, and is opened again
            }
            if !event.data.is_empty() {
                let message: Value =
                    serde_json::from_str(&event.data).context("reading the registry's answer")?;
                self.show(&message["run"])?;
            }
            if !event.id.is_empty() {
                self.token = event.id;
            }
        }
        Ok(())
    }

    fn show(&self, run: &Value) -> anyhow::Result<()> {
        if run.is_null() {
            bail!("the registry sent an event without a run");
        }
        if self.output == Output::Json {
            table::print_event(run);
            return Ok(());
        }
        say!(
            "{:<20}  {:<24}  {:>8}  {:<12}  {}",
            table::exact(&run["scheduledFor"]),
            table::text(&run["jobName"]),
            lateness(run),
            table::text(&run["worker"]),
            outcome(run),
        );
        Ok(())
    }
}

/// A server-sent event.
#[derive(Debug, Default, PartialEq, Eq)]
struct Event {
    kind: String,
    id: String,
    data: String,
}

/// Cuts a stream of bytes into events.
#[derive(Debug, Default)]
struct Events(Vec<u8>);

impl Events {
    fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.0.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.0.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = self.0.drain(..end + 2).collect();
            events.push(read(&String::from_utf8_lossy(&event)));
        }
        events
    }
}

fn read(text: &str) -> Event {
    let mut event = Event::default();
    for line in text.lines() {
        let Some((field, value)) = line.split_once(':') else { continue };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut event.kind),
            "id" => value.clone_into(&mut event.id),
            "data" => event.data.push_str(value),
            _ => {} // a comment begins with the colon
        }
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_however_they_are_cut() {
        let mut events = Events::default();
        assert_eq!(events.push(b": nothing new\nid: a\n"), []);
        let first = Event { id: "a".to_owned(), ..Event::default() };
        assert_eq!(events.push(b"\nid: b\ndata: {\"run\""), [first]);
        let second = Event { id: "b".to_owned(), data: "{\"run\":1}".to_owned(), ..Event::default() };
        let third = Event { kind: "error".to_owned(), data: "x".to_owned(), ..Event::default() };
        assert_eq!(events.push(b":1}\n\nevent: error\ndata: x\n\n"), [second, third]);
    }
}
