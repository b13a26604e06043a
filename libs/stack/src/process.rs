//! A child process that can't outlive its launcher.
//!
//! The child leads a process group of its own and asks the kernel for a signal when its launcher ends
//! (PR_SET_PDEATHSIG), even by kill -9. That request belongs to the *thread* that forked, not to the process: a
//! child forked on a test's or a runtime's thread would be killed when that thread ends. So one thread, which
//! lives as long as the process, does every fork.
//!
//! Dropping a [`ManagedChild`] kills its group and reaps it. What left the group (`setsid`) is the child's own
//! matter: PostgreSQL's backends do so, and end when they see the postmaster gone.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

pub use nix::sys::signal::Signal;
use nix::sys::signal::{kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::StackError;
use crate::error::file_error;
use crate::user::RunAs;

const EXIT_POLL: Duration = Duration::from_millis(5);
const LOG_TAIL_BYTES: u64 = 4096;

/// What to start, and how.
#[derive(Debug, Clone)]
pub struct Spec {
    name: String,
    program: PathBuf,
    log: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    inherit_env: bool,
    folder: Option<PathBuf>,
    run_as: Option<RunAs>,
    on_launcher_death: Signal,
}

impl Spec {
    /// `program`, called `name` in messages, with stdout and stderr appended to `log`.
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            log: log.into(),
            args: Vec::new(),
            env: Vec::new(),
            inherit_env: true,
            folder: None,
            run_as: None,
            on_launcher_death: Signal::SIGKILL,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Starts from an empty environment instead of the launcher's.
    #[must_use]
    pub fn clear_env(mut self) -> Self {
        self.inherit_env = false;
        self
    }

    /// Sets the working folder.
    #[must_use]
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Drops to this user, if any, before the program starts.
    #[must_use]
    pub fn run_as(mut self, user: Option<RunAs>) -> Self {
        self.run_as = user;
        self
    }

    /// The signal that the child gets when the launcher ends without stopping it; SIGKILL unless set.
    #[must_use]
    pub const fn on_launcher_death(mut self, signal: Signal) -> Self {
        self.on_launcher_death = signal;
        self
    }

    fn command(&self, log: &File) -> std::io::Result<Command> {
        let mut command = Command::new(&self.program);
        if !self.inherit_env {
            command.env_clear();
        }
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?).process_group(0);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        if let Some(user) = &self.run_as {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        end_with_launcher(&mut command, self.on_launcher_death);
        Ok(command)
    }
}

/// Arms the death signal in the child. It must come after the change of user, which disarms it; `Command` runs
/// `pre_exec` last.
fn end_with_launcher(command: &mut Command, signal: Signal) {
    let launcher = Pid::this();
    let arm = move || {
        nix::sys::prctl::set_pdeathsig(signal)?;
        // Crash window: the launcher may have died between the fork and the line above, unseen by the kernel.
        if nix::unistd::getppid() == launcher { Ok(()) } else { Err(std::io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: prctl and getppid are, and neither
    // the closure nor its errors allocate.
    unsafe {
        command.pre_exec(arm);
    }
}

/// A running (or ended, but remembered) child.
#[derive(Debug)]
pub struct ManagedChild {
    name: String,
    child: Child,
    log: PathBuf,
    log_start: u64,
    /// Set once reaped: from then on the pid may be a stranger's and is never signalled again.
    exit: Option<ExitStatus>,
}

impl ManagedChild {
    /// Starts it.
    ///
    /// # Errors
    /// [`StackError::File`] when the log can't be written, [`StackError::Spawn`] when the system refuses.
    pub fn spawn(spec: &Spec) -> Result<Self, StackError> {
        if let Some(folder) = spec.log.parent() {
            std::fs::create_dir_all(folder).map_err(file_error("creating", folder))?;
        }
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&spec.log)
            .map_err(file_error("opening the log", &spec.log))?;
        let log_start = log.metadata().map_err(file_error("reading", &spec.log))?.len();
        let child = spec.command(&log).and_then(fork_on_lasting_thread).map_err(|source| {
            StackError::Spawn { name: spec.name.clone(), program: spec.program.clone(), source }
        })?;
        tracing::debug!(process.name = %spec.name, process.pid = child.id(), "child process started");
        Ok(Self { name: spec.name.clone(), child, log: spec.log.clone(), log_start, exit: None })
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id, which is its group's too.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where its output goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Sends `signal` to the leader of the group. Does nothing when it has ended.
    ///
    /// # Errors
    /// [`StackError::Process`].
    pub fn signal(&self, signal: Signal) -> Result<(), StackError> {
        self.send("signalled", |pid| kill(pid, signal))
    }

    /// Freezes the whole group (SIGSTOP), as a paused virtual machine would.
    ///
    /// # Errors
    /// [`StackError::Process`].
    pub fn stop(&self) -> Result<(), StackError> {
        self.send("stopped", |pid| killpg(pid, Signal::SIGSTOP))
    }

    /// Thaws the group (SIGCONT).
    ///
    /// # Errors
    /// [`StackError::Process`].
    pub fn cont(&self) -> Result<(), StackError> {
        self.send("continued", |pid| killpg(pid, Signal::SIGCONT))
    }

    /// Kills the whole group (SIGKILL) and reaps it.
    ///
    /// # Errors
    /// [`StackError::Process`].
    pub fn kill(&mut self) -> Result<ExitStatus, StackError> {
        if let Some(status) = self.exit {
            return Ok(status);
        }
        self.send("killed", |pid| killpg(pid, Signal::SIGKILL))?;
        self.reap()
    }

    /// Asks it to end (SIGTERM), and kills it when it has not after `grace`.
    ///
    /// # Errors
    /// [`StackError::Process`].
    pub async fn terminate(&mut self, grace: Duration) -> Result<ExitStatus, StackError> {
        self.end_with(Signal::SIGTERM, grace).await
    }

    /// Asks it to end by `signal`, and kills it when it has not after `grace`.
    ///
    /// # Errors
    /// [`StackError::Process`].
    pub async fn end_with(&mut self, signal: Signal, grace: Duration) -> Result<ExitStatus, StackError> {
        self.signal(signal)?;
        if let Some(status) = self.exited_within(grace).await? {
            return Ok(status);
        }
        tracing::warn!(process.name = %self.name, process.pid = self.pid(), "process ignored {signal}, killing it");
        self.kill()
    }

    /// How it ended, or `None` when it still runs after `limit`.
    ///
    /// # Errors
    /// [`StackError::Process`].
    pub async fn exited_within(&mut self, limit: Duration) -> Result<Option<ExitStatus>, StackError> {
        let began = Instant::now();
        loop {
            let status = self.exited()?;
            if status.is_some() || began.elapsed() >= limit {
                return Ok(status);
            }
            tokio::time::sleep(EXIT_POLL).await;
        }
    }

    /// How it ended, or `None` while it runs. What remained of its group is killed with the first such look.
    ///
    /// # Errors
    /// [`StackError::Process`].
    pub fn exited(&mut self) -> Result<Option<ExitStatus>, StackError> {
        if self.exit.is_some() {
            return Ok(self.exit);
        }
        // WNOWAIT leaves the dead leader unreaped, so that its number still names the group when we kill it.
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(self.raw_pid()), look) {
            Ok(WaitStatus::StillAlive) => Ok(None),
            Ok(_) => {
                self.send("killed", |pid| killpg(pid, Signal::SIGKILL))?;
                self.reap().map(Some)
            }
            Err(source) => Err(self.process_error("awaited", source)),
        }
    }

    /// The end of what it logged since its start.
    pub fn log_tail(&self) -> String {
        read_tail(&self.log, self.log_start).unwrap_or_else(|error| format!("(no log: {error})"))
    }

    fn reap(&mut self) -> Result<ExitStatus, StackError> {
        let status = self.child.wait().map_err(|error| {
            self.process_error("reaped", nix::Error::from_raw(error.raw_os_error().unwrap_or_default()))
        })?;
        self.exit = Some(status);
        Ok(status)
    }

    fn send(
        &self,
        action: &'static str,
        deliver: impl FnOnce(Pid) -> nix::Result<()>,
    ) -> Result<(), StackError> {
        if self.exit.is_some() {
            return Ok(());
        }
        match deliver(self.raw_pid()) {
            Ok(()) | Err(nix::Error::ESRCH) => Ok(()),
            Err(source) => Err(self.process_error(action, source)),
        }
    }

    fn process_error(&self, action: &'static str, source: nix::Error) -> StackError {
        StackError::Process { name: self.name.clone(), pid: self.raw_pid().as_raw(), action, source }
    }

    fn raw_pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }
}

impl Drop for ManagedChild {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            tracing::warn!(process.name = %self.name, error = %error, "child process could not be ended");
        }
    }
}

fn read_tail(log: &Path, from: u64) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    let start = from.max(file.metadata()?.len().saturating_sub(LOG_TAIL_BYTES));
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

struct Fork {
    command: Command,
    child: mpsc::SyncSender<std::io::Result<Child>>,
}

/// Runs the fork on the one thread that lives as long as the process.
pub(crate) fn fork_on_lasting_thread(command: Command) -> std::io::Result<Child> {
    static FORKS: OnceLock<Option<mpsc::Sender<Fork>>> = OnceLock::new();
    let gone = || std::io::Error::other("the thread that starts processes is gone");
    let forks = FORKS.get_or_init(start_fork_thread).as_ref().ok_or_else(gone)?;
    let (child, answer) = mpsc::sync_channel(1);
    forks.send(Fork { command, child }).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

fn start_fork_thread() -> Option<mpsc::Sender<Fork>> {
    let (sender, receiver) = mpsc::channel::<Fork>();
    let serve = move || {
        for Fork { mut command, child } in receiver {
            // The asker waits for this answer; if it is gone, dropping a `Child` leaves it to the death signal.
            let _ = child.send(command.spawn());
        }
    };
    std::thread::Builder::new().name("process-starter".into()).spawn(serve).ok()?;
    Some(sender)
}
