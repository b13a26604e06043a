//! One attempt's work from its start to its report, whatever the work does.
//!
//! Invariant: a report comes after the work has ended, panicked, or been dropped after its grace; the slot is never
//! lost. Deliberately doesn't know why the work is asked to stop: the table in `hand` does.

use crate::assignment::Attempt;
use crate::context::RunContext;
use crate::executor::Executor;
use crate::report::Report;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// What work gets beyond the grace, for reporting what it killed.
const GRACE_SLACK: Duration = Duration::from_millis(250);
/// What dropped work gets for letting go.
const DROP_LIMIT: Duration = Duration::from_secs(1);
/// How a piece of work ended.
pub(crate) struct Ended {
    pub attempt: Attempt,
    pub report: Report,
    /// It had been asked to stop.
    pub stopped: bool,
}

/// Does one attempt's work, and ends it when it does not stop by itself within the grace.
pub(crate) async fn supervise(
    executor: Arc<dyn Executor>,
    run: RunContext,
    stop: CancellationToken,
) -> Ended {
    let attempt = run.identity();
    let grace = run.kill_grace() + GRACE_SLACK;
    let logged = run.clone();
    let execution = async move { executor.execute(run).await };
    let mut work = AbortOnDropHandle::new(tokio::spawn(execution));
    let grace_over = async {
        stop.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    let report = tokio::select! {
        biased;
        joined = &mut work => joined.unwrap_or_else(|error| Report::failed(panic_text(error))),
        () = grace_over => {
            work.abort();
            // Code that never yields can't be ended; its slot is free all the same.
            let _ = tokio::time::timeout(DROP_LIMIT, &mut work).await;
            Report::failed(format!("it had not stopped after {grace:?} and was dropped"))
        }
    };
    let report = report.with_logged(logged.live().output());
    Ended { attempt, report, stopped: stop.is_cancelled() }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "the work was dropped".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the work panicked: {}", text.unwrap_or_else(|| "without a text".to_owned()))
}
