//! Leadership: of the candidates for a role, the one whose key is oldest leads.
//!
//! A candidate puts a key under its own lease, then asks in **one** transaction: is my key still the one I
//! wrote, and who is right before me? Nobody means elected; somebody means watching that one key, so that a
//! resignation wakes one candidate and not all. Asking anything in two steps would let a candidate whose
//! lease lapsed in between lead without a key. A watch is only a hint and bounded by the lease time.
//!
//! What a leader does, and the fence that refuses it once it is deposed, are not known here.

use std::time::Duration;

use etcd_client::{
    Compare, CompareOp, EventType, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse,
    TxnResponse, WatchOptions,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::client::{Client, Pause};
use crate::error::ElectionError;
use crate::keys::Role;
use crate::lease::{Lease, Validity};

/// Who stands for a role: the value of its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// What it wants to lead as.
    pub role: Role,
    /// Its name, for people.
    pub name: String,
    /// Drawn at its start: tells two processes of one name apart.
    pub uuid: Uuid,
    /// Its process id.
    pub pid: u32,
    /// Where its HTTP pages are.
    pub http: String,
}

/// A leadership that was won. Dropped without [`Leadership::resign`], it is given back in the background.
#[derive(Debug)]
pub struct Leadership {
    client: Client,
    role: Role,
    uuid: Uuid,
    key: String,
    revision: i64,
    lease: Lease,
}

impl Leadership {
    /// The create revision of the leader's key: rises with each leadership, and is what writes are fenced with.
    pub const fn revision(&self) -> i64 {
        self.revision
    }

    /// The leader's own uuid, as it stood for election.
    pub const fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// How long this leadership may still be trusted; once `None`, for ever `None`.
    pub fn valid_for(&self) -> Option<Duration> {
        self.lease.validity().valid_for()
    }

    /// The same question, for whoever does not own the leadership.
    pub const fn validity(&self) -> &Validity {
        self.lease.validity()
    }

    /// Returns when this leadership can no longer be trusted.
    pub async fn lost(&self) {
        self.validity().lost().await;
    }

    /// Asks etcd, through its quorum, whether the key is still ours. A no ends the leadership.
    ///
    /// # Errors
    /// A doubt says nothing either way.
    pub async fn confirm(&self) -> Result<bool, ElectionError> {
        let read = self
            .client
            .ask("confirming a leadership", |mut etcd| async move { etcd.get(self.key.as_str(), None).await })
            .await?;
        let ours = read.kvs().iter().any(|found| found.create_revision() == self.revision);
        if !ours {
            self.validity().lose();
        }
        Ok(ours && self.valid_for().is_some())
    }

    /// Ends the leadership: deletes the key and revokes the lease, so that the next candidate leads at once. What
    /// is already gone needs no deleting.
    ///
    /// # Errors
    /// A doubt: then the lease ends the leadership by expiring.
    pub async fn resign(self) -> Result<(), ElectionError> {
        // From here on nobody may act on it, whatever etcd answers.
        self.validity().lose();
        let (key, revision) = (self.key.as_str(), self.revision);
        let deleted = self
            .client
            .ask("resigning", |mut etcd| async move {
                let ours = Compare::create_revision(key, CompareOp::Equal, revision);
                let delete = TxnOp::delete(key, None);
                etcd.txn(Txn::new().when([ours]).and_then([delete])).await
            })
            .await;
        if let Err(error) = deleted {
            tracing::debug!(role = %self.role, term = self.revision, error = %error, "key not deleted, its lease goes");
        }
        let revoked = self.lease.revoke().await;
        tracing::info!(role = %self.role, term = self.revision, "resigned");
        revoked
    }
}

/// Waits until `candidate` is elected. When its lease lapses while it waits, it stands again with a new one.
/// `None` after `shutdown`; then, and when this future is dropped, its key goes too.
///
/// # Errors
/// [`ElectionError::Refused`] when etcd will never let us. Doubts are waited out.
pub async fn campaign(
    client: &Client,
    candidate: &Candidate,
    shutdown: CancellationToken,
) -> Result<Option<Leadership>, ElectionError> {
    let mut pause = Pause::new();
    loop {
        let lease = tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(None),
            lease = Lease::grant(client) => lease,
        };
        let outcome = match lease {
            Ok(lease) => stand(client, candidate, lease, &shutdown).await,
            Err(error) => Err(error),
        };
        match outcome {
            Err(ElectionError::LeaseGone { action }) => {
                tracing::warn!(role = %candidate.role, "lease lapsed while {action}, standing again");
            }
            Err(doubt) if doubt.is_doubt() => {
                tokio::select! {
                    () = shutdown.cancelled() => return Ok(None),
                    () = pause.after(&doubt) => {}
                }
            }
            decided => return decided,
        }
    }
}

