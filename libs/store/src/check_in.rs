//! Check-ins: what runs elsewhere, what it reports, and the watchdog's place in judging it.
//!
//! Invariant: whoever reports, changes or judges one has locked its row first, and takes the time after that, so that
//! reports are in the order of their instants and none comes before an instant that was judged. Tokens are stored as
//! hashes only.

use crate::{Store, StoreError, Transaction, api_token, sql};
use chrono::{DateTime, Utc};
use model::check_in::{Definition, Report, Reported};
use model::ids::TenantId;
use model::policy::UnknownName;
use tokio_postgres::Row;
use uuid::Uuid;

mod judging;

pub use judging::{Complaint, Due, Recovered, advance, lock_due, raise, recovered};

/// The constraint that a second check-in of one name violates.
pub const NAME_TAKEN: &str = "check_in_by_name";

/// Reports of one check-in in a minute at most.
pub const REPORTS_PER_MINUTE_MAX: i64 = 60;

/// Bytes of a report's message that are kept.
pub const MESSAGE_BYTES_MAX: usize = 10_240;

/// A stored check-in.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckIn {
    /// Its identity.
    pub id: Uuid,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its name.
    pub name: String,
    /// What is expected of it.
    pub definition: Definition,
    /// One up with each change.
    pub generation: i64,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
    /// Since when it is paused.
    pub paused_at: Option<DateTime<Utc>>,
    /// What was to come through this is judged.
    pub judged_through: DateTime<Utc>,
    /// Its last start, success and failure.
    pub last: [Option<DateTime<Utc>>; 3],
    /// An alert of it is open.
    pub missing: bool,
}

/// A check-in that is new.
#[derive(Debug, Clone)]
pub struct New<'a> {
    /// Its identity.
    pub id: Uuid,
    /// Its name.
    pub name: &'a str,
    /// What is expected of it.
    pub definition: &'a Definition,
    /// The secret that its reports carry.
    pub secret: &'a str,
    /// When to look at it.
    pub judge_at: Option<DateTime<Utc>>,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noted {
    /// It was kept, of the check-in of this name.
    Yes(String),
    /// There were too many in the last minute.
    TooMany,
    /// No check-in has this token.
    Unknown,
}

/// Stores a check-in at `at`.
///
/// # Errors
/// [`StoreError::Database`]; it violates [`NAME_TAKEN`] when the tenant has one of that name.
pub async fn insert(
    tx: &Transaction<'_>,
    tenant: TenantId,
    at: DateTime<Utc>,
    new: &New<'_>,
) -> Result<(), StoreError> {
    let (hash, definition) = (api_token::hash(new.secret), stored(new.definition)?);
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
        [&new.id, &tenant.0, &at, &hash.as_slice(), &new.name, &definition, &new.judge_at];
    tx.execute(sql!("check_in/insert.sql"), &params).await.map(drop)
}

fn stored(definition: &Definition) -> Result<serde_json::Value, StoreError> {
    serde_json::to_value(definition)
        .map_err(|error| StoreError::Corrupt { what: "check_in.definition", problem: error.to_string() })
}

/// Up to `limit` check-ins of a tenant, by name, after `after`.
///
/// # Errors
/// [`StoreError`]; [`StoreError::Corrupt`] when one can't be read by this version.
pub async fn page(
    store: &Store,
    tenant: TenantId,
    after: &str,
    limit: i64,
) -> Result<Vec<CheckIn>, StoreError> {
    let operation = "list check-ins";
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("check_in/page.sql"), &[&tenant.0, &after, &limit]).await?;
    rows.iter().map(read).collect()
}

/// One check-in and its newest reports, the newest first.
///
/// # Errors
/// As [`page`].
pub async fn find(
    store: &Store,
    tenant: TenantId,
    name: &str,
    reports: i64,
) -> Result<Option<(CheckIn, Vec<Reported>)>, StoreError> {
    let operation = "find a check-in";
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("check_in/find.sql"), &[&tenant.0, &name]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let found = read(row)?;
    let rows = client.query(operation, sql!("check_in_report/newest.sql"), &[&found.id, &reports]).await?;
    let reports = rows.iter().map(reported).collect::<Result<_, _>>()?;
    Ok(Some((found, reports)))
}

/// Locks a tenant's check-in; none when it has no such one.
///
/// # Errors
/// As [`page`].
pub async fn lock(tx: &Transaction<'_>, tenant: TenantId, name: &str) -> Result<Option<CheckIn>, StoreError> {
    tx.query(sql!("check_in/lock.sql"), &[&tenant.0, &name]).await?;
    let rows = tx.query(sql!("check_in/find.sql"), &[&tenant.0, &name]).await?;
    rows.first().map(read).transpose()
}

