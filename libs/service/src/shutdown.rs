//! The way out: signals, and a drain in stages with one deadline for all of them.

use std::future::Future;
use std::io;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Cancelled at the first SIGTERM or SIGINT. The second ends the process at once, with 128 + its number.
///
/// # Errors
/// When the handlers can't be installed.
pub fn signals() -> io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        loop {
            let (name, code) = tokio::select! {
                _ = terminate.recv() => ("SIGTERM", 143),
                _ = interrupt.recv() => ("SIGINT", 130),
            };
            if stop.is_cancelled() {
                tracing::warn!(signal = name, "A second signal: ending at once");
                std::process::exit(code);
            }
            tracing::info!(signal = name, "Stopping");
            stop.cancel();
        }
    });
    Ok(token)
}

/// A stop in stages that share one deadline.
#[derive(Debug)]
pub struct Drain {
    deadline: Instant,
}

/// How a stage of a [`Drain`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Stage {
    /// Its work was done.
    Done,
    /// The deadline passed first; its work was dropped.
    Overrun,
}

impl Drain {
    /// Starts now; every stage together may take `limit`.
    pub fn within(limit: Duration) -> Self {
        Self { deadline: Instant::now() + limit }
    }

    /// Does one stage's work, or drops it at the deadline.
    pub async fn stage(&self, name: &str, work: impl Future<Output = ()>) -> Stage {
        let started = Instant::now();
        match tokio::time::timeout_at(self.deadline, work).await {
            Ok(()) => {
                let elapsed_ms = started.elapsed().as_millis() as u64;
                tracing::info!(drain.stage = name, elapsed_ms, "Drained");
                Stage::Done
            }
            Err(_) => {
                tracing::warn!(drain.stage = name, "Not drained before the deadline: going on without");
                Stage::Overrun
            }
        }
    }

    /// What is left until the deadline.
    pub fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stages_share_one_deadline() {
        let drain = Drain::within(Duration::from_millis(50));
        assert_eq!(drain.stage("quick", async {}).await, Stage::Done);
        assert_eq!(drain.stage("endless", std::future::pending()).await, Stage::Overrun);
        assert_eq!(drain.left(), Duration::ZERO);
        assert_eq!(drain.stage("late", std::future::pending()).await, Stage::Overrun);
    }
}
