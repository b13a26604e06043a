//! Finds and ends what left a run's process group (`setsid`, daemons), so that nothing of a run outlives it.
//!
//! The agent is the reaper of all its descendants (PR_SET_CHILD_SUBREAPER): whoever loses its parent becomes the agent's
//! child, and is known by the run's token in its environment. Invariant: leaders are reaped by their
//! [`Process`](crate::process::Process) alone, everybody else here. Out of reach: what clears its environment after it left
//! the group, and what gained privileges when started, whose environment can't be read.

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// The variable that names the attempt; no two attempts have the same.
pub const MARK: &str = "ESCAPEMENT_FENCING_TOKEN";
/// Looks for children of children that were ended.
const ROUNDS_MAX: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);
/// Between two looks for children that ended by themselves.
const REAP_EVERY: Duration = Duration::from_secs(5);

/// Leaders that are not reaped yet.
static LEADERS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn leaders() -> MutexGuard<'static, BTreeSet<i32>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this process the parent of whoever of its descendants loses its own.
///
/// # Errors
/// What the system says.
pub fn adopt() -> io::Result<()> {
    static REAPER: Once = Once::new();
    nix::sys::prctl::set_child_subreaper(true)?;
    REAPER.call_once(|| {
        let reap = || loop {
            std::thread::sleep(REAP_EVERY);
            let leaders = leaders();
            strangers(&leaders).into_iter().for_each(reap);
        };
        if let Err(error) = std::thread::Builder::new().name("orphan-reaper".into()).spawn(reap) {
            tracing::warn!(error = %error, "Orphans that end by themselves are reaped at the end of a run only");
        }
    });
    Ok(())
}

/// Starts a leader. Nobody looks for strangers meanwhile: it would seem one.
///
/// # Errors
/// What the system says.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut leaders = leaders();
    let child = command.spawn()?;
    leaders.insert(child.id().cast_signed());
    Ok(child)
}

/// A leader was reaped.
pub fn forget(leader: Pid) {
    leaders().remove(&leader.as_raw());
}

/// Kills and reaps the orphans whose environment has the mark; how many there were. The run's group is gone already.
pub fn end(token: &str) -> usize {
    let mark = format!("{MARK}={token}");
    let mut ended = BTreeSet::new();
    for _ in 0..ROUNDS_MAX {
        let strangers = strangers(&leaders());
        let marked: Vec<i32> =
            strangers.into_iter().filter(|pid| ended.contains(pid) || has(*pid, &mark)).collect();
        if marked.is_empty() {
            break;
        }
        for pid in marked {
            // One that has ended meanwhile is only reaped.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            ended.insert(pid);
            reap(pid);
        }
        std::thread::sleep(PAUSE);
    }
    ended.len()
}

fn reap(pid: i32) {
    // Nothing to reap while it lives, and nobody else reaps it.
    let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
}

/// Children of this process that are no leaders.
fn strangers(leaders: &BTreeSet<i32>) -> Vec<i32> {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let children = threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>());
    children.filter(|pid| !leaders.contains(pid)).collect()
}

fn has(pid: i32, mark: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}
