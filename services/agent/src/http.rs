//! Makes a job's HTTP call: one request, no redirect, no proxy, only to addresses that were judged.

use crate::environment;
use crate::output::Sink;
use crate::redact::Secrets;
use model::job::Http;
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder};
use service::egress::{self, Egress, EgressError, Policy, Refused};
use worker::{Report, RunContext};

/// Makes calls under the agent's rules.
#[derive(Debug)]
pub struct Calls {
    egress: Egress,
    response_max: usize,
    output_max: usize,
}

/// A call that can't be made as the job describes it.
#[derive(Debug, thiserror::Error)]
enum Unsound {
    #[error("{0:?} is no HTTP method")]
    Method(String),
    #[error("the header {0:?} has a name or a value that HTTP can't carry")]
    Header(String),
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl Calls {
    /// A client for all calls. Connections are not kept: each call resolves and judges anew.
    ///
    /// # Errors
    /// When the TLS library can't be set up.
    pub fn new(policy: Policy, response_max: usize, output_max: usize) -> Result<Self, EgressError> {
        let egress = Egress::new(policy, concat!("escapement-agent/", env!("CARGO_PKG_VERSION")))?;
        Ok(Self { egress, response_max, output_max })
    }

    /// Makes one attempt's call.
    pub async fn execute(&self, run: &RunContext, http: &Http) -> Report {
        let request = match self.request(run, http) {
            Ok(request) => request,
            Err(error) => return Report::not_started(error.to_string()),
        };
        tokio::select! {
            biased;
            called = tokio::time::timeout(http.timeout, self.call(run, http, request)) => {
                called.unwrap_or_else(|_| Report::failed(format!("no whole answer within {:?}", http.timeout)))
            }
            () = run.cancelled() => Report::failed("the call was given up"),
        }
    }

    fn request(&self, run: &RunContext, http: &Http) -> Result<RequestBuilder, Unsound> {
        let method = Method::from_bytes(http.method.as_bytes());
        let method = method.map_err(|_| Unsound::Method(http.method.clone()))?;
        let request = self.egress.request(method, &http.url)?.headers(headers(run, http)?);
        if !http.body.is_empty() {
            return Ok(request.body(http.body.clone()));
        }
        // Servers refuse a POST that does not say how long it is.
        let says_length = matches!(http.method.as_str(), "POST" | "PUT" | "PATCH");
        Ok(if says_length { request.header(CONTENT_LENGTH, 0) } else { request })
    }

    async fn call(&self, run: &RunContext, http: &Http, request: RequestBuilder) -> Report {
        let secrets = Secrets::of_call(http);
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) => return unanswered(&error, &secrets),
        };
        let status = response.status();
        let mut sink = Sink::new(run.clone(), secrets.clone(), self.output_max);
        let mut left = self.response_max;
        let broken = loop {
            match response.chunk().await {
                Ok(Some(chunk)) if chunk.len() <= left => {
                    left -= chunk.len();
                    sink.push(&chunk);
                }
                Ok(Some(chunk)) => {
                    sink.push(&chunk[..left]);
                    sink.cut();
                    break None;
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        let (output, truncated) = sink.take();
        let report = match broken {
            Some(error) => {
                let cause = secrets.text(&service::runtime::chain(&error));
                Report::failed(format!("the answer {status} broke off: {cause}"))
            }
            None if http.expects(status.as_u16()) => Report::succeeded(),
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

fn unanswered(error: &reqwest::Error, secrets: &Secrets) -> Report {
    match egress::refusal(error) {
        Some(refused) => Report::not_started(refused.to_string()),
        None => Report::failed(format!("no answer: {}", secrets.text(&service::runtime::chain(error)))),
    }
}
