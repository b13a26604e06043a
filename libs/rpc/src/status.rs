//! What went wrong, as a gRPC status. Callers see the kinds below and no other; what a driver said stays in the log.

use model::validate::FieldError;
use std::error::Error;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, QuotaViolation, StatusExt};

/// INVALID_ARGUMENT with every wrong field, as `google.rpc.BadRequest`; the message names them too.
pub fn invalid(errors: Vec<FieldError>) -> Status {
    let listed: Vec<String> =
        errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
    let violations: Vec<FieldViolation> =
        errors.into_iter().map(|error| FieldViolation::new(error.field, error.message)).collect();
    Status::with_error_details(
        Code::InvalidArgument,
        listed.join("; "),
        ErrorDetails::with_bad_request(violations),
    )
}

/// The wrong fields that [`invalid`] put into a status; none in any other.
pub fn field_errors(status: &Status) -> Vec<FieldError> {
    let violations = status.get_details_bad_request().map(|details| details.field_violations);
    violations
        .unwrap_or_default()
        .into_iter()
        .map(|violation| FieldError::new(violation.field, violation.description))
        .collect()
}

/// NOT_FOUND: the tenant has no such thing, or it is not the tenant's.
pub fn not_found(kind: &str, name: &str) -> Status {
    Status::not_found(format!("there is no {kind} {name:?}"))
}

/// ALREADY_EXISTS: the tenant has one of that name.
pub fn already_exists(kind: &str, name: &str) -> Status {
    Status::already_exists(format!("there is a {kind} {name:?} already"))
}

/// ABORTED: the job was changed since the caller read it.
pub fn changed_since(name: &str, expected: i64, stored: i64) -> Status {
    let hint = "read it again and repeat the change";
    Status::aborted(format!("job {name:?} has generation {stored}, not {expected}: {hint}"))
}

/// UNAUTHENTICATED: no token, or one that is not valid. Which of the two a wrong one is, is not told.
pub fn unauthenticated() -> Status {
    Status::unauthenticated("give a valid token, as `authorization: Bearer …`")
}

/// PERMISSION_DENIED: the token is valid and its role does not suffice.
pub fn denied(needed: &str) -> Status {
    Status::permission_denied(format!("this needs a token of role {needed}"))
}

/// PERMISSION_DENIED: only those who look after all tenants may do it.
pub fn operators_only() -> Status {
    Status::permission_denied("this needs a token of role admin of the tenant \"default\"")
}

/// A limit of a tenant that a request exceeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exceeded {
    /// Which limit: `maxJobs`.
    pub limit: &'static str,
    /// The field of the request that exceeds it, if one does.
    pub field: Option<String>,
    /// What the limit is, and what is used or asked for.
    pub message: String,
}

/// The tenant has no room, as `google.rpc.QuotaFailure`: INVALID_ARGUMENT with the wrong fields when other values would
/// fit, RESOURCE_EXHAUSTED when nothing would.
pub fn over_limit(exceeded: Vec<Exceeded>) -> Status {
    let fields: Vec<FieldViolation> = exceeded
        .iter()
        .filter_map(|one| Some(FieldViolation::new(one.field.clone()?, one.message.clone())))
        .collect();
    let code = if fields.len() == exceeded.len() { Code::InvalidArgument } else { Code::ResourceExhausted };
    let text = |one: &Exceeded| match &one.field {
        Some(field) => format!("{field}: {}", one.message),
        None => one.message.clone(),
    };
    let text = exceeded.iter().map(text).collect::<Vec<_>>().join("; ");
    let violations: Vec<_> =
        exceeded.into_iter().map(|one| QuotaViolation::new(one.limit, one.message)).collect();
    let mut details = ErrorDetails::with_quota_failure(violations);
    if !fields.is_empty() {
        details.set_bad_request(fields);
    }
    Status::with_error_details(code, text, details)
}

/// True for what [`over_limit`] made.
pub fn is_over_limit(status: &Status) -> bool {
    status.get_details_quota_failure().is_some()
}

/// RESOURCE_EXHAUSTED, with when to try again as `google.rpc.RetryInfo`: the token makes too many requests.
pub fn too_fast(per_second: u32, retry_after: Duration) -> Status {
    try_later(&format!("this token makes more than {per_second} requests a second"), retry_after)
}

/// RESOURCE_EXHAUSTED for that `reason`, with when to try again as `google.rpc.RetryInfo`.
pub fn try_later(reason: &str, retry_after: Duration) -> Status {
    Status::with_error_details(
        Code::ResourceExhausted,
        format!("{reason}: try again in {} ms", retry_after.as_millis().max(1)),
        ErrorDetails::with_retry_info(Some(retry_after)),
    )
}

/// When to try again, if the status says so.
pub fn retry_after(status: &Status) -> Option<Duration> {
    status.get_details_retry_info()?.retry_delay
}

/// UNAVAILABLE: a part that we need does not answer; the same request may succeed later. Logs the cause.
pub fn unavailable(part: &str, error: &(dyn Error + 'static)) -> Status {
    tracing::warn!(error, part, "Refused a request: a part that it needs does not answer");
    Status::unavailable(format!("{part} does not answer: try again"))
}

/// INTERNAL: our fault. Logs the cause, and tells the caller nothing of it.
pub fn internal(doing: &str, error: &(dyn Error + 'static)) -> Status {
    tracing::error!(error, doing, "Failed a request");
    Status::internal(format!("failed while {doing}; the service's log says why"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_fields_travel_with_the_status() {
        let errors =
            vec![FieldError::new("schedule", "is odd"), FieldError::new("misfire.grace", "is short")];
        let status = invalid(errors.clone());
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.message(), "schedule: is odd; misfire.grace: is short");
        assert_eq!(field_errors(&status), errors);
        assert_eq!(field_errors(&not_found("job", "x")), []);
    }

    #[test]
    fn a_limit_is_a_wrong_field_when_another_value_would_fit_and_exhausted_when_none_would() {
        let exceeded = |field: Option<&str>| Exceeded {
            limit: "maxJobs",
            field: field.map(str::to_owned),
            message: "tenant \"acme\" has 2 of 2 jobs".to_owned(),
        };
        let fits = over_limit(vec![exceeded(Some("schedule"))]);
        assert_eq!((fits.code(), field_errors(&fits).len()), (Code::InvalidArgument, 1));
        let none = over_limit(vec![exceeded(Some("schedule")), exceeded(None)]);
        assert_eq!((none.code(), field_errors(&none).len()), (Code::ResourceExhausted, 1));
        assert!(is_over_limit(&fits) && is_over_limit(&none) && !is_over_limit(&unauthenticated()));
    }

    #[test]
    fn too_fast_says_when_to_try_again() {
        let after = Duration::from_millis(250);
        assert_eq!(retry_after(&too_fast(10, after)), Some(after));
        assert_eq!(retry_after(&unauthenticated()), None);
    }

    #[test]
    fn what_a_driver_said_is_not_told() {
        let secret = std::io::Error::other("password authentication failed for user \"registry\"");
        for status in [internal("storing the job", &secret), unavailable("PostgreSQL", &secret)] {
            assert!(!status.message().contains("registry"), "{status:?}");
        }
    }
}
