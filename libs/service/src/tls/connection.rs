//! A connection that was taken in, with TLS or without.

use crate::door::{Guest, Place};
use axum::http::Extensions;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tonic::service::InterceptorLayer;
use tonic::transport::server::{Connected, TcpConnectInfo};
use tonic::{Request, Status};

/// Bytes by which a server knows which protocol it has before it, and measures time itself: HTTP/2's preface. No request
/// of HTTP/1 with a host is shorter.
const PREFACE: usize = 24;

/// What a server reads from and writes to; fails when it is slow to begin, or is [sent away](crate::door).
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    address: SocketAddr,
    place: Place,
    opening: Option<Opening>,
}

#[derive(Debug)]
pub(super) enum Stream {
    /// In the clear.
    Plain(TcpStream),
    /// After the handshake.
    Tls(Box<TlsStream<TcpStream>>),
}

/// The time until the preface is there.
#[derive(Debug)]
struct Opening {
    missing: usize,
    until: Pin<Box<Sleep>>,
}

impl Connection {
    /// Begins within `opening`.
    pub(super) fn new(stream: Stream, address: SocketAddr, place: Place, opening: Duration) -> Self {
        let until = Box::pin(tokio::time::sleep(opening));
        Self { stream, address, place, opening: Some(Opening { missing: PREFACE, until }) }
    }

    /// Who is at the other end.
    pub(crate) fn peer(&self) -> Peer {
        Peer { address: self.address, guest: self.place.guest().clone() }
    }

    fn stream(self: Pin<&mut Self>, cx: &mut Context<'_>) -> io::Result<Pin<&mut Stream>> {
        let this = self.get_mut();
        match this.place.poll_lost(cx) {
            Poll::Ready(lost) => Err(lost),
            Poll::Pending => Ok(Pin::new(&mut this.stream)),
        }
    }

    /// Counts `read` bytes of the preface.
    fn opened_by(&mut self, read: usize) {
        if let Some(opening) = &mut self.opening {
            opening.missing = opening.missing.saturating_sub(read);
            if opening.missing == 0 {
                self.opening = None;
            }
        }
    }

    fn wait_for_opening(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(opening) = &mut self.opening else { return Poll::Pending };
        opening.until.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    address: SocketAddr,
    guest: Guest,
}

impl Peer {
    /// Tells a request with these extensions its peer's address, as [`TcpConnectInfo`], and its [`Guest`].
    pub(crate) fn introduce(&self, extensions: &mut Extensions) {
        extensions.insert(TcpConnectInfo { local_addr: None, remote_addr: Some(self.address) });
        extensions.insert(self.guest.clone());
    }
}

/// An interceptor that refuses nothing.
pub type Introduce = fn(Request<()>) -> Result<Request<()>, Status>;

/// For each gRPC server of [`Incoming`](super::Incoming): tells its requests their peer's address, as
/// [`TcpConnectInfo`], and their [`Guest`].
pub fn introducing() -> InterceptorLayer<Introduce> {
    InterceptorLayer::new(introduce)
}

fn introduce(mut request: Request<()>) -> Result<Request<()>, Status> {
    if let Some(peer) = request.extensions_mut().remove::<Peer>() {
        peer.introduce(request.extensions_mut());
    }
    Ok(request)
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match self.as_mut().stream(cx)?.poll_read(cx, buf) {
            Poll::Pending => self.wait_for_opening(cx),
            done => {
                self.opened_by(buf.filled().len() - before);
                done
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.stream(cx)?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream(cx)?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_shutdown(cx)
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
