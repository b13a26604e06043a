//! What the registry counts: requests by method and answer, and how long they took. No label per job.

use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use opentelemetry::KeyValue;
use opentelemetry::metrics::Histogram;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Instant;
use tonic::service::Routes;
use tracing::Instrument;

/// The contract's package.
const PACKAGE: &str = "escapement.v1";
/// The code of an answer that carries none in its head: a success, whose code follows the body.
const OK: &str = "0";

/// The registry's instruments.
#[derive(Debug, Clone)]
pub struct Metrics {
    request_ms: Histogram<f64>,
}

impl Metrics {
    /// Registers them.
    pub fn new() -> Self {
        let meter = service::telemetry::meter("escapement_registry");
        let request_ms = meter
            .f64_histogram("registry.request.duration")
            .with_unit("ms")
            .with_description("How long calls took, by method and gRPC code")
            .build();
        Self { request_ms }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Measures and traces every call of `routes`.
pub fn measured(routes: Routes, metrics: Metrics) -> Routes {
    Routes::from(routes.prepare().into_axum_router().layer(middleware::from_fn_with_state(metrics, measure)))
}

async fn measure(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    let method = method(request.uri().path());
    let span = tracing::info_span!("request", rpc.method = method);
    if let Some(parent) = request.headers().get("traceparent").and_then(|value| value.to_str().ok()) {
        service::telemetry::follow(&span, parent);
    }
    let started = Instant::now();
    let response = next.run(request).instrument(span).await;
    let code = response.headers().get("grpc-status").and_then(|code| code.to_str().ok()).unwrap_or(OK);
    let labels = [KeyValue::new("rpc.method", method), KeyValue::new("rpc.code", code.to_owned())];
    metrics.request_ms.record(started.elapsed().as_secs_f64() * 1_000.0, &labels);
    response
}

/// The method of a path, `JobService/GetJob`. Any other path is its caller's choice and must not become a label.
fn method(path: &str) -> &'static str {
    static METHODS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let services = rpc::descriptors().services().filter(|service| service.package_name() == PACKAGE);
        let methods = services.flat_map(|service| {
            service
                .methods()
                .map(|method| format!("{}/{}", service.name(), method.name()))
                .collect::<Vec<_>>()
        });
        methods.collect()
    });
    let named = path.strip_prefix('/').and_then(|path| path.strip_prefix(PACKAGE)?.strip_prefix('.'));
    named.and_then(|named| METHODS.get(named)).map_or("other", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_methods_of_the_contract_are_named() {
        assert_eq!(method("/escapement.v1.JobService/GetJob"), "JobService/GetJob");
        assert_eq!(method("/grpc.health.v1.Health/Check"), "other");
        assert_eq!(method("/escapement.v1.JobService/Chosen"), "other");
        assert_eq!(method("/anything/else"), "other");
    }
}
