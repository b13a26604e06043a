//! Putting a worker together, and running it.

use crate::ask::Asker;
use crate::context::RunContext;
use crate::executor::{BoxError, Executor, Handlers};
use crate::hand::Hand;
use crate::identity::Identity;
use crate::keeper::Keeper;
use crate::link::Link;
use crate::trust::Trust;
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Endpoint;

/// The most runs at a time that a worker can ask for.
pub const SLOTS_MAX: usize = 100_000;

/// Messages that may be under way on a connection beside those of the slots.
const CAPACITY_MIN: usize = 4096;

/// A worker that was put together and does not run yet.
pub struct Worker {
    identity: Identity,
    executor: Arc<dyn Executor>,
    dispatchers: Vec<Endpoint>,
    authorization: MetadataValue<Ascii>,
    trust: Trust,
    drain: Duration,
    status: watch::Sender<Status>,
}

/// What a worker is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// A dispatcher has welcomed it.
    pub connected: bool,
    /// That dispatcher's address, or the one that is tried.
    pub dispatcher: String,
    /// The session; empty before the first.
    pub session_id: String,
    /// Runs whose work goes on.
    pub running: usize,
    /// Those, and the ones that wait to start or for the acknowledgement of their end.
    pub in_hand: usize,
    /// The last trouble with the connection; empty after it proved good.
    pub trouble: String,
}

impl Status {
    /// Becomes what is so now; whether it was otherwise. Asked after each event, of which a herd has three for each run:
    /// nothing is made that is only compared.
    pub(crate) fn note(&mut self, link: &Link, hand: &Hand, session_id: &str, trouble: &str) -> bool {
        let numbers = (link.is_up(), hand.running(), hand.len());
        let texts = (link.address(), session_id, trouble);
        let changed = numbers != (self.connected, self.running, self.in_hand)
            || texts != (self.dispatcher.as_str(), self.session_id.as_str(), self.trouble.as_str());
        if changed {
            (self.connected, self.running, self.in_hand) = numbers;
            texts.0.clone_into(&mut self.dispatcher);
            texts.1.clone_into(&mut self.session_id);
            texts.2.clone_into(&mut self.trouble);
        }
        changed
    }
}

/// How a worker has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Summary {
    /// Attempts whose work ended here.
    pub finished: u64,
    /// Attempts that were left in hand when the drain was over; they will count as lost.
    pub unreported: usize,
}

/// What is wrong with a worker's parts.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Nobody to connect to.
    #[error("no dispatcher was given")]
    NoDispatcher,
    /// An address that isn't one.
    #[error("{address:?} is not the address of a dispatcher: use http://host:port or https://host:port")]
    Address {
        /// As given.
        address: String,
        /// Why.
        #[source]
        source: Option<tonic::transport::Error>,
    },
    /// `https` without knowing whom to trust.
    #[error("{address:?} needs the certificate of the authority that signed it (tls_ca)")]
    NoAuthority {
        /// As given.
        address: String,
    },
    /// An authority without a certificate: nobody would be trusted.
    #[error(
        "the authority of {address:?} (tls_ca) has no certificate: give PEM, from -----BEGIN CERTIFICATE----- on"
    )]
    EmptyAuthority {
        /// As given.
        address: String,
    },
    /// Certificates or a key that can't be used.
    #[error("the certificates or the key for {address:?} can't be used (tls_ca, tls_identity)")]
    Tls {
        /// As given.
        address: String,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
    /// A token that can't be sent.
    #[error("the token is missing, or has characters that no token has")]
    Token,
    /// A queue without a name.
    #[error("a queue's name is empty: give the name that jobs have as their queue, or none for \"default\"")]
    EmptyQueue,
    /// No run, or absurdly many.
    #[error("{0} slots: use 1 to {SLOTS_MAX}")]
    Slots(usize),
    /// A handler that no job can name.
    #[error("a handler's name is empty: give the one that jobs have in `handler: {{name: …}}`")]
    EmptyHandler,
    /// Two handlers of one name.
    #[error("there are two handlers {0:?}")]
    TwoHandlers(String),
    /// Nothing that could do work.
    #[error("neither a handler nor an executor was given")]
    NothingToDo,
}

