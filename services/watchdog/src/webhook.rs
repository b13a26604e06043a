//! One try of a delivery: a signed POST, as Standard Webhooks describes it.
//!
//! The body is sent byte for byte as it is stored, the id is the delivery's at every try, the signature is made for
//! the try's own timestamp. What an answer means is decided by [`verdict`], which is pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, StatusCode};
use service::egress::{self, Egress};
use sha2::Sha256;
use std::time::Duration;
use store::alert_delivery::Taken;
use uuid::Uuid;

/// Before the base64 of a secret, as Standard Webhooks writes it.
const SECRET_PREFIX: &str = "whsec_";

/// Bytes of a refusing answer that are kept for people.
const ANSWER_BYTES_MAX: usize = 256;

/// What a try came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has it.
    Received {
        /// Its answer.
        status: u16,
    },
    /// It does not; another try may help.
    Failed {
        /// Its answer, if there was one.
        status: Option<u16>,
        /// What went wrong.
        error: String,
    },
    /// It does not, and never will.
    Gone {
        /// Its answer, if there was one.
        status: Option<u16>,
        /// Why.
        error: String,
    },
}

/// Sends it once. Takes no longer than `timeout`.
pub async fn send(egress: &Egress, taken: &Taken, timeout: Duration) -> Outcome {
    if taken.channel_deleted {
        return Outcome::Gone { status: None, error: "the channel was deleted".to_owned() };
    }
    let failed = |error: String| Outcome::Failed { status: None, error };
    let timestamp = taken.taken_at.timestamp();
    let signature = match taken.secret.as_deref().map(|secret| sign(secret, taken.id, timestamp, &taken.body))
    {
        None => None,
        Some(Ok(signature)) => Some(signature),
        Some(Err(BadSecret)) => return failed(BadSecret.to_string()),
    };
    let request = match egress.request(Method::POST, &taken.url) {
        Ok(request) => request,
        Err(refused) => return failed(refused.to_string()),
    };
    let mut request = request
        .timeout(timeout)
        .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .header("webhook-id", taken.id.to_string())
        .header("webhook-timestamp", timestamp.to_string())
        .body(taken.body.clone());
    if let Some(signature) = signature {
        request = request.header("webhook-signature", signature);
    }
    match request.send().await {
        Ok(answer) => {
            let status = answer.status();
            let said = if status.is_success() { String::new() } else { beginning(answer).await };
            verdict(status, &said)
        }
        Err(error) => failed(reason(error)),
    }
}

/// What an answer means: 2xx is receipt, 410 is the end, everything else is tried again.
fn verdict(status: StatusCode, said: &str) -> Outcome {
    let code = status.as_u16();
    let error = if said.is_empty() { format!("answered {code}") } else { format!("answered {code}: {said}") };
    match status {
        _ if status.is_success() => Outcome::Received { status: code },
        StatusCode::GONE => Outcome::Gone { status: Some(code), error },
        _ => Outcome::Failed { status: Some(code), error },
    }
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

/// A secret that is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the channel's secret is not whsec_ and base64")]
pub struct BadSecret;

/// The value of `webhook-signature` for a body that is sent at `timestamp`.
///
/// # Errors
/// [`BadSecret`].
pub fn sign(secret: &str, id: Uuid, timestamp: i64, body: &str) -> Result<String, BadSecret> {
    let key = secret.strip_prefix(SECRET_PREFIX).unwrap_or(secret);
    let key = STANDARD.decode(key).map_err(|_| BadSecret)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|_| BadSecret)?;
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body.as_bytes());
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    #[test]
    fn the_signature_is_the_one_that_others_compute() {
        let oracle = standardwebhooks::Webhook::new(SECRET).expect("a secret");
        let (id, timestamp, body) = (Uuid::new_v4(), 1_795_942_800, r#"{"type":"alert.opened","data":"ä"}"#);
        let expected = oracle.sign(&id.to_string(), timestamp, body.as_bytes()).expect("signed");
        assert_eq!(sign(SECRET, id, timestamp, body), Ok(expected));
    }

    #[test]
    fn a_secret_that_is_no_key_is_said_to_be_so() {
        assert_eq!(sign("whsec_%%%", Uuid::nil(), 0, ""), Err(BadSecret));
    }

    #[test]
    fn only_2xx_is_receipt_and_only_410_is_final() {
        let status = |code| StatusCode::from_u16(code).expect("a status");
        for code in [200, 202, 204] {
            assert_eq!(verdict(status(code), ""), Outcome::Received { status: code });
        }
        for code in [301, 308, 400, 404, 429, 500, 503] {
            assert!(matches!(verdict(status(code), "no"), Outcome::Failed { .. }), "{code}");
        }
        assert_eq!(
            verdict(status(410), "moved on"),
            Outcome::Gone { status: Some(410), error: "answered 410: moved on".to_owned() }
        );
    }
}
