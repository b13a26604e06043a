//! A whole set of jobs in one call, over REST as the command line and CI apply it: created, applied again unchanged, and
//! every one of them changed. The time is the caller's, from the first byte sent to the last one of the answer.

use anyhow::ensure;
use serde_json::{Value, json};
use stack::dev::RegistryEndpoint;
use std::time::{Duration, Instant};

/// Who applies, and where.
pub struct Caller {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Caller {
    /// One with `token`, of the registry there.
    pub fn new(registry: &RegistryEndpoint, token: &str) -> Self {
        let url = format!("{}/v1/apply", registry.rest);
        Self { http: reqwest::Client::new(), url, token: token.to_owned() }
    }

    /// Applies `set`, and says how long that took.
    ///
    /// # Errors
    /// When it is refused, or not every job of it becomes what `expected` says.
    pub async fn apply(&self, set: &Value, expected: &str) -> anyhow::Result<Duration> {
        let body = serde_json::to_vec(set)?;
        let began = Instant::now();
        let request = self.http.post(&self.url).bearer_auth(&self.token);
        let answer = request.header("content-type", "application/json").body(body).send().await?;
        let (status, text) = (answer.status(), answer.bytes().await?);
        let took = began.elapsed();
        ensure!(status.is_success(), "apply answered {status}: {}", String::from_utf8_lossy(&text));
        let answer: Value = serde_json::from_slice(&text)?;
        let results = answer["results"].as_array().map_or(0, Vec::len);
        let became = answer["results"].as_array().into_iter().flatten();
        let became = became.filter(|result| result["change"] == expected).count();
        let jobs = set["jobs"].as_array().map_or(0, Vec::len);
        ensure!(
            (results, became) == (jobs, jobs),
            "of {jobs} jobs {results} were told of, and {became} were {expected}"
        );
        Ok(took)
    }
}

/// So many jobs of one round, spread over the minutes of a day, all with this priority.
pub fn set(round: u8, count: u32, priority: u32) -> Value {
    let job = |number: u32| {
        json!({
            "name": name(round, number),
            "schedule": format!("{} {} * * *", number % 60, number / 60 % 24),
            "timezone": "Europe/Berlin",
            "labels": { "team": format!("team-{}", number % 50), "round": round.to_string() },
            "priority": priority,
            "run": { "http": { "url": format!("https://jobs.example/invoices/{number}"), "method": "POST" } },
        })
    };
    json!({ "jobs": (0..count).map(job).collect::<Vec<_>>() })
}

/// The name of a job of a round.
pub fn name(round: u8, number: u32) -> String {
    format!("apply-{round}-{number:05}")
}
