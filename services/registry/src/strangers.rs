//! Who sends secrets that are nobody's: an address has so many look-ups of them a second, bearer tokens and those of
//! check-ins together, and then has to wait.
//!
//! Invariant: a try is taken before its look-up, for many may be under way, and given back when the secret is somebody's
//! or nobody can say. Deliberately not here: who is known, and so asks without a try.

use crate::rate::Buckets;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tonic::Status;

/// So many seconds' look-ups of unknown tokens at once after a pause: as many programs may start behind one address.
const BURST_SECONDS: u32 = 100;
/// Of an IPv6 address: what one customer of a provider has for itself.
const IPV6_PREFIX: u128 = u128::MAX << 64;

/// Tries that are left, by address.
#[derive(Debug)]
pub struct Strangers(Mutex<Buckets<IpAddr>>);

impl Strangers {
    /// So many look-ups a second for one address.
    pub fn new(per_second: u32) -> Self {
        Self(Mutex::new(Buckets::new(per_second, per_second.saturating_mul(BURST_SECONDS))))
    }

    /// Takes a try of `peer`; of a call within this process, which has no address, none.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED, with when to try again, when none is left.
    pub fn take(&self, peer: Option<IpAddr>, now: Instant) -> Result<(), Status> {
        let Some(peer) = peer else { return Ok(()) };
        let taken = self.tries().take(source(peer), now);
        taken.map_err(|wait| rpc::status::try_later("too many unknown tokens came from your address", wait))
    }

    /// Gives a try back that does not count.
    pub fn give_back(&self, peer: Option<IpAddr>) {
        if let Some(peer) = peer {
            self.tries().give_back(source(peer));
        }
    }

    fn tries(&self) -> MutexGuard<'_, Buckets<IpAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whom the tries from an address are held against.
fn source(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & IPV6_PREFIX).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_customer_are_one_source() {
        let of = |text: &str| source(text.parse().expect("an address")).to_string();
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_ne!(of("2001:db8:1:3::1"), of("2001:db8:1:2::1"));
    }
}
