//! Who calls: the bearer token of a request, looked up once, before any method sees it.
//!
//! Owns the way from the header to a [`Caller`] in the request's extensions, for gRPC and for REST alike.
//! Invariants: behind [`guard`] no method of ours runs without a caller; no byte of a body is read before the token is
//! known; what streams ends when the token no longer counts. Deliberately not here: where tokens are stored, how many
//! requests one may make, and what a role may do with a particular job.

mod watched;

use crate::status;
use crate::transcode::problem;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use model::ids::TenantId;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use tonic::Status;
use tonic::service::Routes;
use tonic::transport::server::TcpConnectInfo;
use uuid::Uuid;
use watched::Watched;

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything that a person can do in the tenant.
    Admin,
    /// Reads, and changes jobs and runs.
    Editor,
    /// Reads.
    Viewer,
    /// Works, and nothing else: only a dispatcher takes it.
    Worker,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Editor, Self::Viewer, Self::Worker];

    /// The name in tokens, messages and the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Editor => "editor",
            Self::Viewer => "viewer",
            Self::Worker => "worker",
        }
    }

    /// True when a token of this role may do what needs `needed`. People's roles include each other; a worker's
    /// includes none and is included in none.
    pub const fn allows(self, needed: Self) -> bool {
        match needed {
            Self::Admin => matches!(self, Self::Admin),
            Self::Editor => matches!(self, Self::Admin | Self::Editor),
            Self::Viewer => matches!(self, Self::Admin | Self::Editor | Self::Viewer),
            Self::Worker => matches!(self, Self::Worker),
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no role: use admin, editor, viewer or worker")]
pub struct UnknownRole(pub String);

impl std::str::FromStr for Role {
    type Err = UnknownRole;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| UnknownRole(text.to_owned()))
    }
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Whose jobs are meant.
    pub tenant_id: TenantId,
    /// Which token.
    pub token_id: Uuid,
    /// Its name, for the audit.
    pub token_name: String,
    /// What it allows.
    pub role: Role,
}

impl Caller {
    /// The caller of `request`, if its role allows what needs `needed`.
    ///
    /// # Errors
    /// UNAUTHENTICATED when the request did not come through [`guard`], PERMISSION_DENIED when the role does not
    /// suffice.
    pub fn of<T>(request: &tonic::Request<T>, needed: Role) -> Result<&Self, Status> {
        let caller = request.extensions().get::<Self>().ok_or_else(status::unauthenticated)?;
        if caller.role.allows(needed) { Ok(caller) } else { Err(status::denied(needed.as_str())) }
    }

    /// True for an administrator of the first tenant, who looks after all of them.
    pub fn is_operator(&self) -> bool {
        self.tenant_id == TenantId::DEFAULT && self.role == Role::Admin
    }

    /// The caller of `request`, if it is an operator.
    ///
    /// # Errors
    /// As [`Caller::of`].
    pub fn operator<T>(request: &tonic::Request<T>) -> Result<&Self, Status> {
        let caller = Self::of(request, Role::Viewer)?;
        if caller.is_operator() { Ok(caller) } else { Err(status::operators_only()) }
    }
}

/// Looks a token up.
pub trait Authenticate: Send + Sync + 'static {
    /// The caller with this secret.
    ///
    /// # Errors
    /// [`status::unauthenticated`] when there is none or it has expired; UNAVAILABLE when that can't be found out.
    fn authenticate(&self, secret: &str) -> impl Future<Output = Result<Caller, Status>> + Send;

    /// As [`Self::authenticate`], for a request from `peer`, if that is known: an address may be refused another try.
    ///
    /// # Errors
    /// As [`Self::authenticate`]; [`status::try_later`] when too many secrets from there were nobody's.
    fn authenticate_from(
        &self,
        peer: Option<IpAddr>,
        secret: &str,
    ) -> impl Future<Output = Result<Caller, Status>> + Send {
        let _ = peer;
        self.authenticate(secret)
    }

    /// Counts a request of `caller`.
    ///
    /// # Errors
    /// [`status::too_fast`] when it makes too many.
    fn admit(&self, caller: &Caller) -> Result<(), Status> {
        let _ = caller;
        Ok(())
    }

    /// Returns once the token with this secret no longer counts; if nobody looks, never.
    fn lost(self: Arc<Self>, secret: String) -> impl Future<Output = ()> + Send {
        drop(secret);
        std::future::pending()
    }
}

/// A request that was counted already, on its way from REST: who hands one on to the same methods gives it this along.
#[derive(Debug, Clone, Copy)]
pub struct Counted(());

/// Lets only requests with a valid token through to `routes`; health and reflection (`/grpc.…`) need none. Serve
/// the result over gRPC and hand the same to [`crate::transcode::Gateway`].
pub fn guard<A: Authenticate>(routes: Routes, authenticate: Arc<A>) -> Routes {
    let router = routes.prepare().into_axum_router();
    Routes::from(router.layer(middleware::from_fn_with_state(authenticate, admit::<A>)))
}

/// Lets only requests with a valid token through to `router`'s paths under `/v1/`, before their bodies are read. Behind
/// it is a gateway to routes that [`guard`] has closed with the same `authenticate`; each request is counted once.
pub fn guard_rest<A: Authenticate>(router: axum::Router, authenticate: Arc<A>) -> axum::Router {
    router.layer(middleware::from_fn_with_state(authenticate, admit_rest::<A>))
}

