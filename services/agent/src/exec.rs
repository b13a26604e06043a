//! Runs a job's process: judged, started with a clean environment, stopped when asked, reported with its output.

use crate::allow::{self, Rules, SHELL, User};
use crate::environment;
use crate::orphans;
use crate::output::Sink;
use crate::process::{Output, Process};
use crate::redact::Secrets;
use model::job::Exec;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;
use worker::{Report, RunContext};

/// A daemon that left the group may hold the output open: it is waited for no longer than this.
const OUTPUT_LIMIT: Duration = Duration::from_secs(1);

/// What a shell adds to a signal's number for an exit status.
const SIGNALLED: i32 = 128;

/// Where programs are looked for when the agent itself has no PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Starts processes under the agent's rules.
#[derive(Debug)]
pub struct Processes {
    rules: Rules,
    user: Option<User>,
    base: Base,
    output_max: usize,
}

/// What every process gets, from the agent's own environment; the rest of that is kept from jobs.
#[derive(Debug)]
struct Base {
    path: String,
    home: String,
    folder: PathBuf,
}

impl Processes {
    /// With the environment and the working directory that the agent has now; processes of another user start in
    /// `/`, because that user may not enter the agent's.
    ///
    /// # Errors
    /// When the agent's working directory is gone, or the kernel has no subreapers.
    pub fn new(rules: Rules, user: Option<User>, output_max: usize) -> io::Result<Self> {
        let variable = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
        let home = user.as_ref().map_or_else(|| variable("HOME", "/"), |user| user.home.clone());
        let folder = if user.is_some() { PathBuf::from("/") } else { std::env::current_dir()? };
        orphans::adopt()?;
        let base = Base { path: variable("PATH", DEFAULT_PATH), home, folder };
        Ok(Self { rules, user, base, output_max })
    }

    /// Runs one attempt's process to its end.
    pub async fn execute(&self, run: &RunContext, exec: &Exec) -> Report {
        let folder = self.base.folder.join(&exec.working_directory);
        let path = exec.env.get("PATH").unwrap_or(&self.base.path);
        let program = match allow::program(exec, &self.rules, &folder, path) {
            Ok(program) => program,
            Err(refusal) => return Report::not_started(refusal.to_string()),
        };
        let command = self.command(run, exec, &program, &folder);
        let token = run.fencing_token().to_string();
        let (mut process, output) = match Process::start(command, token).await {
            Ok(started) => started,
            Err(error) => {
                let (program, folder) = (program.display(), folder.display());
                return Report::not_started(format!("cannot start {program} in {folder}: {error}"));
            }
        };
        let secrets = Secrets::of_process(exec);
        let sink = Arc::new(Mutex::new(Sink::new(run.clone(), secrets, self.output_max)));
        let mut reading = AbortOnDropHandle::new(tokio::spawn(fill(Arc::clone(&sink), output)));
        let ended = tokio::select! {
            biased;
            ended = process.ended() => ended,
            () = run.cancelled() => process.stop(run.kill_grace()).await,
        };
        if tokio::time::timeout(OUTPUT_LIMIT, &mut reading).await.is_err() {
            tracing::warn!(
                job.name = run.job_name(),
                run.scheduled_for = %run.scheduled_for(),
                "A process outside the run's group holds its output open"
            );
        }
        let (output, truncated) = sink.lock().unwrap_or_else(PoisonError::into_inner).take();
        match ended {
            Ok(status) => report(status).with_output(output, truncated),
            Err(error) => Report::failed(format!("cannot wait for the process: {error}")),
        }
    }

    fn command(&self, run: &RunContext, exec: &Exec, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        match exec.argv.split_first() {
            Some((name, arguments)) if exec.shell.is_empty() => command.arg0(name).args(arguments),
            _ => command.arg0(SHELL).args(["-c", &exec.shell]),
        };
        command.current_dir(folder).env_clear();
        command.env("PATH", &self.base.path).env("HOME", &self.base.home).env("LANG", "C.UTF-8");
        command.envs(&exec.env).envs(environment::variables(run));
        if let Some(user) = &self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }
}

async fn fill(sink: Arc<Mutex<Sink>>, output: Output) {
    output.read(|bytes| sink.lock().unwrap_or_else(PoisonError::into_inner).push(bytes)).await;
}

fn report(status: ExitStatus) -> Report {
    match (status.code(), status.signal()) {
        (Some(0), _) => Report::succeeded().with_exit_status(0),
        (Some(code), _) => Report::failed(format!("exit status {code}")).with_exit_status(code),
        (None, Some(signal)) => {
            Report::failed(format!("ended by signal {signal}")).with_exit_status(SIGNALLED + signal)
        }
        (None, None) => Report::failed("ended without a status"),
    }
}
