//! Runs and attempts: states, references, and how an attempt ended.

use super::time;
use crate::v1;
use crate::v1::job_run::State as ProtoState;
use model::attempt::Outcome;
use model::ids::RunKey;
use model::run::{Phase, Reason, State};
use model::token::Token;
use model::validate::FieldError;

/// What people see of a run, as the contract's number.
pub fn phase(phase: Phase) -> ProtoState {
    // A test holds the two lists of names against each other.
    ProtoState::from_str_name(phase.as_str()).unwrap_or(ProtoState::Unspecified)
}

/// How a run or attempt ended, as the contract's number.
pub fn state(state: State) -> ProtoState {
    ProtoState::from_str_name(state.as_str()).unwrap_or(ProtoState::Unspecified)
}

/// Reads a filter of states.
///
/// # Errors
/// A [`FieldError`] for each number that is none.
pub fn phases(field: &str, states: &[i32]) -> Result<Vec<Phase>, Vec<FieldError>> {
    let read = |number: i32| ProtoState::try_from(number).ok()?.as_str_name().parse().ok();
    let mut phases = Vec::with_capacity(states.len());
    let mut errors = Vec::new();
    for (index, number) in states.iter().enumerate() {
        match read(*number) {
            Some(phase) => phases.push(phase),
            None => errors.push(FieldError::new(
                format!("{field}[{index}]"),
                format!("{number} is no state: use a name, for example FAILED"),
            )),
        }
    }
    if errors.is_empty() { Ok(phases) } else { Err(errors) }
}

/// One attempt of one run, with the token of its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptRef {
    /// The run.
    pub key: RunKey,
    /// Which attempt, from 1.
    pub attempt: i32,
    /// The fencing token.
    pub token: Token,
}

/// Reads a reference to an attempt.
///
/// # Errors
/// A [`FieldError`] for the first part that is none.
pub fn read_ref(field: &str, run: Option<&v1::RunRef>) -> Result<AttemptRef, FieldError> {
    let at = |part: &str| format!("{field}.{part}");
    let Some(run) = run else { return Err(FieldError::new(field, "is missing: name the run")) };
    let job_id = run.job_id.parse();
    let job_id = job_id.map_err(|_| FieldError::new(at("jobId"), format!("{:?} is no uuid", run.job_id)))?;
    let scheduled_for = time::instant(&at("scheduledFor"), run.scheduled_for.as_ref())?;
    let token = run.token.parse().map_err(|error| FieldError::new(at("token"), format!("{error}")))?;
    if run.attempt < 1 {
        return Err(FieldError::new(at("attempt"), format!("{}: attempts count from 1", run.attempt)));
    }
    Ok(AttemptRef { key: RunKey::new(job_id, scheduled_for), attempt: run.attempt, token })
}

/// A reference to an attempt as a message.
pub fn write_ref(attempt: &AttemptRef) -> v1::RunRef {
    v1::RunRef {
        job_id: attempt.key.job_id.to_string(),
        scheduled_for: Some(time::timestamp(attempt.key.scheduled_for)),
        attempt: attempt.attempt,
        token: attempt.token.to_string(),
    }
}

/// How an attempt ended, as its worker reports it. A cancelled one carries the reason of the request, which the
/// dispatcher knows and the worker does not. An abandoned one counts as lost: the work is not to blame.
///
/// # Errors
/// A [`FieldError`] when the outcome is unset or unknown.
pub fn outcome(completed: &v1::Completed, cancelled: Reason) -> Result<Outcome, FieldError> {
    use v1::completed::Outcome as Reported;
    match Reported::try_from(completed.outcome) {
        Ok(Reported::Succeeded) => Ok(Outcome::Succeeded),
        Ok(Reported::Failed) => Ok(Outcome::Failed(Reason::WorkFailed)),
        Ok(Reported::NotStarted) => Ok(Outcome::Failed(Reason::NotStarted)),
        Ok(Reported::TimedOut) => Ok(Outcome::TimedOut),
        Ok(Reported::Cancelled) => Ok(Outcome::Cancelled(cancelled)),
        Ok(Reported::Abandoned) => Ok(Outcome::Lost),
        Ok(Reported::Unspecified) | Err(_) => {
            Err(FieldError::new("completed.outcome", format!("{} is no outcome", completed.outcome)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ids::JobId;

    #[test]
    fn every_phase_and_state_has_its_name_in_the_contract() {
        for each in Phase::ALL {
            assert_eq!(phase(*each).as_str_name(), each.as_str());
        }
        for each in State::ALL {
            assert_eq!(state(*each).as_str_name(), each.as_str());
        }
    }

    #[test]
    fn a_filter_names_each_number_that_is_no_state() {
        let failed = ProtoState::Failed as i32;
        assert_eq!(phases("states", &[failed]), Ok(vec![Phase::Failed]));
        let errors = phases("states", &[0, failed, 77]).expect_err("two are none");
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["states[0]", "states[2]"]);
    }

    #[test]
    fn a_reference_comes_back_as_it_was_and_names_what_is_wrong() {
        let at = chrono::DateTime::from_timestamp(1_795_942_800, 0).expect("in range");
        let key = RunKey::new(JobId::random(), at);
        let attempt = AttemptRef { key, attempt: 2, token: Token::from_i64(1 << 44).expect("positive") };
        let message = write_ref(&attempt);
        assert_eq!(read_ref("run", Some(&message)), Ok(attempt));
        let wrong = |message: v1::RunRef| read_ref("run", Some(&message)).expect_err("wrong").field;
        assert_eq!(wrong(v1::RunRef { job_id: "x".to_owned(), ..message.clone() }), "run.jobId");
        assert_eq!(wrong(v1::RunRef { token: "-1".to_owned(), ..message.clone() }), "run.token");
        assert_eq!(wrong(v1::RunRef { attempt: 0, ..message.clone() }), "run.attempt");
        assert_eq!(wrong(v1::RunRef { scheduled_for: None, ..message }), "run.scheduledFor");
        assert_eq!(read_ref("run", None).expect_err("wrong").field, "run");
    }

    #[test]
    fn an_outcome_that_is_unset_is_an_error_and_an_abandoned_attempt_a_loss() {
        let completed = |outcome: i32| v1::Completed { outcome, ..v1::Completed::default() };
        assert!(outcome(&completed(0), Reason::Requested).is_err());
        assert!(outcome(&completed(99), Reason::Requested).is_err());
        let abandoned = completed(v1::completed::Outcome::Abandoned as i32);
        assert_eq!(outcome(&abandoned, Reason::Requested), Ok(Outcome::Lost));
        let cancelled = completed(v1::completed::Outcome::Cancelled as i32);
        assert_eq!(outcome(&cancelled, Reason::Replaced), Ok(Outcome::Cancelled(Reason::Replaced)));
    }
}
