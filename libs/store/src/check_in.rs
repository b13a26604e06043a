//! Check-ins: what runs elsewhere, what it reports, and the watchdog's place in judging it.
//!
//! Invariant: whoever reports, changes or judges one has locked its row first, and takes the time after that, so that
//! reports are in the order of their instants and none comes before an instant that was judged. Tokens are stored as
//! hashes only.

use crate::alert::{json, milliseconds};
use crate::{Store, StoreError, Transaction, api_token, sql};
use chrono::{DateTime, Utc};
use model::check_in::{Cause, Definition, Judged, Position, Report, Reported};
use model::ids::TenantId;
use model::policy::UnknownName;
use std::collections::BTreeMap;
use tokio_postgres::Row;
use uuid::Uuid;

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

/// A check-in that is being judged.
#[derive(Debug, Clone)]
pub struct Due {
    /// Its identity.
    pub id: Uuid,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its name.
    pub name: String,
    /// When it was created: `@every` counts from there.
    pub created_at: DateTime<Utc>,
    /// What is expected of it, or why this version can't read that.
    pub definition: Result<Definition, String>,
    /// Where judging goes on.
    pub position: Position,
    /// The clock, read after the lock was taken.
    pub at: DateTime<Utc>,
    /// What it reported since.
    pub reports: Vec<Reported>,
}

/// What is complained of: one or more things of one check-in.
#[derive(Debug, Clone)]
pub struct Complaint {
    /// The alert's identity, if it is opened by this.
    pub id: Uuid,
    /// The check-in's tenant.
    pub tenant_id: TenantId,
    /// The check-in.
    pub check_in_id: Uuid,
    /// The first instant that is new, and the last one.
    pub span: (DateTime<Utc>, DateTime<Utc>),
    /// How many.
    pub count: i64,
    /// Why, for the last one.
    pub cause: Cause,
    /// The same in words.
    pub detail: String,
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
    /// When to look at it.
    pub judge_at: Option<DateTime<Utc>>,
}

/// Changes, pauses, resumes or deletes a locked check-in at `at`: what was expected until then is forgotten.
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
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
        [&id, &definition, &at, &paused, &deleted, &change.judge_at];
    tx.execute(sql!("check_in/change.sql"), &params).await.map(drop)
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

/// Locks up to `limit` due check-ins; those that somebody else has locked are left out.
///
/// # Errors
/// [`StoreError`]. A definition that can't be read is part of the answer, not an error.
pub async fn lock_due(tx: &Transaction<'_>, limit: i64) -> Result<Vec<Due>, StoreError> {
    let locked = tx.query(sql!("check_in/lock_due.sql"), &[&limit]).await?;
    let ids: Vec<Uuid> = locked.iter().map(|row| row.get("id")).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = tx.query(sql!("check_in/read.sql"), &[&ids]).await?;
    let mut due: Vec<_> = rows.iter().map(being_judged).collect();
    let ids: Vec<_> = due.iter().map(|due| due.id).collect();
    let since: Vec<_> =
        due.iter().map(|due| due.position.judged_through.min(due.position.looked_through)).collect();
    let rows = tx.query(sql!("check_in_report/since.sql"), &[&ids, &since]).await?;
    let mut reports: BTreeMap<Uuid, Vec<Reported>> = BTreeMap::new();
    for row in &rows {
        reports.entry(row.get("check_in_id")).or_default().push(reported(row)?);
    }
    for due in &mut due {
        due.reports = reports.remove(&due.id).unwrap_or_default();
    }
    Ok(due)
}

fn being_judged(row: &Row) -> Due {
    Due {
        id: row.get("id"),
        tenant_id: TenantId(row.get("tenant_id")),
        name: row.get("name"),
        created_at: row.get("created_at"),
        definition: serde_json::from_value(row.get("definition")).map_err(|error| error.to_string()),
        position: Position {
            judged_through: row.get("judged_through"),
            looked_through: row.get("looked_through"),
            started_at: row.get("started_at"),
        },
        at: row.get("at"),
        reports: Vec::new(),
    }
}

