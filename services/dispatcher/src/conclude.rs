//! What follows for a run from the end of one of its attempts, as values: an end, or a retry. Pure.

use model::attempt::{Ended, Outcome, Verdict, spread};
use model::job::Retry;
use model::run::{Reason, State};
use store::run_end::{End, Output};
use store::run_lease::{self, Lease};

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// The run ends.
    End(End),
    /// It is tried again.
    Retry(run_lease::Retry),
}

impl Conclusion {
    /// What the run became, for counting.
    pub fn became(&self) -> &'static str {
        match self {
            Self::End(end) => end.state.as_str(),
            Self::Retry(_) => "RETRY",
        }
    }

    /// How the attempt ended.
    pub fn state(&self) -> State {
        match self {
            Self::End(end) => end.state,
            Self::Retry(retry) => retry.state,
        }
    }
}

/// What an outcome means, given the lease. A worker can't know why it was told to stop: the request is in the lease; a
/// stop after the deadline was ours; one that nobody asked for is no fault of the work.
pub fn resolve(outcome: Outcome, lease: &Lease) -> Outcome {
    match (outcome, lease.cancel) {
        (Outcome::Cancelled(_), Some(reason)) => Outcome::Cancelled(reason),
        (Outcome::Cancelled(_), None) if lease.overdue => Outcome::TimedOut,
        (Outcome::Cancelled(_), None) => Outcome::Lost,
        // Whoever was to be cancelled is not tried again because it died first.
        (Outcome::Lost | Outcome::Undelivered | Outcome::Failed(_) | Outcome::TimedOut, Some(reason)) => {
            Outcome::Cancelled(reason)
        }
        (outcome, _) => outcome,
    }
}

/// What follows for the run of `lease` from the end of its attempt.
pub fn conclude(lease: &Lease, outcome: Outcome, retry: &Retry, output: Option<Output>) -> Conclusion {
    let status = output.as_ref().and_then(|output| output.exit_status);
    let ended = Ended { outcome, status, spread: spread(lease.key, lease.attempt) };
    match model::attempt::conclude(ended, lease.spent, retry) {
        Verdict::End(state, reason) => {
            Conclusion::End(End { key: lease.key, attempt: Some(lease.named()), state, reason, output })
        }
        Verdict::Retry { .. } if lease.orphaned => {
            let (state, reason) = recorded_as(outcome);
            let (attempt, reason) = (Some(lease.named()), Some(reason));
            Conclusion::End(End { key: lease.key, attempt, state, reason, output })
        }
        Verdict::Retry { after, spent } => {
            let (state, reason) = recorded_as(outcome);
            Conclusion::Retry(run_lease::Retry {
                key: lease.key,
                attempt: lease.named(),
                state,
                reason,
                spent,
                after,
                output,
            })
        }
    }
}

/// How an attempt that did not end its run stands in the ledger.
fn recorded_as(outcome: Outcome) -> (State, Reason) {
    match outcome {
        Outcome::Failed(reason) => (State::Failed, reason),
        Outcome::TimedOut => (State::TimedOut, Reason::MaxRuntime),
        Outcome::Undelivered => (State::Failed, Reason::Undeliverable),
        Outcome::Cancelled(reason) => (State::Cancelled, reason),
        // Success ends its run; it has no place here.
        Outcome::Lost | Outcome::Succeeded => (State::Lost, Reason::WorkerLost),
    }
}

/// True when a report of `outcome` may be the one that was recorded as `state`, sent again. A run that was given away
/// is recorded as lost: its old worker's success does not agree.
pub fn agrees(outcome: Outcome, state: State) -> bool {
    match outcome {
        Outcome::Succeeded => state == State::Succeeded,
        Outcome::Failed(_) => matches!(state, State::Failed | State::Cancelled),
        Outcome::TimedOut => matches!(state, State::TimedOut | State::Cancelled),
        Outcome::Cancelled(_) => matches!(state, State::Cancelled | State::TimedOut | State::Lost),
        Outcome::Lost => matches!(state, State::Lost | State::Cancelled),
        Outcome::Undelivered => false,
    }
}

