//! Rows that leave by age, of the tables that have no partitions. What is still in use stays, however old: each
//! statement says what that is.

use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, Utc};

/// A table whose rows leave by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// Occurrences that never got a run.
    Misfire,
    /// What the watchdog judged.
    Verdict,
    /// Resolved alerts and what was delivered of them.
    Alert,
    /// Leaderships that are over.
    Term,
    /// Sessions that have ended.
    WorkerSession,
    /// Who changed what.
    AuditEvent,
    /// Calls that may be repeated no longer.
    IdempotencyKey,
    /// What became of runs, for those who watch.
    RunEvent,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Misfire,
        Self::Verdict,
        Self::Alert,
        Self::Term,
        Self::WorkerSession,
        Self::AuditEvent,
        Self::IdempotencyKey,
        Self::RunEvent,
    ];

    /// Its name in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Misfire => "misfire",
            Self::Verdict => "verdict",
            Self::Alert => "alert",
            Self::Term => "term",
            Self::WorkerSession => "worker_session",
            Self::AuditEvent => "audit_event",
            Self::IdempotencyKey => "idempotency_key",
            Self::RunEvent => "run_event",
        }
    }

    const fn statement(self) -> &'static str {
        match self {
            Self::Misfire => sql!("misfire/expire.sql"),
            Self::Verdict => sql!("verdict/expire.sql"),
            Self::Alert => sql!("alert/expire.sql"),
            Self::Term => sql!("term/expire.sql"),
            Self::WorkerSession => sql!("worker_session/expire.sql"),
            Self::AuditEvent => sql!("audit_event/expire.sql"),
            Self::IdempotencyKey => sql!("idempotency_key/expire.sql"),
            Self::RunEvent => sql!("run_event/expire.sql"),
        }
    }
}

/// Deletes up to `rows_max` rows of `table` from before `before`; returns how many. The fence is held.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn expire(
    tx: &Transaction<'_>,
    table: Table,
    before: DateTime<Utc>,
    rows_max: i64,
) -> Result<u64, StoreError> {
    tx.execute(table.statement(), &[&before, &rows_max]).await
}
