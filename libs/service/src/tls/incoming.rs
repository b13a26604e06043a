//! The connections of one listener, handshakes behind them, for the gRPC server and for the HTTP server alike.
//!
//! Without TLS a connection is handed on as it was accepted. With TLS a task of the listener makes the handshakes beside
//! each other, so that a client that is slow with its own keeps nobody waiting.

use super::{Connection, Tls};
use crate::telemetry::meter;
use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use opentelemetry::metrics::Counter;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
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
    source: Source,
}

#[derive(Debug)]
enum Source {
    Plain(TcpListener),
    Tls(mpsc::Receiver<(Connection, SocketAddr)>),
}

impl Incoming {
    /// The connections of `listener`, with `tls` if there is any.
    ///
    /// # Errors
    /// When the listener has no address.
    pub fn new(listener: TcpListener, tls: Option<Tls>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let Some(tls) = tls else { return Ok(Self { address, source: Source::Plain(listener) }) };
        let (ready, taken) = mpsc::channel(READY_MAX);
        tokio::spawn(take_in(listener, tls, ready));
        Ok(Self { address, source: Source::Tls(taken) })
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

/// As a gRPC server takes connections.
impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.get_mut().source {
            Source::Plain(listener) => listener
                .poll_accept(cx)
                .map(|accepted| Some(accepted.map(|(stream, _)| Connection::Plain(stream)))),
            Source::Tls(taken) => taken.poll_recv(cx).map(|next| next.map(|(connection, _)| Ok(connection))),
        }
    }
}

/// As an HTTP server takes connections.
impl axum::serve::Listener for Incoming {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match &mut self.source {
            Source::Plain(listener) => {
                let (stream, address) = axum::serve::Listener::accept(listener).await;
                (Connection::Plain(stream), address)
            }
            Source::Tls(taken) => match taken.recv().await {
                Some(accepted) => accepted,
                // The task ends only with its panic, or the runtime.
                None => std::future::pending().await,
            },
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// Who is at the other end of an HTTP connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

impl Connected<IncomingStream<'_, Incoming>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Incoming>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// Accepts until the server has dropped its end, and with that the port is free.
async fn take_in(listener: TcpListener, tls: Tls, ready: mpsc::Sender<(Connection, SocketAddr)>) {
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
                let (tls, ready, failed) = (tls.clone(), ready.clone(), failed.clone());
                tokio::spawn(async move {
                    let shaken = shake_hands(stream, address, &tls, &failed).await;
                    // Only handshakes count: a server that is slow to take its connections holds none up.
                    drop(permit);
                    if let Some(connection) = shaken {
                        // Nobody there: the server has stopped.
                        let _ = ready.send((connection, address)).await;
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

async fn shake_hands(
    stream: TcpStream,
    address: SocketAddr,
    tls: &Tls,
    failed: &Counter<u64>,
) -> Option<Connection> {
    // Records are written whole; waiting to fill segments only delays them.
    let _ = stream.set_nodelay(true);
    let shaking = TlsAcceptor::from(tls.current()).accept(stream);
    let error = match tokio::time::timeout(HANDSHAKE_LIMIT, shaking).await {
        Ok(Ok(stream)) => return Some(Connection::Tls(Box::new(stream))),
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
