//! Every leadership: from when to when, how it ended, and how far it had planned.
//!
//! The evidence for gaps: what was due while no leadership finished a cycle was missed for want of a ticker. Who
//! leads is decided by etcd, and what a leader may write by the fence; nothing is decided here.

use crate::fence::Term;
use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};

/// The process that leads.
#[derive(Debug, Clone, Copy)]
pub struct Process<'a> {
    /// Its process id.
    pub pid: u32,
    /// Its name, for people.
    pub name: &'a str,
    /// Where its pages are.
    pub http: &'a str,
}

/// What a leadership finds when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Began {
    /// The leadership before it.
    pub predecessor: Option<i64>,
    /// Occurrences through this were planned by it.
    pub planned_through: Option<DateTime<Utc>>,
    /// From its last cycle until now.
    pub gap_ms: Option<i64>,
    /// The first occurrence that nobody has planned.
    pub first_occurrence: Option<DateTime<Utc>>,
}

/// How a leadership ends that still holds the fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It stops of its own accord.
    Resigned,
    /// Its lease can no longer be trusted.
    Lost,
}

impl End {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Resigned => "RESIGNED",
            Self::Lost => "LOST",
        }
    }
}

/// When a leadership was at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worked {
    /// Which.
    pub revision: i64,
    /// Since when.
    pub began_at: DateTime<Utc>,
    /// When its last finished cycle began.
    pub last_cycle_at: Option<DateTime<Utc>>,
}

/// Begins a leadership, and closes those that nobody closed. Again and again is harmless. The fence is held.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn begin(tx: &Transaction<'_>, term: Term, process: Process<'_>) -> Result<Began, StoreError> {
    let pid = i32::try_from(process.pid).unwrap_or(i32::MAX);
    let rows = tx
        .query(
            sql!("term/begin.sql"),
            &[
                &term.role.as_str(),
                &term.revision,
                &term.holder.0,
                &pid,
                &shortened(process.name, 128),
                &shortened(process.http, 256),
            ],
        )
        .await?;
    let missing = || StoreError::Corrupt { what: "term", problem: "has no row after it began".to_owned() };
    let row = rows.first().ok_or_else(missing)?;
    Ok(Began {
        predecessor: row.get("predecessor"),
        planned_through: row.get("planned_through"),
        gap_ms: row.get("gap_ms"),
        first_occurrence: row.get("first_occurrence"),
    })
}

fn shortened(text: &str, length_max: usize) -> String {
    text.chars().take(length_max).collect()
}

/// Notes a finished cycle: when it began, and, if it left nothing over, through when every occurrence has its row.
/// The fence is held.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn mark(
    tx: &Transaction<'_>,
    term: Term,
    cycle_at: DateTime<Utc>,
    planned_through: Option<DateTime<Utc>>,
) -> Result<(), StoreError> {
    let role = term.role.as_str();
    tx.execute(sql!("term/mark.sql"), &[&role, &term.revision, &cycle_at, &planned_through]).await.map(drop)
}

/// Ends a leadership. The fence is held.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn end(tx: &Transaction<'_>, term: Term, how: End) -> Result<(), StoreError> {
    let role = term.role.as_str();
    tx.execute(sql!("term/end.sql"), &[&role, &term.revision, &how.as_str()]).await.map(drop)
}

/// Notes that the fence refused a leadership.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn refused(store: &Store, term: Term) -> Result<(), StoreError> {
    let operation = "note a refused leadership";
    let client = store.client(operation).await?;
    let role = term.role.as_str();
    client
        .query(operation, sql!("term/refused.sql"), &[&role, &term.revision, &term.holder.0])
        .await
        .map(drop)
}

/// The leaderships of `term`'s role that were at work at `since` or later, in order; `term` itself is among them.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn worked(
    tx: &Transaction<'_>,
    term: Term,
    since: DateTime<Utc>,
) -> Result<Vec<Worked>, StoreError> {
    let rows = tx.query(sql!("term/worked.sql"), &[&term.role.as_str(), &since]).await?;
    let worked = rows.iter().map(|row| Worked {
        revision: row.get("revision"),
        began_at: row.get("began_at"),
        last_cycle_at: row.get("last_cycle_at"),
    });
    Ok(worked.collect())
}
