//! An HTTP call, and which of its headers are secret.
//!
//! Invariant: the value of a secret header leaves only with the call itself, and a change of the call to another host does
//! not take it along.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// An HTTP call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http {
    /// The method, in upper case.
    pub method: String,
    /// The address.
    pub url: String,
    /// Sent as they are.
    pub headers: BTreeMap<String, String>,
    /// Sent as it is.
    pub body: String,
    /// For the whole call.
    #[serde(with = "super::millis")]
    pub timeout: Duration,
    /// The statuses that are a success; without any, 200 to 299.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected_status: Vec<u16>,
    /// Names of headers whose values no answer shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_headers: Vec<String>,
}

impl Http {
    /// Whether the value of this header is never shown.
    pub fn is_secret(&self, header: &str) -> bool {
        self.secret_headers.iter().any(|secret| secret.eq_ignore_ascii_case(header))
    }

    /// The same without the values that are never shown.
    #[must_use]
    pub fn without_secrets(mut self) -> Self {
        let secret: Vec<String> = self.headers.keys().filter(|name| self.is_secret(name)).cloned().collect();
        for name in secret {
            self.headers.insert(name, String::new());
        }
        self
    }

    /// Gives secret headers that are left empty the values that they have in `stored`, if the call goes to the same host:
    /// whoever may change a job must not be able to send its secrets elsewhere. The headers that stay without one.
    pub fn keep_secrets(&mut self, stored: Option<&Self>) -> Vec<String> {
        let stored = stored.filter(|stored| origin(&stored.url) == origin(&self.url));
        let empty = self.headers.iter().filter(|(name, value)| value.is_empty() && self.is_secret(name));
        let empty: Vec<String> = empty.map(|(name, _)| name.clone()).collect();
        let value_of = |name: &str| {
            let mut headers = stored?.headers.iter().filter(|(_, value)| !value.is_empty());
            headers.find(|(stored, _)| stored.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
        };
        let mut without = Vec::new();
        for name in empty {
            match value_of(&name) {
                Some(value) => drop(self.headers.insert(name, value)),
                None => without.push(name),
            }
        }
        without
    }

    /// Whether an answer of this status is a success.
    pub fn expects(&self, status: u16) -> bool {
        match self.expected_status.as_slice() {
            [] => (200..300).contains(&status),
            expected => expected.contains(&status),
        }
    }
}

/// Scheme, host and port of an address, as they are written.
fn origin(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    rest.split(['/', '?', '#', '\\']).next().map(|authority| (scheme, authority))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(url: &str, value: &str) -> Http {
        Http {
            method: "POST".to_owned(),
            url: url.to_owned(),
            headers: [("X-Api".to_owned(), value.to_owned()), ("x-team".to_owned(), "billing".to_owned())]
                .into(),
            body: String::new(),
            timeout: Duration::from_secs(30),
            expected_status: Vec::new(),
            secret_headers: vec!["x-api".to_owned()],
        }
    }

    #[test]
    fn a_secret_is_shown_empty_and_others_as_they_are() {
        assert_eq!(call("http://a/", "hush").without_secrets(), call("http://a/", ""));
    }

    #[test]
    fn an_empty_secret_is_kept_for_the_same_host_only() {
        let stored = call("https://a.example:8443/one", "hush");
        let kept = |url: &str| {
            let mut changed = call(url, "");
            let without = changed.keep_secrets(Some(&stored));
            (changed.headers["X-Api"].clone(), without)
        };
        assert_eq!(kept("https://a.example:8443/two?x=1"), ("hush".to_owned(), vec![]));
        for elsewhere in [
            "https://b.example:8443/one",
            "https://a.example:8443@b.example/one",
            "https://a.example/one",
            "http://a.example:8443/one",
            "https://a.example:8443.b.example/one",
        ] {
            assert_eq!(kept(elsewhere), (String::new(), vec!["X-Api".to_owned()]), "{elsewhere}");
        }
        let mut new = call("http://a/", "");
        assert_eq!(new.keep_secrets(None), ["X-Api"]);
        let mut given = call("http://b/", "other");
        assert_eq!(given.keep_secrets(Some(&stored)), [] as [&str; 0]);
        assert_eq!(given.headers["X-Api"], "other");
    }
}
