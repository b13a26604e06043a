//! One process of Escapement: its settings file, its log, and the addresses that it says it bound.

use super::{Options, ProcessEndpoint};
use crate::process::{ManagedChild, Spec};
use crate::wait::POLL_EVERY;
use crate::{StackError, error::file_error};
use serde_json::Value;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Definitions and history.
    Registry,
    /// Planning.
    Ticker,
    /// Handing out.
    Dispatcher,
    /// The dead-man's switch.
    Watchdog,
    /// The ready-made worker.
    Agent,
}

impl Role {
    /// Its name, which is that of its binary after `escapement-`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Registry => "registry",
            Self::Ticker => "ticker",
            Self::Dispatcher => "dispatcher",
            Self::Watchdog => "watchdog",
            Self::Agent => "agent",
        }
    }
}

/// A running service.
pub struct Service {
    role: Role,
    name: String,
    child: ManagedChild,
    endpoints_file: PathBuf,
    endpoints: Value,
    /// Set once its end has been told, or was asked for.
    end_known: bool,
}

impl Service {
    pub(super) fn spawn(
        options: &Options,
        role: Role,
        name: &str,
        settings: &str,
    ) -> Result<Self, StackError> {
        let folder = |part: &str| {
            let path = options.data.join(part);
            std::fs::create_dir_all(&path).map_err(file_error("making", &path)).map(|()| path)
        };
        let settings_file = folder("settings")?.join(format!("{name}.toml"));
        write_secret(&settings_file, &format!("name = {name:?}\n{settings}"))?;
        let endpoints_file = folder("run")?.join(format!("{name}.json"));
        if endpoints_file.exists() {
            std::fs::remove_file(&endpoints_file).map_err(file_error("removing", &endpoints_file))?;
        }
        let binary = format!("escapement-{}", role.as_str());
        let program = options.binaries.join(&binary);
        if !program.is_file() {
            return Err(StackError::NotBuilt { binary, folder: options.binaries.clone() });
        }
        let mut spec = Spec::new(name, program, folder("log")?.join(format!("{name}.log")))
            .clear_env()
            .arg("--config")
            .arg(&settings_file)
            .arg("--endpoints-file")
            .arg(&endpoints_file);
        for kept in ["PATH", "HOME", "LANG", "RUST_BACKTRACE"] {
            if let Some(value) = std::env::var_os(kept) {
                spec = spec.env(kept, value);
            }
        }
        let child = ManagedChild::spawn(&spec)?;
        Ok(Self {
            role,
            name: name.to_owned(),
            child,
            endpoints_file,
            endpoints: Value::Null,
            end_known: false,
        })
    }

    /// Waits until it has written its addresses, which it does when it is ready.
    pub(super) async fn wait_ready(&mut self, limit: Duration) -> Result<(), StackError> {
        let began = Instant::now();
        loop {
            if let Ok(text) = std::fs::read(&self.endpoints_file) {
                let endpoints = serde_json::from_slice(&text).map_err(std::io::Error::from);
                self.endpoints = endpoints.map_err(file_error("reading", &self.endpoints_file))?;
                return Ok(());
            }
            if let Some(status) = self.child.exited()? {
                return Err(StackError::Exited {
                    name: self.name.clone(),
                    status,
                    log_tail: self.child.log_tail(),
                });
            }
            if began.elapsed() > limit {
                return Err(StackError::NotReady {
                    name: self.name.clone(),
                    limit,
                    log_tail: self.child.log_tail(),
                });
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    /// Its role.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Its name: the role and a number.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// An address that it wrote: `http`, `rest` or `grpc`.
    pub fn endpoint(&self, which: &str) -> Option<String> {
        self.endpoints[which].as_str().map(str::to_owned)
    }

    /// The settings, in TOML, that make another process listen where this one did.
    pub(super) fn listen_again(&self) -> String {
        let setting = |which: &str| {
            let address = self.endpoint(which)?;
            let address = address.strip_prefix("http://")?;
            Some(format!("listen_{which} = {address:?}\n"))
        };
        ["http", "grpc"].into_iter().filter_map(setting).collect()
    }

    /// What it has logged since it was started.
    pub fn log(&self) -> &Path {
        self.child.log()
    }

    /// The process itself, for killing (SIGKILL), freezing (SIGSTOP) and thawing (SIGCONT) it. Its end counts as
    /// asked for from here on.
    pub fn process(&mut self) -> &mut ManagedChild {
        self.end_known = true;
        &mut self.child
    }

    pub(super) fn process_endpoint(&self) -> ProcessEndpoint {
        let http = self.endpoint("http").unwrap_or_default();
        ProcessEndpoint { name: self.name.clone(), pid: self.pid(), http, grpc: self.endpoint("grpc") }
    }

    pub(super) fn newly_ended(&mut self) -> Option<(String, ExitStatus)> {
        if self.end_known {
            return None;
        }
        let status = self.child.exited().ok().flatten()?;
        self.end_known = true;
        Some((self.name.clone(), status))
    }
}

/// Writes a file that only its owner may read: settings hold the database's password.
pub(super) fn write_secret(path: &Path, text: &str) -> Result<(), StackError> {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).map_err(file_error("writing", path))?;
    file.write_all(text.as_bytes()).map_err(file_error("writing", path))
}
