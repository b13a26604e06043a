//! The services' common ground, and how they are put together: the same routes answer gRPC and REST.

use crate::auth::Tokens;
use crate::by_hand::ByHand;
use crate::known;
use crate::metrics::{self, Metrics};
use crate::turns::Turns;
use crate::watching::Watching;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use rpc::v1::alert_service_server::AlertServiceServer;
use rpc::v1::apply_service_server::ApplyServiceServer;
use rpc::v1::audit_service_server::AuditServiceServer;
use rpc::v1::calendar_service_server::CalendarServiceServer;
use rpc::v1::channel_service_server::ChannelServiceServer;
use rpc::v1::check_in_service_server::CheckInServiceServer;
use rpc::v1::job_service_server::JobServiceServer;
use rpc::v1::run_service_server::RunServiceServer;
use rpc::v1::schedule_service_server::ScheduleServiceServer;
use rpc::v1::status_service_server::StatusServiceServer;
use rpc::v1::tenant_service_server::TenantServiceServer;
use rpc::v1::token_service_server::TokenServiceServer;
use std::sync::Arc;
use store::Store;
use tonic::Status;
use tonic::service::Routes;

/// What every method needs.
#[derive(Clone)]
pub struct Registry {
    pub(crate) store: Store,
    pub(crate) watching: Watching,
    pub(crate) turns: Turns,
    pub(crate) by_hand: ByHand,
}

/// The code of a message that is larger than tonic may decode; no method of ours answers so.
const OVER_DECODING_LIMIT: &str = "11";

/// All services, health and reflection among them, behind the lookup of tokens; no request has more than `size` bytes.
///
/// # Errors
/// When the contract can't be reflected, which a test of `rpc` excludes.
pub async fn routes(
    registry: Registry,
    tokens: Arc<Tokens>,
    size: usize,
    metrics: Metrics,
) -> Result<Routes, Box<dyn std::error::Error + Send + Sync>> {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<JobServiceServer<Registry>>().await;
    let routes = Routes::new(JobServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(AlertServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(ApplyServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(RunServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(ChannelServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(ScheduleServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(CheckInServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(CalendarServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(TokenServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(TenantServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(AuditServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(StatusServiceServer::new(registry).max_decoding_message_size(size))
        .add_service(health)
        .add_service(rpc::reflection::service()?);
    let routes = routes.prepare().into_axum_router();
    let routes = routes.layer(middleware::from_fn_with_state(size, name_size_limit));
    let routes = Routes::from(known::vouched(routes));
    Ok(metrics::measured(rpc::auth::guard(routes, tokens), metrics))
}

/// Says that a message is too large as every other limit is told: tonic calls it out of range, which REST has for wrong
/// values.
async fn name_size_limit(State(size): State<usize>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if response.headers().get("grpc-status").is_some_and(|code| code == OVER_DECODING_LIMIT) {
        return Status::resource_exhausted(format!("the request has more than {size} bytes")).into_http();
    }
    response
}
