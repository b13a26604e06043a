//! The settings that every service has.

use super::{List, Problem, Setting, Settings, Source, Validate, secret};
use secrecy::SecretString;
use serde::Deserialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

crate::settings! {
    /// The settings that every service has.
    pub struct Common {
        /// The cell: a PostgreSQL schema and an etcd prefix. 1 to 40 of a-z, 0-9, '_', beginning with a letter.
        cell: String = "main".to_owned(),
        /// What people call this process; a label, it need not be unique. The host's name and the process id when
        /// unset.
        name: String = host_and_pid(),
        /// Where /healthz, /readyz and /metrics (and what the service adds) listen; port 0 takes a free one.
        listen_http: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        /// Where /healthz, /readyz and /metrics listen a second time, never with TLS, for who can't speak it; nowhere
        /// when unset.
        listen_probes: Option<SocketAddr> = None,
        /// The certificate of every listener, in PEM, with those between it and its authority after it; read again when
        /// it changes. Without it nothing is encrypted.
        tls_certificate_file: Option<PathBuf> = None,
        /// The key of that certificate, in PEM.
        tls_key_file: Option<PathBuf> = None,
        /// Authorities, in PEM, one of which must have signed the certificate that each client has to show; none has to
        /// show any when unset.
        tls_client_ca_file: Option<PathBuf> = None,
        /// PostgreSQL, as postgres://user:password@host:port/database; for TLS with ?sslmode=verify-full, and sslrootcert,
        /// sslcert and sslkey as libpq takes them.
        database_url: Option<SecretString> = None,
        /// A file with the value of database_url.
        database_url_file: Option<PathBuf> = None,
        /// Addresses of etcd's members, http:// or https://; separated by commas in the environment.
        etcd_endpoints: List = List::from(["http://127.0.0.1:2379"]),
        /// Authorities, in PEM, one of which must have signed the certificates of etcd's members; those that this machine
        /// trusts when unset. Read again for each connection, as are the two files below.
        etcd_ca_file: Option<PathBuf> = None,
        /// The certificate, in PEM, that etcd's members are shown, with those between it and its authority after it.
        etcd_client_certificate_file: Option<PathBuf> = None,
        /// The key of that certificate, in PEM.
        etcd_client_key_file: Option<PathBuf> = None,
        /// The user in etcd; none connects without authentication.
        etcd_user: Option<String> = None,
        /// That user's password.
        etcd_password: Option<SecretString> = None,
        /// A file with the value of etcd_password.
        etcd_password_file: Option<PathBuf> = None,
        /// How log lines look on standard error: json or text.
        log_format: LogFormat = LogFormat::Json,
        /// Which log lines are written, as tracing-subscriber's EnvFilter reads it: info,escapement_ticker=debug.
        log_filter: String = "info,opentelemetry=warn".to_owned(),
        /// Where traces and metrics are sent by OTLP over gRPC; OTEL_EXPORTER_OTLP_ENDPOINT when unset, and when
        /// both are unset none are sent.
        otlp_endpoint: Option<String> = None,
        /// How long a stop may take before the process ends with what is left undone, in milliseconds.
        drain_ms: u64 = 30_000,
    }
}

/// How log lines look.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

impl std::fmt::Debug for LogFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Json => "json",
            Self::Text => "text",
        })
    }
}

impl Common {
    /// The address of PostgreSQL.
    ///
    /// # Errors
    /// A [`Problem`] when neither `database_url` nor `database_url_file` is set; for a service's `validate`.
    pub fn database_url(&self) -> Result<&SecretString, Problem> {
        self.database_url.as_ref().ok_or_else(|| {
            Problem::new("database_url", "is missing: give postgres://user:password@host:port/database")
        })
    }

    /// How long a stop may take.
    pub const fn drain(&self) -> std::time::Duration {
        std::time::Duration::from_millis(self.drain_ms)
    }

    /// Fills the secrets that are named by files.
    pub(super) fn read_secret_files(&mut self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut fill = |setting: &str, value: &mut Option<SecretString>, file: &Option<PathBuf>| match secret(
            setting,
            value.take(),
            file.as_deref(),
        ) {
            Ok(secret) => *value = secret,
            Err(problem) => problems.push(problem),
        };
        fill("database_url", &mut self.database_url, &self.database_url_file);
        fill("etcd_password", &mut self.etcd_password, &self.etcd_password_file);
        problems
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let begins = self.cell.starts_with(|c: char| c.is_ascii_lowercase());
        if !begins || self.cell.len() > 40 || !self.cell.chars().all(inner) {
            let rule = "use 1 to 40 of a-z, 0-9, '_', beginning with a letter";
            problems.push(Problem::new("cell", format!("{:?}: {rule}", self.cell)));
        }
        if self.name.is_empty() || self.name.len() > 253 || self.name.chars().any(char::is_control) {
            problems.push(Problem::new("name", "use 1 to 253 bytes without control characters"));
        }
        if self.etcd_endpoints.is_empty() {
            problems.push(Problem::new("etcd_endpoints", "is empty: give at least one address"));
        }
        for endpoint in self.etcd_endpoints.iter() {
            if !(endpoint.starts_with("http://") || endpoint.starts_with("https://")) {
                let message = format!("{endpoint:?}: use an address beginning with http:// or https://");
                problems.push(Problem::new("etcd_endpoints", message));
            }
        }
        if self.etcd_user.is_some() != self.etcd_password.is_some() {
            problems.push(Problem::new("etcd_user", "needs etcd_password with it, and the other way round"));
        }
        let tls = crate::tls::Files::of(self).and_then(|files| files.map_or(Ok(()), |files| files.check()));
        problems.extend(tls.err());
        problems.extend(crate::tls::outgoing::problems(self));
        if let Err(error) = tracing_subscriber::EnvFilter::try_new(&self.log_filter) {
            problems.push(Problem::new("log_filter", format!("{:?}: {error}", self.log_filter)));
        }
        if self.drain_ms == 0 {
            problems.push(Problem::new("drain_ms", "0: use at least 1"));
        }
        problems
    }
}

fn host_and_pid() -> String {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    format!("{}-{}", host.as_deref().unwrap_or("localhost"), std::process::id())
}

/// The settings of a service that has none of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSettings;

impl Settings for NoSettings {
    fn describe() -> Vec<Setting> {
        Vec::new()
    }
    fn read(_: &mut Source) -> Self {
        Self
    }
}

impl Validate for NoSettings {
    fn validate(&self, _: &Common) -> Vec<Problem> {
        Vec::new()
    }
}
