//! A PostgreSQL server on loopback.
//!
//! Stopped and started again it keeps its data, port and password. Ready means that it answered a query and named
//! our data folder: an open port alone may be a server that still recovers, or somebody else's. Standbys, backups and
//! dumps are in `copy.rs`, what makes it speak TLS is in `tls.rs`. No schema is its business.

mod copy;
mod init;
mod tls;

pub use tls::Tls;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::StackError;
use crate::binary::PostgresBinaries;
use crate::error::file_error;
use crate::ports::Port;
use crate::process::{ManagedChild, Signal, Spec};
use crate::user::RunAs;
use crate::wait::POLL_EVERY;

/// The database superuser that `initdb` creates.
pub const SUPERUSER: &str = "escapement";

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_GRACE: Duration = Duration::from_secs(20);
const DROP_GRACE: Duration = Duration::from_secs(3);
const PSQL_LIMIT: Duration = Duration::from_secs(60);
const CONNECT_LIMIT_S: &str = "5";

/// How it is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether committed transactions survive a crash of the machine. A killed process loses nothing either way.
    pub durable: bool,
    /// Whether clients need the password that the first start writes to `password` in the folder. Decided by the
    /// first start: later ones find the file or don't.
    pub password: bool,
    /// More settings, as in `postgresql.conf`; they win over ours.
    pub settings: Vec<(String, String)>,
    /// Whether it speaks TLS, and how; then it speaks nothing else.
    pub tls: Option<Tls>,
}

impl Options {
    /// As fast as it goes, open to everybody on this machine.
    pub const fn for_tests() -> Self {
        Self { durable: false, password: false, settings: Vec::new(), tls: None }
    }

    /// For data that matters, behind a password.
    pub const fn durable() -> Self {
        Self { durable: true, password: true, settings: Vec::new(), tls: None }
    }

    /// Adds a setting.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// How it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Disconnect clients, roll back, checkpoint (SIGINT).
    Fast,
    /// Quit at once; the next start recovers, as after a crash (SIGQUIT).
    Immediate,
}

impl Stop {
    const fn signal(self) -> Signal {
        match self {
            Self::Fast => Signal::SIGINT,
            Self::Immediate => Signal::SIGQUIT,
        }
    }
}

/// A PostgreSQL server; dropping it ends it as [`Stop::Immediate`] does.
#[derive(Debug)]
pub struct Postgres {
    binaries: PostgresBinaries,
    dir: PathBuf,
    options: Options,
    user: Option<RunAs>,
    password: Option<String>,
    port: Port,
    server: Option<ManagedChild>,
}

impl Postgres {
    /// Starts it over the data in `dir`, which is made when missing, and waits until it answers queries.
    ///
    /// # Errors
    /// Any [`StackError`] that starting a server can meet; those of the server carry its log.
    pub async fn start(dir: &Path, options: Options) -> Result<Self, StackError> {
        let (binaries, user) = (crate::binary::postgres()?, RunAs::unprivileged()?);
        std::fs::create_dir_all(dir).map_err(file_error("creating", dir))?;
        let dir = dir.canonicalize().map_err(file_error("resolving", dir))?;
        if let Some(user) = &user {
            user.check_reach(&dir)?;
        }
        let port = Port::reserve()?;
        let mut postgres = Self { binaries, dir, options, user, password: None, port, server: None };
        if !postgres.data().exists() {
            postgres.init().await?;
        }
        postgres.password = postgres.stored_password()?;
        postgres.write_tls()?;
        postgres.launch_until_up(true).await?;
        Ok(postgres)
    }

    /// Starts it again after [`Postgres::stop`] or [`Postgres::kill`], on the same port and data.
    ///
    /// # Errors
    /// As [`Postgres::start`].
    pub async fn start_again(&mut self) -> Result<(), StackError> {
        self.launch_until_up(false).await
    }

    /// Stops it.
    ///
    /// # Errors
    /// [`StackError::Process`].
    pub async fn stop(&mut self, how: Stop) -> Result<(), StackError> {
        match self.server.take() {
            Some(mut server) => server.end_with(how.signal(), STOP_GRACE).await.map(drop),
            None => Ok(()),
        }
    }

    /// Stops it and starts it again.
    ///
    /// # Errors
    /// As [`Postgres::start`].
    pub async fn restart(&mut self, how: Stop) -> Result<(), StackError> {
        self.stop(how).await?;
        self.start_again().await
    }

    /// Kills the postmaster (SIGKILL); its backends end by themselves a moment later.
    ///
    /// # Errors
    /// [`StackError::Process`].
    pub fn kill(&mut self) -> Result<(), StackError> {
        self.server.take().map_or(Ok(()), |mut server| server.kill().map(drop))
    }

    /// Where clients connect to the database `postgres`.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Where clients connect to `database`.
    pub fn url_of(&self, database: &str) -> String {
        let port = self.port.number();
        let query = self.options.tls.as_ref().map(|tls| format!("?{}", tls.query)).unwrap_or_default();
        match &self.password {
            Some(password) => format!("postgres://{SUPERUSER}:{password}@127.0.0.1:{port}/{database}{query}"),
            None => format!("postgres://{SUPERUSER}@127.0.0.1:{port}/{database}{query}"),
        }
    }

