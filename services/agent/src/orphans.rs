//! Finds and ends what left a run's process group (`setsid`, daemons), so that nothing of a run outlives it.
//!
//! The agent is the reaper of all its descendants (PR_SET_CHILD_SUBREAPER): whoever loses its parent becomes the agent's
//! child, a stranger. Whose it is, is known by the run's token in its environment, or because it was seen below the run's
//! leader. Of a stranger without either, which cleared its environment, every run that was at work when it was noticed
//! may be the one; it is ended with the last of them, if this process starts nothing else. Invariant: leaders are reaped by their
//! [`Process`](crate::process::Process) alone, everybody else here. Out of reach: what the agent may not kill, because it
//! gained privileges when started.

pub use family::Run;

use family::{Family, Who};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

mod family;

/// The variable that names the attempt; no two attempts have the same.
pub const MARK: &str = "ESCAPEMENT_FENCING_TOKEN";
/// Looks for children of children that were ended.
const ROUNDS_MAX: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);
/// Between two looks for children that ended by themselves.
const REAP_EVERY: Duration = Duration::from_secs(5);

static FAMILY: Mutex<Family> = Mutex::new(Family::new());

fn family() -> MutexGuard<'static, Family> {
    FAMILY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this process the parent of whoever of its descendants loses its own.
///
/// # Errors
/// What the system says.
pub fn adopt() -> io::Result<()> {
    static REAPER: Once = Once::new();
    nix::sys::prctl::set_child_subreaper(true)?;
    REAPER.call_once(|| {
        let reap_all = || loop {
            std::thread::sleep(REAP_EVERY);
            let mut family = family();
            for who in strangers(&family) {
                reap(who.0);
                family.notice(who, mark(who.0).is_some());
            }
        };
        if let Err(error) = std::thread::Builder::new().name("orphan-reaper".into()).spawn(reap_all) {
            tracing::warn!(error = %error, "Orphans that end by themselves are reaped at the end of a run only");
        }
    });
    Ok(())
}

/// Says that this process starts nothing but leaders: every other child is an orphan of a run.
pub fn are_all_ours() {
    family().alone = true;
}

/// Starts a run's leader, whose environment names the token. Nobody looks for strangers meanwhile: it would seem one.
///
/// # Errors
/// What the system says.
pub fn spawn(command: &mut Command, token: String) -> io::Result<(Child, Run)> {
    let mut family = family();
    let child = command.spawn()?;
    let run = family.begin(child.id().cast_signed(), token);
    Ok((child, run))
}

/// Remembers who is below the run's leader, while that lives: it may leave and clear its environment.
pub fn look_below(leader: Pid, run: &Run) {
    let below = below(leader.as_raw());
    let mut family = family();
    below.into_iter().for_each(|who| family.know(run, who));
}

/// A leader was reaped.
pub fn forget(leader: Pid) {
    family().leaders.remove(&leader.as_raw());
}

/// Kills and reaps the orphans of a run; how many there were. Its group is gone already.
pub fn end(run: &Run) -> usize {
    let mut ended = BTreeSet::new();
    let mut strangers = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let mut family = family();
        strangers = self::strangers(&family);
        let mut left = false;
        for who in &strangers {
            if !ended.contains(who) && !family.ends_with(run, *who, mark(who.0).as_deref()) {
                continue;
            }
            // Its children are the agent's next.
            below(who.0).into_iter().for_each(|child| family.know(run, child));
            // One that has ended meanwhile is only reaped.
            let _ = kill(Pid::from_raw(who.0), Signal::SIGKILL);
            ended.insert(*who);
            reap(who.0);
            left = true;
        }
        if !left {
            family.ended(run, &strangers);
            return ended.len();
        }
        drop(family);
        std::thread::sleep(PAUSE);
    }
    family().ended(run, &strangers);
    ended.len()
}

fn reap(pid: i32) {
    // Nothing to reap while it lives, and nobody else reaps it.
    let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
}

/// Children of this process that are no leaders.
fn strangers(family: &Family) -> Vec<Who> {
    let children = children("self").into_iter();
    children.filter(|pid| !family.leaders.contains(pid)).filter_map(who).collect()
}

/// Everybody below a process.
fn below(pid: i32) -> Vec<Who> {
    let (mut found, mut next) = (Vec::new(), vec![pid]);
    while let Some(parent) = next.pop() {
        for child in children(&parent.to_string()) {
            found.extend(who(child));
            next.push(child);
        }
    }
    found
}

fn children(pid: &str) -> Vec<i32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists =
        threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
        .collect()
}

/// A process by its number and its start; none when it is gone.
fn who(pid: i32) -> Option<Who> {
    /// The start's place among the fields that follow the name, which may itself have blanks: proc(5), field 22.
    const START: usize = 19;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    Some((pid, fields.split_whitespace().nth(START)?.parse().ok()?))
}

/// The token in a process's environment, if there is one and it can be read.
fn mark(pid: i32) -> Option<String> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let variables =
        environment.split(|byte| *byte == 0).filter_map(|variable| std::str::from_utf8(variable).ok());
    let marked = |variable: &str| Some(variable.strip_prefix(MARK)?.strip_prefix('=')?.to_owned());
    variables.filter_map(marked).next()
}
