//! One trace for one run: its W3C `traceparent` is stored in the row and carried to the worker.

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanContext, TraceContextExt};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use std::collections::HashMap;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The span's `traceparent`; none when it is not recorded.
pub fn traceparent(span: &Span) -> Option<String> {
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&span.context(), &mut carrier);
    carrier.remove("traceparent")
}

/// Makes `span` a child of `traceparent`; false when that can't be read or the span has been entered or logged in
/// before.
pub fn follow(span: &Span, traceparent: &str) -> bool {
    let context = context(traceparent);
    context.span().span_context().is_valid() && span.set_parent(context).is_ok()
}

/// Links `span` to `traceparent`, for a batch that belongs to many traces.
pub fn link(span: &Span, traceparent: &str) {
    let context: SpanContext = context(traceparent).span().span_context().clone();
    if context.is_valid() {
        span.add_link(context);
    }
}

fn context(traceparent: &str) -> opentelemetry::Context {
    let carrier = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
    TraceContextPropagator::new().extract_with_context(&opentelemetry::Context::new(), &carrier)
}