/// One candidacy, under one lease.
async fn stand(
    client: &Client,
    candidate: &Candidate,
    lease: Lease,
    shutdown: &CancellationToken,
) -> Result<Option<Leadership>, ElectionError> {
    let key = client.keys().candidate(candidate.role, lease.id());
    let elected = tokio::select! {
        biased;
        () = shutdown.cancelled() => None,
        elected = until_elected(client, candidate, &key, lease.validity()) => Some(elected),
    };
    match elected {
        Some(Ok(revision)) => {
            tracing::info!(role = %candidate.role, term = revision, leader.name = %candidate.name, "elected");
            let (client, role, uuid) = (client.clone(), candidate.role, candidate.uuid);
            Ok(Some(Leadership { client, role, uuid, key, revision, lease }))
        }
        Some(Err(error)) => Err(error),
        None => {
            if let Err(error) = lease.revoke().await {
                tracing::debug!(role = %candidate.role, error = %error, "candidacy not withdrawn, it expires");
            }
            Ok(None)
        }
    }
}

/// Enqueues, then waits its turn; the revision with which it leads.
async fn until_elected(
    client: &Client,
    candidate: &Candidate,
    key: &str,
    validity: &Validity,
) -> Result<i64, ElectionError> {
    let value = serde_json::to_vec(candidate)
        .map_err(|source| ElectionError::Encode { key: key.to_owned(), source })?;
    let mut pause = Pause::new();
    let mut enqueued: Option<i64> = None;
    loop {
        if validity.valid_for().is_none() {
            return Err(ElectionError::LeaseGone { action: "campaigning" });
        }
        let step = async {
            let revision = match enqueued {
                Some(revision) => revision,
                None => *enqueued.insert(enqueue(client, key, &value).await?),
            };
            match turn(client, candidate.role, key, revision).await? {
                // Looked at after the answer: a leadership is never handed out on a lease that lapsed meanwhile.
                Turn::Ours if validity.valid_for().is_some() => Ok(Some(revision)),
                Turn::Ours | Turn::Gone => Err(ElectionError::LeaseGone { action: "campaigning" }),
                Turn::Behind { predecessor, seen_at } => {
                    wait_for_end_of(client, predecessor, seen_at, validity).await?;
                    Ok(None)
                }
            }
        };
        match step.await {
            Ok(Some(revision)) => return Ok(revision),
            Ok(None) => pause.reset(),
            Err(doubt) if doubt.is_doubt() => pause.after(&doubt).await,
            Err(error) => return Err(error),
        }
    }
}

/// Puts our key, unless an earlier try whose answer was lost did; its create revision.
async fn enqueue(client: &Client, key: &str, value: &[u8]) -> Result<i64, ElectionError> {
    let action = "standing for election";
    let lease = lease_of(key).ok_or(ElectionError::Answer { action, lacking: "a lease in our key" })?;
    let answer = client
        .call(action, |mut etcd| async move {
            let absent = Compare::create_revision(key, CompareOp::Equal, 0);
            let put = TxnOp::put(key, value, Some(PutOptions::new().with_lease(lease)));
            let read = TxnOp::get(key, None);
            etcd.txn(Txn::new().when([absent]).and_then([put]).or_else([read])).await
        })
        .await?;
    if answer.succeeded() {
        return header_revision(action, &answer);
    }
    let found = first_key(&answer);
    found.map(|(_, created)| created).ok_or(ElectionError::Answer { action, lacking: "our key" })
}

fn lease_of(key: &str) -> Option<i64> {
    key.rsplit('/').next().and_then(|hex| i64::from_str_radix(hex, 16).ok())
}

/// Where a candidate stands.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    Ours,
    /// Our key is gone, and with it our place.
    Gone,
    Behind {
        predecessor: Vec<u8>,
        seen_at: i64,
    },
}

/// The one question that decides: is our key still ours, and who is right before it?
async fn turn(client: &Client, role: Role, key: &str, revision: i64) -> Result<Turn, ElectionError> {
    let action = "looking whose turn it is";
    let candidates = client.keys().candidates(role);
    let answer = client
        .ask(action, |mut etcd| {
            let before_us = GetOptions::new()
                .with_prefix()
                .with_keys_only()
                .with_max_create_revision(revision - 1)
                .with_sort(SortTarget::Create, SortOrder::Descend)
                .with_limit(1);
            let ours = Compare::create_revision(key, CompareOp::Equal, revision);
            let question =
                Txn::new().when([ours]).and_then([TxnOp::get(candidates.as_str(), Some(before_us))]);
            async move { etcd.txn(question).await }
        })
        .await?;
    if !answer.succeeded() {
        return Ok(Turn::Gone);
    }
    match first_key(&answer) {
        None => Ok(Turn::Ours),
        Some((predecessor, _)) => {
            let seen_at = header_revision(action, &answer)?;
            Ok(Turn::Behind { predecessor, seen_at })
        }
    }
}

