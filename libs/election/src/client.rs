//! The connection to etcd: to one endpoint at a time, another one as soon as there is doubt.
//!
//! The client library spreads calls over all endpoints and retries none, so with one of two dead every third call
//! failed. Here a connection sticks to an endpoint that works. Every call has a time limit of its own, because
//! the library's does not cover streams. What a doubtful answer means is left to the caller: only it knows
//! whether asking twice is harmless.

use std::sync::Arc;
use std::time::{Duration, Instant};

use etcd_client::{ConnectOptions, Error as EtcdError};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::ElectionError;
use crate::keys::Keys;
use crate::tls::Tls;

/// Between two tries to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(500);

/// The shortest lease: below it, a change of etcd's own leader costs our leader its leadership.
pub const LEASE_TTL_MIN: Duration = Duration::from_secs(5);
const LEASE_TTL_MAX: Duration = Duration::from_secs(300);

/// The longest wait for one answer, as a fraction of the lease: three tries fit into one.
const CALLS_PER_LEASE: u32 = 3;

const ENDED: &str = "it ended the connection, as it does when it does not accept what etcd_client_certificate_file names; \
                     its log says why";

const HTTPS: &str = "https://";

/// Whom to ask, and as whom.
#[derive(Debug, Clone)]
pub struct Config {
    /// `http://host:port` of each member, or `https://host:port`.
    pub endpoints: Vec<String>,
    /// The cell, part of every key.
    pub cell: String,
    /// How long etcd keeps what we don't renew; whole seconds, at least [`LEASE_TTL_MIN`].
    pub lease_ttl: Duration,
    /// Who we are, if etcd wants to know.
    pub credentials: Option<Credentials>,
    /// How members that are reached by `https` are trusted.
    pub tls: Tls,
}

/// A user of etcd.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Its name.
    pub user: String,
    /// Its password.
    pub password: SecretString,
}

impl Config {
    /// Checks what can be checked without etcd.
    ///
    /// # Errors
    /// [`ElectionError::Config`] with the field.
    pub fn validate(&self) -> Result<(), ElectionError> {
        let wrong = |field, problem: String| Err(ElectionError::Config { field, problem });
        if self.endpoints.is_empty() {
            return wrong(
                "endpoints",
                "are missing: name at least one, such as http://127.0.0.1:2379".into(),
            );
        }
        if self.lease_ttl < LEASE_TTL_MIN || self.lease_ttl > LEASE_TTL_MAX {
            let problem = format!("is {:?}: use {LEASE_TTL_MIN:?} to {LEASE_TTL_MAX:?}", self.lease_ttl);
            return wrong("lease_ttl", problem);
        }
        if self.lease_ttl.subsec_nanos() != 0 {
            return wrong("lease_ttl", format!("is {:?}: use whole seconds", self.lease_ttl));
        }
        Keys::of_cell(&self.cell).map(drop)
    }

    /// How `endpoint` is connected to, with the files of TLS as they are now.
    async fn options(&self, endpoint: &str) -> Result<ConnectOptions, ElectionError> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(self.call_limit())
            // A member that lost its quorum then ends our streams instead of keeping them silent.
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if endpoint.starts_with(HTTPS) {
            options = options.with_tls(self.tls.read().await?);
        }
        Ok(match &self.credentials {
            Some(who) => options.with_user(&who.user, who.password.expose_secret()),
            None => options,
        })
    }

    /// Of a connection that was ended before the first answer: by whom it may be.
    fn explained(&self, error: ElectionError) -> ElectionError {
        let tls = self.endpoints.iter().any(|endpoint| endpoint.starts_with(HTTPS));
        match error {
            ElectionError::Doubt { action, source } if tls && crate::tls::was_ended(&source) => {
                ElectionError::Tls { action, problem: ENDED, source }
            }
            error => error,
        }
    }

    fn call_limit(&self) -> Duration {
        self.lease_ttl / CALLS_PER_LEASE
    }
}

/// A client of one cell. Clones share the connection.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    config: Config,
    keys: Keys,
    current: Mutex<Current>,
}

struct Current {
    connection: Option<etcd_client::Client>,
    /// Counts the connections; its remainder is the endpoint.
    number: usize,
}

/// One use of the connection.
pub(crate) struct Connection {
    pub(crate) etcd: etcd_client::Client,
    number: usize,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

impl Client {
    /// Checks `config` and finds an endpoint that answers.
    ///
    /// # Errors
    /// [`ElectionError::Config`]; a doubt when no endpoint answers; [`ElectionError::Refused`] when our
    /// credentials are no good.
    pub async fn connect(config: &Config) -> Result<Self, ElectionError> {
        config.validate()?;
        let keys = Keys::of_cell(&config.cell)?;
        let current = Mutex::new(Current { connection: None, number: 0 });
        let client = Self { shared: Arc::new(Shared { config: config.clone(), keys, current }) };
        // A read through the quorum: a member that lost it would answer a lesser question.
        let key = client.keys().epoch();
        client
            .ask("connecting", |mut etcd| {
                let key = key.clone();
                async move { etcd.get(key, None).await }
            })
            .await
            .map_err(|error| config.explained(error))?;
        Ok(client)
    }

