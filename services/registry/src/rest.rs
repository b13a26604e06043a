//! REST: the contract's paths through the gateway, onto the same routes as gRPC, and the document that describes them.
//!
//! The one method that streams is served here, as server-sent events: one for each message, its data the message in JSON.

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rpc::transcode::{Gateway, GatewayError, problem};
use rpc::v1::{self, run_service_client::RunServiceClient};
use serde_json::{Value, json};
use std::convert::Infallible;
use tokio_stream::StreamExt;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::{Request, Status};

/// The paths of the contract, with bodies of at most `body_bytes_max` bytes, and `/openapi.json`.
///
/// # Errors
/// When the contract's rules can't be served, which a test of `rpc` excludes.
pub fn router(routes: Routes, body_bytes_max: usize) -> Result<Router, GatewayError> {
    let document = rpc::openapi::document(body_bytes_max)?;
    let describe = get(move || async move { Json(document) });
    let output = get(output).with_state(routes.clone().prepare());
    Ok(Gateway::new(routes, body_bytes_max)?
        .router()
        .route("/openapi.json", describe)
        .route("/v1/jobs/{job}/runs/{scheduled_for}/output", output))
}

/// What a caller may ask beside the path.
#[derive(Debug, serde::Deserialize)]
struct Wanted {
    #[serde(default)]
    once: bool,
}

async fn output(
    State(routes): State<Routes>,
    Path((job, scheduled_for)): Path<(String, String)>,
    wanted: Result<Query<Wanted>, axum::extract::rejection::QueryRejection>,
    headers: http::HeaderMap,
) -> Response {
    let Ok(Query(Wanted { once })) = wanted else {
        return problem(&Status::invalid_argument("once: use true or false"));
    };
    let mut request = Request::new(v1::WatchOutputRequest { job, scheduled_for, once });
    if let Some(authorization) = headers.get(http::header::AUTHORIZATION) {
        let mut only = http::HeaderMap::new();
        only.insert(http::header::AUTHORIZATION, authorization.clone());
        *request.metadata_mut() = MetadataMap::from_headers(only);
    }
    match RunServiceClient::new(routes).watch_output(request).await {
        Ok(messages) => Sse::new(messages.into_inner().map(|message| Ok::<_, Infallible>(event(message))))
            .keep_alive(KeepAlive::default())
            .into_response(),
        Err(status) => problem(&status),
    }
}

/// A message, or the reason why no more comes.
fn event(message: Result<v1::WatchOutputResponse, Status>) -> Event {
    match message {
        Ok(message) => Event::default().data(in_json(&message).to_string()),
        Err(status) => {
            Event::default().event("error").data(json!({ "detail": status.message() }).to_string())
        }
    }
}

/// As proto3 JSON has it: bytes in base64, 64-bit numbers as text, and what is not set left out.
fn in_json(message: &v1::WatchOutputResponse) -> Value {
    let mut value = json!({
        "attempt": message.attempt,
        "state": message.state().as_str_name(),
        "offset": message.offset.to_string(),
        "output": STANDARD.encode(&message.output),
        "note": message.note,
    });
    if let Some(fraction) = message.fraction {
        value["fraction"] = json!(fraction);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_proto3_json() {
        let message = v1::WatchOutputResponse {
            attempt: 1,
            state: v1::job_run::State::Running.into(),
            offset: 1 << 60,
            output: b"\xff\n".to_vec(),
            fraction: Some(0.5),
            note: "at it".to_owned(),
        };
        assert_eq!(
            in_json(&message),
            json!({"attempt": 1, "state": "RUNNING", "offset": "1152921504606846976", "output": "/wo=", "note": "at it", "fraction": 0.5})
        );
        assert_eq!(in_json(&v1::WatchOutputResponse::default()).get("fraction"), None);
    }
}
