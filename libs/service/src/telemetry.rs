//! Logs, traces and metrics, set up once for the process.
//!
//! Log lines go to standard error. Traces always have ids, so that lines and rows carry them; they and the metrics
//! leave the process by OTLP only when an endpoint is configured. Every instrument comes from [`meter`], and
//! `/metrics` shows all of them.

mod json;
mod trace;

pub use trace::{follow, link, traceparent};

use crate::config::{Common, LogFormat};
use opentelemetry::metrics::Meter;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{KeyValue, global};
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::time::Duration;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// How long the last spans and metrics may take to leave.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// Why telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// Traces or metrics can't be exported to the endpoint.
    #[error("cannot export telemetry to {endpoint}")]
    Exporter {
        /// As configured.
        endpoint: String,
        /// Why.
        #[source]
        source: opentelemetry_otlp::ExporterBuildError,
    },
    /// The Prometheus reader can't be made.
    #[error("cannot collect metrics")]
    Metrics(#[source] opentelemetry_sdk::error::OTelSdkError),
    /// The process has a subscriber already.
    #[error("cannot install the log subscriber")]
    Subscriber(#[source] tracing_subscriber::util::TryInitError),
    /// The filter of log lines can't be understood.
    #[error("cannot understand the log filter {filter:?}")]
    Filter {
        /// As configured.
        filter: String,
        /// Why.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
}

/// What `/metrics` shows; clones share it.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: prometheus::Registry,
    provider: SdkMeterProvider,
}

impl Metrics {
    /// Collects for `/metrics` only.
    ///
    /// # Errors
    /// [`TelemetryError::Metrics`].
    pub fn new(service: &str) -> Result<Self, TelemetryError> {
        Self::build(Resource::builder().with_service_name(service.to_owned()).build(), None)
    }

    fn build(resource: Resource, endpoint: Option<&str>) -> Result<Self, TelemetryError> {
        let registry = prometheus::Registry::new();
        let reader = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .build()
            .map_err(TelemetryError::Metrics)?;
        let mut provider = SdkMeterProvider::builder().with_resource(resource).with_reader(reader);
        if let Some(endpoint) = endpoint {
            let exporter = opentelemetry_otlp::MetricExporter::builder()
                .with_tonic()
                .with_endpoint(endpoint)
                .build()
                .map_err(|source| TelemetryError::Exporter { endpoint: endpoint.to_owned(), source })?;
            provider = provider.with_periodic_exporter(exporter);
        }
        Ok(Self { registry, provider: provider.build() })
    }

    /// Every instrument's value now, in Prometheus' text format.
    ///
    /// # Errors
    /// When a name can't be written in that format.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        prometheus::TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

/// Where instruments come from; `name` is the crate's.
pub fn meter(name: &'static str) -> Meter {
    global::meter(name)
}

/// Keeps telemetry alive; [`finish`](Self::finish) sends what is left.
#[derive(Debug)]
pub struct Guard {
    /// For `/metrics`.
    pub metrics: Metrics,
    tracer: SdkTracerProvider,
}

impl Guard {
    /// Sends what is left, for at most two seconds each; blocks. What fails is lost, and said on standard error by
    /// the exporter itself.
    pub fn finish(self) {
        let _ = self.tracer.shutdown_with_timeout(FLUSH_LIMIT);
        let _ = self.metrics.provider.shutdown_with_timeout(FLUSH_LIMIT);
    }
}

/// Sets up logs, traces and metrics of `service` for the whole process. Call it inside a tokio runtime.
///
/// # Errors
/// [`TelemetryError`]; also when it was called before.
pub fn init(service: &'static str, common: &Common) -> Result<Guard, TelemetryError> {
    let resource = Resource::builder()
        .with_service_name(service)
        .with_attribute(KeyValue::new("service.instance.id", common.name.clone()))
        .with_attribute(KeyValue::new("escapement.cell", common.cell.clone()))
        .build();
    let endpoint = common.otlp_endpoint.clone().or_else(endpoint_of_environment);
    let metrics = Metrics::build(resource.clone(), endpoint.as_deref())?;
    let tracer = tracer(resource, endpoint.as_deref())?;
    let filter = EnvFilter::try_new(&common.log_filter)
        .map_err(|source| TelemetryError::Filter { filter: common.log_filter.clone(), source })?;
    let lines = match common.log_format {
        LogFormat::Json => json::JsonLines::new(std::io::stderr).boxed(),
        LogFormat::Text => tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .boxed(),
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(tracing_opentelemetry::layer().with_tracer(tracer.tracer(service)))
        .with(lines)
        .try_init()
        .map_err(TelemetryError::Subscriber)?;
    global::set_text_map_propagator(TraceContextPropagator::new());
    global::set_meter_provider(metrics.provider.clone());
    Ok(Guard { metrics, tracer })
}

fn endpoint_of_environment() -> Option<String> {
    std::env::var(opentelemetry_otlp::OTEL_EXPORTER_OTLP_ENDPOINT).ok().filter(|value| !value.is_empty())
}

fn tracer(resource: Resource, endpoint: Option<&str>) -> Result<SdkTracerProvider, TelemetryError> {
    let mut provider = SdkTracerProvider::builder().with_resource(resource);
    if let Some(endpoint) = endpoint {
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .build()
            .map_err(|source| TelemetryError::Exporter { endpoint: endpoint.to_owned(), source })?;
        provider = provider.with_batch_exporter(exporter);
    }
    Ok(provider.build())
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::metrics::MeterProvider;

    #[test]
    fn instruments_appear_in_the_text_format() {
        let metrics = Metrics::new("test").expect("metrics");
        let counter = metrics.provider.meter("test").u64_counter("runs.planned").build();
        counter.add(3, &[KeyValue::new("origin", "SCHEDULE")]);
        let text = metrics.render().expect("text");
        assert!(text.contains("runs_planned_total{origin=\"SCHEDULE\""), "{text}");
    }
}
