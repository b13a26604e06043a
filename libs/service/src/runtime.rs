//! A process from its first instruction to its exit code, the same for every service.

mod arguments;

use crate::config::{Common, ConfigError, Problem, Settings, Validate};
use crate::health::{self, Health, Server};
use crate::telemetry::{self, Metrics};
use crate::tls::{Files, Incoming, Tls};
use crate::{door, endpoints, shutdown};
use arguments::Arguments;
use axum::Router;
use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Any error, as a service's `run` returns it.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The exit code of a process that failed.
const FAILED: u8 = 1;
/// The exit code of a process that was told nonsense.
const MISCONFIGURED: u8 = 2;

/// What a service gets to run with.
#[derive(Debug)]
pub struct Context<T> {
    /// The settings that every service has.
    pub common: Common,
    /// The service's own.
    pub settings: T,
    /// Where loops and conditions report.
    pub health: Health,
    /// Cancelled when the process is to stop.
    pub shutdown: CancellationToken,
    metrics: Metrics,
    tls: Option<Tls>,
    probes: OnceLock<SocketAddr>,
    endpoints_file: Option<PathBuf>,
}

/// Why a part of the frame around a service failed.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The address is taken, or not ours.
    #[error("cannot listen on {address} ({setting})")]
    Listen {
        /// The setting that names it.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file for the launcher can't be written.
    #[error("cannot write the endpoints to {path}")]
    Endpoints {
        /// As given.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl<T> Context<T> {
    /// Starts the operations server on `listen_http`, with the routes of `extra` beside its own, and on
    /// `listen_probes`, if that is set, without TLS and with its own only. It goes on through the drain, until
    /// [`Server::stop`] or the end of the process.
    ///
    /// # Errors
    /// [`RuntimeError::Listen`].
    pub async fn serve_http(&self, extra: Router) -> Result<Server, RuntimeError> {
        let incoming = self.bind("listen_http", self.common.listen_http, self.tls.clone()).await?;
        let stop = CancellationToken::new();
        let probes = health::router(self.health.clone(), self.metrics.clone());
        if let Some(address) = self.common.listen_probes {
            let incoming = self.bind("listen_probes", address, None).await?;
            let _ = self.probes.set(incoming.address());
            // Ends with the other one.
            drop(health::serve_incoming(incoming, probes.clone(), stop.clone()));
        }
        Ok(health::serve_incoming(incoming, probes.merge(extra), stop))
    }

    /// Binds `address`, which `setting` names, for callers who present tokens: many, so that the process takes the
    /// descriptors that it may have.
    ///
    /// # Errors
    /// [`RuntimeError::Listen`].
    pub async fn listen(&self, setting: &'static str, address: SocketAddr) -> Result<Incoming, RuntimeError> {
        self.warn_of_clear_tokens(setting, address);
        door::raise_descriptors();
        self.bind(setting, address, self.tls.clone()).await
    }

    /// Says so when tokens that are sent to `address`, which `setting` names, can be read on their way.
    pub fn warn_of_clear_tokens(&self, setting: &'static str, address: SocketAddr) {
        if self.tls.is_none() && !address.ip().is_loopback() {
            tracing::warn!(
                setting,
                listen.address = %address,
                "Tokens travel in the clear: set tls_certificate_file and tls_key_file, unless something in front of \
                 this process speaks TLS"
            );
        }
    }

    async fn bind(
        &self,
        setting: &'static str,
        address: SocketAddr,
        tls: Option<Tls>,
    ) -> Result<Incoming, RuntimeError> {
        let bound = TcpListener::bind(address).await.and_then(|listener| Incoming::new(listener, tls));
        bound.map_err(|source| RuntimeError::Listen { setting, address, source })
    }

    /// Writes the bound addresses where `--endpoints-file` says, with the process's name and id beside them.
    /// Nothing without that argument. `endpoints` is an object: `{"http": "http://127.0.0.1:4711"}`; `probes` joins it
    /// where `listen_probes` is set.
    ///
    /// # Errors
    /// [`RuntimeError::Endpoints`].
    pub fn publish(&self, mut endpoints: serde_json::Value) -> Result<(), RuntimeError> {
        let Some(path) = &self.endpoints_file else { return Ok(()) };
        endpoints["name"] = self.common.name.as_str().into();
        endpoints["pid"] = std::process::id().into();
        if let Some(probes) = self.probes.get() {
            endpoints["probes"] = format!("http://{probes}").into();
        }
        endpoints::write(path, &endpoints)
            .map_err(|source| RuntimeError::Endpoints { path: path.clone(), source })
    }
}

/// Runs a service: arguments, settings, telemetry, signals, then `run`, and the exit code: 0 when `run` returned,
/// 1 when it failed, 2 when the configuration is wrong. `name` is the binary's, `about` a sentence for `--help`.
pub fn main<T, R, F, E>(name: &'static str, about: &'static str, run: R) -> ExitCode
where
    T: Settings + Validate,
    R: FnOnce(Context<T>) -> F,
    F: Future<Output = Result<(), E>>,
    E: Into<BoxError>,
{
    install_crypto();
    let arguments = Arguments::of_process::<T>(name, about);
    match start(name, arguments, run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {}", chain(error.as_ref()));
            ExitCode::from(exit_code(error.as_ref()))
        }
    }
}

