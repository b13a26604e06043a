//! The services' common ground, and how they are put together: the same routes answer gRPC and REST.

use crate::auth::Tokens;
use crate::metrics::{self, Metrics};
use crate::output::Watching;
use rpc::v1::apply_service_server::ApplyServiceServer;
use rpc::v1::calendar_service_server::CalendarServiceServer;
use rpc::v1::channel_service_server::ChannelServiceServer;
use rpc::v1::job_service_server::JobServiceServer;
use rpc::v1::run_service_server::RunServiceServer;
use rpc::v1::schedule_service_server::ScheduleServiceServer;
use rpc::v1::status_service_server::StatusServiceServer;
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use tonic::service::Routes;

/// What every method needs.
#[derive(Clone)]
pub struct Registry {
    pub(crate) store: Store,
    pub(crate) watching: Watching,
}

/// How the routes treat requests.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long a looked-up token counts.
    pub token_cache: Duration,
    /// The largest request.
    pub request_bytes_max: usize,
}

/// All services, health and reflection among them, behind the lookup of tokens.
///
/// # Errors
/// When the contract can't be reflected, which a test of `rpc` excludes.
pub async fn routes(
    store: &Store,
    watching: Watching,
    limits: Limits,
    metrics: Metrics,
) -> Result<Routes, Box<dyn std::error::Error + Send + Sync>> {
    let registry = Registry { store: store.clone(), watching };
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<JobServiceServer<Registry>>().await;
    let size = limits.request_bytes_max;
    let routes = Routes::new(JobServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(ApplyServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(RunServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(ChannelServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(ScheduleServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(CalendarServiceServer::new(registry.clone()).max_decoding_message_size(size))
        .add_service(StatusServiceServer::new(registry).max_decoding_message_size(size))
        .add_service(health)
        .add_service(rpc::reflection::service()?);
    let tokens = Arc::new(Tokens::new(store.clone(), limits.token_cache));
    Ok(metrics::measured(rpc::auth::guard(routes, tokens), metrics))
}