    /// The port that it listens on.
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// The postmaster's process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(ManagedChild::pid)
    }

    /// Runs one statement through `psql`, for what has to happen before a client library is at hand: bare values,
    /// a row per line, columns parted by `|`.
    ///
    /// # Errors
    /// [`StackError::Sql`] with the server's message, [`StackError::Spawn`].
    pub async fn psql(&self, database: &str, statement: &str) -> Result<String, StackError> {
        let port = self.port.number().to_string();
        // What an address says goes before what the arguments say.
        let target = match &self.options.tls {
            Some(tls) => format!("postgres://127.0.0.1/{database}?{}", tls.query),
            None => database.to_owned(),
        };
        let mut psql = tokio::process::Command::new(&self.binaries.psql);
        psql.env_clear()
            .env("PGCONNECT_TIMEOUT", CONNECT_LIMIT_S)
            .args(["--no-psqlrc", "--no-password", "--tuples-only", "--no-align", "--quiet"])
            .args(["--set=ON_ERROR_STOP=1", "--host=127.0.0.1", "--port", &port])
            .args(["--username", SUPERUSER, "--dbname", &target, "--command", statement])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if let Some(password) = &self.password {
            psql.env("PGPASSWORD", password);
        }
        let refused = |message: String| StackError::Sql { statement: statement.to_owned(), message };
        let output = tokio::time::timeout(PSQL_LIMIT, psql.output())
            .await
            .map_err(|_| refused(format!("no answer within {PSQL_LIMIT:?}")))?
            .map_err(|source| StackError::Spawn {
                name: "psql".into(),
                program: self.binaries.psql.clone(),
                source,
            })?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
        } else {
            Err(refused(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()))
        }
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn log(&self) -> PathBuf {
        self.dir.join("postgres.log")
    }

    fn spec(&self, name: &str, program: &Path) -> Spec {
        // Nothing of the launcher's environment: PGOPTIONS, PGDATA or a locale would change the server.
        Spec::new(name, program, self.log())
            .clear_env()
            .env("PATH", "/usr/bin:/bin")
            .env("TZ", "UTC")
            .current_dir("/")
            .run_as(self.user.clone())
            // SIGTERM would wait for clients, SIGKILL would leave shared memory behind.
            .on_launcher_death(Signal::SIGQUIT)
    }

    fn server_spec(&self) -> Spec {
        let mut spec = self
            .spec("postgres", &self.binaries.postgres)
            .arg("-D")
            .arg(self.data())
            .args(["-p", &self.port.number().to_string(), "-k", ""])
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"]);
        if !self.options.durable {
            // Not synchronous_commit: a killed server must keep what it acknowledged, and without fsync that is cheap.
            spec = spec.args(["-c", "fsync=off", "-c", "full_page_writes=off"]);
        }
        for (name, value) in self.tls_settings().iter().chain(&self.options.settings) {
            spec = spec.arg("-c").arg(format!("{name}={value}"));
        }
        spec
    }

    /// Starts the server, again and again while the reason of its failure may pass: a port that was taken (a new
    /// one is chosen if that is allowed), or the last server of a killed launcher still ending.
    async fn launch_until_up(&mut self, may_change_port: bool) -> Result<(), StackError> {
        let began = Instant::now();
        loop {
            let failure = match self.launch().await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let hindrance = match &failure {
                StackError::Exited { log_tail, .. } => hindrance(log_tail),
                _ => None,
            };
            match hindrance {
                _ if began.elapsed() > START_LIMIT => return Err(failure),
                None => return Err(failure),
                Some(Hindrance::PortTaken) if may_change_port => self.port = Port::reserve()?,
                Some(_) => tokio::time::sleep(POLL_EVERY).await,
            }
        }
    }

    async fn launch(&mut self) -> Result<(), StackError> {
        let mut server = ManagedChild::spawn(&self.server_spec())?;
        let began = Instant::now();
        while !self.answers().await {
            if let Some(status) = server.exited()? {
                let log_tail = server.log_tail();
                return Err(StackError::Exited { name: "PostgreSQL".into(), status, log_tail });
            }
            if began.elapsed() > START_LIMIT {
                let log_tail = server.log_tail();
                return Err(StackError::NotReady { name: "PostgreSQL".into(), limit: START_LIMIT, log_tail });
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
        self.server = Some(server);
        Ok(())
    }

    async fn answers(&self) -> bool {
        let named = self.psql("postgres", "SHOW data_directory").await;
        named.is_ok_and(|folder| Path::new(&folder) == self.data())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let Some(server) = &mut self.server else { return };
        let _ = server.signal(Signal::SIGQUIT);
        let began = Instant::now();
        while matches!(server.exited(), Ok(None)) && began.elapsed() < DROP_GRACE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Why a server did not start, where another try may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hindrance {
    PortTaken,
    DataInUse,
}

fn hindrance(log: &str) -> Option<Hindrance> {
    if log.contains("Address already in use") {
        Some(Hindrance::PortTaken)
    } else if log.contains("lock file \"postmaster.pid\" already exists")
        || log.contains("pre-existing shared memory block")
    {
        Some(Hindrance::DataInUse)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passing_hindrances_are_told_from_lasting_ones() {
        let taken = "LOG:  could not bind IPv4 address \"127.0.0.1\": Address already in use";
        let in_use = "FATAL:  lock file \"postmaster.pid\" already exists";
        let shared = "FATAL:  pre-existing shared memory block (key 1, ID 2) is still in use";
        assert_eq!(hindrance(taken), Some(Hindrance::PortTaken));
        assert_eq!(hindrance(in_use), Some(Hindrance::DataInUse));
        assert_eq!(hindrance(shared), Some(Hindrance::DataInUse));
        assert_eq!(hindrance("FATAL:  invalid value for parameter \"fsync\""), None);
    }
}
