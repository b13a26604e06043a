//! HTTP, 1 and 2, on the connections of a listener, each within its [`Limits`].
//!
//! Owns the loop that takes connections and how they end: those that are in the middle of a request are answered first.
//! axum's own server has no timer, so that with it half a head would wait for ever. Deliberately not for gRPC, whose
//! server knows more: of deadlines, for one.

use crate::door::Limits;
use crate::patience;
use crate::tls::Incoming;
use axum::Router;
use axum::extract::Request;
use axum::middleware;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Serves `router` on `incoming` until `stop`, then answers what it has.
pub(crate) async fn run(
    mut incoming: Incoming,
    router: Router,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let limits = incoming.limits();
    let router = router.layer(middleware::from_fn_with_state(limits.body, patience::wait));
    // Its routes are made here, once. A `Router` that is given its state for each connection, as `axum::serve` does with
    // a bare one and without `into_make_service`, makes every route anew: 1.25 MB a connection with the registry's.
    let router: Router = router.with_state(());
    let builder = builder(limits);
    let graceful = GracefulShutdown::new();
    while let Some(Some(connection)) = stop.run_until_cancelled(incoming.next()).await {
        let connection = connection?;
        let peer = connection.peer();
        let service = router.clone().map_request(move |mut request: Request<hyper::body::Incoming>| {
            peer.introduce(request.extensions_mut());
            request
        });
        let serving = builder
            .serve_connection(TokioIo::new(connection), TowerToHyperService::new(service))
            .into_owned();
        let serving = graceful.watch(serving);
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                // Whoever knocks could fill the log.
                tracing::trace!(error, "A connection ended early");
            }
        });
    }
    // The port is free from here on.
    drop(incoming);
    graceful.shutdown().await;
    Ok(())
}

fn builder(limits: Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.head);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.ping_every)
        .keep_alive_timeout(limits.ping);
    builder
}
