//! The work that goes on: its tasks, how each is asked to stop, and what each shows meanwhile.
//!
//! Invariant: an attempt that was started is here until its end was taken. Dropping it drops the work. Deliberately doesn't
//! know why work is started or stopped: the table in `hand` does.

use crate::assignment::Attempt;
use crate::context::RunContext;
use crate::executor::Executor;
use crate::live::Shown;
use crate::supervise::{Ended, supervise};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// What all of it may show at a time, in bytes.
const SHOW_MAX_BYTES: usize = 1024 * 1024;
/// Of each attempt, beside its output.
const SHOWN_OVERHEAD_BYTES: usize = 512;

/// See the module.
pub(crate) struct Going {
    executor: Arc<dyn Executor>,
    tasks: JoinSet<Ended>,
    runs: HashMap<Attempt, (RunContext, CancellationToken)>,
}

impl Going {
    /// Nothing yet.
    pub(crate) fn new(executor: Arc<dyn Executor>) -> Self {
        Self { executor, tasks: JoinSet::new(), runs: HashMap::new() }
    }

    /// Starts the work of `run`, which `stop` asks to stop.
    pub(crate) fn start(&mut self, run: RunContext, stop: CancellationToken) {
        self.runs.insert(run.identity(), (run.clone(), stop.clone()));
        self.tasks.spawn(supervise(Arc::clone(&self.executor), run, stop));
    }

    /// Asks an attempt to stop.
    pub(crate) fn stop(&self, attempt: Attempt) {
        if let Some((_, stop)) = self.runs.get(&attempt) {
            stop.cancel();
        }
    }

    /// The next end; none when nothing goes on. Loses nothing when it is dropped.
    pub(crate) async fn ended(&mut self) -> Option<Ended> {
        loop {
            if let Some(ended) = taken(self.tasks.join_next().await?) {
                return Some(ended);
            }
        }
    }

    /// An end that has come already.
    pub(crate) fn ended_already(&mut self) -> Option<Ended> {
        loop {
            if let Some(ended) = taken(self.tasks.try_join_next()?) {
                return Some(ended);
            }
        }
    }

    /// An end was taken; the last that is to be shown of the attempt.
    pub(crate) fn forget(&mut self, attempt: Attempt) -> Option<Shown> {
        self.runs.remove(&attempt)?.0.live().take_last()
    }

    /// What has changed, within a budget; what finds no place in it comes the next time.
    pub(crate) fn show(&self) -> Vec<(Attempt, Shown)> {
        let mut left = SHOW_MAX_BYTES;
        let mut shown = Vec::new();
        for (attempt, (run, _)) in &self.runs {
            if left == 0 {
                break;
            }
            if let Some(live) = run.live().take() {
                left = left.saturating_sub(live.tail.len() + SHOWN_OVERHEAD_BYTES);
                shown.push((*attempt, live));
            }
        }
        shown
    }
}

fn taken(joined: Result<Ended, JoinError>) -> Option<Ended> {
    joined
        .inspect_err(|error| tracing::error!(error = %error, "A task that watches over work has failed"))
        .ok()
}
