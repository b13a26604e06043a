//! A lease with all that its worker must be told, but for what its job's definition says: that never changes and is read
//! ahead ([`crate::job_revision::specs`]).

use super::{Lease, StoreError, read_reason};
use crate::{Store, sql};
use chrono::{DateTime, Utc};
use model::attempt::Spent;
use model::ids::{Generation, JobId, RunKey, SessionId, TenantId};
use model::run::Origin;
use model::token::Token;
use tokio_postgres::Row;
use uuid::Uuid;

/// A lease with what its worker must be told of this run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The lease.
    pub lease: Lease,
    /// Whose job.
    pub tenant: TenantId,
    /// Whether runs of the job exclude each other.
    pub exclusive: bool,
    /// Where the run came from.
    pub origin: Origin,
    /// Its queue.
    pub queue: String,
    /// W3C trace context; empty when there is none.
    pub traceparent: String,
    /// When it was to start.
    pub due_at: DateTime<Utc>,
    /// True when its worker has said that it started.
    pub accepted: bool,
}

/// What the workers of these sessions are to be told of all their leases.
///
/// # Errors
/// [`StoreError::Database`]; [`StoreError::Corrupt`].
pub async fn of_sessions(store: &Store, sessions: &[SessionId]) -> Result<Vec<Assignment>, StoreError> {
    let sessions: Vec<Uuid> = sessions.iter().map(|session| session.0).collect();
    let client = store.client("read assignments").await?;
    let rows = client.query("read assignments", sql!("run_lease/assignments.sql"), &[&sessions]).await?;
    rows.iter().map(read).collect()
}

pub(crate) fn read(row: &Row) -> Result<Assignment, StoreError> {
    let corrupt = |what, problem: String| StoreError::Corrupt { what, problem };
    let token = Token::from_i64(row.get("token"));
    let origin: &str = row.get("origin");
    let traceparent = row.get::<_, Option<Vec<u8>>>("traceparent").unwrap_or_default();
    Ok(Assignment {
        lease: Lease {
            key: RunKey::new(JobId(row.get("job_id")), row.get("scheduled_for")),
            attempt: row.get("attempt"),
            token: token.map_err(|error| corrupt("run_lease.token", error.to_string()))?,
            session: row.get::<_, Option<Uuid>>("session_id").map(SessionId),
            connection: row.get("connection"),
            generation: Generation(row.get("generation")),
            spent: spent(row),
            cancel: read_reason(row.get("cancel_reason"))?,
            overdue: false,
            given_up: false,
            orphaned: false,
        },
        tenant: TenantId(row.get("tenant_id")),
        exclusive: row.get("exclusive"),
        origin: origin.parse().map_err(|error| corrupt("run_lease.origin", format!("{error}")))?,
        queue: row.get("queue"),
        // A context that is not text can't be followed: better none than no run.
        traceparent: String::from_utf8(traceparent).unwrap_or_default(),
        due_at: row.get("due_at"),
        accepted: row.get::<_, Option<DateTime<Utc>>>("accepted_at").is_some(),
    })
}

pub(super) fn spent(row: &Row) -> Spent {
    let count = |column| u16::try_from(row.get::<_, i16>(column)).unwrap_or(0);
    Spent { undelivered: count("undelivered"), lost: count("lost"), failed: count("failed") }
}
