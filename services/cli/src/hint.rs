//! What may be done about a failure, in lines that stand below it.
//!
//! Pure: what was answered, and where address and token stood, is all that is looked at. Deliberately not here: names that
//! are near to a wrong one, see [`crate::suggest`]; and what the registry's own sentence says already.

use reqwest::StatusCode;
use serde_json::Value;
use std::error::Error;
use std::fmt;

/// Where something stood that decides which registry is asked, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An argument or a variable, as it is written.
    Named(&'static str),
    /// A context, by its name.
    Context(String),
    /// The local stack's own files.
    LocalStack,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Context(name) => write!(f, "context {name}"),
            Self::LocalStack => f.write_str("the local stack"),
        }
    }
}

/// Where a registry's address stood, and the token for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub server: Source,
    /// None when no token was given.
    pub token: Option<Source>,
}

/// What may be done when nobody answers.
pub fn unreachable(error: &(dyn Error + 'static), origin: &Origin) -> Vec<String> {
    let said = chain(error);
    let has = |text: &str| said.contains(text);
    let tls = if has("builder error") || has("relative URL") {
        Some("the address is no URL: use one such as https://escapement.example")
    } else if has("UnknownIssuer") {
        Some(
            "an authority that this machine does not trust has signed its certificate: name it with --ca-file",
        )
    } else if has("CertificateRequired") {
        Some("it asks for a certificate: give --client-certificate and --client-key")
    } else if has("InvalidContentType") || has("corrupt message") {
        Some("it does not speak TLS there: use http:// instead of https://")
    } else {
        None
    };
    vec![match (tls, &origin.server) {
        (Some(hint), server) => format!("{hint} (the address is from {server})"),
        (None, Source::Context(name)) => format!(
            "see that it runs; the address is from context {name}: `escapement context set {name} --server URL` changes it"
        ),
        (None, Source::LocalStack) => {
            "it was the local stack's: start that again with `escapement dev`".to_owned()
        }
        (None, server) => format!("see that it runs; the address is from {server}"),
    }]
}

fn chain(error: &(dyn Error + 'static)) -> String {
    let mut said = format!("{error} {error:?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        said.push_str(&format!(": {error} {error:?}"));
        cause = error.source();
    }
    said
}

/// What may be done when something else than a registry answers.
pub fn no_registry(status: StatusCode, origin: &Origin) -> Vec<String> {
    let server = &origin.server;
    vec![if status.is_server_error() {
        format!(
            "something before the registry may have answered, as it does not: try again (the address is from {server})"
        )
    } else {
        format!("see that the address, from {server}, is that of a registry's REST API")
    }]
}

/// What may be done about a problem that the registry named at `path`. `retry_after` is in seconds.
pub fn of_problem(problem: &Value, retry_after: Option<u64>, path: &str, origin: &Origin) -> Vec<String> {
    let kind = problem["type"].as_str().and_then(|kind| kind.rsplit(':').next()).unwrap_or_default();
    match kind {
        "unauthenticated" => unauthenticated(origin),
        "denied" => {
            let source = origin
                .token
                .as_ref()
                .map_or_else(|| "none was given".to_owned(), |from| format!("this one is from {from}"));
            vec![format!(
                "{source}; an administrator makes another with `escapement tokens create NAME --role ROLE`"
            )]
        }
        "already-exists" => exists(path),
        "changed" => {
            vec!["somebody was faster: get it again with `escapement get`, change that, and repeat the command".to_owned()]
        }
        "conflict" if path.contains(":trigger") && says(problem, "set `wait`") => {
            vec!["`escapement trigger --wait` does the latter".to_owned()]
        }
        "limit" => vec![match retry_after {
            Some(seconds) => format!("try again in {seconds} s"),
            None => {
                "`escapement tenants get` shows the limits and what is used; an operator changes them with \
                 `escapement tenants set`"
                    .to_owned()
            }
        }],
        "too-large" => vec!["send it in parts: fewer documents at a time".to_owned()],
        "internal" => vec!["this is the registry's fault, and another try may fail alike".to_owned()],
        _ => Vec::new(),
    }
}

fn says(problem: &Value, text: &str) -> bool {
    problem["detail"].as_str().is_some_and(|detail| detail.contains(text))
}

fn unauthenticated(origin: &Origin) -> Vec<String> {
    let mine = match &origin.token {
        None => "no token was given: set ESCAPEMENT_TOKEN, or the context's with `escapement context set NAME --token-file FILE`".to_owned(),
        Some(from) => format!("the token from {from} is not this server's, or it is expired or revoked"),
    };
    let new = "an administrator makes one with `escapement tokens create NAME --role ROLE`; the first one is made with \
               `escapement bootstrap`";
    vec![mine, new.to_owned()]
}

/// What may be done when something of that name is there.
fn exists(path: &str) -> Vec<String> {
    let hint = match collection(path) {
        "jobs" | "channels" | "calendars" => {
            "`escapement apply -f FILE` changes what exists, and `escapement diff -f FILE` shows how"
        }
        "check-ins" => "`escapement checkins update` changes it",
        "tenants" => "`escapement tenants set` changes its limits",
        "tokens" => "choose another name, or revoke that one with `escapement tokens revoke`",
        _ => return Vec::new(),
    };
    vec![hint.to_owned()]
}

/// The collection of the API that a path is about.
pub fn collection(path: &str) -> &str {
    path.trim_start_matches("/v1/").split(['/', '?', ':']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn origin(token: Option<Source>) -> Origin {
        Origin { server: Source::Context("prod".to_owned()), token }
    }

    fn of(kind: &str, path: &str, retry_after: Option<u64>) -> String {
        let problem =
            json!({ "type": format!("urn:escapement:problem:{kind}"), "detail": "x, or set `wait`" });
        of_problem(&problem, retry_after, path, &origin(Some(Source::Named("--token")))).join("\n")
    }

    #[test]
    fn what_may_be_done_follows_from_the_kind_of_problem() {
        assert!(of("unauthenticated", "/v1/jobs", None).contains("the token from --token is not"));
        assert!(of("denied", "/v1/jobs", None).contains("this one is from --token"));
        assert!(of("already-exists", "/v1/jobs", None).contains("escapement apply"));
        assert!(of("already-exists", "/v1/tokens", None).contains("another name"));
        assert!(of("changed", "/v1/tenants/a", None).contains("get it again"));
        assert!(of("conflict", "/v1/jobs/a:trigger", None).contains("--wait"));
        assert_eq!(of("conflict", "/v1/jobs/a", None), "");
        assert_eq!(of("limit", "/v1/jobs", Some(3)), "try again in 3 s");
        assert!(of("limit", "/v1/jobs", None).contains("tenants get"));
        let none = of_problem(
            &json!({ "type": "urn:escapement:problem:unauthenticated" }),
            None,
            "/v1/jobs",
            &origin(None),
        );
        assert!(none[0].starts_with("no token was given"), "{none:?}");
    }

    #[test]
    fn who_is_not_reached_is_said_by_where_the_address_stood() {
        let refused = std::io::Error::other("Connection refused");
        assert!(unreachable(&refused, &origin(None))[0].contains("context set prod --server URL"));
        let local = Origin { server: Source::LocalStack, token: None };
        assert!(unreachable(&refused, &local)[0].contains("escapement dev"));
        for (cause, hint) in [
            ("UnknownIssuer", "--ca-file"),
            ("CertificateRequired", "--client-key"),
            ("InvalidContentType", "http://"),
        ] {
            assert!(unreachable(&std::io::Error::other(cause), &local)[0].contains(hint), "{cause}");
        }
    }

    #[test]
    fn a_path_is_about_its_collection() {
        for path in ["/v1/jobs", "/v1/jobs?x=1", "/v1/jobs/a:pause", "/v1/jobs/a/runs"] {
            assert_eq!(collection(path), "jobs", "{path}");
        }
        assert_eq!(collection("/v1/schedule:preview"), "schedule");
    }
}