/// Returns when `predecessor` was deleted after revision `seen_at`, when a lease time has passed, or when our own
/// lease was lost: in each case it is time to look again.
async fn wait_for_end_of(
    client: &Client,
    predecessor: Vec<u8>,
    seen_at: i64,
    validity: &Validity,
) -> Result<(), ElectionError> {
    let from = WatchOptions::new().with_start_revision(seen_at + 1);
    let mut stream = client
        .call(
            "watching the candidate before",
            |mut etcd| async move { etcd.watch(predecessor, Some(from)).await },
        )
        .await?;
    let ended = async {
        while let Ok(Some(message)) = stream.message().await {
            // Cancelled by the server, for instance because of a compaction.
            let deleted = message.events().iter().any(|event| event.event_type() == EventType::Delete);
            if message.canceled() || deleted {
                return deleted;
            }
        }
        false
    };
    let gone = tokio::select! {
        ended = tokio::time::timeout(client.lease_ttl(), ended) => ended.unwrap_or(true),
        () = validity.lost() => true,
    };
    if gone {
        Ok(())
    } else {
        // A broken watch must not become a tight loop.
        Err(ElectionError::Answer { action: "watching the candidate before", lacking: "an end of the watch" })
    }
}

/// Who leads now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// The candidate that leads.
    pub candidate: Candidate,
    /// The revision that it leads with.
    pub revision: i64,
}

/// The present leader of `role`, if there is one. A reader's view: only [`Leadership`] entitles to anything.
///
/// # Errors
/// A doubt, or [`ElectionError::Corrupt`].
pub async fn leader(client: &Client, role: Role) -> Result<Option<Leader>, ElectionError> {
    let candidates = client.keys().candidates(role);
    let read = client
        .ask("looking for the leader", |mut etcd| {
            let oldest = GetOptions::new()
                .with_prefix()
                .with_sort(SortTarget::Create, SortOrder::Ascend)
                .with_limit(1);
            let candidates = candidates.clone();
            async move { etcd.get(candidates, Some(oldest)).await }
        })
        .await?;
    let Some(found) = read.kvs().first() else { return Ok(None) };
    let candidate = serde_json::from_slice(found.value()).map_err(|source| ElectionError::Corrupt {
        key: String::from_utf8_lossy(found.key()).into_owned(),
        source,
    })?;
    Ok(Some(Leader { candidate, revision: found.create_revision() }))
}

/// Name and create revision of the first key in the answer's first read.
fn first_key(answer: &TxnResponse) -> Option<(Vec<u8>, i64)> {
    match answer.op_responses().first()? {
        TxnOpResponse::Get(read) => {
            read.kvs().first().map(|found| (found.key().to_vec(), found.create_revision()))
        }
        _ => None,
    }
}

fn header_revision(action: &'static str, answer: &TxnResponse) -> Result<i64, ElectionError> {
    let header = answer.header().ok_or(ElectionError::Answer { action, lacking: "its header" })?;
    Ok(header.revision())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_lease() {
        assert_eq!(lease_of("/escapement/main/election/ticker/2a"), Some(0x2a));
        assert_eq!(lease_of("/escapement/main/election/ticker/"), None);
    }

    /// A watch that would begin before a compaction is cancelled by etcd; that must end the wait, not hang it.
    #[tokio::test]
    async fn a_watch_from_a_compacted_revision_ends_the_wait() {
        let endpoints = stack::testkit::shared_etcd().await.endpoints();
        let lease_ttl = crate::client::LEASE_TTL_MIN;
        let config = crate::Config { endpoints, cell: "compacted".into(), lease_ttl, credentials: None };
        let client = Client::connect(&config).await.expect("connects");
        let mut etcd = client.connection("testing").await.expect("connected").etcd;
        for _ in 0..3 {
            etcd.put("noise", "x", None).await.expect("puts");
        }
        let put = etcd.put("noise", "x", None).await.expect("puts");
        let revision = put.header().expect("a header").revision();
        etcd.compact(revision, None).await.expect("compacts");
        let lease = Lease::grant(&client).await.expect("a lease");
        let wait = wait_for_end_of(&client, b"noise".to_vec(), 1, lease.validity());
        let ended = tokio::time::timeout(Duration::from_secs(2), wait).await.expect("no hang");
        assert!(ended.expect_err("not a deletion").is_doubt());
    }
}