/// Locks those of a tenant's check-ins that have these names, and reads them then, by name.
///
/// # Errors
/// As [`page`].
pub async fn lock_named(
    tx: &Transaction<'_>,
    tenant: TenantId,
    names: &[&str],
) -> Result<Vec<CheckIn>, StoreError> {
    tx.query(sql!("check_in/lock_named.sql"), &[&tenant.0, &names]).await?;
    let rows = tx.query(sql!("check_in/find_named.sql"), &[&tenant.0, &names]).await?;
    rows.iter().map(read).collect()
}

/// Gives a locked check-in another secret at `at`: its reports carry this one from then on, and no other.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn rotate(
    tx: &Transaction<'_>,
    id: Uuid,
    at: DateTime<Utc>,
    secret: &str,
) -> Result<(), StoreError> {
    let hash = api_token::hash(secret);
    tx.execute(sql!("check_in/rotate.sql"), &[&id, &hash.as_slice(), &at]).await.map(drop)
}

fn read(row: &Row) -> Result<CheckIn, StoreError> {
    let corrupt = |error: serde_json::Error| StoreError::Corrupt {
        what: "check_in.definition",
        problem: error.to_string(),
    };
    Ok(CheckIn {
        id: row.get("id"),
        tenant_id: TenantId(row.get("tenant_id")),
        name: row.get("name"),
        definition: serde_json::from_value(row.get("definition")).map_err(corrupt)?,
        generation: row.get("generation"),
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
        paused_at: row.get("paused_at"),
        judged_through: row.get("judged_through"),
        last: [row.get("last_start_at"), row.get("last_success_at"), row.get("last_failure_at")],
        missing: row.get("missing"),
    })
}

/// How a locked check-in is changed.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// What is expected of it from now on.
    pub definition: &'a Definition,
    /// It is paused.
    pub paused: bool,
    /// It is deleted.
    pub deleted: bool,
    /// What becomes of what is due.
    pub due: Expected,
}

/// What becomes, with a change, of what was expected of a check-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// What is due stays due, and what was reported is still looked at.
    AsBefore,
    /// What was expected until then is forgotten.
    Anew {
        /// When to look at it.
        judge_at: Option<DateTime<Utc>>,
    },
}

/// Changes, pauses, resumes or deletes a locked check-in at `at`.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn change(
    tx: &Transaction<'_>,
    id: Uuid,
    at: DateTime<Utc>,
    change: Change<'_>,
) -> Result<(), StoreError> {
    let definition = stored(change.definition)?;
    let (paused, deleted) = (change.paused.then_some(at), change.deleted.then_some(at));
    let (anew, judge_at) = match change.due {
        Expected::AsBefore => (false, None),
        Expected::Anew { judge_at } => (true, judge_at),
    };
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
        [&id, &definition, &at, &paused, &deleted, &anew, &judge_at];
    tx.execute(sql!("check_in/change.sql"), &params).await.map(drop)
}

/// Whether a check-in has the token whose [hash](api_token::hash) is `hash`: one look, which locks nothing.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn has_token(store: &Store, hash: &[u8; 32]) -> Result<bool, StoreError> {
    let operation = "look for a check-in's token";
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("check_in/has_token.sql"), &[&hash.as_slice()]).await?;
    Ok(!rows.is_empty())
}

/// Notes a report of whichever check-in has the token `secret`; of the message the first [`MESSAGE_BYTES_MAX`] bytes.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn report(store: &Store, secret: &str, what: Report, message: &str) -> Result<Noted, StoreError> {
    let operation = "note a report";
    let mut client = store.client(operation).await?;
    let tx = client.begin(operation).await?;
    let hash = api_token::hash(secret);
    let locked = tx.query(sql!("check_in/lock_token.sql"), &[&hash.as_slice()]).await?;
    let Some(locked) = locked.first() else { return Ok(Noted::Unknown) };
    let id: Uuid = locked.get("id");
    let message = kept(message);
    let settle = model::check_in::SETTLE.num_milliseconds();
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [&id, &what.as_str(), &message, &REPORTS_PER_MINUTE_MAX, &settle];
    let rows = tx.query(sql!("check_in/report.sql"), &params).await?;
    let Some(row) = rows.first() else { return Ok(Noted::TooMany) };
    let name = row.get("name");
    tx.commit().await?;
    Ok(Noted::Yes(name))
}

/// The beginning of a message, without what PostgreSQL can't keep.
fn kept(message: &str) -> String {
    let mut kept = message.replace('\0', "");
    let mut end = kept.len().min(MESSAGE_BYTES_MAX);
    while !kept.is_char_boundary(end) {
        end -= 1;
    }
    kept.truncate(end);
    kept
}

fn reported(row: &Row) -> Result<Reported, StoreError> {
    let unknown =
        |error: UnknownName| StoreError::Corrupt { what: "check_in_report.kind", problem: error.to_string() };
    let what = row.get::<_, &str>("kind").parse().map_err(unknown)?;
    Ok(Reported { at: row.get("at"), what, message: row.get("message") })
}

#[cfg(test)]
mod tests;
