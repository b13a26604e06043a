//! Ending several processes at once.
//!
//! Invariant: when it returns, each has ended, after a grace that they share. It says once which ones keep it waiting, so
//! that nobody looks at a terminal that only waits.

use crate::StackError;
use crate::process::{ManagedChild, Signal};
use std::time::{Duration, Instant};

/// How long everybody waits without a word: an orderly end takes less.
const QUIET: Duration = Duration::from_secs(2);

const POLL_EVERY: Duration = Duration::from_millis(5);

/// A process that has been asked to end, and still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Late {
    /// Its name.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// How long it may go on until it is killed, counted from the request.
    pub grace: Duration,
}

/// Asks all of them to end (SIGTERM), tells `late` once of those that still run two seconds later, and kills those that
/// do after `grace`.
///
/// # Errors
/// The first [`StackError::Process`] met; the rest has not been waited for then.
pub async fn end_together(
    children: &mut [&mut ManagedChild],
    grace: Duration,
    late: &(dyn Fn(&[Late]) + Sync),
) -> Result<(), StackError> {
    for child in &*children {
        child.signal(Signal::SIGTERM)?;
    }
    let (began, mut told) = (Instant::now(), false);
    loop {
        let mut running = Vec::new();
        for child in &mut *children {
            if child.exited()?.is_none() {
                running.push(child);
            }
        }
        if running.is_empty() {
            return Ok(());
        }
        if !told && began.elapsed() >= QUIET {
            told = true;
            let of = |child: &&mut &mut ManagedChild| Late {
                name: child.name().to_owned(),
                pid: child.pid(),
                grace,
            };
            late(&running.iter().map(of).collect::<Vec<_>>());
        }
        if began.elapsed() >= grace {
            return running.into_iter().try_for_each(|child| {
                tracing::warn!(process.name = %child.name(), process.pid = child.pid(), "A process ignored SIGTERM: killing it");
                child.kill().map(drop)
            });
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}
