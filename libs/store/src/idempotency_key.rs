//! Calls that may be repeated: the first one with a key does its work and keeps its answer, in one transaction; the
//! others get that answer.
//!
//! Invariant: of calls with one key, one does its work, however many come at once: the others wait for its transaction
//! and see its answer, or take its place when it was rolled back. A key means what it means for one caller of one tenant
//! and one kind of call only. What a call is, and what its answer looks like, is not known here.

use crate::{StoreError, Transaction, sql};
use model::ids::TenantId;
use sha2::{Digest, Sha256};

/// How long a key is kept.
const KEPT_HOURS: i32 = 24;
/// Old keys that one call deletes at most.
const FORGOTTEN_MAX: i64 = 100;

/// A key, and whose and for what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    /// The caller's tenant.
    pub tenant: TenantId,
    /// The caller: its token's name.
    pub caller: &'a str,
    /// The kind of call and what it is about.
    pub route: &'a str,
    /// What the caller chose.
    pub key: &'a str,
}

/// What a call with a key finds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a call that is not the first of its key must not do its work"]
pub enum Begun {
    /// It is the first: it does its work and [`answer`]s.
    First,
    /// The same call was made before; this was its answer.
    Repeated(Vec<u8>),
    /// The key was used for another call.
    Other,
}

/// Begins a call with a key, which asks for what is in `body`. Comes before every other lock of the transaction.
///
/// # Errors
/// [`StoreError::Database`]; a call with the same key that takes too long is worth a later try.
pub async fn begin(tx: &Transaction<'_>, key: &Key<'_>, body: &[u8]) -> Result<Begun, StoreError> {
    let Key { tenant, caller, route, key } = key;
    let hash = Sha256::digest(body);
    let hash = hash.as_slice();
    let first = tx
        .query(sql!("idempotency_key/begin.sql"), &[&tenant.0, caller, route, key, &hash, &KEPT_HOURS])
        .await?;
    if !first.is_empty() {
        tx.execute(sql!("idempotency_key/forget.sql"), &[&KEPT_HOURS, &FORGOTTEN_MAX]).await?;
        return Ok(Begun::First);
    }
    let rows = tx.query(sql!("idempotency_key/find.sql"), &[&tenant.0, caller, route, key]).await?;
    let missing = || StoreError::Corrupt { what: "idempotency_key", problem: "lost a locked row".to_owned() };
    let row = rows.first().ok_or_else(missing)?;
    let same = row.get::<_, &[u8]>("body_hash") == hash;
    Ok(if same { Begun::Repeated(row.get("answer")) } else { Begun::Other })
}

/// Keeps the answer to a call that [`begin`] found to be the first; the transaction then commits.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn answer(tx: &Transaction<'_>, key: &Key<'_>, answer: &[u8]) -> Result<(), StoreError> {
    let Key { tenant, caller, route, key } = key;
    tx.execute(sql!("idempotency_key/answer.sql"), &[&tenant.0, caller, route, key, &answer]).await.map(drop)
}
