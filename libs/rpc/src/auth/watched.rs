//! The body of an answer that ends when its caller's token no longer counts.
//!
//! An answer that is there at once is handed on and nothing else happens. One that makes its reader wait, or goes on after
//! what a single message takes, is a stream: then the token is watched, and the stream ends as UNAUTHENTICATED.

use crate::status;
use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Frames of an answer of one message: the message and its trailers.
const FRAMES_OF_ONE: u8 = 2;

/// Returns when the token no longer counts.
type Lost = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the module.
pub(super) struct Watched {
    body: Body,
    watch: Option<Box<dyn FnOnce() -> Lost + Send>>,
    lost: Option<Lost>,
    frames: u8,
    over: bool,
}

impl Watched {
    /// `body`, until what `watch` begins returns.
    pub(super) fn new(body: Body, watch: impl FnOnce() -> Lost + Send + 'static) -> Self {
        Self { body, watch: Some(Box::new(watch)), lost: None, frames: 0, over: false }
    }

    fn is_lost(&mut self, context: &mut Context<'_>) -> bool {
        if self.lost.is_none() {
            self.lost = self.watch.take().map(|watch| watch());
        }
        self.lost.as_mut().is_some_and(|lost| lost.as_mut().poll(context).is_ready())
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.over {
            return Poll::Ready(None);
        }
        if self.frames < FRAMES_OF_ONE {
            let polled = Pin::new(&mut self.body).poll_frame(context);
            if polled.is_ready() {
                self.frames += 1;
                return polled;
            }
        }
        if self.is_lost(context) {
            self.over = true;
            let trailers = status::unauthenticated().into_http::<()>().headers().clone();
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn poll(body: &mut Watched) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn an_answer_that_is_there_is_not_watched() {
        let mut body = Watched::new(Body::from("all"), || panic!("it is watched"));
        assert!(matches!(poll(&mut body), Poll::Ready(Some(Ok(frame))) if frame.is_data()));
        assert!(matches!(poll(&mut body), Poll::Ready(None)));
    }

    #[test]
    fn a_stream_ends_as_unauthenticated_when_its_token_is_lost() {
        struct Silent;
        impl HttpBody for Silent {
            type Data = Bytes;
            type Error = std::convert::Infallible;
            fn poll_frame(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
                Poll::Pending
            }
        }
        let revoked = Arc::new(AtomicBool::new(false));
        let seen = revoked.clone();
        let mut body = Watched::new(Body::new(Silent), move || {
            Box::pin(std::future::poll_fn(move |_| {
                if seen.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
            }))
        });
        assert!(poll(&mut body).is_pending());
        revoked.store(true, Ordering::Relaxed);
        let Poll::Ready(Some(Ok(frame))) = poll(&mut body) else { panic!("it goes on") };
        let trailers = frame.into_trailers().expect("trailers");
        assert_eq!(trailers["grpc-status"], "16");
        assert!(matches!(poll(&mut body), Poll::Ready(None)));
    }
}
