//! What runs: `Run` in the contract, [`Work`] in the model.

use super::time;
use crate::v1;
use crate::v1::run::Kind;
use model::job::{Exec, Handler, Http, Work, defaults};
use model::validate::FieldError;

/// Reads what runs; `field` is its path, `run` in a job. What the fields may contain is checked by the model.
///
/// # Errors
/// A [`FieldError`] when none is given, or a duration is none.
pub fn read(field: &str, run: Option<&v1::Run>) -> Result<Work, FieldError> {
    match run.and_then(|run| run.kind.as_ref()) {
        None => Err(FieldError::new(field, "is missing: give one of exec, http and handler")),
        Some(Kind::Exec(exec)) => Ok(Work::Exec(Exec {
            argv: exec.argv.clone(),
            env: exec.env.clone().into_iter().collect(),
            working_directory: exec.working_directory.clone(),
            shell: exec.shell.clone(),
        })),
        Some(Kind::Http(http)) => Ok(Work::Http(Http {
            method: if http.method.is_empty() { "POST".to_owned() } else { http.method.clone() },
            url: http.url.clone(),
            headers: http.headers.clone().into_iter().collect(),
            body: http.body.clone(),
            timeout: match &http.timeout {
                Some(timeout) => time::duration_of(&format!("{field}.http.timeout"), timeout)?,
                None => defaults::HTTP_TIMEOUT,
            },
            // What is no status is refused by the model, as 0.
            expected_status: http
                .expected_status
                .iter()
                .map(|status| u16::try_from(*status).unwrap_or(0))
                .collect(),
            secret_headers: http.secret_headers.clone(),
        })),
        Some(Kind::Handler(handler)) => {
            Ok(Work::Handler(Handler { name: handler.name.clone(), payload: handler.payload.clone() }))
        }
    }
}

/// What runs, as a message to those who look at it: without the values of secret headers.
pub fn shown(work: &Work) -> v1::Run {
    match work {
        Work::Http(http) => write(&Work::Http(http.clone().without_secrets())),
        other => write(other),
    }
}

/// What runs, as a message to the worker that is to do it.
pub fn write(work: &Work) -> v1::Run {
    let kind = match work.clone() {
        Work::Exec(Exec { argv, env, working_directory, shell }) => {
            Kind::Exec(v1::Exec { argv, env: env.into_iter().collect(), working_directory, shell })
        }
        Work::Http(http) => Kind::Http(v1::Http {
            method: http.method,
            url: http.url,
            headers: http.headers.into_iter().collect(),
            body: http.body,
            timeout: Some(time::duration(http.timeout)),
            expected_status: http.expected_status.into_iter().map(i32::from).collect(),
            secret_headers: http.secret_headers,
        }),
        Work::Handler(Handler { name, payload }) => Kind::Handler(v1::Handler { name, payload }),
    };
    v1::Run { kind: Some(kind) }
}
