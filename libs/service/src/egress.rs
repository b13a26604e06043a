//! Where this process may connect on somebody's behalf: jobs' URLs, webhooks, heartbeats.
//!
//! Whoever writes a URL into a job or a channel borrows our place in the network. Invariant: a connection goes only
//! to an address that the policy permits, and that address is the one that was checked: names are resolved once for
//! each connection and only permitted answers are handed on, literals are checked as they are, redirects are not
//! followed and no proxy is asked. It does not look at paths, ports or contents.

mod address;

pub use address::{Kind, Policy};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Method, RequestBuilder, Url};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// How long a connection may take to come about, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An HTTP client that obeys a [`Policy`]. Clones share it.
#[derive(Debug, Clone)]
pub struct Egress {
    policy: Policy,
    http: reqwest::Client,
}

/// Why a request is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The text is no address.
    #[error("the URL can't be read: {0}")]
    Unreadable(String),
    /// Only HTTP is spoken.
    #[error("the URL begins with {0}: use http or https")]
    Scheme(String),
    /// The host is, or leads to, an address that is not permitted.
    #[error("{host} leads to {address}, {kind}: {}", kind.remedy())]
    Address {
        /// As written.
        host: String,
        /// Where it leads.
        address: IpAddr,
        /// What kind of address that is.
        kind: Kind,
    },
}

/// The client can't be built.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client can't be built (are the system's CA certificates installed?)")]
pub struct EgressError(#[source] reqwest::Error);

impl Egress {
    /// A client for outgoing requests; `agent` is its `User-Agent`.
    ///
    /// # Errors
    /// [`EgressError`] without a usable TLS configuration.
    pub fn new(policy: Policy, agent: &str) -> Result<Self, EgressError> {
        crate::runtime::install_crypto();
        let http = reqwest::Client::builder()
            .user_agent(agent)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            // An idle connection would outlive the look-up that permitted it.
            .pool_max_idle_per_host(0)
            .dns_resolver(Arc::new(Vetting(policy)))
            .build()
            .map_err(EgressError)?;
        Ok(Self { policy, http })
    }

    /// Begins a request. A host that is a name is looked up, and checked, when the request is sent; see [`refusal`].
    ///
    /// # Errors
    /// [`Refused`].
    pub fn request(&self, method: Method, url: &str) -> Result<RequestBuilder, Refused> {
        let url = Url::parse(url).map_err(|error| Refused::Unreadable(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Scheme(url.scheme().to_owned()));
        }
        // The client connects to literals without asking its resolver.
        let host = url.host_str().unwrap_or_default();
        if let Ok(address) = host.trim_matches(['[', ']']).parse() {
            self.policy.check(host, address)?;
        }
        Ok(self.http.request(method, url))
    }
}

/// The refusal that made a request fail, if one did.
pub fn refusal(error: &reqwest::Error) -> Option<&Refused> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref::<Refused>() {
            return Some(refused);
        }
        cause = error.source();
    }
    None
}

/// Looks names up and hands on only what the policy permits.
#[derive(Debug)]
struct Vetting(Policy);

impl Resolve for Vetting {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, host) = (self.0, name.as_str().to_owned());
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            Ok(Box::new(permitted(policy, &host, found)?.into_iter()) as Addrs)
        })
    }
}

/// The permitted ones of a name's addresses; the refusal of the first when none is.
fn permitted(policy: Policy, host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Refused> {
    let mut refused = None;
    let mut allowed = Vec::new();
    for address in found {
        match policy.check(host, address.ip()) {
            Ok(()) => allowed.push(address),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if allowed.is_empty() => Err(error),
        _ => Ok(allowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Policy = Policy { loopback: false, private: false, link_local: false };

    fn egress(policy: Policy) -> Egress {
        Egress::new(policy, "test").expect("a client")
    }

    #[test]
    fn literals_are_refused_however_they_are_written() {
        let egress = egress(STRICT);
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://[::1]/",
        ] {
            let refused = egress.request(Method::POST, url).expect_err(url);
            assert!(matches!(refused, Refused::Address { kind: Kind::Loopback, .. }), "{url}: {refused}");
        }
        assert!(egress.request(Method::GET, "http://192.0.2.1@10.0.0.1/").is_err());
        assert!(egress.request(Method::GET, "ftp://billing.example/").is_err());
        assert!(egress.request(Method::GET, "https://1.1.1.1/").is_ok());
    }

    #[tokio::test]
    async fn a_name_that_leads_to_a_refused_address_is_refused_when_it_is_sent() {
        let request =
            egress(STRICT).request(Method::GET, "http://localhost:1/").expect("a name is looked up later");
        let error = request.send().await.expect_err("localhost is loopback");
        let refused = refusal(&error).expect("it was refused, it did not fail to connect");
        assert!(matches!(refused, Refused::Address { kind: Kind::Loopback, .. }), "{refused}");
    }

    #[tokio::test]
    async fn a_permitted_name_is_connected_to() {
        let policy = Policy { loopback: true, ..STRICT };
        let request = egress(policy).request(Method::GET, "http://localhost:1/").expect("permitted");
        let error = request.send().await.expect_err("nobody listens there");
        assert_eq!(refusal(&error), None);
        assert!(error.is_connect(), "{error:?}");
    }

    #[test]
    fn of_several_addresses_only_the_permitted_ones_are_handed_on() {
        let address = |text: &str| SocketAddr::new(text.parse().expect("an address"), 0);
        let mixed = vec![address("10.0.0.1"), address("1.1.1.1")];
        assert_eq!(permitted(STRICT, "mixed", mixed), Ok(vec![address("1.1.1.1")]));
        assert!(permitted(STRICT, "inside", vec![address("10.0.0.1")]).is_err());
    }
}
