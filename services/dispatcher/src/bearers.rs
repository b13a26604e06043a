//! With which tokens the open connections came, so that those of a token that no longer counts are closed.
//!
//! Invariant: a connection is entered as soon as it serves and looked for every half second from then on, so that a token
//! that is revoked at any moment, also while its worker is being welcomed, ends its connections within a second. The
//! worker can't come back with it; its session is missed, and its runs are handed on, as if it were gone. While the
//! database can't be asked, connections stay: nobody can have revoked anything.

use crate::roster::Link;
use crate::shared::Shared;
use service::health::Beat;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{StoreError, api_token};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(500);
/// Looks from one note of the use of tokens to the next.
const LOOKS_BETWEEN_NOTES: u32 = 60;

/// The open connections, by the token that they came with.
#[derive(Debug, Default)]
pub struct Bearers(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    next: u64,
    links: HashMap<u64, (Uuid, Link)>,
}

/// A connection's place; dropped, it is given up.
#[derive(Debug)]
pub struct Entry<'a> {
    bearers: &'a Bearers,
    number: u64,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.bearers.open().links.remove(&self.number);
    }
}

impl Bearers {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that came with `token`, for as long as the entry lives.
    pub fn enter(&self, token: Uuid, link: Link) -> Entry<'_> {
        let mut open = self.open();
        let number = open.next;
        open.next += 1;
        open.links.insert(number, (token, link));
        Entry { bearers: self, number }
    }

    fn tokens(&self) -> Vec<Uuid> {
        let tokens: BTreeSet<Uuid> = self.open().links.values().map(|(token, _)| *token).collect();
        tokens.into_iter().collect()
    }

    /// Ends the connections of these tokens; how many.
    fn refuse(&self, tokens: &[Uuid]) -> usize {
        let open = self.open();
        let lost = open.links.values().filter(|(token, _)| tokens.contains(token));
        lost.map(|(_, link)| link.refuse(rpc::status::unauthenticated())).count()
    }
}

/// Looks until `stop`.
pub async fn run(shared: &Shared, beat: Beat, stop: CancellationToken) {
    let mut looks = 0;
    while tokio::time::timeout(EVERY, stop.cancelled()).await.is_err() {
        beat.beat();
        if let Err(error) = look(shared, looks).await {
            shared.metrics.failed("bearers");
            tracing::debug!(error = service::runtime::chain(&error), "Could not look for revoked tokens");
        }
        looks = (looks + 1) % LOOKS_BETWEEN_NOTES;
    }
    beat.done();
}

async fn look(shared: &Shared, looks: u32) -> Result<(), StoreError> {
    let tokens = shared.bearers.tokens();
    if tokens.is_empty() {
        return Ok(());
    }
    let lost = api_token::lost(&shared.store, &tokens).await?;
    if !lost.is_empty() {
        let connections = shared.bearers.refuse(&lost);
        tracing::info!(connections, tokens = lost.len(), "Closed connections whose token no longer counts");
    }
    if looks == 0 {
        api_token::note_use(&shared.store, &tokens).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    #[tokio::test]
    async fn a_lost_tokens_connections_end_with_the_reason_and_others_stay() {
        let (bearers, lost, kept) = (Bearers::default(), Uuid::from_u128(1), Uuid::from_u128(2));
        let (sender, mut told) = mpsc::channel(1);
        let (one, other) = (Link::new(sender), Link::new(mpsc::channel(1).0));
        let first = bearers.enter(lost, one.clone());
        let _second = bearers.enter(kept, other);
        assert_eq!(bearers.tokens(), [lost, kept]);
        assert_eq!(bearers.refuse(&[lost]), 1);
        one.closed().await;
        let status = told.recv().await.expect("a message").expect_err("an end");
        assert_eq!(status.code(), tonic::Code::Unauthenticated);
        drop(first);
        assert_eq!(bearers.tokens(), [kept]);
    }
}
