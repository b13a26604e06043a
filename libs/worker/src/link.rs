//! The connection to one dispatcher at a time, and the way to the next one.
//!
//! Owns dialling, backoff with jitter, and the end of a connection; whose turn it is is decided in [`Ring`]. Invariant:
//! [`Link::next`] may be dropped at any await without losing a message. A connection that takes no more messages
//! is broken: the keeper must never wait for it, because it keeps the deadlines.

use crate::clock::Moment;
use crate::ring::Ring;
use rpc::v1::worker_service_client::WorkerServiceClient;
use rpc::v1::{self, from_worker, to_worker};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Endpoint;
use tonic::{Request, Streaming};

/// For dialling, Hello and Welcome together.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Half-open connections are noticed after both together, in time to resume elsewhere before the lease ends.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the dispatcher may take to close after Goodbye.
const GOODBYE_LIMIT: Duration = Duration::from_secs(1);
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("cannot connect")]
    Connect(#[source] tonic::transport::Error),
    #[error("the dispatcher ended the session's connection")]
    Status(#[source] Box<tonic::Status>),
    #[error("the dispatcher closed the connection")]
    Closed,
    #[error("the dispatcher's first message is not Welcome")]
    NotWelcome,
    #[error("no Welcome within {CONNECT_LIMIT:?}")]
    Slow,
    #[error("{0:?} without an answer to a heartbeat")]
    Silent(Duration),
    #[error("the connection takes no more messages")]
    Clogged,
    #[error("the dispatcher asked this worker to connect to another")]
    SentOn,
}

/// What happened to the link.
#[derive(Debug)]
pub(crate) enum Event {
    /// It is time to [`connect`](Link::connect).
    Due,
    /// A dispatcher has said Welcome; the moment is from before the Hello.
    Up(v1::Welcome, Moment),
    /// A message.
    Message(Box<v1::ToWorker>),
    /// The connection, or the attempt to get one, has ended.
    Down(LinkError),
}

type Dialling = Pin<Box<dyn Future<Output = Result<(Connection, v1::Welcome, Moment), LinkError>> + Send>>;

enum State {
    Down { until: Instant },
    Dialling(Dialling),
    Up(Box<Connection>),
}

struct Connection {
    outbound: mpsc::Sender<v1::FromWorker>,
    inbound: Streaming<v1::ToWorker>,
}

/// See the module.
pub(crate) struct Link {
    dispatchers: Vec<Endpoint>,
    /// Of each, as it is shown.
    addresses: Vec<String>,
    authorization: MetadataValue<Ascii>,
    /// Messages under way; beyond it the connection counts as broken.
    capacity: usize,
    ring: Ring,
    backoff: Duration,
    state: State,
}

/// How every dispatcher is dialled.
pub(crate) fn tuned(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(CONNECT_LIMIT)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true)
}

impl Link {
    /// Not connected yet, and due. Workers begin at different dispatchers.
    pub(crate) fn new(
        dispatchers: Vec<Endpoint>,
        authorization: MetadataValue<Ascii>,
        capacity: usize,
    ) -> Self {
        let ring = Ring::new(dispatchers.len(), random() as usize % dispatchers.len().max(1));
        let state = State::Down { until: Instant::now() };
        let addresses = dispatchers.iter().map(|endpoint| endpoint.uri().to_string()).collect();
        Self { dispatchers, addresses, authorization, capacity, ring, backoff: BACKOFF_MIN, state }
    }

    /// The dispatcher that is, or will next be, dialled.
    pub(crate) fn address(&self) -> &str {
        self.addresses.get(self.ring.current()).map_or("", String::as_str)
    }

    /// True with a Welcome and no end since.
    pub(crate) const fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// What happens next. After `Down` the link waits out its backoff and says `Due`.
    pub(crate) async fn next(&mut self) -> Event {
        match &mut self.state {
            State::Down { until } => {
                tokio::time::sleep_until(*until).await;
                Event::Due
            }
            State::Dialling(dialling) => match dialling.await {
                Ok((connection, welcome, asked)) => {
                    self.state = State::Up(Box::new(connection));
                    Event::Up(welcome, asked)
                }
                Err(error) => self.down(error),
            },
            State::Up(connection) => match connection.inbound.message().await {
                Ok(Some(message)) => Event::Message(Box::new(message)),
                Ok(None) => self.down(LinkError::Closed),
                Err(status) => self.down(LinkError::Status(Box::new(status))),
            },
        }
    }

