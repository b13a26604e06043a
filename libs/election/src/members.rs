//! Who is running: each process keeps a key under a lease, and writes it again whenever that lease was lost.
//!
//! A list of members is a hint, as old as its request: it says who was there, and decides nothing.

use etcd_client::{GetOptions, PutOptions};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::client::{Client, Pause};
use crate::error::ElectionError;
use crate::keys::Role;
use crate::lease::{Lease, Validity};

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
    /// Whether it can reach the database, if it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<bool>,
    /// Of a dispatcher: how many runs at a time the workers that are connected to it can have, if it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u64>,
    /// The version of the timezone database that it computes by, if it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tzdata: Option<String>,
}

/// Keeps a member registered while it lives; dropping it takes the member out as far as etcd can be reached.
#[derive(Debug)]
pub struct MemberHandle {
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
    value: watch::Sender<Vec<u8>>,
    registration: Registration,
}

/// Since when a member has been registered without a break. Clones share the answer.
#[derive(Debug, Clone, Default)]
pub struct Registration(Arc<Mutex<Option<(Instant, Validity)>>>);

impl Registration {
    /// Since when every list of members has had this one, as far as its lease can be trusted; none when one may not.
    pub fn since(&self) -> Option<Instant> {
        let registered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, validity) = registered.as_ref()?;
        validity.valid_for().map(|_| *since)
    }

    fn set(&self, registered: Option<(Instant, Validity)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = registered;
    }
}

impl MemberHandle {
    /// Shows `member` from now on, as soon as etcd can be reached. Its role and uuid stay.
    ///
    /// # Errors
    /// [`ElectionError::Encode`].
    pub fn show(&self, member: &Member) -> Result<(), ElectionError> {
        let value = serde_json::to_vec(member)
            .map_err(|source| ElectionError::Encode { key: member.uuid.to_string(), source })?;
        self.value.send_if_modified(|shown| {
            let changed = *shown != value;
            *shown = value;
            changed
        });
        Ok(())
    }

    /// Since when it has been registered.
    pub fn registration(&self) -> Registration {
        self.registration.clone()
    }

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
    let (stop, registration) = (CancellationToken::new(), Registration::default());
    let (value, values) = watch::channel(value);
    let keeper = Keeper { client: client.clone(), key, values, registration: registration.clone() };
    let task = AbortOnDropHandle::new(tokio::spawn(keeper.keep(stop.clone())));
    Ok(MemberHandle { stop, task, value, registration })
}

struct Keeper {
    client: Client,
    key: String,
    values: watch::Receiver<Vec<u8>>,
    registration: Registration,
}

impl Keeper {
    async fn keep(mut self, stop: CancellationToken) {
        let mut pause = Pause::new();
        while !stop.is_cancelled() {
            let granted = tokio::select! {
                () = stop.cancelled() => return,
                granted = Lease::grant(&self.client) => granted,
            };
            match granted {
                Ok(lease) => self.hold(lease, &mut pause, &stop).await,
                Err(error) => wait(&mut pause, &error, &stop).await,
            }
            self.registration.set(None);
        }
    }

    /// Keeps the key under `lease`, with the value as it changes, until the lease is lost or `stop`.
    async fn hold(&mut self, lease: Lease, pause: &mut Pause, stop: &CancellationToken) {
        let validity = lease.validity().clone();
        let mut since = None;
        while validity.valid_for().is_some() && !stop.is_cancelled() {
            let value = self.values.borrow_and_update().clone();
            let put = tokio::select! {
                () = stop.cancelled() => break,
                put = self.put(lease.id(), value) => put,
            };
            if let Err(error) = put {
                wait(pause, &error, stop).await;
                continue;
            }
            pause.reset();
            let since = *since.get_or_insert_with(Instant::now);
            self.registration.set(Some((since, validity.clone())));
            tokio::select! {
                () = validity.lost() => tracing::info!(member.key = %self.key, "registration lost, renewing it"),
                () = stop.cancelled() => {}
                // Without a sender nothing changes any more.
                Ok(()) = self.values.changed() => {}
            }
        }
        if stop.is_cancelled()
            && let Err(error) = lease.revoke().await
        {
            tracing::debug!(member.key = %self.key, error = %error, "member not taken out, it expires");
        }
    }

    async fn put(&self, lease: i64, value: Vec<u8>) -> Result<(), ElectionError> {
        let (key, options) = (&self.key, PutOptions::new().with_lease(lease));
        let put = self.client.ask("registering a member", |mut etcd| {
            let (value, options) = (value.clone(), options.clone());
            async move { etcd.put(key.as_str(), value, Some(options)).await }
        });
        put.await.map(drop)
    }
}

async fn wait(pause: &mut Pause, error: &ElectionError, stop: &CancellationToken) {
    tokio::select! {
        () = pause.after(error) => {}
        () = stop.cancelled() => {}
    }
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
        let member = decode(b"k", good).expect("readable");
        assert_eq!((member.name.as_str(), member.database, member.slots), ("d1", None, None));
        assert_eq!(decode(b"k", b"not json"), None);
    }
}
