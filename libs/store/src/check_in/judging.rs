//! Judging check-ins: which are due and what they reported, where judging goes on, and the alerts that it raises and ends.
//!
//! Invariant: what is judged is locked before it is read. What this version can't read of one check-in is part of the answer
//! about that one, so that it keeps nobody else from being judged. How one is judged is [`model::check_in::judge`]'s.

use super::reported;
use crate::alert::{Resolution, json, labels, milliseconds};
use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::check_in::{Cause, Definition, Judged, Position, Reported};
use model::ids::TenantId;
use model::severity::Severity;
use std::collections::BTreeMap;
use tokio_postgres::Row;
use uuid::Uuid;

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
    /// What it reported since, or why this version can't read that.
    pub reports: Result<Vec<Reported>, String>,
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

/// An alert of a check-in that has nothing left to complain about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The alert's identity.
    pub id: Uuid,
    /// The check-in.
    pub check_in_id: Uuid,
    /// The check-in's name.
    pub name: String,
    /// The first instant that is complained of, and the last one.
    pub span: (DateTime<Utc>, DateTime<Utc>),
    /// How many.
    pub count: i64,
    /// Why, for the last one, as stored.
    pub cause: String,
    /// How grave it is; as by default when this version does not know it.
    pub severity: Severity,
    /// The check-in's labels when it was opened.
    pub labels: BTreeMap<String, String>,
    /// What ended it.
    pub resolution: Resolution,
}

/// Locks up to `limit` due check-ins; those that somebody else has locked are left out.
///
/// # Errors
/// [`StoreError`]. A definition or a report that can't be read is part of the answer, not an error: it stops nobody else.
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
    let mut reports: BTreeMap<Uuid, Vec<&Row>> = BTreeMap::new();
    for row in &rows {
        reports.entry(row.get("check_in_id")).or_default().push(row);
    }
    for due in &mut due {
        let rows = reports.remove(&due.id).unwrap_or_default();
        let reports = rows.into_iter().map(reported).collect::<Result<_, _>>();
        due.reports = reports.map_err(|error| error.to_string());
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
        reports: Ok(Vec::new()),
    }
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

/// Locks up to `limit` open alerts of check-ins that have nothing left to complain about.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn recovered(tx: &Transaction<'_>, limit: i64) -> Result<Vec<Recovered>, StoreError> {
    let rows = tx.query(sql!("alert/recovered_check_ins.sql"), &[&limit]).await?;
    let read = |row: &Row| {
        Ok(Recovered {
            id: row.get("id"),
            check_in_id: row.get("check_in_id"),
            name: row.get("name"),
            span: (row.get("first_occurrence"), row.get("last_occurrence")),
            count: row.get("count"),
            cause: row.get("cause"),
            severity: crate::alert::severity(row),
            labels: labels(&row.get("labels")),
            resolution: crate::alert::resolution(row)?,
        })
    };
    rows.iter().map(read).collect()
}
