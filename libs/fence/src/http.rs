//! The guard of an HTTP service: a tower layer that compares the token of each request before a handler sees it.
//!
//! A job sends two headers, as Escapement's agent does by itself: [`TOKEN_HEADER`] and [`GUARD_KEY_HEADER`]. The
//! layer asks a [`HighestSeen`] and answers with `application/problem+json` by itself:
//!
//! | status | `type` | when |
//! | --- | --- | --- |
//! | 409 | `urn:escapement:problem:stale-token` | a higher token was seen: this attempt was given up, it must stop |
//! | 400 | `urn:escapement:problem:malformed-token` | a header is malformed, doubled, or there without the other |
//! | 428 | `urn:escapement:problem:token-required` | neither header is there and [`Unguarded::Refuse`] says so |
//! | 503 | `urn:escapement:problem:fence-unavailable` | the [`HighestSeen`] has failed: nothing passes unchecked |
//!
//! Invariant: a handler starts only with a permit for its token, and holds it until it has answered. With
//! [`InMemory`] that means that no handler of a lower token runs, or starts, once one of a higher token has started.
//! A handler that leaves work behind (a spawned task, a body that is streamed after the answer began) takes that
//! work out of the guard.
//!
//! ```
//! use axum::{Router, routing::post};
//! use fence::http::{FenceLayer, InMemory, Unguarded};
//! use std::time::Duration;
//!
//! // Keys are remembered for 90 days after their last use, 100,000 at most.
//! let seen = InMemory::new(Duration::from_secs(90 * 86_400), 100_000);
//! let fence = FenceLayer::new(seen).unguarded(Unguarded::Refuse);
//! let app: Router = Router::new().route("/invoices", post(async || "sent")).layer(fence);
//! ```

mod memory;
mod problem;
mod seen;

pub use memory::{Full, InMemory, Permit};

use crate::{FencingToken, GuardKey};
use ::http::{HeaderMap, HeaderName, Request, Response};
use problem::Refusal;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::{Layer, Service};

/// The header with the token, in decimal.
pub const TOKEN_HEADER: HeaderName = HeaderName::from_static("escapement-fencing-token");

/// The header with the guard key.
pub const GUARD_KEY_HEADER: HeaderName = HeaderName::from_static("escapement-guard-key");

/// Remembers the highest token of each guard key.
///
/// [`InMemory`] suits a service of one process. Several processes need a common memory, such as the table of
/// [`crate::postgres`] with [`crate::postgres::RAISE`] in a transaction of its own. Between that and the handler's effect
/// a newer request can overtake: where the handler itself writes to PostgreSQL, put the statement into its transaction.
pub trait HighestSeen: Send + Sync + 'static {
    /// Kept until the handler has answered; `()` when nothing needs to be.
    type Permit: Send + 'static;
    /// Why it could not say.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Raises the highest token of `key` to `token`, unless it is higher already. May wait for handlers of lower
    /// tokens to end.
    fn admit(
        &self,
        key: &GuardKey,
        token: FencingToken,
    ) -> impl Future<Output = Result<Admission<Self::Permit>, Self::Error>> + Send;
}

/// What a [`HighestSeen`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Admission<P> {
    /// No higher token was seen.
    Admitted(P),
    /// A higher token was seen.
    Stale {
        /// That token, where it is known.
        highest: Option<FencingToken>,
    },
}

/// What becomes of requests with neither header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unguarded {
    /// 428: only jobs may call.
    #[default]
    Refuse,
    /// They pass unchecked: people and other programs call too.
    Pass,
}

/// Puts a [`Fence`] before a service.
#[derive(Debug)]
pub struct FenceLayer<H> {
    seen: Arc<H>,
    unguarded: Unguarded,
}

impl<H> FenceLayer<H> {
    /// A layer that asks `seen`, and refuses requests without headers.
    pub fn new(seen: impl Into<Arc<H>>) -> Self {
        Self { seen: seen.into(), unguarded: Unguarded::default() }
    }

    /// Decides about requests with neither header.
    #[must_use]
    pub fn unguarded(self, unguarded: Unguarded) -> Self {
        Self { unguarded, ..self }
    }
}

impl<H> Clone for FenceLayer<H> {
    fn clone(&self) -> Self {
        Self { seen: Arc::clone(&self.seen), unguarded: self.unguarded }
    }
}