fn reported(row: &Row) -> Result<Reported, StoreError> {
    let unknown =
        |error: UnknownName| StoreError::Corrupt { what: "check_in_report.kind", problem: error.to_string() };
    let what = row.get::<_, &str>("kind").parse().map_err(unknown)?;
    Ok(Reported { at: row.get("at"), what, message: row.get("message") })
}

/// Moves locked check-ins on.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn advance(tx: &Transaction<'_>, judged: &[(Uuid, Judged)]) -> Result<(), StoreError> {
    let ids: Vec<_> = judged.iter().map(|(id, _)| *id).collect();
    let through: Vec<_> = judged.iter().map(|(_, judged)| judged.position.judged_through).collect();
    let looked: Vec<_> = judged.iter().map(|(_, judged)| judged.position.looked_through).collect();
    let started: Vec<_> = judged.iter().map(|(_, judged)| judged.position.started_at).collect();
    let judge_at: Vec<_> = judged.iter().map(|(_, judged)| judged.judge_at).collect();
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [&ids, &through, &looked, &started, &judge_at];
    tx.execute(sql!("check_in/advance.sql"), &params).await.map(drop)
}

/// Opens an alert for each complaint, or adds it to the check-in's open one. Returns those that were opened, with when.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn raise(
    tx: &Transaction<'_>,
    complaints: &[(Complaint, &Definition)],
) -> Result<BTreeMap<Uuid, DateTime<Utc>>, StoreError> {
    let ids: Vec<_> = complaints.iter().map(|(complaint, _)| complaint.id).collect();
    let tenants: Vec<_> = complaints.iter().map(|(complaint, _)| complaint.tenant_id.0).collect();
    let check_ins: Vec<_> = complaints.iter().map(|(complaint, _)| complaint.check_in_id).collect();
    let firsts: Vec<_> = complaints.iter().map(|(complaint, _)| complaint.span.0).collect();
    let lasts: Vec<_> = complaints.iter().map(|(complaint, _)| complaint.span.1).collect();
    let counts: Vec<_> = complaints.iter().map(|(complaint, _)| complaint.count).collect();
    let causes: Vec<_> = complaints.iter().map(|(complaint, _)| complaint.cause.as_str()).collect();
    let details: Vec<_> = complaints.iter().map(|(complaint, _)| complaint.detail.as_str()).collect();
    let severities: Vec<_> = complaints.iter().map(|(_, of)| of.severity.as_str()).collect();
    let labels: Vec<_> = complaints.iter().map(|(_, of)| json(&of.labels)).collect();
    let repeats: Vec<_> = complaints.iter().map(|(_, of)| milliseconds(of.repeat())).collect();
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 11] = [
        &ids,
        &tenants,
        &check_ins,
        &firsts,
        &lasts,
        &counts,
        &causes,
        &details,
        &severities,
        &labels,
        &repeats,
    ];
    let rows = tx.query(sql!("alert/raise_check_in.sql"), &params).await?;
    let raised = rows.iter().map(|row| (row.get("id"), row.get("opened_at")));
    Ok(raised.filter(|(id, _)| ids.contains(id)).collect())
}

/// Locks up to `limit` open alerts of check-ins that have nothing left to complain about, with the check-in's name and
/// what ends each.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn recovered(
    tx: &Transaction<'_>,
    limit: i64,
) -> Result<Vec<(Uuid, String, crate::alert::Resolution)>, StoreError> {
    let rows = tx.query(sql!("alert/recovered_check_ins.sql"), &[&limit]).await?;
    rows.iter().map(|row| Ok((row.get("id"), row.get("name"), crate::alert::resolution(row)?))).collect()
}

#[cfg(test)]
mod tests;
