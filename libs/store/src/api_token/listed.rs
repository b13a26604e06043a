//! Tokens as those see them who manage them: listed, made, revoked; and whether and when one was used.
//!
//! Invariant: a tenant that revokes its tokens one after the other, or two at once, keeps one of an administrator,
//! unless the caller says that it need not.

use super::{NewToken, Role, SHOWN_PREFIX_CHARS, hash};
use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::TenantId;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// A stored token; its secret is stored nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its identity.
    pub id: Uuid,
    /// Whose it is; none is every tenant's.
    pub tenant: Option<TenantId>,
    /// Who bears it.
    pub name: String,
    /// What its bearer may do.
    pub role: Role,
    /// How its secret begins.
    pub prefix: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// By whom; none for one that `escapement bootstrap` made.
    pub created_by: Option<String>,
    /// From when on it does not count; none is never.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was used last, to a minute or so.
    pub last_used_at: Option<DateTime<Utc>>,
    /// When it was revoked.
    pub revoked_at: Option<DateTime<Utc>>,
}

/// Whose tokens are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// This tenant's.
    pub tenant: TenantId,
    /// And the workers' that are every tenant's.
    pub every_tenant: bool,
}

/// Which of them.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// After the one of this name and id.
    pub after: (&'a str, Uuid),
    /// Revoked ones too.
    pub revoked: bool,
    /// So many at most.
    pub limit: i64,
}

/// Tokens by name.
///
/// # Errors
/// [`StoreError`].
pub async fn page(store: &Store, scope: Scope, page: Page<'_>) -> Result<Vec<Listed>, StoreError> {
    let Page { after: (name, id), revoked, limit } = page;
    let params: [&(dyn ToSql + Sync); 6] =
        [&scope.tenant.0, &scope.every_tenant, &revoked, &name, &id, &limit];
    let client = store.client("list tokens").await?;
    let rows = client.query("list tokens", sql!("api_token/page.sql"), &params).await?;
    rows.iter().map(listed).collect()
}

/// The tokens of this id, or of this name and not revoked: at most 2. A name may be several's: `escapement bootstrap` asks
/// nobody.
///
/// # Errors
/// [`StoreError`].
pub async fn named(tx: &Transaction<'_>, scope: Scope, name_or_id: &str) -> Result<Vec<Listed>, StoreError> {
    let id: Option<Uuid> = name_or_id.parse().ok();
    let params: [&(dyn ToSql + Sync); 4] = [&scope.tenant.0, &scope.every_tenant, &id, &name_or_id];
    tx.query(sql!("api_token/named.sql"), &params).await?.iter().map(listed).collect()
}

/// Stores a token, made by `author`. The caller holds its tenant's limits, shows the secret once, and forgets it.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn issue(
    tx: &Transaction<'_>,
    token: &NewToken<'_>,
    expires_at: Option<DateTime<Utc>>,
    author: &str,
) -> Result<Uuid, StoreError> {
    let id = Uuid::new_v4();
    let shown: String = token.secret.chars().take(SHOWN_PREFIX_CHARS).collect();
    let (tenant, hash) = (token.tenant.map(|tenant| tenant.0), hash(token.secret));
    let params: [&(dyn ToSql + Sync); 8] =
        [&id, &tenant, &token.name, &token.role.as_str(), &shown, &hash.as_slice(), &expires_at, &author];
    tx.execute(sql!("api_token/issue.sql"), &params).await?;
    Ok(id)
}

/// Why a token was not revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a token that was not revoked goes on to count"]
pub enum NotRevoked {
    /// Somebody else has revoked it.
    Already,
    /// It is the tenant's last one of an administrator.
    LastAdmin,
}

/// Revokes a token that [`named`] found; the last one of a tenant's administrators only if `last_too`.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn revoke(
    tx: &Transaction<'_>,
    token: &Listed,
    last_too: bool,
) -> Result<Result<(), NotRevoked>, StoreError> {
    if let (Role::Admin, Some(tenant), false) = (token.role, token.tenant, last_too) {
        tx.query(sql!("api_token/lock.sql"), &[&tenant.0, &token.id]).await?;
        let others = tx.query(sql!("api_token/other_admins.sql"), &[&tenant.0, &token.id]).await?;
        if others.first().is_none_or(|row| row.get::<_, i64>("others") == 0) {
            return Ok(Err(NotRevoked::LastAdmin));
        }
    }
    let written = tx.execute(sql!("api_token/revoke.sql"), &[&token.id]).await?;
    Ok(if written == 0 { Err(NotRevoked::Already) } else { Ok(()) })
}

/// Which of `tokens` don't count any more.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn lost(store: &Store, tokens: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
    let client = store.client("look for revoked tokens").await?;
    let rows = client.query("look for revoked tokens", sql!("api_token/lost.sql"), &[&tokens]).await?;
    Ok(rows.iter().map(|row| row.get("id")).collect())
}

/// Notes that `tokens` were used, of each once a minute at most.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn note_use(store: &Store, tokens: &[Uuid]) -> Result<(), StoreError> {
    let client = store.client("note the use of tokens").await?;
    client.query("note the use of tokens", sql!("api_token/note_use.sql"), &[&tokens]).await.map(drop)
}

fn listed(row: &Row) -> Result<Listed, StoreError> {
    Ok(Listed {
        id: row.get("id"),
        tenant: row.get::<_, Option<Uuid>>("tenant_id").map(TenantId),
        name: row.get("name"),
        role: Role::read(row.get("role"))?,
        prefix: row.get("prefix"),
        created_at: row.get("created_at"),
        created_by: row.get("created_by"),
        expires_at: row.get("expires_at"),
        last_used_at: row.get("last_used_at"),
        revoked_at: row.get("revoked_at"),
    })
}
