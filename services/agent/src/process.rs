//! One process and its group: started, watched, and ended so that nothing of it is left.
//!
//! Invariants: the group is killed before its leader is reaped, because until then the number can't belong to
//! anybody else; then what left the group is ended ([`crate::orphans`]); and dropping a [`Process`] does both. A kill -9 of
//! the agent ends the leader by its parent-death signal. Out of reach: the leader's children after a kill -9 of the
//! agent, and programs that gain privileges when started, which the kernel frees from the death signal. Where that
//! matters, run the agent in a container or a cgroup of its own.

use crate::orphans;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// Children are looked at this often even when no signal says that one ended.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A started process; the leader of its own group.
#[derive(Debug)]
pub struct Process {
    /// None once reaped.
    child: Option<Child>,
    /// Once reaped.
    status: Option<ExitStatus>,
    group: Pid,
    run: orphans::Run,
    child_signals: tokio::signal::unix::Signal,
}

/// The reading end of a process's stdout and stderr, in the order in which they were written.
#[derive(Debug)]
pub struct Output(pipe::Receiver);

impl Process {
    /// Starts `command` with nothing on stdin, and stdout and stderr in one pipe. `token` is the attempt's, as in the
    /// command's environment.
    ///
    /// # Errors
    /// What the system says.
    pub async fn start(mut command: Command, token: String) -> io::Result<(Self, Output)> {
        // Before the start: an end that comes at once must not be missed.
        let child_signals = signal(SignalKind::child())?;
        let (reader, writer) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
        end_with_agent(&mut command);
        let (child, run) = fork_on_lasting_thread(command, token).await?;
        let group = Pid::from_raw(child.id().cast_signed());
        let process = Self { child: Some(child), status: None, group, run, child_signals };
        Ok((process, Output(pipe::Receiver::from_owned_fd(reader.into())?)))
    }

    /// Waits until it has ended; what is left of its group is killed then. May be dropped and called again.
    ///
    /// # Errors
    /// What the system says.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        let mut looked = Instant::now();
        loop {
            if let Some(status) = self.reap()? {
                let run = self.run.clone();
                tell_orphans(tokio::task::spawn_blocking(move || orphans::end(&run)).await.unwrap_or(0));
                return Ok(status);
            }
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                let (leader, run) = (self.group, self.run.clone());
                // Reads /proc; a look that can't be had is made up for by the next one.
                let _ = tokio::task::spawn_blocking(move || orphans::look_below(leader, &run)).await;
            }
            let _ = tokio::time::timeout(LOOK_EVERY, self.child_signals.recv()).await;
        }
    }

    /// Asks the group to end (SIGTERM), and kills it when the leader has not after `grace`.
    ///
    /// # Errors
    /// What the system says.
    pub async fn stop(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        if let Ok(ended) = tokio::time::timeout(grace, self.ended()).await {
            return ended;
        }
        self.signal(Signal::SIGKILL)?;
        self.ended().await
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.child.is_none() {
            return Ok(());
        }
        match killpg(self.group, signal) {
            Ok(()) | Err(nix::Error::ESRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn reap(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.child.is_none() {
            return Ok(self.status);
        }
        // WNOWAIT leaves the dead leader unreaped, so that its number still names the group when we kill it.
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        if waitid(Id::Pid(self.group), look)? == WaitStatus::StillAlive {
            return Ok(None);
        }
        self.signal(Signal::SIGKILL)?;
        let status = self.child.take().map(|mut child| child.wait()).transpose()?;
        orphans::forget(self.group);
        self.status = status;
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if let Err(error) = killpg(self.group, Signal::SIGKILL) {
            tracing::warn!(process.id = self.group.as_raw(), error = %error, "A group could not be killed");
        }
        // A process in the kernel's hands can take its time to die; nobody waits for that here.
        let reaper = std::thread::Builder::new().name("process-reaper".into());
        let (group, run) = (self.group, self.run.clone());
        let reap = move || {
            let _ = child.wait();
            orphans::forget(group);
            tell_orphans(orphans::end(&run));
        };
        if let Err(error) = reaper.spawn(reap) {
            tracing::warn!(process.id = self.group.as_raw(), error = %error, "A killed process was not reaped");
        }
    }
}

impl Output {
    /// Hands every piece to `take` until all writers have closed.
    pub async fn read(mut self, mut take: impl FnMut(&[u8])) {
        let mut buffer = vec![0; 8192];
        loop {
            match self.0.read(&mut buffer).await {
                Ok(0) => return,
                Ok(count) => take(&buffer[..count]),
                Err(error) => {
                    tracing::warn!(error = %error, "Cannot read a process's output to its end");
                    return;
                }
            }
        }
    }
}

/// Arms the death signal in the child. It must come after the change of user, which disarms it; `Command` runs
/// `pre_exec` last.
fn end_with_agent(command: &mut Command) {
    let agent = Pid::this();
    let arm = move || {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        // Crash window: the agent may have died between the fork and the line above, unseen by the kernel.
        if nix::unistd::getppid() == agent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: prctl and getppid are, and neither
    // the closure nor its errors allocate.
    unsafe {
        command.pre_exec(arm);
    }
}

struct Fork {
    command: Command,
    token: String,
    child: oneshot::Sender<io::Result<(Child, orphans::Run)>>,
}

/// The death signal belongs to the thread that forked: one thread, which lives as long as the agent, does it.
async fn fork_on_lasting_thread(command: Command, token: String) -> io::Result<(Child, orphans::Run)> {
    static FORKS: OnceLock<Option<mpsc::Sender<Fork>>> = OnceLock::new();
    let gone = || io::Error::other("the thread that starts processes is gone");
    let forks = FORKS.get_or_init(start_fork_thread).as_ref().ok_or_else(gone)?;
    let (child, answer) = oneshot::channel();
    forks.send(Fork { command, token, child }).map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}

fn start_fork_thread() -> Option<mpsc::Sender<Fork>> {
    let (sender, receiver) = mpsc::channel::<Fork>();
    let serve = move || {
        for Fork { mut command, token, child } in receiver {
            // Crash window: forked, and the run was dropped meanwhile. Nobody else knows the child.
            if let Err(Ok((unwanted, run))) = child.send(orphans::spawn(&mut command, token)) {
                end_unwanted(unwanted, &run);
            }
        }
    };
    std::thread::Builder::new().name("process-starter".into()).spawn(serve).ok()?;
    Some(sender)
}

fn end_unwanted(mut child: Child, run: &orphans::Run) {
    let ended = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL).map_err(io::Error::from);
    if let Err(error) = ended.and_then(|()| child.wait()) {
        tracing::warn!(process.id = child.id(), error = %error, "A process that nobody wants was not ended");
    }
    orphans::forget(Pid::from_raw(child.id().cast_signed()));
    tell_orphans(orphans::end(run));
}

fn tell_orphans(ended: usize) {
    if ended > 0 {
        tracing::info!(processes = ended, "Ended what a run had left behind outside its group");
    }
}
