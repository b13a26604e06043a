//! `escapement logs [-f] JOB@TIME`: the output of a run on standard output, all else on standard error.

use crate::arguments::Logs;
use crate::client::{Client, encode};
use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::io::Write;

pub async fn run(client: &Client, logs: &Logs) -> anyhow::Result<()> {
    let Some((job, instant)) = logs.run.rsplit_once('@') else {
        bail!("{:?}: use JOB@TIME, for example invoices@2026-11-29T09:00:00Z", logs.run);
    };
    let once = if logs.follow { "" } else { "?once=true" };
    let path = format!("/v1/jobs/{}/runs/{}/output{once}", encode(job), encode(instant));
    let mut response = client.stream(&path).await?;
    let (mut lines, mut shown) = (Lines::default(), Shown::default());
    while let Some(bytes) = response.chunk().await.context("reading the registry's answer")? {
        for line in lines.push(&bytes) {
            if let Some(data) = line.strip_prefix("data:") {
                let message = serde_json::from_str(data).context("reading the registry's answer")?;
                shown.show(&message)?;
            }
        }
    }
    shown.over(logs.follow)
}

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
    fn show(&mut self, message: &Value) -> anyhow::Result<()> {
        if let Some(detail) = message["detail"].as_str() {
            bail!("{detail}");
        }
        let attempt = message["attempt"].as_i64().unwrap_or(0);
        if attempt > self.attempt {
            if self.attempt > 0 {
                eprintln!("escapement: attempt {attempt}");
            }
            *self = Self { attempt, ..Self::default() };
        }
        let offset: u64 = message["offset"].as_str().and_then(|offset| offset.parse().ok()).unwrap_or(0);
        if offset > self.through {
            eprintln!("escapement: {} bytes are left out", offset - self.through);
        }
        let output =
            STANDARD.decode(message["output"].as_str().unwrap_or("")).context("reading the output")?;
        self.through = offset + output.len() as u64;
        let mut out = std::io::stdout().lock();
        out.write_all(&output).and_then(|()| out.flush()).context("writing the output")?;
        self.tell(message);
        message["state"].as_str().unwrap_or("").clone_into(&mut self.state);
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

    /// Whoever follows learns from the exit status how the run ended.
    fn over(&self, follows: bool) -> anyhow::Result<()> {
        if follows && self.state != "SUCCEEDED" {
            bail!("the run is {}", self.state.to_lowercase());
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
    fn only_a_followed_success_ends_well() {
        let mut shown = Shown::default();
        shown.show(&json!({"attempt": 1, "state": "RUNNING", "offset": "0", "output": ""})).expect("shown");
        assert!(shown.over(true).is_err() && shown.over(false).is_ok());
        shown.show(&json!({"attempt": 2, "state": "SUCCEEDED", "offset": "0", "output": ""})).expect("shown");
        assert!(shown.over(true).is_ok());
        assert!(shown.show(&json!({"detail": "too slow"})).is_err());
    }
}
