//! Who is running: each process keeps a key under a lease, and writes it again whenever that lease was lost.
//!
//! A list of members is a hint, as old as its request: it says who was there, and decides nothing.

use etcd_client::{GetOptions, PutOptions};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::client::{Client, Pause};
use crate::error::ElectionError;
use crate::keys::Role;
use crate::lease::Lease;

/// A running process: the value of its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// What it is.
    pub role: Role,
    /// Its name, for people.
    pub name: String,
    /// Drawn at its start.
    pub uuid: Uuid,
    /// Its process id.
    pub pid: u32,
    /// Where its pages, or its gRPC service, are.
    pub http: String,
}

/// Keeps a member registered while it lives; dropping it takes the member out as far as etcd can be reached.
#[derive(Debug)]
pub struct MemberHandle {
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl MemberHandle {
    /// Takes the member out.
    pub async fn leave(self) {
        self.stop.cancel();
        // It fails only if the task panicked, and then there is nothing left to take out.
        let _ = self.task.await;
    }
}

/// Registers `member` and keeps it registered, from a task of its own: a process starts, and goes on, while etcd
/// is away.
///
/// # Errors
/// [`ElectionError::Encode`].
pub fn register(client: &Client, member: &Member) -> Result<MemberHandle, ElectionError> {
    let key = client.keys().member(member.role, member.uuid);
    let value =
        serde_json::to_vec(member).map_err(|source| ElectionError::Encode { key: key.clone(), source })?;
    let stop = CancellationToken::new();
    let task =
        AbortOnDropHandle::new(tokio::spawn(keep_registered(client.clone(), key, value, stop.clone())));
    Ok(MemberHandle { stop, task })
}

async fn keep_registered(client: Client, key: String, value: Vec<u8>, stop: CancellationToken) {
    let mut pause = Pause::new();
    while !stop.is_cancelled() {
        let registered = tokio::select! {
            () = stop.cancelled() => return,
            registered = put_under_new_lease(&client, &key, &value) => registered,
        };
        match registered {
            Ok(lease) => {
                pause.reset();
                tokio::select! {
                    () = lease.validity().lost() => tracing::info!(member.key = %key, "registration lost, renewing it"),
                    () = stop.cancelled() => {
                        if let Err(error) = lease.revoke().await {
                            tracing::debug!(member.key = %key, error = %error, "member not taken out, it expires");
                        }
                    }
                }
            }
            Err(error) => {
                tokio::select! {
                    () = pause.after(&error) => {}
                    () = stop.cancelled() => {}
                }
            }
        }
    }
}

async fn put_under_new_lease(client: &Client, key: &str, value: &[u8]) -> Result<Lease, ElectionError> {
    let lease = Lease::grant(client).await?;
    let id = lease.id();
    client
        .ask("registering a member", |mut etcd| async move {
            etcd.put(key, value, Some(PutOptions::new().with_lease(id))).await
        })
        .await?;
    Ok(lease)
}

/// The registered members of `role`, by name. A value that can't be read is left out, and logged.
///
/// # Errors
/// A doubt.
pub async fn members(client: &Client, role: Role) -> Result<Vec<Member>, ElectionError> {
    let prefix = client.keys().members(role);
    let read = client
        .ask("listing members", |mut etcd| {
            let prefix = prefix.clone();
            async move { etcd.get(prefix, Some(GetOptions::new().with_prefix())).await }
        })
        .await?;
    let mut found: Vec<Member> =
        read.kvs().iter().filter_map(|entry| decode(entry.key(), entry.value())).collect();
    found.sort_by(|a, b| (&a.name, a.uuid).cmp(&(&b.name, b.uuid)));
    Ok(found)
}

fn decode(key: &[u8], value: &[u8]) -> Option<Member> {
    match serde_json::from_slice(value) {
        Ok(member) => Some(member),
        Err(error) => {
            tracing::warn!(member.key = %String::from_utf8_lossy(key), error = %error, "member not readable");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_member_is_left_out() {
        let good =
            br#"{"role":"dispatcher","name":"d1","uuid":"00000000-0000-0000-0000-000000000007","pid":1,"http":"http://x"}"#;
        assert_eq!(decode(b"k", good).expect("readable").name, "d1");
        assert_eq!(decode(b"k", b"not json"), None);
    }
}
