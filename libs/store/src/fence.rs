//! The fence of a leading role: the highest leadership, which every transaction of a leader holds.
//!
//! Invariant: a leadership writes only while the fence names exactly its revision and holder. [`hold`] comes first
//! in each of its transactions, in a statement of its own; [`raise`] waits for the transactions that hold it, so
//! that nothing of a predecessor commits after it. Who leads is decided by etcd, not here.

use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::HolderId;
use tokio_postgres::Row;

/// A jump of the revision beyond this is no leadership but a wrong number.
const JUMP_MAX: i64 = 1 << 40;

/// The role that a fence guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Plans.
    Ticker,
    /// Watches.
    Watchdog,
}

impl Role {
    /// As stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ticker => "ticker",
            Self::Watchdog => "watchdog",
        }
    }
}

/// A leadership, as the fence names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// Of which role.
    pub role: Role,
    /// The create revision of the leader's key in etcd.
    pub revision: i64,
    /// The process that leads.
    pub holder: HolderId,
}

/// What raising the fence came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a leadership whose fence is not raised may not write"]
pub enum Raised {
    /// The fence names this leadership.
    Held,
    /// The fence already names a higher revision, or the same one with another holder: either a later leader holds
    /// it, or etcd was rebuilt and counts from the start.
    Higher {
        /// The stored revision.
        stored: i64,
    },
    /// The revision is so far above the stored one that it can't be a successor's.
    Implausible {
        /// The stored revision.
        stored: i64,
    },
}

/// Raises the fence to `term`; again and again is harmless. Waits for transactions that hold the fence.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn raise(store: &Store, term: Term) -> Result<Raised, StoreError> {
    let operation = "raise the fence";
    let mut client = store.client(operation).await?;
    let tx = client.begin(operation).await?;
    let role = term.role.as_str();
    let (revision, holder) = only(&tx.query(sql!("fence/lock.sql"), &[&role]).await?)?;
    let raised = decide(term, revision, holder);
    if raised == Raised::Held {
        tx.query(sql!("fence/raise.sql"), &[&role, &term.revision, &term.holder.0]).await?;
        tx.commit().await?;
    }
    Ok(raised)
}

/// Whether `term` may take a fence that names `revision` and `holder`.
fn decide(term: Term, revision: i64, holder: HolderId) -> Raised {
    let same = (term.revision, term.holder) == (revision, holder);
    if !same && term.revision <= revision {
        return Raised::Higher { stored: revision };
    }
    // The first leadership of a cell may find any revision in an etcd that is in use.
    if revision > 0 && term.revision.saturating_sub(revision) > JUMP_MAX {
        return Raised::Implausible { stored: revision };
    }
    Raised::Held
}

/// The highest leadership that the database knows of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// `ticker` or `watchdog`.
    pub role: String,
    /// Its revision; 0 when nobody has led yet.
    pub revision: i64,
    /// Its holder.
    pub holder: HolderId,
    /// Since when.
    pub raised_at: DateTime<Utc>,
}

/// The fence of every role, for people.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn list(store: &Store) -> Result<Vec<Fence>, StoreError> {
    let client = store.client("list the fences").await?;
    let rows = client.query("list the fences", sql!("fence/list.sql"), &[]).await?;
    let fence = |row: &Row| Fence {
        role: row.get("role"),
        revision: row.get("revision"),
        holder: HolderId(row.get("holder")),
        raised_at: row.get("raised_at"),
    };
    Ok(rows.iter().map(fence).collect())
}

/// Forgets the leadership of `role`, so that a lower revision can be raised: after etcd was rebuilt, and with every
/// old service of the role stopped, because from here on an old leader is no longer refused.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn reset(store: &Store, role: Role) -> Result<(), StoreError> {
    let client = store.client("reset a fence").await?;
    client.query("reset a fence", sql!("fence/reset.sql"), &[&role.as_str()]).await.map(drop)
}

/// Holds the fence for the rest of the transaction. Call it first, before anything is looked at.
///
/// # Errors
/// [`StoreError::Fenced`] when the fence does not name `term`: it is deposed and must write nothing.
pub async fn hold(tx: &Transaction<'_>, term: Term) -> Result<(), StoreError> {
    let role = term.role.as_str();
    let found = only(&tx.query(sql!("fence/hold.sql"), &[&role]).await?)?;
    if found == (term.revision, term.holder) {
        return Ok(());
    }
    Err(StoreError::Fenced { role, revision: term.revision })
}

fn only(rows: &[Row]) -> Result<(i64, HolderId), StoreError> {
    let missing = || StoreError::Corrupt { what: "fence", problem: "has no row for the role".to_owned() };
    rows.first().map(|row| (row.get("revision"), HolderId(row.get("holder")))).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(revision: i64, holder: u128) -> Term {
        Term { role: Role::Ticker, revision, holder: holder_id(holder) }
    }

    fn holder_id(holder: u128) -> HolderId {
        HolderId(uuid::Uuid::from_u128(holder))
    }

    #[test]
    fn only_a_higher_revision_or_the_same_leadership_takes_the_fence() {
        assert_eq!(decide(term(8, 1), 7, holder_id(2)), Raised::Held);
        assert_eq!(decide(term(7, 1), 7, holder_id(1)), Raised::Held);
        assert_eq!(decide(term(7, 1), 7, holder_id(2)), Raised::Higher { stored: 7 });
        assert_eq!(decide(term(6, 1), 7, holder_id(1)), Raised::Higher { stored: 7 });
    }

    #[test]
    fn a_jump_that_no_successor_makes_is_refused() {
        let far = (1 << 41) + 7;
        assert_eq!(decide(term(far, 1), 7, holder_id(2)), Raised::Implausible { stored: 7 });
        assert_eq!(decide(term(far, 1), 0, holder_id(0)), Raised::Held);
    }
}