    /// What has happened already.
    pub(crate) fn ready(&mut self) -> Option<Event> {
        let next = std::pin::pin!(self.next());
        match next.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        }
    }

    /// Dials the current dispatcher; [`next`](Self::next) tells how it went.
    pub(crate) fn connect(&mut self, hello: v1::Hello) {
        let Some(endpoint) = self.dispatchers.get(self.ring.current()).cloned() else { return };
        let dialling = dial(endpoint, self.authorization.clone(), self.capacity, hello);
        self.state = State::Dialling(Box::pin(async {
            tokio::time::timeout(CONNECT_LIMIT, dialling).await.unwrap_or(Err(LinkError::Slow))
        }));
    }

    /// Sends a message if there is a connection. What is lost with it is said again on the next.
    pub(crate) fn send(&mut self, message: from_worker::Message) -> Result<(), LinkError> {
        let State::Up(connection) = &self.state else { return Ok(()) };
        let message = v1::FromWorker { message: Some(message) };
        connection.outbound.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => LinkError::Clogged,
            mpsc::error::TrySendError::Closed(_) => LinkError::Closed,
        })
    }

    /// True while the connection takes more than it is sure to need: what can be left out is sent only then.
    pub(crate) fn has_room(&self) -> bool {
        match &self.state {
            State::Up(connection) => connection.outbound.capacity() > connection.outbound.max_capacity() / 2,
            State::Down { .. } | State::Dialling(_) => false,
        }
    }

    /// The dispatcher has answered a heartbeat: the next backoff is short again.
    pub(crate) const fn proved(&mut self, without_database: bool) {
        self.backoff = BACKOFF_MIN;
        self.ring.answered(without_database);
    }

    /// Gives the connection up, and turns to the next dispatcher after a backoff.
    pub(crate) fn down(&mut self, error: LinkError) -> Event {
        let half = self.backoff / 2;
        let jitter = half.mul_f64(f64::from(random()) / f64::from(u32::MAX));
        self.state = State::Down { until: Instant::now() + half + jitter };
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        match error {
            LinkError::SentOn => self.ring.sent_on(),
            _ => self.ring.failed(),
        }
        Event::Down(error)
    }

    /// Says Goodbye and waits, a moment, until the dispatcher has closed its side.
    pub(crate) async fn close(mut self) {
        if self.send(from_worker::Message::Goodbye(v1::Goodbye {})).is_err() {
            return;
        }
        let State::Up(connection) = self.state else { return };
        let Connection { outbound, mut inbound } = *connection;
        drop(outbound);
        let until_closed = async { while let Ok(Some(_)) = inbound.message().await {} };
        // A dispatcher that doesn't close finds the connection reset instead; nothing is in hand.
        let _ = tokio::time::timeout(GOODBYE_LIMIT, until_closed).await;
    }
}

async fn dial(
    endpoint: Endpoint,
    authorization: MetadataValue<Ascii>,
    capacity: usize,
    hello: v1::Hello,
) -> Result<(Connection, v1::Welcome, Moment), LinkError> {
    let channel = endpoint.connect().await.map_err(LinkError::Connect)?;
    let (outbound, messages) = mpsc::channel(capacity);
    let hello = v1::FromWorker { message: Some(from_worker::Message::Hello(hello)) };
    let asked = Moment::now();
    outbound.try_send(hello).map_err(|_| LinkError::Clogged)?;
    let mut request = Request::new(ReceiverStream::new(messages));
    request.metadata_mut().insert("authorization", authorization);
    let refused = |status| LinkError::Status(Box::new(status));
    let mut inbound = WorkerServiceClient::new(channel).work(request).await.map_err(refused)?.into_inner();
    match inbound.message().await.map_err(refused)?.ok_or(LinkError::Closed)?.message {
        Some(to_worker::Message::Welcome(welcome)) => Ok((Connection { outbound, inbound }, welcome, asked)),
        _ => Err(LinkError::NotWelcome),
    }
}

/// Not for secrets: spreads reconnections.
fn random() -> u32 {
    getrandom::u32().unwrap_or_default()
}
