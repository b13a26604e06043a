//! What work reports when it has ended, and its form on the wire.

use crate::assignment::Attempt;
use rpc::v1::{self, completed::Outcome};
use std::error::Error;

/// The most bytes of output that the ledger keeps: the last ones.
pub const OUTPUT_MAX_BYTES: usize = 4096;

/// The most bytes of an error text that the ledger keeps.
pub const ERROR_MAX_BYTES: usize = 2048;

/// How work ended by itself. What was stopped is reported as stopped, whatever it says here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It did what it should.
    Succeeded,
    /// It ran and failed.
    Failed,
    /// It could not be started: not allowed, not found.
    NotStarted,
}

/// What an [`Executor`](crate::Executor) reports of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub(crate) end: End,
    pub(crate) exit_status: Option<i32>,
    pub(crate) output: Vec<u8>,
    pub(crate) output_truncated: bool,
    pub(crate) error: String,
}

impl Report {
    /// The work did what it should.
    pub const fn succeeded() -> Self {
        Self::new(End::Succeeded, String::new())
    }

    /// The work ran and failed; `error` is for people.
    pub fn failed(error: impl Into<String>) -> Self {
        Self::new(End::Failed, error.into())
    }

    /// The work could not be started; `error` says what is missing and what would help.
    pub fn not_started(error: impl Into<String>) -> Self {
        Self::new(End::NotStarted, error.into())
    }

    const fn new(end: End, error: String) -> Self {
        Self { end, exit_status: None, output: Vec::new(), output_truncated: false, error }
    }

    /// With the exit status of a process, or the status of an HTTP response.
    #[must_use]
    pub const fn with_exit_status(mut self, status: i32) -> Self {
        self.exit_status = Some(status);
        self
    }

    /// With the end of the output; `truncated` when there was more. Only the last [`OUTPUT_MAX_BYTES`] are kept.
    #[must_use]
    pub fn with_output(mut self, mut output: Vec<u8>, truncated: bool) -> Self {
        let surplus = output.len().saturating_sub(OUTPUT_MAX_BYTES);
        output.drain(..surplus);
        self.output_truncated = truncated || surplus > 0;
        self.output = output;
        self
    }

    /// With what the work has logged, when it reports no output of its own.
    pub(crate) fn with_logged(self, logged: (Vec<u8>, bool)) -> Self {
        if self.output.is_empty() && !self.output_truncated && !logged.0.is_empty() {
            return self.with_output(logged.0, logged.1);
        }
        self
    }

    /// How the work ended.
    pub const fn end(&self) -> End {
        self.end
    }

    /// The exit status of a process, or the status of an HTTP response.
    pub const fn exit_status(&self) -> Option<i32> {
        self.exit_status
    }

    /// The end of the output.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// True when there was more output than is kept.
    pub const fn output_truncated(&self) -> bool {
        self.output_truncated
    }

    /// What went wrong, for people.
    pub fn error(&self) -> &str {
        &self.error
    }
}

/// Why a run in hand is stopped before its work has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StopCause {
    /// The dispatcher says so.
    Cancelled {
        /// For people.
        reason: String,
    },
    /// It ran for its whole `max_runtime`.
    TimedOut,
    /// The lease could not be renewed.
    LeaseExpired,
    /// The session was not found any more: the run has been given away.
    SessionGone,
    /// A newer attempt of the same run arrived.
    NewerAttempt,
    /// The worker ends, and the run took longer than the drain allows.
    Drained,
}

impl StopCause {
    pub(crate) const fn outcome(&self) -> Outcome {
        match self {
            Self::Cancelled { .. } => Outcome::Cancelled,
            Self::TimedOut => Outcome::TimedOut,
            Self::LeaseExpired | Self::SessionGone | Self::NewerAttempt | Self::Drained => Outcome::Abandoned,
        }
    }
}

impl std::fmt::Display for StopCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cancelled { reason } if reason.is_empty() => f.write_str("cancelled"),
            Self::Cancelled { reason } => write!(f, "cancelled: {reason}"),
            Self::TimedOut => f.write_str("stopped after its maximum runtime"),
            Self::LeaseExpired => f.write_str("stopped by its worker, whose lease could not be renewed"),
            Self::SessionGone => f.write_str("stopped by its worker, whose session had ended"),
            Self::NewerAttempt => f.write_str("stopped by its worker, which got a newer attempt of the run"),
            Self::Drained => f.write_str("stopped by its worker, which ended before the run did"),
        }
    }
}

/// The message for an attempt that ended by itself, or was stopped for `cause`.
pub(crate) fn completed(attempt: Attempt, cause: Option<&StopCause>, report: Report) -> v1::Completed {
    let outcome = match (cause, report.end) {
        (Some(cause), _) => cause.outcome(),
        (None, End::Succeeded) => Outcome::Succeeded,
        (None, End::Failed) => Outcome::Failed,
        (None, End::NotStarted) => Outcome::NotStarted,
    };
    let error = match cause {
        Some(cause) if report.error.is_empty() => cause.to_string(),
        Some(cause) => format!("{cause} ({})", report.error),
        None => report.error,
    };
    v1::Completed {
        run: Some(attempt.to_ref()),
        outcome: outcome.into(),
        exit_status: report.exit_status,
        output: report.output,
        output_truncated: report.output_truncated,
        error: shortened(error),
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > ERROR_MAX_BYTES {
        text.truncate(text.floor_char_boundary(ERROR_MAX_BYTES));
    }
    text
}

/// An error with all its causes, in one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_the_output_is_kept() {
        let mut output = vec![b'a'; 10];
        output.extend(vec![b'b'; OUTPUT_MAX_BYTES]);
        let report = Report::succeeded().with_output(output, false);
        assert_eq!((report.output().len(), report.output_truncated()), (OUTPUT_MAX_BYTES, true));
        assert!(report.output().iter().all(|byte| *byte == b'b'));
    }

    #[test]
    fn long_errors_are_cut_between_characters() {
        let text = shortened("ü".repeat(ERROR_MAX_BYTES));
        assert_eq!(text.len(), ERROR_MAX_BYTES);
        let text = shortened(format!("a{}", "ü".repeat(ERROR_MAX_BYTES)));
        assert_eq!(text.len(), ERROR_MAX_BYTES - 1);
    }

    #[test]
    fn what_the_executor_has_cut_counts_as_cut_however_short_it_is() {
        assert!(Report::succeeded().with_output(b"end".to_vec(), true).output_truncated());
        assert!(!Report::succeeded().with_output(b"all".to_vec(), false).output_truncated());
    }

    #[test]
    fn what_was_logged_counts_only_where_the_work_reports_no_output() {
        let logged = || (b"logged".to_vec(), true);
        let own = Report::succeeded().with_output(b"own".to_vec(), false).with_logged(logged());
        assert_eq!((own.output(), own.output_truncated()), (b"own".as_slice(), false));
        let silent = Report::succeeded().with_logged(logged());
        assert_eq!((silent.output(), silent.output_truncated()), (b"logged".as_slice(), true));
    }
}
