//! The sign of life for whoever watches the watchdog from outside: a call each minute, while checks really run.
//!
//! Invariant: no call without a check, of deadlines and of the system, that ended well since the last one. A call that
//! fails is not repeated before the next minute: whoever waits for it allows for that.

use crate::metrics::Metrics;
use reqwest::Method;
use service::egress::{Egress, refusal};
use std::time::{Duration, Instant};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Calls an address.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    egress: Egress,
    url: String,
    every: Duration,
    metrics: Metrics,
    called: Option<Instant>,
}

impl Heartbeat {
    /// Calls `url` at most every `every`; none when it is empty.
    pub fn new(egress: Egress, url: &str, every: Duration, metrics: Metrics) -> Option<Self> {
        (!url.is_empty()).then(|| Self { egress, url: url.to_owned(), every, metrics, called: None })
    }

    /// A check ended well: calls if it is time to, without waiting for the answer.
    pub fn checked(&mut self) {
        if self.called.is_some_and(|called| called.elapsed() < self.every) {
            return;
        }
        self.called = Some(Instant::now());
        let (egress, url, metrics) = (self.egress.clone(), self.url.clone(), self.metrics.clone());
        // Bounded by its timeout, which is shorter than the time to the next one.
        tokio::spawn(async move {
            let failed = call(&egress, &url).await;
            metrics.heartbeat(failed.is_none());
            if let Some(error) = failed {
                tracing::warn!(error, "The heartbeat could not be sent");
            }
        });
    }
}

/// Calls once; why it failed, without the address, which may be a secret.
async fn call(egress: &Egress, url: &str) -> Option<String> {
    let request = match egress.request(Method::GET, url) {
        Ok(request) => request,
        Err(refused) => return Some(refused.to_string()),
    };
    match request.timeout(TIMEOUT).send().await {
        Ok(answer) if answer.status().is_success() => None,
        Ok(answer) => Some(format!("answered {}", answer.status().as_u16())),
        Err(error) => Some(match refusal(&error) {
            Some(refused) => refused.to_string(),
            None if error.is_timeout() => "no answer in time".to_owned(),
            None => service::runtime::chain(&error.without_url()),
        }),
    }
}