async fn admit<A: Authenticate>(
    State(authenticate): State<Arc<A>>,
    mut request: Request,
    next: Next,
) -> Response {
    if request.uri().path().starts_with("/grpc.") {
        return next.run(request).await;
    }
    let counted = request.extensions().get::<Counted>().is_some();
    let Some(secret) = bearer(request.headers()).map(str::to_owned) else {
        return status::unauthenticated().into_http();
    };
    match known(authenticate.as_ref(), peer(request.extensions()), &secret, counted).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            let response = next.run(request).await;
            let watch = move || -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
                Box::pin(authenticate.lost(secret))
            };
            response.map(|body| Body::new(Watched::new(body, watch)))
        }
        Err(status) => status.into_http(),
    }
}

async fn admit_rest<A: Authenticate>(
    State(authenticate): State<Arc<A>>,
    mut request: Request,
    next: Next,
) -> Response {
    if !request.uri().path().starts_with("/v1/") {
        return next.run(request).await;
    }
    let caller = match bearer(request.headers()) {
        Some(secret) => known(authenticate.as_ref(), peer(request.extensions()), secret, false).await,
        None => Err(status::unauthenticated()),
    };
    match caller {
        Ok(_) => {
            request.extensions_mut().insert(Counted(()));
            next.run(request).await
        }
        Err(status) => problem(&status),
    }
}

/// Who has this secret, and may make one more request.
async fn known<A: Authenticate>(
    authenticate: &A,
    peer: Option<IpAddr>,
    secret: &str,
    counted: bool,
) -> Result<Caller, Status> {
    let caller = authenticate.authenticate_from(peer, secret).await?;
    if !counted {
        authenticate.admit(&caller)?;
    }
    Ok(caller)
}

/// Who is at the other end of the connection, as both kinds of server tell it; none of a call within this process.
pub fn peer(extensions: &http::Extensions) -> Option<IpAddr> {
    extensions.get::<TcpConnectInfo>()?.remote_addr().map(|address| address.ip())
}

/// The secret of a `Bearer` header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, secret) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let secret = secret.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !secret.is_empty()).then_some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_of_people_include_each_other_and_workers_stand_apart() {
        assert!(Role::Admin.allows(Role::Editor) && Role::Editor.allows(Role::Viewer));
        assert!(!Role::Viewer.allows(Role::Editor) && !Role::Editor.allows(Role::Admin));
        assert!(!Role::Worker.allows(Role::Viewer) && !Role::Admin.allows(Role::Worker));
        assert!(Role::Worker.allows(Role::Worker));
    }

    #[test]
    fn roles_come_back_from_their_names() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
        assert!("root".parse::<Role>().is_err());
    }

    #[test]
    fn only_a_bearer_header_with_a_secret_counts() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().expect("a header"));
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(of("Bearer s3cret").as_deref(), Some("s3cret"));
        assert_eq!(of("bearer s3cret").as_deref(), Some("s3cret"));
        for none in ["Basic s3cret", "Bearer", "Bearer ", "s3cret"] {
            assert_eq!(of(none), None, "{none:?}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }

    #[test]
    fn a_request_that_passed_no_guard_has_no_caller() {
        let mut request = tonic::Request::new(());
        assert_eq!(
            Caller::of(&request, Role::Viewer).expect_err("none").code(),
            tonic::Code::Unauthenticated
        );
        let caller = Caller {
            tenant_id: TenantId::DEFAULT,
            token_id: Uuid::nil(),
            token_name: "ci".to_owned(),
            role: Role::Viewer,
        };
        request.extensions_mut().insert(caller.clone());
        assert_eq!(Caller::of(&request, Role::Viewer).expect("it may"), &caller);
        let refused = Caller::of(&request, Role::Editor).expect_err("it may not");
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        assert_eq!(Caller::operator(&request).expect_err("none").code(), tonic::Code::PermissionDenied);
    }

    #[test]
    fn operators_are_the_first_tenants_administrators() {
        let caller =
            |tenant_id, role| Caller { tenant_id, token_id: Uuid::nil(), token_name: "x".to_owned(), role };
        assert!(caller(TenantId::DEFAULT, Role::Admin).is_operator());
        assert!(!caller(TenantId::DEFAULT, Role::Editor).is_operator());
        assert!(!caller(TenantId(Uuid::from_u128(2)), Role::Admin).is_operator());
    }

    /// Knows nobody.
    struct Nobody;

    impl Authenticate for Nobody {
        async fn authenticate(&self, _: &str) -> Result<Caller, Status> {
            Err(status::unauthenticated())
        }
    }

    #[tokio::test]
    async fn health_and_reflection_need_no_token_and_all_else_does() {
        use tower::ServiceExt;
        let code = |path: &'static str| async move {
            let routes = guard(Routes::default(), Arc::new(Nobody));
            let request = http::Request::post(path).body(tonic::body::Body::empty()).expect("a request");
            let response = routes.oneshot(request).await.expect("an answer");
            Status::from_header_map(response.headers()).map(|status| status.code())
        };
        assert_eq!(code("/escapement.v1.JobService/GetJob").await, Some(tonic::Code::Unauthenticated));
        // Past the guard, and not served by these routes.
        assert_eq!(code("/grpc.health.v1.Health/Check").await, Some(tonic::Code::Unimplemented));
    }
}
