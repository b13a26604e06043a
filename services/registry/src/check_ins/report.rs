//! Where check-ins report: `POST /v1/checkins/{token}`, and `/start` and `/fail` behind it.
//!
//! Whoever has the token may report, and nothing else; it is part of the address, because `curl` in a crontab is all that
//! there is. So the answer to an unknown one says no more than that, and no token is logged.

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::StatusCode;
use model::check_in::Report;
use rpc::transcode::problem;
use service::runtime::chain;
use store::Store;
use store::check_in::{self, Noted, REPORTS_PER_MINUTE_MAX};
use tonic::Status;

/// Of a body: its beginning is kept, so one that is too long is no reason to lose the report.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Of a token: no longer one was ever made.
const TOKEN_BYTES_MAX: usize = 256;

/// The paths of reports.
pub fn router(store: Store) -> Router {
    let success = |store, token, body| report(store, token, Report::Success, body);
    let start = |store, token, body| report(store, token, Report::Start, body);
    let fail = |store, token, body| report(store, token, Report::Fail, body);
    Router::new()
        .route("/v1/checkins/{token}", post(success))
        .route("/v1/checkins/{token}/start", post(start))
        .route("/v1/checkins/{token}/fail", post(fail))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(store)
}

async fn report(
    State(store): State<Store>,
    token: Result<Path<String>, PathRejection>,
    what: Report,
    body: Bytes,
) -> Response {
    // What is no text was never made a token of either.
    let Some(token) = token.ok().map(|Path(token)| token).filter(|token| token.len() <= TOKEN_BYTES_MAX)
    else {
        return unknown();
    };
    match check_in::report(&store, &token, what, &String::from_utf8_lossy(&body)).await {
        Ok(Noted::Yes(name)) => {
            tracing::debug!(check_in.name = name, check_in.reported = %what, "A check-in reported");
            (StatusCode::OK, "noted\n").into_response()
        }
        Ok(Noted::TooMany) => problem(&Status::resource_exhausted(format!(
            "this check-in has reported {REPORTS_PER_MINUTE_MAX} times in the last minute: report less often"
        ))),
        Ok(Noted::Unknown) => unknown(),
        Err(error) => {
            tracing::warn!(error = chain(&error), "A report can't be noted");
            problem(&Status::unavailable("the report could not be noted: repeat it in a few seconds"))
        }
    }
}

fn unknown() -> Response {
    problem(&Status::not_found("no check-in has this token: it may be deleted"))
}
