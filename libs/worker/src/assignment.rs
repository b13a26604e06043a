//! What a dispatcher sends, checked and in the types of `model`: an attempt's identity, and an assignment.

use model::ids::RunKey;
use model::job::{Work, defaults};
use model::token::Token;
use model::validate::FieldError;
use rpc::convert::run::{AttemptRef, read_ref, write_ref};
use rpc::{convert, v1};
use std::time::Duration;

/// One attempt of one run; ordered by run, then from older to newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Attempt {
    pub run: RunKey,
    /// Counted from 1.
    pub number: u32,
    pub token: Token,
}

/// A message that names no attempt.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", .0.field, .0.message)]
pub(crate) struct InvalidAttempt(FieldError);

impl Attempt {
    pub(crate) fn of(run: Option<&v1::RunRef>) -> Result<Self, InvalidAttempt> {
        let AttemptRef { key, attempt, token } = read_ref("run", run).map_err(InvalidAttempt)?;
        Ok(Self { run: key, number: attempt.unsigned_abs(), token })
    }

    pub(crate) fn to_ref(self) -> v1::RunRef {
        write_ref(&AttemptRef { key: self.run, attempt: self.number.cast_signed(), token: self.token })
    }
}

/// A run for this worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub attempt: Attempt,
    pub job_name: String,
    pub origin: String,
    pub queue: String,
    pub idempotency_key: String,
    pub guard_key: String,
    pub max_runtime: Duration,
    pub traceparent: String,
    /// None when this version of the worker does not know the kind of work.
    pub work: Option<Work>,
}

impl Assignment {
    pub(crate) fn of(message: v1::Assignment) -> Result<Self, InvalidAttempt> {
        let max_runtime = message.max_runtime.and_then(|given| Duration::try_from(given).ok());
        Ok(Self {
            attempt: Attempt::of(message.run.as_ref())?,
            job_name: message.job_name,
            origin: message.origin,
            queue: message.queue,
            idempotency_key: message.idempotency_key,
            guard_key: message.guard_key,
            max_runtime: max_runtime.unwrap_or(defaults::MAX_RUNTIME),
            traceparent: message.traceparent,
            work: convert::work::read("work", message.work.as_ref()).ok(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;
    use model::ids::JobId;

    #[test]
    fn an_attempt_survives_the_wire_with_its_nanoseconds() {
        let attempt = Attempt {
            run: RunKey::new(
                JobId::random(),
                DateTime::from_timestamp(1_795_942_800, 123).expect("in range"),
            ),
            number: 2,
            token: Token::from_i64(1 << 60).expect("positive"),
        };
        assert_eq!(Attempt::of(Some(&attempt.to_ref())).expect("valid"), attempt);
    }

    #[test]
    fn what_names_no_attempt_is_refused_with_its_field() {
        let good = Attempt {
            run: RunKey::new(JobId::random(), DateTime::UNIX_EPOCH),
            number: 1,
            token: Token::from_i64(7).expect("positive"),
        }
        .to_ref();
        for (bad, says) in [
            (v1::RunRef { job_id: "invoices".into(), ..good.clone() }, "no uuid"),
            (v1::RunRef { scheduled_for: None, ..good.clone() }, "scheduledFor"),
            (v1::RunRef { attempt: 0, ..good.clone() }, "count from 1"),
            (v1::RunRef { token: "-1".into(), ..good.clone() }, "not a fencing token"),
        ] {
            let error = Attempt::of(Some(&bad)).expect_err(says).to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!(Attempt::of(None).is_err());
    }
}
