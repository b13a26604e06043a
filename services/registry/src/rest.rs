//! REST: the contract's paths through the gateway, onto the same routes as gRPC, and the document that describes them.
//!
//! The methods that stream are served here, as server-sent events: one for each message, its data the message in JSON.

use crate::{docs_page, misread};
use axum::Router;
use axum::extract::{Extension, Path, Query, RawQuery, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::validate::FieldError;
use rpc::auth::Counted;
use rpc::transcode::{Gateway, GatewayError, problem};
use rpc::v1::{self, run_service_client::RunServiceClient};
use serde_json::{Value, json};
use std::convert::Infallible;
use tokio_stream::StreamExt;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::{Request, Status};

/// The paths of the contract, with bodies of at most `body_bytes_max` bytes, `/openapi.json`, and the page of it at `/docs`.
///
/// # Errors
/// When the contract's rules can't be served, which a test of `rpc` excludes.
pub fn router(routes: Routes, body_bytes_max: usize) -> Result<Router, GatewayError> {
    let document = rpc::openapi::document(body_bytes_max)?;
    let describe = get(move || async move { Json(document) });
    let output = get(output).with_state(routes.clone().prepare());
    let watch = get(watch).with_state(routes.clone().prepare());
    Ok(Gateway::new(routes, body_bytes_max)?
        .judging(misread::judge)
        .router()
        .route("/openapi.json", describe)
        .route(rpc::events::OUTPUT.path, output)
        .route(rpc::events::RUNS.path, watch)
        .merge(docs_page::router()))
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
    counted: Option<Extension<Counted>>,
) -> Response {
    let Ok(Query(Wanted { once })) = wanted else {
        return problem(&Status::invalid_argument("once: use true or false"));
    };
    let request = handed_on(v1::WatchOutputRequest { job, scheduled_for, once }, &headers, counted);
    match RunServiceClient::new(routes).watch_output(request).await {
        Ok(messages) => Sse::new(messages.into_inner().map(|message| Ok::<_, Infallible>(event(message))))
            .keep_alive(KeepAlive::default())
            .into_response(),
        Err(status) => problem(&status),
    }
}

/// A call of the caller's whom the guard of REST has let in, and counted.
fn handed_on<T>(message: T, headers: &http::HeaderMap, counted: Option<Extension<Counted>>) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(Extension(counted)) = counted {
        request.extensions_mut().insert(counted);
    }
    if let Some(authorization) = headers.get(http::header::AUTHORIZATION) {
        let mut only = http::HeaderMap::new();
        only.insert(http::header::AUTHORIZATION, authorization.clone());
        *request.metadata_mut() = MetadataMap::from_headers(only);
    }
    request
}

/// As a browser's EventSource resumes: with the id of the last event that it got.
const LAST_EVENT_ID: &str = "last-event-id";

async fn watch(
    State(routes): State<Routes>,
    RawQuery(query): RawQuery,
    headers: http::HeaderMap,
    counted: Option<Extension<Counted>>,
) -> Response {
    let mut wanted = match watched(query.as_deref().unwrap_or_default()) {
        Ok(wanted) => wanted,
        Err(errors) => return problem(&rpc::status::invalid(errors)),
    };
    if let Some(last) = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()) {
        last.clone_into(&mut wanted.resume_token);
    }
    match RunServiceClient::new(routes).watch_runs(handed_on(wanted, &headers, counted)).await {
        Ok(messages) => {
            Sse::new(messages.into_inner().map(|message| Ok::<_, Infallible>(run_event(message))))
                .into_response()
        }
        Err(status) => problem(&status),
    }
}

/// What a query asks to watch, and everything that is wrong with it.
fn watched(query: &str) -> Result<v1::WatchRunsRequest, Vec<FieldError>> {
    let mut wanted = v1::WatchRunsRequest::default();
    let mut errors = Vec::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "job" => wanted.job = value.into_owned(),
            "resumeToken" | "resume_token" => wanted.resume_token = value.into_owned(),
            "states" => match v1::job_run::State::from_str_name(&value) {
                Some(state) if state != v1::job_run::State::Unspecified => wanted.states.push(state.into()),
                _ => errors
                    .push(FieldError::new("states", format!("{value:?} is no state: use one like FAILED"))),
            },
            _ => errors.push(FieldError::new(name, "is no parameter: use job, states and resumeToken")),
        }
    }
    if errors.is_empty() { Ok(wanted) } else { Err(errors) }
}

/// An event with its token as id; without a run, a comment that keeps the connection open, and the token.
fn run_event(message: Result<v1::WatchRunsResponse, Status>) -> Event {
    match message {
        Ok(message) if message.run.is_none() => {
            Event::default().comment("nothing new").id(message.resume_token)
        }
        Ok(message) => {
            let data = rpc::fields::json("escapement.v1.WatchRunsResponse", &message);
            Event::default().id(message.resume_token).data(data.to_string())
        }
        Err(status) => ended(&status),
    }
}

fn ended(status: &Status) -> Event {
    Event::default().event("error").data(json!({ "detail": status.message() }).to_string())
}

/// A message, or the reason why no more comes.
fn event(message: Result<v1::WatchOutputResponse, Status>) -> Event {
    match message {
        Ok(message) => Event::default().data(in_json(&message).to_string()),
        Err(status) => ended(&status),
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
    fn what_is_watched_is_read_from_the_query_and_what_is_wrong_is_named() {
        let wanted = watched("job=a%20b&states=FAILED&states=LOST&resumeToken=x").expect("sound");
        let states = [v1::job_run::State::Failed, v1::job_run::State::Lost].map(i32::from);
        assert_eq!((wanted.job.as_str(), wanted.resume_token.as_str()), ("a b", "x"));
        assert_eq!(wanted.states, states);
        let errors = watched("states=GONE&colour=red&states=UNSPECIFIED").expect_err("wrong");
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["states", "colour", "states"]);
    }

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
