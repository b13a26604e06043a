//! What must be in the database before a service starts: the schema, and the stack's two bearer tokens. Both are
//! made by the command line, as an operator would.

use super::Options;
use crate::StackError;
use crate::process::{ManagedChild, Spec};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// For one command; the first migration takes well under a second.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// Holds the administrator's token.
pub(super) fn admin_file(data: &Path) -> PathBuf {
    data.join("admin-token")
}

/// Holds the workers' token.
pub(super) fn worker_file(data: &Path) -> PathBuf {
    data.join("worker-token")
}

/// Migrates the schema, then makes the tokens of an earlier start, or new ones, known to the database.
pub(super) async fn run(options: &Options, database_url: &str) -> Result<(), StackError> {
    command(options, database_url, &["migrate".into()]).await?;
    let data = &options.data;
    for (role, name, file) in
        [("admin", "dev-admin", admin_file(data)), ("worker", "dev-worker", worker_file(data))]
    {
        let file = file.display().to_string();
        let arguments = ["bootstrap", "--role", role, "--name", name, "--token-file", &file];
        command(options, database_url, &arguments.map(String::from)).await?;
    }
    Ok(())
}

/// Runs `escapement` with `arguments`; the address, with its password, goes through the environment.
async fn command(options: &Options, database_url: &str, arguments: &[String]) -> Result<(), StackError> {
    let program = options.binaries.join("escapement");
    if !program.is_file() {
        let folder = options.binaries.clone();
        return Err(StackError::NotBuilt { binary: "escapement".to_owned(), folder });
    }
    let name = format!("escapement {}", arguments.first().map_or("", String::as_str));
    let spec = Spec::new(&name, program, options.data.join("prepare.log"))
        .args(arguments)
        .clear_env()
        .env("ESCAPEMENT_DATABASE_URL", database_url);
    let mut child = ManagedChild::spawn(&spec)?;
    match child.exited_within(COMMAND_LIMIT).await? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(StackError::Command { command: name, status, said: child.log_tail() }),
        None => Err(StackError::NotReady { name, limit: COMMAND_LIMIT, log_tail: child.log_tail() }),
    }
}
