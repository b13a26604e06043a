//! The door of a listener: how many connections are inside, and who goes when it is full.
//!
//! Owns the limits of what somebody without a token can hold. Invariants: a listener has at most
//! [`Limits::connections_max`] connections; while any of them has shown no valid token, a newcomer gets in, and the one of
//! those goes that came first. So whoever opens connections without end pushes out his own, and a probe that asks at once
//! is answered. Deliberately not here: which token is valid. Who knows says so, by [`Guest::vouch`].

use crate::telemetry::meter;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, UpDownCounter};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Connections of one listener where descriptors suffice: at some 25 kB each they take 250 MB.
const CONNECTIONS_MAX: usize = 10_000;
/// Below it a listener would be of no use.
const CONNECTIONS_MIN: usize = 16;
/// Descriptors for all else: the database, etcd, files.
const DESCRIPTORS_KEPT: u64 = 256;
/// Listeners that a process has at most: gRPC, HTTP and probes.
const LISTENERS: u64 = 3;
/// Between two lines about a full house.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// What a connection may take without having shown a token.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections of a listener at a time.
    pub connections_max: usize,
    /// For the first bytes: a TLS handshake's, the preface of HTTP/2's, those of a first head.
    pub first: Duration,
    /// For the head of a request, from the first moment or the end of the answer before it; an HTTP/1 connection that
    /// is kept alive ends after it too.
    pub head: Duration,
    /// For the next byte of a body that is waited for. Not of gRPC, where streams may be silent.
    pub body: Duration,
    /// Between two pings of an HTTP/2 connection.
    pub ping_every: Duration,
    /// For the answer to a ping.
    pub ping: Duration,
}

impl Limits {
    /// The limits of a process that may have as many descriptors as this one.
    pub fn of_process() -> Self {
        let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
        Self {
            connections_max: connections_max(descriptors),
            first: Duration::from_secs(10),
            // Longer than the minute for which load balancers commonly keep a connection: one that is closed here
            // while a request is on its way is an error to its caller.
            head: Duration::from_secs(75),
            body: Duration::from_secs(30),
            ping_every: Duration::from_secs(20),
            ping: Duration::from_secs(10),
        }
    }
}

/// A listener's share of `descriptors`.
fn connections_max(descriptors: u64) -> usize {
    let share = descriptors.saturating_sub(DESCRIPTORS_KEPT) / LISTENERS;
    usize::try_from(share).unwrap_or(CONNECTIONS_MAX).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX)
}

/// Lets the process have as many descriptors as it may ask for: systemd starts with 1,024 of 524,288. Not for processes
/// that start others, which would inherit it.
pub fn raise_descriptors() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(error = %error, "The limit of open files stays as it is");
    }
}

/// A listener's door; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Door(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    most: usize,
    house: Mutex<House>,
    connections: UpDownCounter<i64>,
    turned_away: Counter<u64>,
}

#[derive(Debug, Default)]
struct House {
    inside: usize,
    last: u64,
    /// By number, so in the order of their coming: those no token was seen of.
    unknown: BTreeMap<u64, CancellationToken>,
    told: Option<Instant>,
    turned_away: u64,
}

impl Door {
    pub(crate) fn new(address: SocketAddr, most: usize) -> Self {
        let meter = meter("escapement_service");
        Self(Arc::new(Shared {
            address,
            most,
            house: Mutex::default(),
            connections: meter
                .i64_up_down_counter("listener.connections")
                .with_description("Connections that a listener has")
                .build(),
            turned_away: meter
                .u64_counter("listener.connections.turned_away")
                .with_description("Connections closed because the listener had as many as it may have")
                .build(),
        }))
    }

