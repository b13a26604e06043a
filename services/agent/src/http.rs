//! Makes a job's HTTP call: one request, no redirect, no proxy, only to addresses that were judged.

use crate::egress::{Refused, Rules};
use crate::environment;
use crate::output::Tail;
use model::job::Http;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, Url};
use std::error::Error;
use std::net::IpAddr;
use worker::{Report, RunContext};

/// Makes calls under the agent's rules.
#[derive(Debug)]
pub struct Calls {
    client: Client,
    rules: Rules,
    response_max: usize,
    output_max: usize,
}

/// A call that can't be made as the job describes it.
#[derive(Debug, thiserror::Error)]
enum Unsound {
    #[error("{0:?} is no HTTP method")]
    Method(String),
    #[error("{0:?} is no address of http or https")]
    Url(String),
    #[error("the header {0:?} has a name or a value that HTTP can't carry")]
    Header(String),
    #[error(transparent)]
    Refused(Refused),
}

impl Calls {
    /// A client for all calls. Connections are not kept: each call resolves and judges anew.
    ///
    /// # Errors
    /// When the TLS library can't be set up.
    pub fn new(rules: Rules, response_max: usize, output_max: usize) -> reqwest::Result<Self> {
        let client = Client::builder()
            .user_agent(concat!("escapement-agent/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .pool_max_idle_per_host(0)
            .dns_resolver(rules)
            .build()?;
        Ok(Self { client, rules, response_max, output_max })
    }

    /// Makes one attempt's call.
    pub async fn execute(&self, run: &RunContext, http: &Http) -> Report {
        let request = match self.request(run, http) {
            Ok(request) => request,
            Err(error) => return Report::not_started(error.to_string()),
        };
        tokio::select! {
            biased;
            called = tokio::time::timeout(http.timeout, self.call(request)) => {
                called.unwrap_or_else(|_| Report::failed(format!("no whole answer within {:?}", http.timeout)))
            }
            () = run.cancelled() => Report::failed("the call was given up"),
        }
    }

    fn request(&self, run: &RunContext, http: &Http) -> Result<Request, Unsound> {
        let method = Method::from_bytes(http.method.as_bytes());
        let method = method.map_err(|_| Unsound::Method(http.method.clone()))?;
        let url: Url = http.url.parse().map_err(|_| Unsound::Url(http.url.clone()))?;
        let host = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https"));
        let host = host.ok_or_else(|| Unsound::Url(http.url.clone()))?;
        // A literal address is not resolved, so the resolver doesn't see it.
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            self.rules.judge(address).map_err(Unsound::Refused)?;
        }
        let mut request = Request::new(method, url);
        *request.headers_mut() = headers(run, http)?;
        if !http.body.is_empty() {
            *request.body_mut() = Some(http.body.clone().into());
        }
        Ok(request)
    }

    async fn call(&self, request: Request) -> Report {
        let mut response = match self.client.execute(request).await {
            Ok(response) => response,
            Err(error) => return unanswered(&error),
        };
        let status = response.status();
        let mut tail = Tail::new(self.output_max);
        let mut left = self.response_max;
        let broken = loop {
            match response.chunk().await {
                Ok(Some(chunk)) if chunk.len() <= left => {
                    left -= chunk.len();
                    tail.push(&chunk);
                }
                Ok(Some(chunk)) => {
                    tail.push(&chunk[..left]);
                    tail.cut();
                    break None;
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        let (output, truncated) = tail.take();
        let report = match broken {
            Some(error) => {
                Report::failed(format!("the answer {status} broke off: {}", service::runtime::chain(&error)))
            }
            None if status.is_success() => Report::succeeded(),
            None if status.is_redirection() => {
                Report::failed(format!("the answer was {status}; redirects are not followed"))
            }
            None => Report::failed(format!("the answer was {status}")),
        };
        report.with_exit_status(status.as_u16().into()).with_output(output, truncated)
    }
}

/// The job's headers, and ours over them: a job can't claim to be another run.
fn headers(run: &RunContext, http: &Http) -> Result<HeaderMap, Unsound> {
    let mut headers = HeaderMap::new();
    for (name, value) in &http.headers {
        let wrong = || Unsound::Header(name.clone());
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        headers.insert(parsed, HeaderValue::from_str(value).map_err(|_| wrong())?);
    }
    for (name, value) in environment::headers(run) {
        let value = HeaderValue::from_str(&value).map_err(|_| Unsound::Header(name.to_owned()))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

fn unanswered(error: &reqwest::Error) -> Report {
    match refused_by(error) {
        Some(refused) => Report::not_started(refused.to_string()),
        None => Report::failed(format!("no answer: {}", service::runtime::chain(error))),
    }
}

fn refused_by<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Refused> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref() {
            return Some(refused);
        }
        cause = error.source();
    }
    None
}
