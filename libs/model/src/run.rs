//! A run: one occurrence in the ledger, its states, and what ends it.

use crate::policy::named;

named! {
    /// Where a run came from.
    Origin {
        /// The job's schedule.
        Schedule = "SCHEDULE",
        /// A backlog after an outage.
        CatchUp = "CATCH_UP",
        /// A range that a person asked for.
        Backfill = "BACKFILL",
        /// A person or program asked for it now.
        Manual = "MANUAL",
    }
}

named! {
    /// What the ledger stores: planned, or how it ended. Written twice: planned, finished.
    State {
        /// Not ended yet.
        Planned = "PLANNED",
        /// An attempt reported success.
        Succeeded = "SUCCEEDED",
        /// The last attempt reported failure.
        Failed = "FAILED",
        /// The last attempt exceeded its maximum runtime.
        TimedOut = "TIMED_OUT",
        /// Its workers were given up for dead too often.
        Lost = "LOST",
        /// A person, a pause, a deletion or a newer run ended it.
        Cancelled = "CANCELLED",
        /// It never started, by rule.
        Skipped = "SKIPPED",
    }
}

impl State {
    /// True once nothing can change the run any more.
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Planned)
    }
}

named! {
    /// Why a run ended as it did; success has no reason.
    Reason {
        /// Not released within its grace.
        Missed = "MISSED",
        /// A newer occurrence took its place.
        Superseded = "SUPERSEDED",
        /// An earlier run of the job was still open.
        Overlap = "OVERLAP",
        /// The job was deleted.
        Deleted = "DELETED",
        /// The job was paused.
        Paused = "PAUSED",
        /// A newer run replaced it.
        Replaced = "REPLACED",
        /// A person or program cancelled it.
        Requested = "REQUESTED",
        /// The work itself reported failure: exit status, HTTP status, handler error.
        WorkFailed = "WORK_FAILED",
        /// The worker could not start the work: not allowed, not found.
        NotStarted = "NOT_STARTED",
        /// The attempt ran longer than the job allows.
        MaxRuntime = "MAX_RUNTIME",
        /// The worker holding the lease was given up for dead.
        WorkerLost = "WORKER_LOST",
        /// Living workers said too often that the run never reached them.
        Undeliverable = "UNDELIVERABLE",
    }
}

named! {
    /// What people see; derived from ledger, queue and leases by one SQL view.
    Phase {
        /// In the ledger, not due yet.
        Planned = "PLANNED",
        /// Due, waiting for a worker or for an earlier run.
        Waiting = "WAITING",
        /// A worker has it.
        Running = "RUNNING",
        /// Between two attempts.
        Retrying = "RETRYING",
        /// See [`State::Succeeded`].
        Succeeded = "SUCCEEDED",
        /// See [`State::Failed`].
        Failed = "FAILED",
        /// See [`State::TimedOut`].
        TimedOut = "TIMED_OUT",
        /// See [`State::Lost`].
        Lost = "LOST",
        /// See [`State::Cancelled`].
        Cancelled = "CANCELLED",
        /// See [`State::Skipped`].
        Skipped = "SKIPPED",
    }
}

named! {
    /// Why occurrences were missed, derived from evidence.
    MisfireCause {
        /// No ticker led in that time.
        NoTicker = "NO_TICKER",
        /// No dispatcher was alive between due and the end of the grace.
        NoDispatcher = "NO_DISPATCHER",
        /// Dispatchers were alive, no worker for the queue was.
        NoWorker = "NO_WORKER",
        /// A limit held it back.
        Limit = "LIMIT",
        /// The database could not be reached.
        Database = "DATABASE",
        /// The job was paused, and the pause is caught up with.
        Paused = "PAUSED",
        /// Older than what the ledger keeps.
        BeyondRetention = "BEYOND_RETENTION",
        /// Nothing above explains it.
        Unknown = "UNKNOWN",
    }
}

named! {
    /// What became of missed occurrences that have no run row.
    MisfireOutcome {
        /// The policy runs none.
        Skipped = "SKIPPED",
        /// The policy runs only a later one.
        Superseded = "SUPERSEDED",
        /// Beyond the catch-up limit or window.
        BeyondCatchUp = "BEYOND_CATCH_UP",
        /// Below the ledger's floor.
        BeyondRetention = "BEYOND_RETENTION",
    }
}