    /// A place for one more connection; none when all inside have shown tokens.
    pub(crate) fn admit(&self, now: Instant) -> Option<Place> {
        let mut house = self.house();
        let full = house.inside >= self.0.most;
        let goes = if full { house.unknown.pop_first() } else { None };
        let comes = !full || goes.is_some();
        if full {
            self.tell(&mut house, now);
        }
        if let Some((_, leave)) = goes {
            leave.cancel();
        } else if comes {
            house.inside += 1;
            self.0.connections.add(1, &self.labels());
        }
        comes.then(|| {
            house.last += 1;
            let (number, leave) = (house.last, CancellationToken::new());
            house.unknown.insert(number, leave.clone());
            let leaving = Box::pin(leave.clone().cancelled_owned());
            Place { guest: Guest { door: self.clone(), number }, leave, leaving }
        })
    }

    fn tell(&self, house: &mut House, now: Instant) {
        self.0.turned_away.add(1, &self.labels());
        house.turned_away += 1;
        if house.told.is_some_and(|told| now.saturating_duration_since(told) < TELL_EVERY) {
            return;
        }
        tracing::warn!(
            listen.address = %self.0.address,
            listen.connections_max = self.0.most,
            listen.turned_away = house.turned_away,
            listen.without_token = house.unknown.len(),
            "A listener has as many connections as it may have; those without a token are closed, the oldest first"
        );
        house.told = Some(now);
        house.turned_away = 0;
    }

    fn labels(&self) -> [KeyValue; 1] {
        [KeyValue::new("listener", self.0.address.to_string())]
    }

    fn house(&self) -> MutexGuard<'_, House> {
        self.0.house.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place inside; free when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    guest: Guest,
    leave: CancellationToken,
    leaving: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Place {
    /// Who has it.
    pub(crate) const fn guest(&self) -> &Guest {
        &self.guest
    }

    /// Ready once another has got it, with what the connection ends by.
    pub(crate) fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let lost =
            || io::Error::new(io::ErrorKind::ConnectionAborted, "the listener has too many connections");
        self.leaving.as_mut().poll(cx).map(|()| lost())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let door = &self.guest.door;
        let mut house = door.house();
        // Whoever was sent away has handed on his place already.
        if !self.leave.is_cancelled() {
            house.unknown.remove(&self.guest.number);
            house.inside -= 1;
            door.0.connections.add(-1, &door.labels());
        }
    }
}

/// A connection, as its requests know it: in their extensions.
#[derive(Debug, Clone)]
pub struct Guest {
    door: Door,
    number: u64,
}

impl Guest {
    /// It has shown a valid token: it stays, however full it gets.
    pub fn vouch(&self) {
        self.door.house().unknown.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(most: usize) -> Door {
        Door::new(SocketAddr::from(([127, 0, 0, 1], 1)), most)
    }

    fn told(door: &Door) -> (Option<Instant>, u64) {
        let house = door.house();
        (house.told, house.turned_away)
    }

    #[test]
    fn the_first_without_a_token_goes_and_a_house_of_known_ones_takes_nobody() {
        let (door, now) = (door(2), Instant::now());
        let known = door.admit(now).expect("empty");
        known.guest().vouch();
        let first = door.admit(now).expect("half empty");
        let second = door.admit(now).expect("in place of the first");
        assert!(first.leave.is_cancelled() && !second.leave.is_cancelled() && !known.leave.is_cancelled());
        drop(first);
        assert_eq!(door.house().inside, 2, "its place is the second's");
        second.guest().vouch();
        assert!(door.admit(now).is_none());
        drop(known);
        assert!(door.admit(now).is_some());
    }

    #[test]
    fn a_full_house_is_told_once_a_minute() {
        let (door, now) = (door(1), Instant::now());
        let _places: Vec<_> = (0..3).map(|_| door.admit(now)).collect();
        assert_eq!(told(&door), (Some(now), 1));
        let later = now + TELL_EVERY;
        let _place = door.admit(later);
        assert_eq!(told(&door), (Some(later), 0));
    }

    #[test]
    fn the_cap_follows_the_descriptors() {
        for (descriptors, most) in [(0, 16), (1_024, 256), (65_536, 10_000), (u64::MAX, 10_000)] {
            assert_eq!(connections_max(descriptors), most, "{descriptors}");
        }
    }
}