/// Puts a [`Worker`] together; see [`Worker::builder`].
pub struct WorkerBuilder {
    identity: Identity,
    handlers: Handlers,
    wrong: Option<BuildError>,
    dispatchers: Vec<String>,
    trust: Trust,
    token: SecretString,
    drain: Duration,
}

impl Worker {
    /// Begins to put a worker together: one slot, queue `default`, a drain of 30 s.
    pub fn builder() -> WorkerBuilder {
        WorkerBuilder {
            identity: Identity {
                name: format!("worker-{}", std::process::id()),
                queues: Vec::new(),
                slots: 1,
                labels: BTreeMap::new(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            handlers: Handlers::default(),
            wrong: None,
            dispatchers: Vec::new(),
            trust: Trust::default(),
            token: SecretString::default(),
            drain: Duration::from_secs(30),
        }
    }

    /// What it is doing, from now on.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Works until `shutdown` resolves ([`termination`](crate::termination) does at SIGTERM); then takes nothing more, finishes what is in hand, and ends. Dispatchers
    /// that can't be reached, or refuse the token, are tried again for as long as it takes.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Summary {
        let capacity = CAPACITY_MIN + 4 * self.identity.slots;
        let asker = Asker::new(self.authorization.clone(), self.trust);
        let link = Link::new(self.dispatchers, self.authorization, capacity);
        Keeper::new(self.identity, self.executor, link, asker, self.drain, self.status).run(shutdown).await
    }
}

impl WorkerBuilder {
    /// Addresses of dispatchers, `http://host:port`; more than one lets the worker keep its runs when one ends.
    #[must_use]
    pub fn dispatchers(mut self, addresses: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.dispatchers.extend(addresses.into_iter().map(Into::into));
        self
    }

    /// The certificate, in PEM, of the authority that `https` dispatchers are checked against.
    #[must_use]
    pub fn tls_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.trust.believe(pem.into());
        self
    }

    /// The certificate and its key, both in PEM, that the worker shows to `https` dispatchers that ask for one.
    #[must_use]
    pub fn tls_identity(mut self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        self.trust.show(certificate, key);
        self
    }

    /// A token of role worker.
    #[must_use]
    pub fn token(mut self, token: impl Into<SecretString>) -> Self {
        self.token = token.into();
        self
    }

