//! Bearer tokens. A secret is 256 random bits, shown once; only its SHA-256 is stored, and a presented secret is found
//! by an index lookup on that hash. Nothing is compared byte by byte with a secret, so there is no comparison whose
//! duration could tell anything; guessing a hash prefix does not help to find what hashes to it.
//!
//! It does not decide what a role may do.

mod listed;

pub use listed::{Listed, NotRevoked, Page, Scope, issue, lost, named, note_use, page, revoke};

use crate::{Store, StoreError, sql};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::ids::TenantId;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use uuid::Uuid;

/// How a secret begins, so that people and scanners recognise one.
const SECRET_PREFIX: &str = "esc_";
/// Characters of a secret that are kept for telling tokens apart.
const SHOWN_PREFIX_CHARS: usize = 12;
/// Random bytes of a secret.
const SECRET_BYTES: usize = 32;

/// What a token's bearer may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Everything in its tenant.
    Admin,
    /// Changes jobs and channels.
    Editor,
    /// Reads.
    Viewer,
    /// Takes runs; nothing else.
    Worker,
}

impl Role {
    /// The stored text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "ADMIN",
            Self::Editor => "EDITOR",
            Self::Viewer => "VIEWER",
            Self::Worker => "WORKER",
        }
    }

    fn read(text: &str) -> Result<Self, StoreError> {
        let all = [Self::Admin, Self::Editor, Self::Viewer, Self::Worker];
        all.into_iter().find(|role| role.as_str() == text).ok_or_else(|| StoreError::Corrupt {
            what: "api_token.role",
            problem: format!("{text:?} is not a role"),
        })
    }
}

/// A token to be stored.
#[derive(Debug, Clone)]
pub struct NewToken<'a> {
    /// Whose it is; none, for workers only, is every tenant's.
    pub tenant: Option<TenantId>,
    /// For people: who bears it.
    pub name: &'a str,
    /// What its bearer may do.
    pub role: Role,
    /// What the bearer presents; not stored.
    pub secret: &'a str,
}

/// A token that is neither revoked nor expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its identity.
    pub id: Uuid,
    /// Whose it is; none is every tenant's.
    pub tenant: Option<TenantId>,
    /// Who bears it.
    pub name: String,
    /// What its bearer may do.
    pub role: Role,
}

/// A new secret: `esc_` and 32 random bytes in base64url.
///
/// # Errors
/// The operating system's, when it has no randomness to give.
pub fn new_secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; SECRET_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{SECRET_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// Whether a text has the form of what [`new_secret`] draws: one that has not is nobody's, and needs no look-up.
pub fn is_secret(text: &str) -> bool {
    let random = text.strip_prefix(SECRET_PREFIX).and_then(|random| URL_SAFE_NO_PAD.decode(random).ok());
    random.is_some_and(|random| random.len() == SECRET_BYTES)
}

/// What is stored and looked up instead of the secret.
pub fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Stores a token and returns its identity. The caller shows the secret once, and forgets it.
///
/// # Errors
/// [`StoreError::Database`]; a token with the same secret violates `api_token_hash_key`.
pub async fn create(store: &Store, token: NewToken<'_>) -> Result<Uuid, StoreError> {
    let id = Uuid::new_v4();
    let shown: String = token.secret.chars().take(SHOWN_PREFIX_CHARS).collect();
    let client = store.client("store a token").await?;
    client
        .query(
            "store a token",
            sql!("api_token/insert.sql"),
            &[
                &id,
                &token.tenant.map(|tenant| tenant.0),
                &token.name,
                &token.role.as_str(),
                &shown,
                &hash(token.secret).as_slice(),
            ],
        )
        .await?;
    Ok(id)
}

/// The token whose secret has this hash; none when there is none, or it is revoked or expired.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn find(store: &Store, hash: &[u8; 32]) -> Result<Option<Token>, StoreError> {
    let client = store.client("find a token").await?;
    let rows = client.query("find a token", sql!("api_token/find.sql"), &[&hash.as_slice()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Token {
        id: row.get("id"),
        tenant: row.get::<_, Option<Uuid>>("tenant_id").map(TenantId),
        name: row.get("name"),
        role: Role::read(row.get("role"))?,
    }))
}

/// The hashes of all tokens whose bearers may work, for the time when the database can't be asked.
///
/// # Errors
/// [`StoreError`] when it can't be asked now; [`StoreError::Corrupt`] for what is no hash.
pub async fn that_work(store: &Store) -> Result<HashSet<[u8; 32]>, StoreError> {
    let client = store.client("list the workers' tokens").await?;
    let rows = client.query("list the workers' tokens", sql!("api_token/that_work.sql"), &[]).await?;
    let hash = |row: &tokio_postgres::Row| {
        row.get::<_, &[u8]>("hash")
            .try_into()
            .map_err(|_| StoreError::Corrupt { what: "api_token.hash", problem: "is no SHA-256".to_owned() })
    };
    rows.iter().map(hash).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognisable_long_and_never_the_same() {
        let (one, other) = (new_secret().expect("randomness"), new_secret().expect("randomness"));
        assert!(one.starts_with("esc_"), "{one}");
        assert_eq!(one.len(), "esc_".len() + 43);
        assert_ne!(one, other);
        assert_ne!(hash(&one), hash(&other));
        assert!(is_secret(&one) && is_secret(&other));
    }

    #[test]
    fn what_has_not_the_form_of_a_secret_is_none() {
        let sound = new_secret().expect("randomness");
        for none in [
            "",
            "esc_",
            "nobody",
            &sound[4..],
            &sound[..46],
            &format!("{sound}A"),
            &sound.replace("esc_", "esc-"),
        ] {
            assert!(!is_secret(none), "{none}");
        }
    }
}
