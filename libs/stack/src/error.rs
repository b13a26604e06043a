//! What can go wrong while starting, asking or stopping a server.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// An error of the stack. Server errors carry the end of the server's log, which nearly always names the cause.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// A program is not installed.
    #[error("{binary} was not found in PATH or {elsewhere}: install the Debian package {package}")]
    BinaryMissing { binary: &'static str, elsewhere: &'static str, package: &'static str },
    /// The system refused to start a program.
    #[error("{name} could not be started from {}", program.display())]
    Spawn { name: String, program: PathBuf, source: std::io::Error },
    /// A file or folder operation failed.
    #[error("{action} {} failed", path.display())]
    File { action: &'static str, path: PathBuf, source: std::io::Error },
    /// A signal could not be sent, or the end of a process not be read.
    #[error("process {pid} of {name} could not be {action}")]
    Process { name: String, pid: i32, action: &'static str, source: nix::Error },
    /// The program ended although it should be running.
    #[error("{name} ended while it was started ({status}); its log ends with:\n{log_tail}")]
    Exited { name: String, status: ExitStatus, log_tail: String },
    /// The program runs, but did not become ready.
    #[error("{name} was not ready after {limit:?}; its log ends with:\n{log_tail}")]
    NotReady { name: String, limit: Duration, log_tail: String },
    /// A server that was stopped is asked to do something.
    #[error("{name} is stopped")]
    Stopped { name: &'static str },
    /// The user that a server drops to can't reach its folder.
    #[error("user {user} can't enter {} on the way to {}: choose a folder elsewhere, or don't run as root", closed.display(), dir.display())]
    Unreachable { user: String, dir: PathBuf, closed: PathBuf },
    /// PostgreSQL refuses to run as root, and there is nobody else.
    #[error("PostgreSQL refuses to run as root, and neither user postgres nor nobody exists")]
    NoUser,
    /// Every port that was tried is taken.
    #[error("no free port after {tries} tries")]
    NoPort { tries: u32 },
    /// A port can't be listened on.
    #[error("cannot listen for {what}")]
    Listen { what: String, source: std::io::Error },
    /// `psql` reported an error.
    #[error("psql refused {statement:?}: {message}")]
    Sql { statement: String, message: String },
    /// Another stack runs in this folder.
    #[error("a stack runs in {} already: stop it, or choose another folder", data.display())]
    InUse { data: PathBuf },
    /// A service was not built, or the program was moved away from its services.
    #[error("{binary} is not in {}: build it with `cargo build --workspace --bins`", folder.display())]
    NotBuilt { binary: String, folder: PathBuf },
    /// The stack has no service of this name.
    #[error("the stack has no service {name}")]
    UnknownService { name: String },
    /// A command that prepares the stack failed.
    #[error("{command} failed ({status}); it said:\n{said}")]
    Command { command: String, status: ExitStatus, said: String },
    /// A condition did not come true in time.
    #[error(transparent)]
    Wait(#[from] crate::wait::WaitError),
}

/// Names the file operation that failed.
pub(crate) fn file_error(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(std::io::Error) -> StackError {
    let path = path.into();
    move |source| StackError::File { action, path, source }
}
