//! Free loopback ports that stay ours.
//!
//! Asking the kernel for port 0 and closing the listener leaves a gap in which a parallel test process, or any
//! outgoing connection, takes the port. So a port here comes from outside the range of outgoing connections, and
//! is locked between launchers by an abstract Unix socket of its name, which the kernel frees when its holder
//! ends. Strangers who listen on a fixed port are only looked for, not locked out: starters retry.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::StackError;

const LOWEST: u16 = 10_000;
const TRIES: u32 = 200;
const EPHEMERAL_RANGE_FILE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Linux's default start of the range for outgoing connections.
const EPHEMERAL_START: u16 = 32_768;

/// A port that no other launcher gets while this value lives. Nothing listens on it yet.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: UnixListener,
}

impl Port {
    /// A port that is free now.
    ///
    /// # Errors
    /// [`StackError::NoPort`] when every port tried is taken.
    pub fn reserve() -> Result<Self, StackError> {
        let highest = ephemeral_start().max(LOWEST + 1);
        let span = u32::from(highest - LOWEST);
        for _ in 0..TRIES {
            // A random start, not a counter: parallel processes then seldom meet.
            let number = LOWEST + (random_u32() % span) as u16;
            if let Some(port) = Self::try_reserve(number) {
                return Ok(port);
            }
        }
        Err(StackError::NoPort { tries: TRIES })
    }

    /// This very port, unless another launcher holds it or somebody listens on it.
    pub fn try_reserve(number: u16) -> Option<Self> {
        let name = SocketAddr::from_abstract_name(format!("escapement-port-{number}")).ok()?;
        let lock = UnixListener::bind_addr(&name).ok()?;
        TcpListener::bind(("127.0.0.1", number)).ok()?;
        Some(Self { number, _lock: lock })
    }

    /// The number.
    pub const fn number(&self) -> u16 {
        self.number
    }
}

fn ephemeral_start() -> u16 {
    let text = std::fs::read_to_string(EPHEMERAL_RANGE_FILE).unwrap_or_default();
    text.split_whitespace().next().and_then(|low| low.parse().ok()).unwrap_or(EPHEMERAL_START)
}

fn random_u32() -> u32 {
    uuid::Uuid::new_v4().as_fields().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_not_given_twice() {
        let port = Port::reserve().expect("a port");
        assert!(Port::try_reserve(port.number()).is_none());
        let number = port.number();
        drop(port);
        assert!(Port::try_reserve(number).is_some());
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let number = listener.local_addr().expect("bound").port();
        assert!(Port::try_reserve(number).is_none());
    }

    #[test]
    fn the_owner_can_listen_on_it() {
        let port = Port::reserve().expect("a port");
        TcpListener::bind(("127.0.0.1", port.number())).expect("free for its owner");
        assert!(port.number() < ephemeral_start());
    }
}
