//! What running attempts show while they run: the end of their output, and how far they are.
//!
//! Not logged and not kept: it is for whoever watches now. Invariant: only the attempt whose lease it is shows anything,
//! and nothing older replaces what it showed.

use crate::{Store, StoreError, sql};
use chrono::{DateTime, Utc};
use model::ids::{JobId, RunKey, SessionId, TenantId};
use model::token::Token;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// The most bytes of output.
pub const TAIL_BYTES_MAX: usize = 16 * 1024;
/// The most characters of a note.
pub const NOTE_CHARS_MAX: usize = 256;

/// What an attempt shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Showing {
    /// The run.
    pub key: RunKey,
    /// The attempt.
    pub attempt: i32,
    /// Its fencing token.
    pub token: Token,
    /// Who has it.
    pub session: SessionId,
    /// The rest.
    pub shown: Shown,
}

/// The end of an output, and how far it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shown {
    /// Bytes of output before the tail.
    pub offset: i64,
    /// The last of it, [`TAIL_BYTES_MAX`] at most.
    pub tail: Vec<u8>,
    /// How far, 0 to 1, if it says so.
    pub fraction: Option<f64>,
    /// What it is at; [`NOTE_CHARS_MAX`] at most.
    pub note: String,
}

/// Shows what these attempts say; of how many runs it counted. Whoever does not have a run shows nothing of it.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn show(store: &Store, showings: &[Showing]) -> Result<usize, StoreError> {
    let Some(least) = showings.iter().map(|showing| showing.key.scheduled_for).min() else { return Ok(0) };
    let greatest = showings.iter().map(|showing| showing.key.scheduled_for).max().unwrap_or(least);
    /// A column of all of them.
    fn column<'a, T>(showings: &'a [Showing], of: impl Fn(&'a Showing) -> T) -> Vec<T> {
        showings.iter().map(of).collect()
    }
    let jobs: Vec<Uuid> = column(showings, |showing| showing.key.job_id.0);
    let instants: Vec<DateTime<Utc>> = column(showings, |showing| showing.key.scheduled_for);
    let attempts = column(showings, |showing| showing.attempt);
    let tokens = column(showings, |showing| showing.token.as_i64());
    let sessions = column(showings, |showing| showing.session.0);
    let offsets = column(showings, |showing| showing.shown.offset);
    let fractions = column(showings, |showing| showing.shown.fraction);
    let tails = column(showings, |showing| showing.shown.tail.as_slice());
    let notes = column(showings, |showing| showing.shown.note.as_str());
    let values: [&(dyn ToSql + Sync); 11] = [
        &jobs, &instants, &attempts, &tokens, &sessions, &offsets, &fractions, &tails, &notes, &least,
        &greatest,
    ];
    let client = store.client("show running attempts").await?;
    Ok(client.query("show running attempts", sql!("run_live/show.sql"), &values).await?.len())
}

/// What a run showed last, and which attempt of it; none when it has shown nothing.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn read(
    store: &Store,
    tenant: TenantId,
    job: JobId,
    scheduled_for: DateTime<Utc>,
) -> Result<Option<(i32, Shown)>, StoreError> {
    let client = store.client("look at a running attempt").await?;
    let values: [&(dyn ToSql + Sync); 3] = [&tenant.0, &job.0, &scheduled_for];
    let rows = client.query("look at a running attempt", sql!("run_live/read.sql"), &values).await?;
    Ok(rows.first().map(|row| {
        let shown = Shown {
            offset: row.get("before"),
            tail: row.get("tail"),
            fraction: row.get("fraction"),
            note: row.get("note"),
        };
        (row.get("attempt"), shown)
    }))
}

/// Forgets what runs showed that are over; how many.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn expire(store: &Store) -> Result<usize, StoreError> {
    const BATCH_MAX: i64 = 1_000;
    let client = store.client("forget what runs showed").await?;
    let rows = client.query("forget what runs showed", sql!("run_live/expire.sql"), &[&BATCH_MAX]).await?;
    Ok(rows.len())
}