    /// Connects, again and again while no endpoint answers, for as long as `limit`: a service starts with etcd.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn connect_within(config: &Config, limit: Duration) -> Result<Self, ElectionError> {
        let began = Instant::now();
        loop {
            match Self::connect(config).await {
                Err(error) if error.is_doubt() && began.elapsed() < limit => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    let cause = cause.unwrap_or_default();
                    tracing::warn!(%error, error.cause = cause, "etcd does not answer; trying again");
                    tokio::time::sleep(CONNECT_PAUSE).await;
                }
                connected => return connected,
            }
        }
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.shared.keys
    }

    pub(crate) fn lease_ttl(&self) -> Duration {
        self.shared.config.lease_ttl
    }

    /// How long one call may take.
    pub(crate) fn call_limit(&self) -> Duration {
        self.shared.config.call_limit()
    }

    /// Asks once. A doubt moves the next caller to the next endpoint.
    pub(crate) async fn call<T, F>(
        &self,
        action: &'static str,
        operation: impl FnOnce(etcd_client::Client) -> F,
    ) -> Result<T, ElectionError>
    where
        F: Future<Output = Result<T, EtcdError>>,
    {
        let Connection { etcd, number } = self.connection(action).await?;
        let outcome = self.within(action, self.call_limit(), operation(etcd)).await;
        if outcome.as_ref().is_err_and(ElectionError::is_doubt) {
            self.leave(number).await;
        }
        outcome
    }

    /// Asks one endpoint after the other until one answers. For questions and whatever is harmless twice.
    pub(crate) async fn ask<T, F>(
        &self,
        action: &'static str,
        operation: impl Fn(etcd_client::Client) -> F,
    ) -> Result<T, ElectionError>
    where
        F: Future<Output = Result<T, EtcdError>>,
    {
        // One more than there are endpoints: the first may only have been a connection that went stale.
        let mut tries_left = self.shared.config.endpoints.len();
        loop {
            match self.call(action, &operation).await {
                Err(error) if error.is_doubt() && tries_left > 0 => tries_left -= 1,
                outcome => return outcome,
            }
        }
    }

    /// The current connection, made if there is none.
    pub(crate) async fn connection(&self, action: &'static str) -> Result<Connection, ElectionError> {
        let mut current = self.shared.current.lock().await;
        let number = current.number;
        if let Some(etcd) = &current.connection {
            return Ok(Connection { etcd: etcd.clone(), number });
        }
        let config = &self.shared.config;
        let endpoint = &config.endpoints[number % config.endpoints.len()];
        match self.connect_to(action, endpoint).await {
            Ok(etcd) => {
                current.connection = Some(etcd.clone());
                Ok(Connection { etcd, number })
            }
            Err(error) => {
                current.number = number.wrapping_add(1);
                Err(error)
            }
        }
    }

    /// This does not connect yet, unless a user has to be authenticated.
    async fn connect_to(
        &self,
        action: &'static str,
        endpoint: &str,
    ) -> Result<etcd_client::Client, ElectionError> {
        let options = self.shared.config.options(endpoint).await?;
        let connecting = etcd_client::Client::connect([endpoint], Some(options));
        self.within(action, self.call_limit(), connecting).await
    }

    /// Gives the connection up, unless somebody already did.
    pub(crate) async fn leave(&self, number: usize) {
        let mut current = self.shared.current.lock().await;
        if current.number == number {
            *current = Current { connection: None, number: number.wrapping_add(1) };
        }
    }

    /// Bounds one exchange with etcd and says what its failure means.
    pub(crate) async fn within<T>(
        &self,
        action: &'static str,
        limit: Duration,
        exchange: impl Future<Output = Result<T, EtcdError>>,
    ) -> Result<T, ElectionError> {
        match timeout(limit, exchange).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(ElectionError::from_etcd(action, error)),
            Err(_) => Err(ElectionError::Silent { action, limit }),
        }
    }
}

impl Connection {
    pub(crate) const fn number(&self) -> usize {
        self.number
    }
}

/// The growing wait between tries while etcd is in doubt.
#[derive(Debug)]
pub(crate) struct Pause {
    next: Duration,
}

impl Pause {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_millis(800);

    pub(crate) const fn new() -> Self {
        Self { next: Self::FIRST }
    }

    /// Waits, and logs the reason the first time.
    pub(crate) async fn after(&mut self, doubt: &ElectionError) {
        if self.next == Self::FIRST {
            let cause = std::error::Error::source(doubt).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(error = %doubt, error.cause = %cause, "etcd is in doubt, trying again");
        }
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(Self::LONGEST);
    }

    /// An answer came: the next doubt starts afresh.
    pub(crate) const fn reset(&mut self) {
        self.next = Self::FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            endpoints: vec!["http://127.0.0.1:1".into()],
            cell: "main".into(),
            lease_ttl: LEASE_TTL_MIN,
            credentials: None,
            tls: Tls::default(),
        }
    }

    #[test]
    fn a_lease_below_the_floor_is_refused() {
        assert!(config().validate().is_ok());
        let short = Config { lease_ttl: Duration::from_secs(4), ..config() };
        assert!(matches!(short.validate(), Err(ElectionError::Config { field: "lease_ttl", .. })));
        let fraction = Config { lease_ttl: Duration::from_millis(5500), ..config() };
        assert!(fraction.validate().is_err());
    }

    #[test]
    fn endpoints_are_needed() {
        let none = Config { endpoints: Vec::new(), ..config() };
        assert!(matches!(none.validate(), Err(ElectionError::Config { field: "endpoints", .. })));
    }

    #[test]
    fn a_password_is_never_shown() {
        let credentials = Credentials { user: "escapement".into(), password: "geheim".into() };
        let shown = format!("{:?}", Config { credentials: Some(credentials), ..config() });
        assert!(shown.contains("escapement") && !shown.contains("geheim"), "{shown}");
    }
}
