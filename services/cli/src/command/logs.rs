//! `escapement logs [-f] JOB@TIME`: the output of a run on standard output, all else on standard error; for programs the
//! API's own messages.

use crate::arguments::{Logs, Output};
use crate::client::{Client, encode};
use crate::command::runs::{error, outcome};
use crate::table;
use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

pub async fn run(client: &Client, logs: &Logs, output: Output) -> anyhow::Result<()> {
    let Some((job, instant)) = logs.run.rsplit_once('@') else {
        bail!("{:?}: use JOB@TIME, for example invoices@2026-11-29T09:00:00Z", logs.run);
    };
    let once = if logs.follow { "" } else { "?once=true" };
    let path = format!("/v1/jobs/{}/runs/{}", encode(job), encode(instant));
    let mut response = client.stream(&format!("{path}/output{once}")).await?;
    let (mut lines, mut shown) = (Lines::default(), Shown::default());
    while let Some(bytes) = response.chunk().await.context("reading the registry's answer")? {
        for line in lines.push(&bytes) {
            if let Some(data) = line.strip_prefix("data:") {
                let message = serde_json::from_str(data).context("reading the registry's answer")?;
                shown.show(&message, output)?;
            }
        }
    }
    let ending =
        if shown.is_unwell() { ending(&client.get(&path).await?) } else { shown.state.to_lowercase() };
    if output == Output::Table && !logs.follow && shown.is_unwell() {
        eprintln!("escapement: the run is {ending}");
    }
    shown.over(logs, &ending)
}

/// How a run ended, and what it said of its failure: nothing of its output need say so.
fn ending(run: &Value) -> String {
    match error(run, ERROR_SHOWN).as_str() {
        "-" => outcome(run),
        error => format!("{}: {error}", outcome(run)),
    }
}

/// Characters of an error that are shown.
const ERROR_SHOWN: usize = 1000;
/// States of runs that have not ended.
const OPEN: [&str; 4] = ["PLANNED", "WAITING", "RUNNING", "RETRYING"];

/// Cuts a stream of bytes into lines.
#[derive(Debug, Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.0.extend_from_slice(bytes);
        let Some(last) = self.0.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let whole: Vec<u8> = self.0.drain(..=last).collect();
        String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect()
    }
}

/// What was shown so far.
#[derive(Debug, Default)]
struct Shown {
    attempt: i64,
    through: u64,
    said: String,
    state: String,
}

impl Shown {
    fn show(&mut self, message: &Value, output: Output) -> anyhow::Result<()> {
        if let Some(detail) = message["detail"].as_str() {
            bail!("{detail}");
        }
        message["state"].as_str().unwrap_or("").clone_into(&mut self.state);
        if output == Output::Json {
            table::print_event(message);
            return Ok(());
        }
        self.write(message)
    }

    fn write(&mut self, message: &Value) -> anyhow::Result<()> {
        let attempt = message["attempt"].as_i64().unwrap_or(0);
        if attempt > self.attempt {
            if self.attempt > 0 {
                eprintln!("escapement: attempt {attempt}");
            }
            *self = Self { attempt, state: std::mem::take(&mut self.state), ..Self::default() };
        }
        let offset: u64 = message["offset"].as_str().and_then(|offset| offset.parse().ok()).unwrap_or(0);
        if offset > self.through {
            eprintln!("escapement: {} bytes are left out", offset - self.through);
        }
        let output =
            STANDARD.decode(message["output"].as_str().unwrap_or("")).context("reading the output")?;
        self.through = offset + output.len() as u64;
        table::raw(&output);
        self.tell(message);
        Ok(())
    }

    fn tell(&mut self, message: &Value) {
        let note = message["note"].as_str().unwrap_or("");
        let said = match message["fraction"].as_f64() {
            Some(fraction) => format!("{:.0} % {note}", fraction * 100.0).trim().to_owned(),
            None => note.to_owned(),
        };
        if !said.is_empty() && said != self.said {
            eprintln!("escapement: {said}");
            self.said = said;
        }
    }

    /// True when the run has ended, and not as a success.
    fn is_unwell(&self) -> bool {
        !self.state.is_empty() && self.state != "SUCCEEDED" && !OPEN.contains(&self.state.as_str())
    }

    /// Whoever follows learns from the exit status how the run ended.
    fn over(&self, logs: &Logs, ending: &str) -> anyhow::Result<()> {
        if logs.follow && self.state != "SUCCEEDED" {
            bail!("the run is {ending}; see `escapement why {}`", logs.run);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"data: {"), [""; 0]);
        assert_eq!(lines.push(b"}\n\nda"), ["data: {}", ""]);
        assert_eq!(lines.push(b"ta: x\n"), ["data: x"]);
    }

    #[test]
    fn how_a_run_ended_is_said_with_its_error() {
        let mut run = json!({"state": "FAILED", "reason": "WORK_FAILED", "error": "no answer: dns error"});
        assert_eq!(ending(&run), "failed (work_failed): no answer: dns error");
        run = json!({"state": "SKIPPED", "reason": "OVERLAP", "error": ""});
        assert_eq!(ending(&run), "skipped (overlap)");
    }

    #[test]
    fn only_a_followed_success_ends_well() {
        let mut shown = Shown::default();
        let mut show = |attempt: i64, state: &str, output| {
            let message = json!({"attempt": attempt, "state": state, "offset": "0", "output": ""});
            shown.show(&message, output).expect("shown");
            [true, false].map(|follow| shown.over(&Logs { run: "a@b".to_owned(), follow }, "x").is_ok())
        };
        assert_eq!(show(1, "RUNNING", Output::Table), [false, true]);
        assert_eq!(show(2, "SUCCEEDED", Output::Table), [true, true]);
        assert_eq!(show(2, "FAILED", Output::Json), [false, true]);
        assert!(shown.is_unwell());
        assert!(shown.show(&json!({"detail": "too slow"}), Output::Table).is_err());
    }
}
