//! A candidate's place in the queue for a role.
//!
//! A candidate puts a key under its own lease, then asks in **one** transaction: is my key still the one I
//! wrote, and who is right before me? Nobody means elected; somebody means watching that one key, so that a
//! resignation wakes one candidate and not all. Asking in two steps would let a candidate whose lease lapsed
//! in between lead without a key. A watch is only a hint, and bounded by the lease time.

use etcd_client::{
    Compare, CompareOp, EventType, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse,
    TxnResponse, WatchOptions,
};

use crate::client::{Client, Pause};
use crate::error::ElectionError;
use crate::keys::Role;
use crate::lease::{Lease, Validity};
use crate::term::Candidate;

/// Enqueues, then waits its turn; the revision with which it leads.
pub(crate) async fn until_first(
    client: &Client,
    candidate: &Candidate,
    key: &str,
    lease: &Lease,
) -> Result<i64, ElectionError> {
    let value = serde_json::to_vec(candidate)
        .map_err(|source| ElectionError::Encode { key: key.to_owned(), source })?;
    let validity = lease.validity();
    let mut pause = Pause::new();
    let mut enqueued: Option<i64> = None;
    loop {
        if validity.valid_for().is_none() {
            return Err(ElectionError::LeaseGone { action: "campaigning" });
        }
        let step = async {
            let revision = match enqueued {
                Some(revision) => revision,
                None => *enqueued.insert(enqueue(client, key, &value, lease.id()).await?),
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
async fn enqueue(client: &Client, key: &str, value: &[u8], lease: i64) -> Result<i64, ElectionError> {
    let action = "standing for election";
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
    use std::time::Duration;

    use super::*;

    /// A watch that would begin before a compaction is cancelled by etcd; that must end the wait, not hang it.
    #[tokio::test]
    async fn a_watch_from_a_compacted_revision_ends_the_wait() {
        let endpoints = stack::testkit::shared_etcd().await.endpoints();
        let lease_ttl = crate::client::LEASE_TTL_MIN;
        let config = crate::Config {
            endpoints,
            cell: "compacted".into(),
            lease_ttl,
            credentials: None,
            tls: crate::Tls::default(),
        };
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
