//! Copies of a server: a standby that replays what the first one writes, a backup of the data folder to go back to, and
//! dumps. What each of them forgets is what the tests of failovers and restores are about.

use super::init::remove_if_there;
use super::{Postgres, SUPERUSER, Stop};
use crate::StackError;
use crate::error::file_error;
use crate::process::ManagedChild;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A copy of a test's database takes a second.
const COPY_LIMIT: Duration = Duration::from_secs(120);

impl Postgres {
    /// Starts a standby of this server over `dir`, which replays what this one writes, on a port of its own.
    ///
    /// # Errors
    /// As [`Postgres::start`]; [`StackError::Command`] when the server can't be copied.
    pub async fn standby(&self, dir: &Path) -> Result<Self, StackError> {
        self.base_backup(dir, &["--write-recovery-conf"]).await?;
        if let Some(password) = &self.password {
            self.write_password(&dir.join("password"), password)?;
        }
        Self::start(dir, self.options.clone()).await
    }

    /// Takes a copy of the data folder to `dir`, for [`Postgres::restore`].
    ///
    /// # Errors
    /// [`StackError::Command`] when the server can't be copied.
    pub async fn back_up(&self, dir: &Path) -> Result<(), StackError> {
        self.base_backup(dir, &[]).await
    }

    /// Goes back to the copy in `dir`, which is used up: this server ends at once, and starts over the copy, on the same
    /// port.
    ///
    /// # Errors
    /// As [`Postgres::start`].
    pub async fn restore(&mut self, dir: &Path) -> Result<(), StackError> {
        self.stop(Stop::Immediate).await?;
        let (copy, data) = (data_in(dir), self.data());
        remove_if_there(&data)?;
        std::fs::rename(&copy, &data).map_err(file_error("moving", copy))?;
        self.start_again().await
    }

    /// Makes this standby the primary at the address of `gone`, which ends at once if it still runs. Afterwards `gone` has
    /// this one's port.
    ///
    /// # Errors
    /// As [`Postgres::start`]; [`StackError::Sql`] when it is no standby.
    pub async fn take_over(&mut self, gone: &mut Self) -> Result<(), StackError> {
        gone.stop(Stop::Immediate).await?;
        self.stop(Stop::Fast).await?;
        std::mem::swap(&mut self.port, &mut gone.port);
        self.start_again().await?;
        self.psql("postgres", "SELECT pg_promote()").await.map(drop)
    }

    /// Writes the tables of `schema`, with everything that belongs to it, into a script for [`Postgres::run_script`].
    ///
    /// # Errors
    /// [`StackError::Command`].
    pub async fn dump(&self, database: &str, schema: &str, script: &Path) -> Result<(), StackError> {
        let arguments = ["--schema", schema, "--file"].map(str::to_owned);
        let arguments = arguments.into_iter().chain([script.display().to_string(), database.to_owned()]);
        self.client_program("pg_dump", arguments.collect(), false).await
    }

    /// Runs a script, all or nothing.
    ///
    /// # Errors
    /// [`StackError::Command`].
    pub async fn run_script(&self, database: &str, script: &Path) -> Result<(), StackError> {
        let fixed = ["--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1"];
        let named = [format!("--file={}", script.display()), format!("--dbname={database}")];
        self.client_program("psql", fixed.map(str::to_owned).into_iter().chain(named).collect(), false).await
    }

    async fn base_backup(&self, dir: &Path, more: &[&str]) -> Result<(), StackError> {
        std::fs::create_dir_all(dir).map_err(file_error("creating", dir))?;
        let data = data_in(dir);
        std::fs::DirBuilder::new().mode(0o700).create(&data).map_err(file_error("creating", &data))?;
        self.give_to_user(&data)?;
        let mut arguments = vec![format!("--pgdata={}", data.display())];
        arguments.extend(["--checkpoint=fast", "--wal-method=stream", "--no-sync"].map(str::to_owned));
        arguments.extend(more.iter().map(|one| (*one).to_owned()));
        self.client_program("pg_basebackup", arguments, true).await
    }

    /// Runs a program of the server's installation against it until it ends; `as_server`: its files are the server's.
    async fn client_program(
        &self,
        program: &str,
        arguments: Vec<String>,
        as_server: bool,
    ) -> Result<(), StackError> {
        let path = self.binaries.psql.with_file_name(program);
        let mut spec = self
            .spec(program, &path)
            .args(["--no-password", "--host=127.0.0.1", "--username", SUPERUSER])
            .arg(format!("--port={}", self.port()))
            .args(arguments);
        if !as_server {
            spec = spec.run_as(None);
        }
        if let Some(password) = &self.password {
            spec = spec.env("PGPASSWORD", password);
        }
        let mut child = ManagedChild::spawn(&spec)?;
        match child.exited_within(COPY_LIMIT).await? {
            Some(status) if status.success() => Ok(()),
            Some(status) => {
                Err(StackError::Command { command: program.to_owned(), status, said: child.log_tail() })
            }
            None => {
                let log_tail = child.log_tail();
                Err(StackError::NotReady { name: program.to_owned(), limit: COPY_LIMIT, log_tail })
            }
        }
    }
}

/// Where the data of a server in `dir` is.
fn data_in(dir: &Path) -> PathBuf {
    dir.join("data")
}
