//! Refusals as answers: `application/problem+json` (RFC 9457).

use crate::{FencingToken, GuardKey};
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

/// Why a request does not reach its handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A higher token was seen.
    Stale { key: GuardKey, token: FencingToken, highest: Option<FencingToken> },
    /// The headers can't be read; with what is wrong.
    Malformed(String),
    /// There are no headers.
    Required,
    /// Nobody knows the highest token.
    Unavailable,
}

impl Refusal {
    fn kind(&self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Stale { .. } => (StatusCode::CONFLICT, "stale-token", "Stale fencing token"),
            Self::Malformed(_) => (StatusCode::BAD_REQUEST, "malformed-token", "Malformed fencing token"),
            Self::Required => (StatusCode::PRECONDITION_REQUIRED, "token-required", "No fencing token"),
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "fence-unavailable", "Fencing token not comparable now")
            }
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Stale { token, .. } => {
                format!("a newer attempt has written: the one of token {token} was given up, and must stop")
            }
            Self::Malformed(what) => what.clone(),
            Self::Required => {
                format!("send {} and {}", super::TOKEN_HEADER, super::GUARD_KEY_HEADER)
            }
            Self::Unavailable => "the highest token is not known at the moment; try again".to_owned(),
        }
    }

    /// The answer. Tokens are strings: in JavaScript a number would lose its last digits.
    pub(super) fn into_response<R: From<String>>(self) -> Response<R> {
        let (status, name, title) = self.kind();
        let mut problem = json!({
            "type": format!("urn:escapement:problem:{name}"),
            "title": title,
            "status": status.as_u16(),
            "detail": self.detail(),
        });
        if let Self::Stale { key, token, highest } = &self {
            problem["guardKey"] = key.as_str().into();
            problem["token"] = token.to_string().into();
            problem["highestToken"] = highest.map(|token| token.to_string()).into();
        }
        let mut response = Response::new(R::from(problem.to_string()));
        *response.status_mut() = status;
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
}
