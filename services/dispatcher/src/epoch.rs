//! Keeps the epoch of the fencing tokens above every token that was ever handed out, database failovers and restores
//! included: what the database forgot, etcd's mark remembers.
//!
//! Invariant: nothing is claimed before database and mark agree. A new epoch is announced in etcd, by compare-and-set,
//! before the database gets it, so that no two histories of a database can come to the same one. Deliberately not
//! here: the check in each claim that the database is still the one that the epoch was made for, and has not been started
//! anew since it was compared with the mark, as one is that was restored; the claim does that.

use crate::shared::Shared;
use election::{ElectionError, Mark, mark};
use model::token::{EPOCH_MAX, SEQUENCE_BITS, Token};
use service::health::Beat;
use std::time::{Duration, Instant};
use store::epoch::Epoch;
use store::{Store, StoreError, epoch};
use tokio_util::sync::CancellationToken;

/// Between two notes of the highest token.
const EVERY: Duration = Duration::from_secs(5);
/// How long somebody else's announcement may take to reach the database before we make our own.
const ANNOUNCED_LIMIT: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);
/// Rounds in which others were always faster.
const ROUNDS_MAX: u32 = 100;

/// Why there is no epoch.
#[derive(Debug, thiserror::Error)]
pub enum EpochError {
    /// The database can't tell or take it.
    #[error("the epoch can't be read or stored in PostgreSQL")]
    Store(#[source] StoreError),
    /// The mark can't be read or written.
    #[error("the mark of the tokens can't be read or written in etcd")]
    Mark(#[source] ElectionError),
    /// There is none left.
    #[error("epoch {EPOCH_MAX} is in use, and there is no higher one")]
    Exhausted,
    /// Others changed it all the time.
    #[error("others change the epoch all the time")]
    Contended,
}

/// What is to be done about the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Decision {
    /// Database and mark agree; the mark may be behind.
    Keep,
    /// A new one is announced and nothing was drawn under it: somebody is about to store it.
    Announced,
    /// A new one is needed.
    Raise(u32),
}

/// Decides from what etcd and the database remember.
fn decide(mark: Option<&Mark>, database: &Epoch) -> Decision {
    let stored = database.stored.map_or(0, |stored| u32::try_from(stored.epoch).unwrap_or(EPOCH_MAX));
    let made_for_it = database.stored.is_some_and(|stored| stored.made_for == database.server);
    let Some(mark) = mark else { return Decision::Raise(stored + 1) };
    let marked_for_it = names(mark, database);
    if made_for_it
        && marked_for_it
        && mark.epoch == stored
        && database.highest_token() >= mark.highest_token
        && !was_restored_from_a_dump(database)
    {
        return Decision::Keep;
    }
    if marked_for_it && mark.epoch > stored && mark.highest_token == first_of(mark.epoch) {
        return Decision::Announced;
    }
    Decision::Raise(mark.epoch.max(stored) + 1)
}

/// A dump brings a sequence of its own. Its last value proves nothing: the mark may be older than the dump.
fn was_restored_from_a_dump(database: &Epoch) -> bool {
    let compared = database.stored.and_then(|stored| stored.compared);
    compared.is_some_and(|compared| compared.sequence != database.incarnation.sequence)
}

fn names(mark: &Mark, database: &Epoch) -> bool {
    mark.system_identifier == database.server.system_identifier.to_string()
        && i64::from(mark.timeline) == i64::from(database.server.timeline)
}

/// Below every token of the epoch.
const fn first_of(epoch: u32) -> i64 {
    (epoch as i64) << SEQUENCE_BITS
}

/// Makes sure that database and mark agree, with a new epoch if they don't, and notes the highest token.
///
/// # Errors
/// [`EpochError`]: then nothing may be claimed.
pub async fn ensure(shared: &Shared, etcd: &election::Client) -> Result<(), EpochError> {
    let announced_until = Instant::now() + ANNOUNCED_LIMIT;
    for _ in 0..ROUNDS_MAX {
        let found = mark::read(etcd).await.map_err(EpochError::Mark)?;
        let database = epoch::read(&shared.store).await.map_err(EpochError::Store)?;
        let (mark, revision) = found.map_or((None, None), |(mark, revision)| (Some(mark), Some(revision)));
        let next = match decide(mark.as_ref(), &database) {
            Decision::Keep => {
                note(etcd, mark, revision, &database).await?;
                confirm(shared, &database).await?;
                shared.set_epoch_ready(true);
                return Ok(());
            }
            Decision::Announced if Instant::now() < announced_until => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Decision::Announced => mark.as_ref().map_or(1, |mark| mark.epoch + 1),
            Decision::Raise(next) => next,
        };
        if next > EPOCH_MAX {
            return Err(EpochError::Exhausted);
        }
        let announced = Mark {
            system_identifier: database.server.system_identifier.to_string(),
            timeline: u32::try_from(database.server.timeline).unwrap_or(0),
            epoch: next,
            highest_token: first_of(next),
        };
        if !mark::write_if(etcd, revision, &announced).await.map_err(EpochError::Mark)? {
            continue;
        }
        // Crash window, "announced, not stored": the next one finds the announcement and goes one higher.
        let epoch_number = i32::try_from(next).unwrap_or(i32::MAX);
        let raised =
            epoch::raise(&shared.store, epoch_number, database.server).await.map_err(EpochError::Store)?;
        if raised {
            tracing::warn!(epoch = next, database.system = database.server.system_identifier, database.timeline = database.server.timeline, previous = ?database.stored, "The tokens have a new epoch");
        }
    }
    Err(EpochError::Contended)
}

/// The epoch of the tokens that the database gives out; none while it is not compared with the mark. To be asked after leases
/// were read, for [`is_current`].
///
/// # Errors
/// [`StoreError`].
pub async fn in_use(store: &Store) -> Result<Option<u32>, StoreError> {
    let database = epoch::read(store).await?;
    let stored = database.stored.filter(|_| database.is_in_use());
    Ok(stored.and_then(|stored| u32::try_from(stored.epoch).ok()))
}

/// Whether a lease with this token may be sent while `epoch` is in use: it is none that a database brought back.
pub const fn is_current(token: Token, epoch: u32) -> bool {
    token.epoch() >= epoch
}

/// Lets claims go on with a server that was started anew and has forgotten nothing.
async fn confirm(shared: &Shared, database: &Epoch) -> Result<(), EpochError> {
    let Some(stored) = database.stored.filter(|_| !database.is_in_use()) else { return Ok(()) };
    epoch::confirm(&shared.store, stored.epoch, database.incarnation).await.map_err(EpochError::Store)
}

/// Brings the mark up to the highest token. Somebody else's write in between noted as much.
async fn note(
    etcd: &election::Client,
    mark: Option<Mark>,
    revision: Option<i64>,
    database: &Epoch,
) -> Result<(), EpochError> {
    let highest_token = database.highest_token();
    match mark {
        Some(mark) if mark.highest_token < highest_token => {
            let noted = Mark { highest_token, ..mark };
            mark::write_if(etcd, revision, &noted).await.map(drop).map_err(EpochError::Mark)
        }
        _ => Ok(()),
    }
}

/// Notes the highest token, and makes a new epoch when the database is found to be another one, until `stop`.
pub async fn run(shared: &Shared, etcd: election::Client, beat: Beat, stop: CancellationToken) {
    loop {
        beat.beat();
        let every = if shared.epoch_ready() { EVERY } else { PAUSE * 5 };
        tokio::select! {
            () = stop.cancelled() => break,
            () = shared.identity.notified() => {}
            () = tokio::time::sleep(every) => {}
        }
        if let Err(error) = ensure(shared, &etcd).await {
            shared.metrics.failed("epoch");
            tracing::warn!(
                error = service::runtime::chain(&error),
                "Could not compare the epoch with its mark"
            );
        }
    }
    beat.done();
}

#[cfg(test)]
mod tests;