    /// What people call the worker.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.identity.name = name.into();
        self
    }

    /// A queue to take runs from.
    #[must_use]
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.queues([queue])
    }

    /// Queues to take runs from.
    #[must_use]
    pub fn queues(mut self, queues: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.identity.queues.extend(queues.into_iter().map(Into::into));
        self
    }

    /// Runs at a time.
    #[must_use]
    pub const fn slots(mut self, slots: usize) -> Self {
        self.identity.slots = slots;
        self
    }

    /// A label, for people.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.identity.labels.insert(name.into(), value.into());
        self
    }

    /// The program's version, for people.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.identity.version = version.into();
        self
    }

    /// How long a stop may take in all. Work that still runs `kill_grace` and 1 s before its end is stopped.
    #[must_use]
    pub const fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Runs `handler` for jobs whose work is `handler: {name: …}` with this name. An error is the run's failure, told with
    /// all its causes; a panic too, and the worker goes on (but in a program that is built with `panic = "abort"`).
    #[must_use]
    pub fn handler<F, R, E>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(RunContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let name = self.named(name.into());
        if !self.handlers.add(name.clone(), handler) {
            self.wrong = Some(BuildError::TwoHandlers(name));
        }
        self
    }

    /// The same for a handler that takes the job's payload as its own type. With a payload that is no `T` the handler
    /// is not called: the attempt ends as `NOT_STARTED`, and its error names the run and the field. That counts as a
    /// failed attempt; the job's `retry` says whether there is another.
    #[must_use]
    pub fn typed_handler<T, F, R, E>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        T: DeserializeOwned,
        F: Fn(RunContext, T) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let name = self.named(name.into());
        if !self.handlers.add_typed(name.clone(), handler) {
            self.wrong = Some(BuildError::TwoHandlers(name));
        }
        self
    }

    fn named(&mut self, name: String) -> String {
        if name.is_empty() {
            self.wrong = Some(BuildError::EmptyHandler);
        }
        name
    }

    /// Takes all work that no handler takes.
    #[must_use]
    pub fn executor(mut self, executor: impl Executor) -> Self {
        self.handlers.set_rest(Arc::new(executor));
        self
    }

    /// The worker.
    ///
    /// # Errors
    /// [`BuildError`] with what is missing or wrong.
    pub fn build(mut self) -> Result<Worker, BuildError> {
        if let Some(error) = self.wrong {
            return Err(error);
        }
        if self.handlers.is_empty() {
            return Err(BuildError::NothingToDo);
        }
        if self.dispatchers.is_empty() {
            return Err(BuildError::NoDispatcher);
        }
        if self.identity.slots == 0 || self.identity.slots > SLOTS_MAX {
            return Err(BuildError::Slots(self.identity.slots));
        }
        if self.identity.queues.iter().any(String::is_empty) {
            return Err(BuildError::EmptyQueue);
        }
        if self.identity.queues.is_empty() {
            self.identity.queues.push("default".to_owned());
        }
        let dispatchers = self.dispatchers.iter().map(|address| self.trust.endpoint(address));
        let dispatchers = dispatchers.collect::<Result<_, _>>()?;
        Ok(Worker {
            identity: self.identity,
            executor: Arc::new(self.handlers),
            dispatchers,
            authorization: authorization(&self.token)?,
            trust: self.trust,
            drain: self.drain,
            status: watch::Sender::new(Status::default()),
        })
    }
}

fn authorization(token: &SecretString) -> Result<MetadataValue<Ascii>, BuildError> {
    if token.expose_secret().is_empty() {
        return Err(BuildError::Token);
    }
    let mut value: MetadataValue<Ascii> =
        format!("Bearer {}", token.expose_secret()).parse().map_err(|_| BuildError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> WorkerBuilder {
        let handler = async |_| Ok::<(), BoxError>(());
        Worker::builder().dispatchers(["http://127.0.0.1:7001"]).token("secret").handler("invoice", handler)
    }

    fn error(builder: WorkerBuilder) -> String {
        builder.build().err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(complete().build().is_ok());
        assert!(error(Worker::builder()).contains("neither a handler nor an executor"));
        assert!(error(complete().slots(0)).contains("0 slots"));
        assert!(error(complete().token("")).contains("token"));
        assert!(error(complete().token("a\nb")).contains("token"));
        assert!(error(complete().dispatchers(["127.0.0.1:7001"])).contains("http://host:port"));
        assert!(error(complete().dispatchers(["https://dispatcher:7001"])).contains("tls_ca"));
        let https = || complete().dispatchers(["https://dispatcher:7001"]);
        assert!(error(https().tls_ca("no PEM")).contains("(tls_ca) has no certificate"));
        let authority = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let keyless = https().tls_ca(authority).tls_identity("no PEM", "none either");
        assert!(error(keyless).contains("tls_ca, tls_identity"));
        assert!(error(complete().queue("")).contains("queue's name is empty"));
        let typed = async |_, _: u32| Ok::<(), BoxError>(());
        assert!(error(complete().typed_handler("invoice", typed)).contains("two handlers \"invoice\""));
        assert!(error(complete().typed_handler("", typed)).contains("handler's name is empty"));
    }
}
