//! Where this process may connect on somebody's behalf: jobs' URLs, webhooks, heartbeats.
//!
//! Whoever writes a URL into a job or a channel borrows our place in the network. Invariant: a connection goes only
//! to an address that the policy permits, and that address is the one that was checked: names are resolved once for
//! each connection and refused if one of their addresses is (a mixed answer is how an outsider's name gets at an
//! inner service), literals are checked as they are, redirects are not followed, no proxy is asked, and nothing is sent
//! a second time by itself. It does not look at paths, ports or contents.

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
    /// The name leads nowhere.
    #[error("{host} can't be looked up: {problem}")]
    Unknown {
        /// As written.
        host: String,
        /// Why.
        problem: String,
    },
    /// The host is, or leads to, an address that is not permitted.
    #[error("{host} leads to {address}, {kind}: {}", kind.remedy(settings))]
    Address {
        /// As written.
        host: String,
        /// Where it leads.
        address: IpAddr,
        /// What kind of address that is.
        kind: Kind,
        /// How the settings begin that would permit it.
        settings: &'static str,
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
            .retry(reqwest::retry::never())
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

impl Egress {
    /// Where to connect to `host`, for what is not HTTP: looked up and checked now, so that a connection to the address
    /// goes where it was permitted to go.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn resolve(&self, host: &str, port: u16) -> Result<SocketAddr, Refused> {
        let unknown = |problem: String| Refused::Unknown { host: host.to_owned(), problem };
        let found = tokio::net::lookup_host((host, port)).await;
        let found: Vec<_> = found.map_err(|error| unknown(error.to_string()))?.collect();
        all_permitted(self.policy, host, &found)?;
        found.first().copied().ok_or_else(|| unknown("it has no address".to_owned()))
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

/// Looks names up and hands on only answers that the policy permits.
#[derive(Debug)]
struct Vetting(Policy);

impl Resolve for Vetting {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, host) = (self.0, name.as_str().to_owned());
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            all_permitted(policy, &host, &found)?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Refuses a name as soon as one of its addresses is not permitted.
fn all_permitted(policy: Policy, host: &str, found: &[SocketAddr]) -> Result<(), Refused> {
    found.iter().try_for_each(|address| policy.check(host, address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Policy = Policy { settings: "test", loopback: false, private: false, link_local: false };

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

    #[tokio::test]
    async fn what_is_not_http_is_checked_alike() {
        let refused = egress(STRICT).resolve("localhost", 25).await.expect_err("localhost is loopback");
        assert!(matches!(refused, Refused::Address { kind: Kind::Loopback, .. }), "{refused}");
        let policy = Policy { loopback: true, ..STRICT };
        let address = egress(policy).resolve("127.0.0.1", 25).await.expect("permitted");
        assert_eq!(address.to_string(), "127.0.0.1:25");
        let unknown = egress(STRICT).resolve("nobody.invalid", 25).await.expect_err("no such name");
        assert!(matches!(unknown, Refused::Unknown { .. }), "{unknown}");
    }

    #[test]
    fn a_name_with_one_refused_address_among_others_is_refused() {
        let addresses = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| SocketAddr::new(text.parse().expect("an address"), 0)).collect()
        };
        assert_eq!(all_permitted(STRICT, "outside", &addresses(&["1.1.1.1", "8.8.8.8"])), Ok(()));
        for mixed in [["10.0.0.1", "1.1.1.1"], ["1.1.1.1", "10.0.0.1"]] {
            let refused = all_permitted(STRICT, "mixed", &addresses(&mixed)).expect_err("one is private");
            assert!(refused.to_string().contains("test_allow_private"), "{refused}");
        }
    }
}