impl<S, H> Layer<S> for FenceLayer<H> {
    type Service = Fence<S, H>;
    fn layer(&self, inner: S) -> Self::Service {
        Fence { inner, seen: Arc::clone(&self.seen), unguarded: self.unguarded }
    }
}

/// A service whose requests are compared first; see the module.
#[derive(Debug)]
pub struct Fence<S, H> {
    inner: S,
    seen: Arc<H>,
    unguarded: Unguarded,
}

impl<S: Clone, H> Clone for Fence<S, H> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), seen: Arc::clone(&self.seen), unguarded: self.unguarded }
    }
}

impl<S, H, B, R> Service<Request<B>> for Fence<S, H>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    H: HighestSeen,
    B: Send + 'static,
    R: From<String>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The clone stays behind for the next request; the one that said it was ready takes this one.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let (seen, unguarded) = (Arc::clone(&self.seen), self.unguarded);
        Box::pin(async move {
            let permit = match check(request.headers(), seen.as_ref(), unguarded).await {
                Ok(permit) => permit,
                Err(refusal) => return Ok(refusal.into_response()),
            };
            let response = inner.call(request).await;
            drop(permit);
            response
        })
    }
}

/// A permit, or none for a request that passes unchecked.
async fn check<H: HighestSeen>(
    headers: &HeaderMap,
    seen: &H,
    unguarded: Unguarded,
) -> Result<Option<H::Permit>, Refusal> {
    let (key, token) = match (read::<GuardKey>(headers, GUARD_KEY_HEADER)?, read(headers, TOKEN_HEADER)?) {
        (Some(key), Some(token)) => (key, token),
        (None, None) if unguarded == Unguarded::Pass => return Ok(None),
        (None, None) => return Err(Refusal::Required),
        (Some(_), None) => return Err(Refusal::Malformed(format!("{TOKEN_HEADER} is missing"))),
        (None, Some(_)) => return Err(Refusal::Malformed(format!("{GUARD_KEY_HEADER} is missing"))),
    };
    match seen.admit(&key, token).await {
        Ok(Admission::Admitted(permit)) => Ok(Some(permit)),
        Ok(Admission::Stale { highest }) => {
            tracing::warn!(
                guard.key = %key,
                token = %token,
                highest = highest.map(|token| token.to_string()),
                "Refused a request of an attempt that was given up for dead"
            );
            Err(Refusal::Stale { key, token, highest })
        }
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::error!(guard.key = %key, error, "The highest token is not known, so nothing passes");
            Err(Refusal::Unavailable)
        }
    }
}

/// The header's value, if it is there: once, and well-formed.
fn read<T>(headers: &HeaderMap, name: HeaderName) -> Result<Option<T>, Refusal>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    let mut values = headers.get_all(&name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::Malformed(format!("{name} is there more than once")));
    }
    let text = String::from_utf8_lossy(value.as_bytes());
    text.parse().map(Some).map_err(|error| Refusal::Malformed(format!("{name}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(name, ::http::HeaderValue::from_static(value));
        }
        headers
    }

    async fn refused(list: &[(HeaderName, &'static str)]) -> Option<Refusal> {
        let seen = InMemory::new(std::time::Duration::from_secs(60), 10);
        check(&headers(list), &seen, Unguarded::Refuse).await.err()
    }

    #[tokio::test]
    async fn what_is_malformed_doubled_or_half_there_is_refused() {
        let (token, key) = ((TOKEN_HEADER, "7"), (GUARD_KEY_HEADER, "job"));
        assert_eq!(refused(&[token.clone(), key.clone()]).await, None);
        assert_eq!(refused(&[]).await, Some(Refusal::Required));
        for wrong in [
            vec![token.clone()],
            vec![key.clone()],
            vec![token.clone(), (TOKEN_HEADER, "8"), key.clone()],
            vec![(TOKEN_HEADER, "0x7"), key.clone()],
            vec![(TOKEN_HEADER, ""), key],
            vec![token, (GUARD_KEY_HEADER, "a b")],
        ] {
            assert!(matches!(refused(&wrong).await, Some(Refusal::Malformed(_))), "{wrong:?}");
        }
    }
}
