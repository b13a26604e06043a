//! What this dispatcher tells of itself while the database may be away: whether it is without it, and who else there
//! is.
//!
//! Whoever asks is known by a token; the database that knows the tokens is what may be away, so that their hashes are
//! remembered. Nothing else is allowed by what is remembered here: a session needs the database all the same.

use crate::attach;
use crate::message;
use crate::shared::Shared;
use rpc::v1;
use service::health::Beat;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use store::{StoreError, api_token};
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

/// How old what is remembered may become while the database answers.
const EVERY: Duration = Duration::from_secs(10);
/// How long the database may take to tell whether it knows a token.
const LOOK_LIMIT: Duration = Duration::from_secs(1);

/// The hashes of the tokens that may work.
#[derive(Debug, Default)]
pub struct Known(Mutex<HashSet<[u8; 32]>>);

impl Known {
    fn has(&self, hash: &[u8; 32]) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(hash)
    }

    fn set(&self, hashes: HashSet<[u8; 32]>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = hashes;
    }
}

/// Remembers tokens until `stop`.
pub async fn run(shared: &Shared, beat: Beat, stop: CancellationToken) {
    loop {
        beat.beat();
        if let Err(error) = remember(shared).await {
            shared.metrics.failed("tokens");
            tracing::debug!(error = service::runtime::chain(&error), "Could not look up the tokens");
        }
        if tokio::time::timeout(EVERY, stop.cancelled()).await.is_ok() {
            break;
        }
    }
    beat.done();
}

async fn remember(shared: &Shared) -> Result<(), StoreError> {
    shared.known.set(api_token::that_work(&shared.store).await?);
    Ok(())
}

/// Answers a worker that asks.
///
/// # Errors
/// UNAUTHENTICATED, PERMISSION_DENIED; UNAVAILABLE for a token that is not remembered while the database is away.
pub async fn answer(shared: &Shared, metadata: &MetadataMap) -> Result<v1::StandingResponse, Status> {
    let secret = attach::bearer(metadata).ok_or_else(rpc::status::unauthenticated)?;
    let known = shared.known.has(&api_token::hash(secret));
    // What is remembered counts only for as long as it can't be looked up: a token may be revoked at any moment.
    if !(known && shared.contact().without_database()) {
        let looked = tokio::time::timeout(LOOK_LIMIT, attach::authenticate(shared, metadata)).await;
        match looked.unwrap_or_else(|_| Err(Status::unavailable("PostgreSQL does not answer"))) {
            Err(status) if !(known && status.code() == Code::Unavailable) => return Err(status),
            _ => {}
        }
    }
    let without_database = shared.contact().without_database();
    Ok(v1::StandingResponse { dispatcher_id: shared.id.to_string(), without_database })
}

/// The answer to a heartbeat.
pub fn acknowledge(shared: &Shared, sequence: i64, now: Instant) -> v1::ToWorker {
    let (renewal_age, without_database) = {
        let contact = shared.contact();
        (contact.renewal_age(now), contact.without_database())
    };
    let peers = shared.peers();
    let list = peers.list().filter(|_| without_database);
    message::heartbeat_ack(sequence, renewal_age, without_database, list, now)
}
