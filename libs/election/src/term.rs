//! Leadership: of the candidates for a role, the one whose key is oldest leads.
//!
//! A leadership is the key, its create revision and the lease it hangs on; it is trusted for as long as that lease
//! ([`Validity`]) and no longer. How candidates wait is in `queue.rs`. What a leader does, and the fence that
//! refuses it once it is deposed, are not known here.

use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetOptions, SortOrder, SortTarget, Txn, TxnOp};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::client::{Client, Pause};
use crate::error::ElectionError;
use crate::keys::Role;
use crate::lease::{Lease, Validity};
use crate::queue;

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
        elected = queue::until_first(client, candidate, &key, &lease) => Some(elected),
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

/// How far etcd has counted: no leadership of it has a higher revision, and each later one has.
///
/// # Errors
/// A doubt.
pub async fn revision(client: &Client) -> Result<i64, ElectionError> {
    let (action, key) = ("looking how far etcd has counted", client.keys().epoch());
    let read = client
        .ask(action, |mut etcd| {
            let key = key.clone();
            async move { etcd.get(key, None).await }
        })
        .await?;
    let header = read.header().ok_or(ElectionError::Answer { action, lacking: "its header" })?;
    Ok(header.revision())
}
