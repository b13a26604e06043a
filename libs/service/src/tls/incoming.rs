//! The connections of one listener, handshakes behind them, for the gRPC server and for the HTTP server alike.
//!
//! Without TLS a connection is handed on as it was accepted. With TLS a task of the listener makes the handshakes beside
//! each other, so that a client that is slow with its own keeps nobody waiting. Either way it has passed the [`Door`].

use super::connection::Stream as Inner;
use super::{Connection, Tls};
use crate::door::{Door, Limits, Place};
use crate::telemetry::meter;
use opentelemetry::metrics::Counter;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::Stream;

/// For one handshake: several round trips across the world.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Handshakes at a time; more clients wait in the system's queue.
const HANDSHAKES_MAX: usize = 1024;
/// Connections after their handshake that the server has not taken yet.
const READY_MAX: usize = 64;
/// After an accept failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// A bound listener.
#[derive(Debug)]
pub struct Incoming {
    address: SocketAddr,
    limits: Limits,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Plain(Plain),
    Tls(mpsc::Receiver<Connection>),
}

impl Incoming {
    /// The connections of `listener`, with `tls` if there is any, as many as the process can have.
    ///
    /// # Errors
    /// When the listener has no address.
    pub fn new(listener: TcpListener, tls: Option<Tls>) -> io::Result<Self> {
        Self::within(Limits::of_process(), listener, tls)
    }

    /// [`Self::new`], with other limits.
    ///
    /// # Errors
    /// When the listener has no address.
    pub fn within(limits: Limits, listener: TcpListener, tls: Option<Tls>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let door = Door::new(address, limits.connections_max);
        let source = match tls {
            None => Source::Plain(Plain { listener, door, head: limits.first, pause: None }),
            Some(tls) => {
                let (ready, taken) = mpsc::channel(READY_MAX);
                tokio::spawn(take_in(listener, door, tls, limits.first, ready));
                Source::Tls(taken)
            }
        };
        Ok(Self { address, limits, source })
    }

    /// What each of its connections may take.
    pub(crate) const fn limits(&self) -> Limits {
        self.limits
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How addresses of it begin.
    pub const fn scheme(&self) -> &'static str {
        match self.source {
            Source::Plain(_) => "http",
            Source::Tls(_) => "https",
        }
    }

    /// Its address as a client is told it.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme(), self.address)
    }
}

/// As servers take connections; never fails.
impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = match &mut self.get_mut().source {
            Source::Plain(plain) => plain.poll_accept(cx).map(Some),
            // The task ends only with its panic, or the runtime.
            Source::Tls(taken) => taken.poll_recv(cx),
        };
        next.map(|next| next.map(Ok))
    }
}

/// A listener in the clear.
#[derive(Debug)]
struct Plain {
    listener: TcpListener,
    door: Door,
    head: Duration,
    /// After an accept that failed.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Plain {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Connection> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match ready!(self.listener.poll_accept(cx)) {
                Ok((stream, address)) => {
                    let Some(place) = self.door.admit(Instant::now()) else { continue };
                    return Poll::Ready(Connection::new(Inner::Plain(stream), address, place, self.head));
                }
                Err(error) if is_of_the_connection(&error) => {}
                Err(error) => {
                    tracing::error!(error = %error, "Cannot accept a connection");
                    self.pause = Some(Box::pin(tokio::time::sleep(ACCEPT_PAUSE)));
                }
            }
        }
    }
}

/// Accepts until the server has dropped its end, and with that the port is free.
async fn take_in(
    listener: TcpListener,
    door: Door,
    tls: Tls,
    head: Duration,
    ready: mpsc::Sender<Connection>,
) {
    let failed = meter("escapement_service")
        .u64_counter("tls.handshakes.failed")
        .with_description("Connections that did not get through their TLS handshake")
        .build();
    let room = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let next = async {
            let permit = room.clone().acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = ready.closed() => return,
            next = next => next,
        };
        match accepted {
            Ok((stream, address)) => {
                let Some(place) = door.admit(Instant::now()) else { continue };
                let (tls, ready, failed) = (tls.clone(), ready.clone(), failed.clone());
                tokio::spawn(async move {
                    let shaken = shake_hands(stream, address, &tls, &failed, place).await;
                    // Only handshakes count: a server that is slow to take its connections holds none up.
                    drop(permit);
                    if let Some((stream, place)) = shaken {
                        let connection = Connection::new(Inner::Tls(stream), address, place, head);
                        // Nobody there: the server has stopped.
                        let _ = ready.send(connection).await;
                    }
                });
            }
            Err(error) if is_of_the_connection(&error) => {}
            Err(error) => {
                tracing::error!(error = %error, "Cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Makes the handshake, unless another gets the `place` meanwhile.
async fn shake_hands(
    stream: TcpStream,
    address: SocketAddr,
    tls: &Tls,
    failed: &Counter<u64>,
    mut place: Place,
) -> Option<(Box<TlsStream<TcpStream>>, Place)> {
    // Records are written whole; waiting to fill segments only delays them.
    let _ = stream.set_nodelay(true);
    let shaking = TlsAcceptor::from(tls.current()).accept(stream);
    let shaken = tokio::select! {
        lost = std::future::poll_fn(|cx| place.poll_lost(cx)) => Ok(Err(lost)),
        shaken = tokio::time::timeout(HANDSHAKE_LIMIT, shaking) => shaken,
    };
    let error = match shaken {
        Ok(Ok(stream)) => return Some((Box::new(stream), place)),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("not done within {HANDSHAKE_LIMIT:?}"),
    };
    failed.add(1, &[]);
    // The client says why; here anybody who knocks could fill the log.
    tracing::debug!(peer.address = %address, error, "A TLS handshake failed");
    None
}

/// Whether only the connection that was to be accepted is broken.
fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
