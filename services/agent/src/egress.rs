//! Where HTTP calls may lead. Judges addresses after resolving; an address is connected to as it was judged.
//!
//! A name is resolved once, every address of the answer is judged, and one that is refused refuses the name: a
//! mixed answer is how an outsider's name gets at an inner service. IPv6 addresses that carry an IPv4 one are
//! judged as that.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What is allowed beside public addresses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// This machine.
    pub loopback: bool,
    /// Private networks and carrier-grade NAT.
    pub private: bool,
    /// Link-local, cloud metadata included.
    pub link_local: bool,
}

/// An address that may not be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// This machine.
    #[error("{0} is a loopback address: set http_allow_loopback in the agent's configuration to allow it")]
    Loopback(IpAddr),
    /// A private network.
    #[error("{0} is a private address: set http_allow_private in the agent's configuration to allow it")]
    Private(IpAddr),
    /// Link-local.
    #[error(
        "{0} is a link-local address: set http_allow_link_local in the agent's configuration to allow it"
    )]
    LinkLocal(IpAddr),
    /// Unspecified, multicast, broadcast, reserved.
    #[error("{0} is no address of a single machine")]
    Never(IpAddr),
}

impl Rules {
    /// Judges one address.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn judge(self, address: IpAddr) -> Result<(), Refused> {
        let verdict = match address {
            IpAddr::V4(v4) => class_v4(v4),
            IpAddr::V6(v6) => embedded_v4(v6).map_or_else(|| class_v6(v6), class_v4),
        };
        match verdict {
            Class::Public => Ok(()),
            Class::Loopback if self.loopback => Ok(()),
            Class::Private if self.private => Ok(()),
            Class::LinkLocal if self.link_local => Ok(()),
            Class::Loopback => Err(Refused::Loopback(address)),
            Class::Private => Err(Refused::Private(address)),
            Class::LinkLocal => Err(Refused::LinkLocal(address)),
            Class::Never => Err(Refused::Never(address)),
        }
    }
}

impl Resolve for Rules {
    fn resolve(&self, name: Name) -> Resolving {
        let rules = *self;
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            for address in &addresses {
                rules.judge(address.ip())?;
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

enum Class {
    Public,
    Loopback,
    Private,
    LinkLocal,
    Never,
}

fn class_v4(address: Ipv4Addr) -> Class {
    match address.octets() {
        [127, ..] => Class::Loopback,
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => Class::Private,
        // Carrier-grade NAT, protocol assignments, benchmarking: inner networks by another name.
        [100, 64..=127, ..] | [192, 0, 0, _] | [198, 18..=19, ..] => Class::Private,
        [169, 254, ..] => Class::LinkLocal,
        [0 | 224..=255, ..] => Class::Never,
        _ => Class::Public,
    }
}

fn class_v6(address: Ipv6Addr) -> Class {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Class::Never,
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        // Unique local, the former site-local, and local-use NAT64.
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] | [0x64, 0xff9b, 1, ..] => Class::Private,
        [0xfe80..=0xfebf, ..] => Class::LinkLocal,
        // Multicast, discard-only, Teredo.
        [0xff00..=0xffff, ..] | [0x100, 0, 0, 0, ..] | [0x2001, 0, ..] => Class::Never,
        _ => Class::Public,
    }
}

/// The IPv4 address inside: mapped, compatible, NAT64, 6to4.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let joined = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => Some(joined(high, low)),
        [0, 0, 0, 0, 0xffff, 0, high, low] => Some(joined(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(joined(high, low)),
        [0x2002, high, low, ..] => Some(joined(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(rules: Rules, address: &str) -> Result<(), Refused> {
        rules.judge(address.parse().expect(address))
    }

    #[test]
    fn public_addresses_are_allowed() {
        for address in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::101:101"] {
            assert_eq!(judge(Rules::default(), address), Ok(()), "{address}");
        }
    }

    #[test]
    fn inner_addresses_are_refused_by_the_setting_that_allows_them() {
        let all = Rules { loopback: true, private: true, link_local: true };
        for (addresses, without, setting) in [
            (
                &["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1"][..],
                Rules { loopback: false, ..all },
                "http_allow_loopback",
            ),
            (
                &[
                    "10.0.0.1",
                    "172.16.0.1",
                    "192.168.1.1",
                    "100.64.0.1",
                    "fd00:ec2::254",
                    "::ffff:10.0.0.1",
                    "2002:a00:1::",
                    "198.18.0.1",
                    "192.0.0.8",
                    "fec0::1",
                ][..],
                Rules { private: false, ..all },
                "http_allow_private",
            ),
            (
                &["169.254.169.254", "fe80::1", "::ffff:169.254.169.254"][..],
                Rules { link_local: false, ..all },
                "http_allow_link_local",
            ),
        ] {
            for address in addresses {
                assert_eq!(judge(all, address), Ok(()), "{address}");
                let refused = judge(without, address).expect_err(address).to_string();
                assert!(refused.contains(setting), "{address}: {refused}");
            }
        }
    }

    #[test]
    fn what_is_no_single_machine_is_never_called() {
        let all = Rules { loopback: true, private: true, link_local: true };
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::",
            "ff02::1",
            "::ffff:0.0.0.0",
            "2001::1",
        ] {
            assert!(matches!(judge(all, address), Err(Refused::Never(_))), "{address}");
        }
    }
}
