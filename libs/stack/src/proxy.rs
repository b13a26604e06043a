//! A TCP proxy between two processes, for tests of what a network does: it holds what one side says, in one direction or
//! both, and lets it arrive later, or breaks the connections.
//!
//! Invariant: bytes arrive once and in order, or not at all. Holding is what a network that loses packets looks like to
//! TCP: silence, and after it everything; nobody is told. The end of a connection is held like its bytes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// From whom to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From whoever connects to the target.
    ToTarget,
    /// From the target to whoever connects.
    ToClient,
}

/// What may pass now.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    holds_to_target: bool,
    holds_to_client: bool,
    /// Connections of an earlier number are broken.
    broken: u64,
}

impl State {
    const fn holds(&self, direction: Direction) -> bool {
        match direction {
            Direction::ToTarget => self.holds_to_target,
            Direction::ToClient => self.holds_to_client,
        }
    }
}

/// A running proxy; it and its connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<watch::Sender<State>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free loopback port, for `target`.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::new(watch::Sender::new(State::default()));
        let of = Arc::clone(&state);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, target, of.subscribe()));
            }
        });
        Ok(Self { address, state, accepting })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds everything in this direction from now on, of new connections too.
    pub fn hold(&self, direction: Direction) {
        self.set(direction, true);
    }

    /// Holds everything.
    pub fn cut(&self) {
        self.hold(Direction::ToTarget);
        self.hold(Direction::ToClient);
    }

    /// Lets what was held in this direction arrive.
    pub fn release(&self, direction: Direction) {
        self.set(direction, false);
    }

    /// Lets everything arrive.
    pub fn heal(&self) {
        self.release(Direction::ToTarget);
        self.release(Direction::ToClient);
    }

    /// Ends every connection; what was held is lost.
    pub fn sever(&self) {
        self.state.send_modify(|state| state.broken += 1);
    }

    fn set(&self, direction: Direction, holds: bool) {
        self.state.send_modify(|state| match direction {
            Direction::ToTarget => state.holds_to_target = holds,
            Direction::ToClient => state.holds_to_client = holds,
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.sever();
    }
}

async fn connect(client: TcpStream, target: SocketAddr, mut state: watch::Receiver<State>) {
    let number = state.borrow_and_update().broken;
    let relaying = async {
        // A held connection reaches nobody.
        passes(state.clone(), Direction::ToTarget).await;
        let target = TcpStream::connect(target).await?;
        client.set_nodelay(true)?;
        target.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_target, to_target) = target.into_split();
        tokio::try_join!(
            relay(from_client, to_target, state.clone(), Direction::ToTarget),
            relay(from_target, to_client, state.clone(), Direction::ToClient),
        )
    };
    let mut watched = state.clone();
    tokio::select! {
        // How a connection ends is its ends' business.
        _ = relaying => {}
        _ = watched.wait_for(|state| state.broken > number) => {}
    }
}

async fn relay(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    state: watch::Receiver<State>,
    direction: Direction,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        passes(state.clone(), direction).await;
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..count]).await?;
    }
}

/// Returns once the direction is not held; never when the proxy is gone.
async fn passes(mut state: watch::Receiver<State>, direction: Direction) {
    if state.wait_for(|state| !state.holds(direction)).await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A proxy, and the two ends of a connection through it.
    async fn connected() -> (Proxy, TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let proxy = Proxy::start(listener.local_addr().expect("bound")).await.expect("started");
        let client = TcpStream::connect(proxy.address()).await.expect("connected");
        let (target, _) = listener.accept().await.expect("accepted");
        (proxy, client, target)
    }

    async fn reads(stream: &mut TcpStream) -> Option<u8> {
        let read = tokio::time::timeout(Duration::from_millis(200), stream.read_u8()).await;
        read.ok().map(|read| read.expect("a byte"))
    }

    #[tokio::test]
    async fn each_direction_is_held_and_released_by_itself() {
        let (proxy, mut client, mut target) = connected().await;
        proxy.hold(Direction::ToClient);
        client.write_u8(1).await.expect("sent");
        target.write_u8(2).await.expect("sent");
        assert_eq!((reads(&mut target).await, reads(&mut client).await), (Some(1), None));
        proxy.release(Direction::ToClient);
        assert_eq!(reads(&mut client).await, Some(2));
    }

    #[tokio::test]
    async fn a_severed_connection_ends_and_a_new_one_works() {
        let (proxy, mut client, _target) = connected().await;
        proxy.sever();
        let read = tokio::time::timeout(Duration::from_secs(5), client.read_u8()).await.expect("it ends");
        assert!(read.is_err());
        assert!(TcpStream::connect(proxy.address()).await.is_ok());
    }
}
