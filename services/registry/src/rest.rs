//! REST: the contract's paths through the gateway, onto the same routes as gRPC, and the document that describes them.

use axum::Router;
use axum::response::Json;
use axum::routing::get;
use rpc::transcode::{Gateway, GatewayError};
use tonic::service::Routes;

/// The paths of the contract, with bodies of at most `body_bytes_max` bytes, and `/openapi.json`.
///
/// # Errors
/// When the contract's rules can't be served, which a test of `rpc` excludes.
pub fn router(routes: Routes, body_bytes_max: usize) -> Result<Router, GatewayError> {
    let document = rpc::openapi::document(body_bytes_max)?;
    let describe = get(move || async move { Json(document) });
    Ok(Gateway::new(routes, body_bytes_max)?.router().route("/openapi.json", describe))
}
