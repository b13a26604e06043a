//! The services' common ground, and how they are put together: the same routes answer gRPC and REST.

use crate::auth::Tokens;
use crate::metrics::{self, Metrics};
use crate::watching::Watching;
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
use tonic::service::Routes;

/// What every method needs.
#[derive(Clone)]
pub struct Registry {
    pub(crate) store: Store,
    pub(crate) watching: Watching,
}

/// All services, health and reflection among them, behind the lookup of tokens; no request has more than `size` bytes.
///
/// # Errors
/// When the contract can't be reflected, which a test of `rpc` excludes.
pub async fn routes(
    store: &Store,
    watching: Watching,
    tokens: Arc<Tokens>,
    size: usize,
    metrics: Metrics,
) -> Result<Routes, Box<dyn std::error::Error + Send + Sync>> {
    let registry = Registry { store: store.clone(), watching };
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
    Ok(metrics::measured(rpc::auth::guard(routes, tokens), metrics))
}
