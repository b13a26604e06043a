//! What channels over HTTP have in common: one POST of JSON, and what its answer means.

use super::Outcome;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, StatusCode};
use service::egress::{self, Egress};
use std::time::Duration;

/// Bytes of a refusing answer that are kept for people.
const ANSWER_BYTES_MAX: usize = 256;

/// The longest wait that a receiver may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// Posts JSON once; `dress` adds what else the request needs.
pub async fn post(
    egress: &Egress,
    url: &str,
    body: String,
    timeout: Duration,
    dress: impl FnOnce(RequestBuilder) -> RequestBuilder + Send,
) -> Outcome {
    let request = match egress.request(Method::POST, url) {
        Ok(request) => request,
        Err(refused) => return Outcome::unanswered(refused.to_string()),
    };
    let request = request
        .timeout(timeout)
        .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .body(body);
    match dress(request).send().await {
        Ok(answer) => {
            let (status, wait) = (answer.status(), retry_after(answer.headers()));
            let said = if status.is_success() { String::new() } else { beginning(answer).await };
            verdict(status, &said, wait)
        }
        Err(error) => Outcome::unanswered(reason(error)),
    }
}

/// What an answer means: 2xx is receipt, 410 is the end, everything else is tried again.
pub fn verdict(status: StatusCode, said: &str, retry_after: Option<Duration>) -> Outcome {
    let code = status.as_u16();
    let error = if said.is_empty() { format!("answered {code}") } else { format!("answered {code}: {said}") };
    match status {
        _ if status.is_success() => Outcome::Received { status: Some(code) },
        StatusCode::GONE => Outcome::Gone { status: Some(code), error },
        _ => Outcome::Failed { status: Some(code), error, retry_after },
    }
}

/// In seconds; as a date it is not read, for the receiver's clock is not ours.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// The beginning of an answer, in printable characters.
async fn beginning(mut answer: reqwest::Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < ANSWER_BYTES_MAX {
        match answer.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    bytes.truncate(ANSWER_BYTES_MAX);
    let text = String::from_utf8_lossy(&bytes);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

/// Why no answer came, without the address: what is in it may be a secret.
fn reason(error: reqwest::Error) -> String {
    match egress::refusal(&error) {
        Some(refused) => refused.to_string(),
        None if error.is_timeout() => "no answer in time".to_owned(),
        None => service::runtime::chain(&error.without_url()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_2xx_is_receipt_and_only_410_is_final() {
        let status = |code| StatusCode::from_u16(code).expect("a status");
        for code in [200, 202, 204] {
            assert_eq!(verdict(status(code), "", None), Outcome::Received { status: Some(code) });
        }
        for code in [301, 308, 400, 404, 429, 500, 503] {
            assert!(matches!(verdict(status(code), "no", None), Outcome::Failed { .. }), "{code}");
        }
        assert_eq!(
            verdict(status(410), "moved on", None),
            Outcome::Gone { status: Some(410), error: "answered 410: moved on".to_owned() }
        );
    }

    #[test]
    fn a_receiver_that_asks_for_a_wait_gets_it_up_to_an_hour() {
        for (text, wait) in [("30", Some(30)), ("86400", Some(3_600)), ("soon", None)] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            assert_eq!(retry_after(&headers), wait.map(Duration::from_secs), "{text}");
        }
    }
}
