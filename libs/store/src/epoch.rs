//! Which database the fencing tokens are drawn from, and the epoch that sets it apart from the ones before.
//!
//! When a new epoch is due is decided by whoever also knows the mark outside of the database.

use crate::{Store, StoreError, sql};
use chrono::{DateTime, Utc};
use model::token::SEQUENCE_BITS;

/// One database cluster in one of its histories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Drawn when the cluster was made.
    pub system_identifier: i64,
    /// One up at each promotion or recovery to a point in time.
    pub timeline: i32,
}

/// What changes when the same cluster comes back as something older: a data folder from a backup is started, a dump is
/// restored over what was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incarnation {
    /// When the server was started.
    pub started_at: DateTime<Utc>,
    /// The object that is the tokens' sequence: another one after a dump was restored.
    pub sequence: u32,
}

/// The epoch as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Its number.
    pub epoch: i32,
    /// The database that it was made for.
    pub made_for: Identity,
    /// What the database was when the epoch was last compared with its mark; none before the first comparison.
    pub compared: Option<Incarnation>,
}

/// What the database says of its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    /// The server that answered.
    pub server: Identity,
    /// What it is now.
    pub incarnation: Incarnation,
    /// None in a cell that has handed out nothing yet.
    pub stored: Option<Stored>,
    /// The last value drawn from the sequence, 0 when none was.
    pub sequence: i64,
}

impl Epoch {
    /// Whether claims draw tokens of it: it was made for this very server, and compared with its mark since this started.
    pub fn is_in_use(&self) -> bool {
        self.stored
            .is_some_and(|stored| stored.made_for == self.server && stored.compared == Some(self.incarnation))
    }

    /// The highest token that can have been handed out; 0 when there is no epoch.
    pub fn highest_token(&self) -> i64 {
        self.stored.map_or(0, |stored| (i64::from(stored.epoch) << SEQUENCE_BITS) | self.sequence)
    }
}

/// Reads it.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn read(store: &Store) -> Result<Epoch, StoreError> {
    let client = store.client("read the epoch").await?;
    let rows = client.query("read the epoch", sql!("epoch/read.sql"), &[]).await?;
    let row = rows
        .first()
        .ok_or_else(|| StoreError::Corrupt { what: "epoch", problem: "no row came back".to_owned() })?;
    let stored = row.get::<_, Option<i32>>("epoch").map(|epoch| Stored {
        epoch,
        made_for: Identity {
            system_identifier: row.get("stored_system"),
            timeline: row.get("stored_timeline"),
        },
        compared: row
            .get::<_, Option<DateTime<Utc>>>("compared_start")
            .zip(row.get("compared_sequence"))
            .map(|(started_at, sequence)| Incarnation { started_at, sequence }),
    });
    Ok(Epoch {
        server: Identity {
            system_identifier: row.get("server_system"),
            timeline: row.get("server_timeline"),
        },
        incarnation: Incarnation {
            started_at: row.get("server_start"),
            sequence: row.get("server_sequence"),
        },
        stored,
        sequence: row.get("sequence"),
    })
}

/// Stores a higher epoch for the server that `decided_for` names. False when a higher one is stored, or the server has
/// become another meanwhile: read again.
///
/// # Errors
/// [`StoreError::Database`].
#[must_use = "false means that nothing was stored"]
pub async fn raise(store: &Store, epoch: i32, decided_for: Identity) -> Result<bool, StoreError> {
    let client = store.client("raise the epoch").await?;
    let rows = client
        .query(
            "raise the epoch",
            sql!("epoch/raise.sql"),
            &[&epoch, &decided_for.system_identifier, &decided_for.timeline],
        )
        .await?;
    Ok(!rows.is_empty())
}

/// Notes that `epoch` was compared with its mark while the database was `compared`, as read with it: claims go on.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn confirm(store: &Store, epoch: i32, compared: Incarnation) -> Result<(), StoreError> {
    let client = store.client("confirm the epoch").await?;
    let Incarnation { started_at, sequence } = compared;
    client
        .query("confirm the epoch", sql!("epoch/confirm.sql"), &[&epoch, &started_at, &sequence])
        .await
        .map(drop)
}

/// Asks for a new epoch: the one in use becomes that of no server, claims stop, and the next dispatcher that looks, within
/// seconds, makes a higher one, announced in etcd first as always. After a restore, which may have forgotten tokens that
/// nobody noted. Returns the epoch that was in use; none when there is none yet.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn disown(store: &Store) -> Result<Option<i32>, StoreError> {
    let client = store.client("ask for a new epoch").await?;
    let rows = client.query("ask for a new epoch", sql!("epoch/disown.sql"), &[]).await?;
    Ok(rows.first().map(|row| row.get("epoch")))
}
