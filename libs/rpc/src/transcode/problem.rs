//! What went wrong, as `application/problem+json` (RFC 9457).

use crate::status::{field_errors, is_over_limit, retry_after};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, header};
use model::validate::FieldError;
use serde_json::json;
use tonic::{Code, Status};

/// A kind of problem: its HTTP status, the last part of its `type`, its `title`.
type Kind = (StatusCode, &'static str, &'static str);

/// The one table from gRPC's codes to HTTP. A state that forbids the request, and a change by somebody else in
/// between, are conflicts.
fn kind(code: Code) -> Kind {
    match code {
        Code::InvalidArgument | Code::OutOfRange => (StatusCode::BAD_REQUEST, "invalid", "Wrong request"),
        Code::Unauthenticated => (StatusCode::UNAUTHORIZED, "unauthenticated", "No valid token"),
        Code::PermissionDenied => (StatusCode::FORBIDDEN, "denied", "Not allowed"),
        Code::NotFound => (StatusCode::NOT_FOUND, "not-found", "Not found"),
        Code::AlreadyExists => (StatusCode::CONFLICT, "already-exists", "Exists already"),
        Code::Aborted => (StatusCode::CONFLICT, "changed", "Changed in between"),
        Code::FailedPrecondition => (StatusCode::CONFLICT, "conflict", "Not possible now"),
        Code::ResourceExhausted => (StatusCode::TOO_MANY_REQUESTS, "limit", "Limit reached"),
        Code::Unimplemented => (StatusCode::NOT_IMPLEMENTED, "not-available", "Not available"),
        Code::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Not available now"),
        Code::DeadlineExceeded => (StatusCode::GATEWAY_TIMEOUT, "deadline", "Took too long"),
        Code::Ok | Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => {
            (StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error")
        }
    }
}

/// A status as an answer, with every wrong field that it carries.
pub fn of_status(status: &Status) -> Response {
    let kind = match status.code() {
        // What is wrong with it is the tenant's limit only.
        Code::InvalidArgument if is_over_limit(status) => {
            (StatusCode::UNPROCESSABLE_ENTITY, "limit", "Over a limit")
        }
        code => kind(code),
    };
    let mut response = answer(kind, status.message(), &field_errors(status));
    if let Some(after) = retry_after(status) {
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0); // whole seconds, and never too early
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    }
    if status.code() == Code::Unauthenticated {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// 405, with the methods that the path has.
pub(super) fn method_not_allowed(methods: &[&Method]) -> Response {
    let mut names: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let allowed = names.join(", ");
    let kind = (StatusCode::METHOD_NOT_ALLOWED, "method", "Wrong method");
    let mut response = answer(kind, &format!("use {allowed}"), &[]);
    if let Ok(value) = HeaderValue::try_from(allowed) {
        response.headers_mut().insert(header::ALLOW, value);
    }
    response
}

/// 413, for a body of more than `most` bytes.
pub(super) fn too_large(most: usize) -> Response {
    let detail = format!("the body has more than {most} bytes");
    answer((StatusCode::PAYLOAD_TOO_LARGE, "too-large", "Body too large"), &detail, &[])
}

/// 415.
pub(super) fn not_json() -> Response {
    let kind = (StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", "Not JSON");
    answer(kind, "use content-type: application/json", &[])
}

fn answer((status, name, title): Kind, detail: &str, errors: &[FieldError]) -> Response {
    let mut problem = json!({
        "type": format!("urn:escapement:problem:{name}"),
        "title": title,
        "status": status.as_u16(),
        "detail": detail,
    });
    if !errors.is_empty() {
        let each = errors.iter().map(|error| json!({"field": error.field, "message": error.message}));
        problem["errors"] = each.collect();
    }
    (status, [(header::CONTENT_TYPE, "application/problem+json")], problem.to_string()).into_response()
}