/// Ends and retries apart, each in the order of their keys, which is the order of locks.
pub fn parted<'a>(
    conclusions: impl IntoIterator<Item = &'a Conclusion>,
) -> (Vec<End>, Vec<run_lease::Retry>) {
    let (mut ends, mut retries) = (Vec::new(), Vec::new());
    for conclusion in conclusions {
        match conclusion {
            Conclusion::End(end) => ends.push(end.clone()),
            Conclusion::Retry(retry) => retries.push(retry.clone()),
        }
    }
    ends.sort_by_key(|end| end.key);
    retries.sort_by_key(|retry| retry.key);
    (ends, retries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ids::SessionId;
    use std::time::Duration;

    fn lease() -> Lease {
        crate::testing::lease(SessionId::random(), 1)
    }

    fn retry() -> Retry {
        let (backoff, backoff_max) = (Duration::from_secs(10), Duration::from_secs(10));
        Retry { max_attempts: 2, backoff, backoff_max, max_lost: 2, ..Retry::default() }
    }

    #[test]
    fn a_stop_takes_its_reason_from_the_lease() {
        let stopped = Outcome::Cancelled(Reason::Requested);
        let asked = Lease { cancel: Some(Reason::Replaced), ..lease() };
        assert_eq!(resolve(stopped, &asked), Outcome::Cancelled(Reason::Replaced));
        let overdue = Lease { overdue: true, ..lease() };
        assert_eq!(resolve(stopped, &overdue), Outcome::TimedOut);
        assert_eq!(resolve(stopped, &lease()), Outcome::Lost);
    }

    #[test]
    fn a_run_that_was_to_be_cancelled_is_not_tried_again_because_its_worker_died() {
        let asked = Lease { cancel: Some(Reason::Requested), ..lease() };
        let conclusion = conclude(&asked, resolve(Outcome::Lost, &asked), &retry(), None);
        assert_eq!(conclusion.became(), "CANCELLED");
        assert_eq!(resolve(Outcome::Succeeded, &asked), Outcome::Succeeded);
    }

    #[test]
    fn a_deleted_job_gets_no_further_attempt() {
        let orphaned = Lease { orphaned: true, ..lease() };
        let conclusion = conclude(&orphaned, Outcome::Failed(Reason::WorkFailed), &retry(), None);
        let Conclusion::End(end) = conclusion else { panic!("an attempt would be left: {conclusion:?}") };
        assert_eq!((end.state, end.reason), (State::Failed, Some(Reason::WorkFailed)));
        assert_eq!(conclude(&orphaned, Outcome::Lost, &retry(), None).became(), "LOST");
    }

    #[test]
    fn a_success_never_agrees_with_a_loss() {
        assert!(agrees(Outcome::Succeeded, State::Succeeded));
        assert!(!agrees(Outcome::Succeeded, State::Lost));
        assert!(agrees(Outcome::Lost, State::Lost));
    }

    #[test]
    fn an_attempt_that_does_not_end_its_run_keeps_its_own_state() {
        let conclusion = conclude(&lease(), Outcome::Failed(Reason::NotStarted), &retry(), None);
        let Conclusion::Retry(retry) = conclusion else { panic!("one attempt is left: {conclusion:?}") };
        assert_eq!((retry.state, retry.reason, retry.spent.failed), (State::Failed, Reason::NotStarted, 1));
    }

    #[test]
    fn a_status_that_the_policy_calls_final_ends_the_run() {
        let retry = Retry { final_statuses: [64].into(), ..retry() };
        let output = |status| Some(Output { exit_status: Some(status), ..Output::default() });
        let failed = Outcome::Failed(Reason::WorkFailed);
        assert_eq!(conclude(&lease(), failed, &retry, output(64)).became(), "FAILED");
        assert_eq!(conclude(&lease(), failed, &retry, output(1)).became(), "RETRY");
    }

    #[test]
    fn the_wait_is_the_same_however_often_it_is_worked_out() {
        let lease = lease();
        let after = || match conclude(&lease, Outcome::TimedOut, &retry(), None) {
            Conclusion::Retry(retry) => retry.after,
            end @ Conclusion::End(_) => panic!("one attempt is left: {end:?}"),
        };
        assert_eq!(after(), after());
        assert!((9_000..=10_000).contains(&after().as_millis()), "{:?}", after());
    }

    #[test]
    fn a_report_agrees_only_with_what_it_may_have_been_recorded_as() {
        let agreeing = |outcome| {
            let ends = [State::Succeeded, State::Failed, State::TimedOut, State::Cancelled, State::Lost];
            ends.into_iter().filter(|state| agrees(outcome, *state)).collect::<Vec<_>>()
        };
        assert_eq!(agreeing(Outcome::Succeeded), [State::Succeeded]);
        assert_eq!(agreeing(Outcome::Failed(Reason::WorkFailed)), [State::Failed, State::Cancelled]);
        assert_eq!(agreeing(Outcome::TimedOut), [State::TimedOut, State::Cancelled]);
        let stopped = agreeing(Outcome::Cancelled(Reason::Requested));
        assert_eq!(stopped, [State::TimedOut, State::Cancelled, State::Lost]);
        assert_eq!(agreeing(Outcome::Lost), [State::Cancelled, State::Lost]);
        assert_eq!(agreeing(Outcome::Undelivered), []);
    }

    #[test]
    fn ends_and_retries_come_in_the_order_of_locks() {
        let mut leases = [lease(), lease(), lease()];
        leases.sort_by_key(|lease| std::cmp::Reverse(lease.key));
        let both = |lease| {
            [Outcome::Succeeded, Outcome::Lost].map(|outcome| conclude(lease, outcome, &retry(), None))
        };
        let conclusions: Vec<_> = leases.iter().flat_map(both).collect();
        let (ends, retries) = parted(&conclusions);
        assert_eq!((ends.len(), retries.len()), (3, 3));
        assert!(ends.is_sorted_by_key(|end| end.key) && retries.is_sorted_by_key(|retry| retry.key));
    }
}
