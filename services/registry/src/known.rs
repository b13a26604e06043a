//! Connections that have shown a valid token keep their place at a full listener's door.
//!
//! Invariant: nobody is vouched for before the look-up of tokens has let his request through. What needs no token, as
//! health and check-ins do, vouches for nobody.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use rpc::auth::{Caller, Counted};
use service::door::Guest;

/// `router`, which is to be put behind the look-up of tokens, of gRPC or of REST.
pub(crate) fn vouched(router: Router) -> Router {
    router.layer(middleware::from_fn(vouch))
}

async fn vouch(request: Request, next: Next) -> Response {
    let extensions = request.extensions();
    // What the look-up leaves behind: the first for gRPC, the second for REST.
    let known = extensions.get::<Caller>().is_some() || extensions.get::<Counted>().is_some();
    if let Some(guest) = extensions.get::<Guest>().filter(|_| known) {
        guest.vouch();
    }
    next.run(request).await
}