/// Makes ring the process's cryptography. Call it first in every `main`; once is enough, more does no harm.
pub fn install_crypto() {
    // An error says that a provider is installed already, which is what is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The configuration error of one setting that shows only when it is used.
pub fn misconfigured(problem: Problem) -> ConfigError {
    ConfigError::Invalid(vec![problem])
}

fn start<T, R, F, E>(name: &'static str, arguments: Arguments, run: R) -> Result<(), BoxError>
where
    T: Settings + Validate,
    R: FnOnce(Context<T>) -> F,
    F: Future<Output = Result<(), E>>,
    E: Into<BoxError>,
{
    let (common, settings) = crate::config::load::<T>(arguments.config.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let drain = common.drain();
    let (result, guard) = runtime.block_on(async {
        let guard = telemetry::init(name, &common)?;
        // Checked with the configuration; what has become wrong since then is told the same way.
        let tls = Files::of(&common).and_then(|files| files.map(Tls::follow).transpose());
        let context = Context {
            shutdown: shutdown::signals()?,
            health: Health::new(),
            metrics: guard.metrics.clone(),
            tls: tls.map_err(misconfigured)?,
            probes: OnceLock::new(),
            endpoints_file: arguments.endpoints_file,
            common,
            settings,
        };
        tracing::info!(
            service = name,
            version = env!("CARGO_PKG_VERSION"),
            cell = context.common.cell,
            "Starting"
        );
        let result = run(context).await.map_err(Into::into);
        Ok::<_, BoxError>((result, guard))
    })?;
    guard.finish();
    // Whatever still runs on a blocking thread may not keep the process.
    runtime.shutdown_timeout(drain);
    result
}

/// An error with all its causes, in one line: `a: b: c`. A cause that its effect's text repeats is left out.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

fn exit_code(error: &(dyn Error + 'static)) -> u8 {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<ConfigError>() {
            return MISCONFIGURED;
        }
        cause = error.source();
    }
    FAILED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot start")]
    struct Outer(#[source] ConfigError);

    fn missing() -> ConfigError {
        misconfigured(Problem::new("database_url", "is missing"))
    }

    #[test]
    fn a_configuration_error_anywhere_in_the_chain_is_exit_code_2() {
        assert_eq!(exit_code(&missing()), 2);
        assert_eq!(exit_code(&Outer(missing())), 2);
        assert_eq!(exit_code(&std::io::Error::other("disk full")), 1);
    }

    #[test]
    fn a_chain_tells_every_cause_once() {
        assert_eq!(
            chain(&Outer(missing())),
            "cannot start: 1 setting is wrong in the configuration:\n  database_url: is missing"
        );
        let wrapped = std::io::Error::other(std::io::Error::other("disk full"));
        assert_eq!(chain(&wrapped), "disk full");
    }
}
