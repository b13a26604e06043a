//! Log lines as JSON: one object a line, the fields of the event over those of its spans, and the trace's ids.

use opentelemetry::trace::TraceContextExt;
use serde_json::{Map, Value};
use std::io::Write;
use std::sync::OnceLock;
use std::time::SystemTime;
use tracing::dispatcher::WeakDispatch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime as Rfc3339};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// Writes every event as a line of JSON.
pub(super) struct JsonLines<W> {
    writer: W,
    /// To ask the OpenTelemetry layer for a span's ids.
    dispatch: OnceLock<WeakDispatch>,
}

impl<W> JsonLines<W> {
    pub(super) fn new(writer: W) -> Self {
        Self { writer, dispatch: OnceLock::new() }
    }

    /// The ids of the span's trace, when an OpenTelemetry layer records it.
    fn ids<S>(&self, span: &SpanRef<'_, S>) -> Option<(String, String)>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let dispatch = self.dispatch.get()?.upgrade()?;
        let context = tracing_opentelemetry::get_otel_context(&span.id(), &dispatch)?;
        let ids = context.span().span_context().clone();
        ids.is_valid().then(|| (ids.trace_id().to_string(), ids.span_id().to_string()))
    }
}

/// The fields of a span, kept beside it.
struct Fields(Map<String, Value>);

impl<S, W> Layer<S> for JsonLines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        let _ = self.dispatch.set(dispatch.downgrade());
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Map::new();
        attributes.record(&mut Collect(&mut fields));
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Fields(fields));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(&mut Collect(&mut fields.0));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Map::new();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(own) = span.extensions().get::<Fields>() {
                fields.extend(own.0.clone());
            }
        }
        event.record(&mut Collect(&mut fields));
        let metadata = event.metadata();
        let mut line = vec![
            ("time", now().into()),
            ("level", metadata.level().as_str().into()),
            ("target", metadata.target().into()),
            ("message", fields.remove("message").unwrap_or_default()),
        ];
        if let Some((trace, span)) = context.event_span(event).and_then(|span| self.ids(&span)) {
            line.extend([("trace_id", trace.into()), ("span_id", span.into())]);
        }
        let text = text(&line, fields);
        // Nobody is left to tell when standard error is closed.
        let _ = self.writer.make_writer_for(event.metadata()).write_all(text.as_bytes());
    }
}

/// One line: what every line has comes first, in this order. A field of the same name steps aside.
fn text(line: &[(&str, Value)], fields: Map<String, Value>) -> String {
    let mut text = String::from("{");
    for (name, value) in line {
        text.push_str(&format!("{}:{value},", Value::from(*name)));
    }
    for (name, value) in fields {
        let taken = line.iter().any(|(other, _)| *other == name);
        let name = if taken { format!("field.{name}") } else { name };
        text.push_str(&format!("{}:{value},", Value::from(name)));
    }
    text.pop();
    text.push_str("}\n");
    text
}

fn now() -> String {
    let mut text = String::new();
    let mut writer = tracing_subscriber::fmt::format::Writer::new(&mut text);
    match Rfc3339.format_time(&mut writer) {
        Ok(()) => text,
        Err(_) => format!("{:?}", SystemTime::now()),
    }
}

/// Takes fields as JSON values.
struct Collect<'a>(&'a mut Map<String, Value>);

impl Collect<'_> {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Collect<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }
    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, crate::runtime::chain(value));
    }
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::trace::TracerProvider;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::layer::SubscriberExt;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Written {
        fn line(&self) -> Value {
            serde_json::from_slice(&self.0.lock().expect("no panic")).expect("one line of JSON")
        }
    }

    #[test]
    fn a_line_has_the_fields_of_its_spans_and_the_ids_of_the_trace() {
        let written = Written::default();
        let writer = written.clone();
        let tracer = opentelemetry_sdk::trace::SdkTracerProvider::builder().build();
        let subscriber = tracing_subscriber::registry()
            .with(tracing_opentelemetry::layer().with_tracer(tracer.tracer("test")))
            .with(JsonLines::new(move || writer.clone()));
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("run", job.name = "invoices", run.attempt = tracing::field::Empty);
            assert!(super::super::follow(&span, parent));
            span.record("run.attempt", 2);
            let _in = span.enter();
            let error = std::io::Error::other("disk full");
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                lateness_ms = 3_u64,
                "Run {} is late",
                7
            );
            let carried = super::super::traceparent(&span).expect("a recorded span");
            assert!(carried.starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "{carried}");
        });
        let line = written.line();
        assert_eq!(line["message"], "Run 7 is late");
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["job.name"], "invoices");
        assert_eq!(line["run.attempt"], 2);
        assert_eq!(line["lateness_ms"], 3);
        assert_eq!(line["error"], "disk full");
        assert_eq!(line["trace_id"], "0af7651916cd43dd8448eb211c80319c");
        assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
    }

    #[test]
    fn fields_step_aside_for_what_every_line_has() {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::registry().with(JsonLines::new(move || writer.clone()));
        tracing::subscriber::with_default(subscriber, || tracing::info!(level = 3, quoted = "\"\n", "Ready"));
        let line = written.line();
        assert_eq!(
            (&line["level"], &line["field.level"], &line["quoted"]),
            (&"INFO".into(), &3.into(), &"\"\n".into())
        );
    }

    #[test]
    fn a_line_outside_every_span_has_no_ids() {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::registry().with(JsonLines::new(move || writer.clone()));
        tracing::subscriber::with_default(subscriber, || tracing::info!("Ready"));
        assert_eq!(written.line().get("trace_id"), None);
    }
}
