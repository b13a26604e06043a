//! What went wrong, as a gRPC status. Callers see the kinds below and no other; what a driver said stays in the log.

use model::validate::FieldError;
use std::error::Error;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

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
    fn what_a_driver_said_is_not_told() {
        let secret = std::io::Error::other("password authentication failed for user \"registry\"");
        for status in [internal("storing the job", &secret), unavailable("PostgreSQL", &secret)] {
            assert!(!status.message().contains("registry"), "{status:?}");
        }
    }
}
