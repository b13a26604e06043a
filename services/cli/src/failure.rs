//! Why a command ended without having done what it was asked, and the exit status that says so to programs.
//!
//! Deliberately not here: usage, which the reader of the arguments refuses with 2 itself.

use crate::hint::{self, Origin};
use crate::wrong::{self, WrongField};
use store::{Retry, StoreError};
use thiserror::Error;

/// Failed, or refused for what none of the others says.
pub const FAILED: u8 = 1;
/// What was named is not there.
pub const NOT_FOUND: u8 = 3;
/// It exists already, was changed in between, or can't be done now.
pub const CONFLICT: u8 = 4;
/// No valid token, or one that may not do this.
pub const UNAUTHORISED: u8 = 5;
/// The registry, or the database, can't be reached, or can't answer now: the same command may succeed later.
pub const UNREACHABLE: u8 = 6;
/// Over a limit of the tenant or the token.
pub const LIMIT: u8 = 7;

/// For `--help`.
pub const HELP: &str = "Exit status: 0 done, 1 failed or refused (the reason is on standard error), 2 wrong usage, 3 not found, \
                        4 conflict with what is there, 5 not authorised, 6 the registry or database can't be reached, 7 over a limit.";

/// What a registry did not do.
#[derive(Debug, Error)]
pub enum Failure {
    /// It answered so.
    #[error("{}", wrong::told(head.as_deref(), wrong))]
    Refused {
        /// HTTP status.
        status: u16,
        /// For people; none when it is all in the fields.
        head: Option<String>,
        /// Every wrong field.
        wrong: Vec<WrongField>,
        /// What they may do, a line each.
        next: Vec<String>,
    },
    /// It was not asked to, or stored nothing: these fields of the files are wrong.
    #[error("{}", wrong::told(None, fields))]
    Wrong {
        /// Every one that is known.
        fields: Vec<WrongField>,
        /// What their author may do, a line each.
        next: Vec<String>,
    },
    /// It did not answer.
    #[error("the registry at {server} can't be reached")]
    Unreachable {
        /// Its address.
        server: String,
        /// Where that stood.
        origin: Origin,
        /// Why.
        source: reqwest::Error,
    },
}

/// The exit status for an error, by the first failure among its causes.
pub fn exit_status(error: &anyhow::Error) -> u8 {
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    match failure {
        Some(Failure::Unreachable { .. }) => UNREACHABLE,
        None if is_database_away(error) => UNREACHABLE,
        Some(Failure::Refused { status, .. }) => match status {
            404 => NOT_FOUND,
            409 | 412 => CONFLICT,
            401 | 403 => UNAUTHORISED,
            502..=504 => UNREACHABLE,
            422 | 429 => LIMIT,
            _ => FAILED,
        },
        Some(Failure::Wrong { .. }) | None => FAILED,
    }
}

/// What may be done about an error, a line each; nothing when its text says so already.
pub fn next(error: &anyhow::Error) -> Vec<String> {
    match error.chain().find_map(|cause| cause.downcast_ref::<Failure>()) {
        Some(Failure::Refused { next, .. } | Failure::Wrong { next, .. }) => next.clone(),
        Some(Failure::Unreachable { origin, source, .. }) => hint::unreachable(source, origin),
        None if is_database_away(error) => {
            vec![
                "see that PostgreSQL runs, and that --database-url (ESCAPEMENT_DATABASE_URL) is its address"
                    .to_owned(),
            ]
        }
        None => Vec::new(),
    }
}

/// Whether the database is the matter and may answer later.
fn is_database_away(error: &anyhow::Error) -> bool {
    let failed = error.chain().find_map(|cause| cause.downcast_ref::<StoreError>());
    failed.is_some_and(|failed| failed.retry() == Retry::Later)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn a_failure_keeps_its_status_whatever_is_said_around_it() {
        let of = |status| Failure::Refused { status, head: None, wrong: Vec::new(), next: Vec::new() };
        for (status, expected) in [
            (400, FAILED),
            (401, UNAUTHORISED),
            (403, UNAUTHORISED),
            (404, NOT_FOUND),
            (409, CONFLICT),
            (422, LIMIT),
            (429, LIMIT),
            (500, FAILED),
            (503, UNREACHABLE),
        ] {
            let error = Err::<(), _>(of(status)).context("job a").context("file b").expect_err("refused");
            assert_eq!(exit_status(&error), expected, "{status}");
        }
        assert_eq!(exit_status(&anyhow!("reading a file")), FAILED);
    }

    #[test]
    fn help_names_every_status() {
        for status in [0, FAILED, 2, NOT_FOUND, CONFLICT, UNAUTHORISED, UNREACHABLE, LIMIT] {
            assert!(HELP.contains(&format!(" {status} ")), "{status}");
        }
    }
}
