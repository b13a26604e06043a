//! Which addresses lead out, and which lead back into our own network.

use super::Refused;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which addresses besides public ones may be connected to. None, unless configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Policy {
    /// How the settings of these permissions begin, so that a refusal can name the one that would help.
    pub settings: &'static str,
    /// This machine.
    pub loopback: bool,
    /// Private and shared ranges.
    pub private: bool,
    /// Link-local ranges, where clouds keep their machines' credentials.
    pub link_local: bool,
}

/// A kind of address that is not public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// This machine, also by its unspecified address.
    Loopback,
    /// Private (RFC 1918, RFC 4193) and shared (RFC 6598) ranges.
    Private,
    /// Link-local.
    LinkLocal,
    /// Multicast, reserved and documentation ranges: no single host is there.
    Special,
}

impl Kind {
    /// What would permit it; `settings` is how the settings' names begin.
    pub fn remedy(self, settings: &str) -> String {
        let permission = match self {
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link_local",
            Self::Special => return "always refused".to_owned(),
        };
        format!("refused while the setting {settings}_allow_{permission} is off")
    }

    /// What kind `address` is; none for a public one. An IPv6 address that carries an IPv4 one is what that is.
    pub fn of(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => match carried(address) {
                Some(inner) => of_v4(inner),
                None => of_v6(address),
            },
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Loopback => "this machine",
            Self::Private => "a private network",
            Self::LinkLocal => "a link-local network",
            Self::Special => "a reserved range",
        })
    }
}

impl Policy {
    /// Whether `address`, to which `host` leads, may be connected to.
    ///
    /// # Errors
    /// [`Refused::Address`].
    pub fn check(self, host: &str, address: IpAddr) -> Result<(), Refused> {
        match Kind::of(address) {
            None => Ok(()),
            Some(Kind::Loopback) if self.loopback => Ok(()),
            Some(Kind::Private) if self.private => Ok(()),
            Some(Kind::LinkLocal) if self.link_local => Ok(()),
            Some(kind) => {
                Err(Refused::Address { host: host.to_owned(), address, kind, settings: self.settings })
            }
        }
    }
}

fn of_v4(address: Ipv4Addr) -> Option<Kind> {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (0 | 127, ..) => Some(Kind::Loopback),
        (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => Some(Kind::Private),
        (169, 254, _) => Some(Kind::LinkLocal),
        (224..=255, ..) | (192, 0, 0 | 2) | (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113) => {
            Some(Kind::Special)
        }
        _ => None,
    }
}

fn of_v6(address: Ipv6Addr) -> Option<Kind> {
    let first = address.segments()[0];
    if address.is_loopback() || address.is_unspecified() {
        Some(Kind::Loopback)
    } else if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 {
        Some(Kind::Private) // unique local, and the site-local range before it
    } else if first & 0xffc0 == 0xfe80 {
        Some(Kind::LinkLocal)
    } else if first & 0xe000 == 0x2000 && !is_assigned_to_protocols(address) {
        None // global unicast
    } else {
        Some(Kind::Special)
    }
}

/// Ranges inside global unicast where no ordinary host is: Teredo (it carries an IPv4 address) and other protocol
/// assignments (2001::/23), documentation.
fn is_assigned_to_protocols(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..])
}

/// The IPv4 address inside a mapped, compatible, translated (NAT64) or 6to4 address.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let v4 = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match s {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_that_leads_inside_is_known() {
        for (address, kind) in [
            ("127.0.0.1", Some(Kind::Loopback)),
            ("0.0.0.0", Some(Kind::Loopback)),
            ("::1", Some(Kind::Loopback)),
            ("::", Some(Kind::Loopback)),
            ("::ffff:127.0.0.1", Some(Kind::Loopback)),
            ("::127.0.0.1", Some(Kind::Loopback)),
            ("64:ff9b::7f00:1", Some(Kind::Loopback)),
            ("2002:7f00:1::", Some(Kind::Loopback)),
            ("10.255.0.1", Some(Kind::Private)),
            ("172.16.0.1", Some(Kind::Private)),
            ("172.32.0.1", None),
            ("192.168.1.1", Some(Kind::Private)),
            ("100.64.0.1", Some(Kind::Private)),
            ("fd00:ec2::254", Some(Kind::Private)),
            ("169.254.169.254", Some(Kind::LinkLocal)),
            ("::ffff:169.254.169.254", Some(Kind::LinkLocal)),
            ("fe80::1", Some(Kind::LinkLocal)),
            ("224.0.0.1", Some(Kind::Special)),
            ("255.255.255.255", Some(Kind::Special)),
            ("ff02::1", Some(Kind::Special)),
            ("2001:db8::1", Some(Kind::Special)),
            ("2001:0:7f00:1::1", Some(Kind::Special)),
            ("::ffff:0:127.0.0.1", Some(Kind::Special)),
            ("64:ff9b:1::7f00:1", Some(Kind::Special)),
            ("198.18.0.1", Some(Kind::Special)),
            ("1.1.1.1", None),
            ("2606:4700::1111", None),
        ] {
            assert_eq!(Kind::of(address.parse().expect("an address")), kind, "{address}");
        }
    }

    #[test]
    fn a_permission_opens_its_own_range_only() {
        let policy = Policy { loopback: true, ..Policy::default() };
        assert_eq!(policy.check("localhost", IpAddr::from([127, 0, 0, 1])), Ok(()));
        assert!(policy.check("metadata", IpAddr::from([169, 254, 169, 254])).is_err());
        let everything = Policy { settings: "test", loopback: true, private: true, link_local: true };
        assert!(everything.check("group", IpAddr::from([224, 0, 0, 1])).is_err());
    }
}
