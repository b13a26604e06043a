//! A signed POST of the message as it is stored, as Standard Webhooks describes it.
//!
//! The body is sent byte for byte as it is stored, the id is the delivery's at every try, the signature is made for
//! the try's own timestamp.

use super::{Letter, Outcome, http};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use service::egress::Egress;
use sha2::Sha256;
use std::time::Duration;
use uuid::Uuid;

/// Before the base64 of a secret, as Standard Webhooks writes it.
const SECRET_PREFIX: &str = "whsec_";

/// Sends it once.
pub async fn send(egress: &Egress, letter: Letter<'_>, url: &str, timeout: Duration) -> Outcome {
    let timestamp = letter.at.timestamp();
    let signature = letter.secret.map(|secret| sign(secret, letter.id, timestamp, letter.body)).transpose();
    let signature = match signature {
        Ok(signature) => signature,
        Err(bad) => return Outcome::unanswered(bad.to_string()),
    };
    let dress = |request: reqwest::RequestBuilder| {
        let request =
            request.header("webhook-id", letter.id.to_string()).header("webhook-timestamp", timestamp);
        match signature {
            Some(signature) => request.header("webhook-signature", signature),
            None => request,
        }
    };
    http::post(egress, url, letter.body.to_owned(), timeout, dress).await
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
}
