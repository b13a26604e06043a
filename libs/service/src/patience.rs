//! Waiting for the bodies of requests, for so long and no longer.
//!
//! Invariant: whoever reads a body waits [`Limits::body`](crate::door::Limits) at most for its next byte, and the answer
//! is 408 then, whatever the reader made of it. Deliberately without a limit for a whole body: a slow line is no attack.

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;

/// Answers 408 when the body of `request` keeps its reader waiting for longer than `limit`.
pub(crate) async fn wait(State(limit): State<Duration>, request: Request, next: Next) -> Response {
    let late = Arc::new(AtomicBool::new(false));
    let patient = |body| Patient { body, limit, until: None, late: late.clone() };
    let response = next.run(request.map(|body| Body::new(patient(body)))).await;
    if late.load(Ordering::Relaxed) { too_late(limit) } else { response }
}

fn too_late(limit: Duration) -> Response {
    let detail = format!("no byte of the body came for {limit:?}: send it faster");
    let problem = serde_json::json!({"type": "about:blank", "title": "Request Timeout", "status": 408, "detail": detail});
    let headers = [(header::CONTENT_TYPE, "application/problem+json"), (header::CONNECTION, "close")];
    (StatusCode::REQUEST_TIMEOUT, headers, problem.to_string()).into_response()
}

struct Patient {
    body: Body,
    limit: Duration,
    /// Runs while somebody waits.
    until: Option<Pin<Box<Sleep>>>,
    late: Arc<AtomicBool>,
}

impl http_body::Body for Patient {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.until = None;
            return Poll::Ready(frame);
        }
        let limit = this.limit;
        let until = this.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        until.as_mut().poll(cx).map(|()| {
            this.late.store(true, Ordering::Relaxed);
            let error = std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                "the body's next byte did not come in time",
            );
            Some(Err(axum::Error::new(error)))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
