//! Calendars: named sets of dates, kept by version. A version never changes, so that whoever has read one may keep it.
//!
//! Invariant: a definition names the present versions of its calendars. Whoever stores a definition [`hold`]s them until
//! the transaction ends; whoever changes one [`lock`]s it after the jobs that name it and looks for these again then,
//! so that nobody stores an old version behind the other's back.
//!
//! What it does not do: put the new version into definitions. The registry does, by [`crate::job_change`].

use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, NaiveDate, Utc};
use model::calendar::CalendarVersion;
use model::ids::{JobId, TenantId};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio_postgres::Row;
use uuid::Uuid;

/// A calendar as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    /// Its name, unique among the tenant's calendars.
    pub name: String,
    /// Counted from 1; each change of the dates counts one up.
    pub version: i64,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
    /// When this version was stored.
    pub updated_at: DateTime<Utc>,
    /// Its dates, as they were stored.
    pub dates: Vec<NaiveDate>,
}

/// The dates of a version.
pub type Dates = ((TenantId, CalendarVersion), Vec<NaiveDate>);

/// The dates of these versions, in no order; a missing one does not exist.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn dates(
    tx: &Transaction<'_>,
    versions: impl IntoIterator<Item = &(TenantId, CalendarVersion)>,
) -> Result<Vec<Dates>, StoreError> {
    let Columns { tenants, names, numbers } = Columns::of(versions);
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let rows = tx.query(sql!("calendar/dates.sql"), &[&tenants, &names, &numbers]).await?;
    Ok(rows.iter().map(read_dates).collect())
}

/// As [`dates`], for who only looks.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn look_up(
    store: &Store,
    versions: impl IntoIterator<Item = &(TenantId, CalendarVersion)>,
) -> Result<Vec<Dates>, StoreError> {
    let Columns { tenants, names, numbers } = Columns::of(versions);
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let operation = "look up calendars";
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("calendar/dates.sql"), &[&tenants, &names, &numbers]).await?;
    Ok(rows.iter().map(read_dates).collect())
}

#[derive(Default)]
struct Columns<'a> {
    tenants: Vec<Uuid>,
    names: Vec<&'a str>,
    numbers: Vec<i64>,
}

impl<'a> Columns<'a> {
    fn of(versions: impl IntoIterator<Item = &'a (TenantId, CalendarVersion)>) -> Self {
        let mut columns = Self::default();
        for (tenant, version) in versions {
            columns.tenants.push(tenant.0);
            columns.names.push(version.name.as_str());
            columns.numbers.push(version.version);
        }
        columns
    }
}

fn read_dates(row: &Row) -> Dates {
    let version = CalendarVersion { name: row.get("name"), version: row.get("version") };
    ((TenantId(row.get("tenant_id")), version), row.get("dates"))
}

/// The calendars of `tenant` with these names, by name; a missing one is none.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn find(store: &Store, tenant: TenantId, names: &[&str]) -> Result<Vec<Calendar>, StoreError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let operation = "find calendars";
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("calendar/find.sql"), &[&tenant.0, &names]).await?;
    Ok(rows.iter().map(read).collect())
}

/// A part of a tenant's calendars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// By name.
    pub calendars: Vec<Calendar>,
    /// There are more after these.
    pub more: bool,
}

/// At most `limit` calendars of `tenant` whose name comes after `after`, and at most `dates_max` dates, but one
/// calendar at least.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn page(
    store: &Store,
    tenant: TenantId,
    after: &str,
    limit: usize,
    dates_max: i64,
) -> Result<Page, StoreError> {
    let operation = "list calendars";
    let client = store.client(operation).await?;
    let rows_max = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let rows = client
        .query(operation, sql!("calendar/page.sql"), &[&tenant.0, &after, &rows_max, &dates_max])
        .await?;
    let within = |row: &&Row| row.get::<_, Option<Vec<NaiveDate>>>("dates").is_some();
    let calendars: Vec<_> = rows.iter().take(limit).take_while(within).map(read).collect();
    Ok(Page { more: calendars.len() < rows.len(), calendars })
}

/// Keeps the calendars of `tenant` with these names as they are until the transaction ends, and returns those that
/// there are.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn hold(
    tx: &Transaction<'_>,
    tenant: TenantId,
    names: &[&str],
) -> Result<Vec<Calendar>, StoreError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let held = tx.query(sql!("calendar/hold.sql"), &[&tenant.0, &names]).await?;
    find_locked(tx, tenant, names, &held).await
}

/// Locks the calendars of `tenant` with these names for a change, and returns those that there are.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn lock(
    tx: &Transaction<'_>,
    tenant: TenantId,
    names: &[&str],
) -> Result<Vec<Calendar>, StoreError> {
    let locked = tx.query(sql!("calendar/lock.sql"), &[&tenant.0, &names]).await?;
    find_locked(tx, tenant, names, &locked).await
}

/// Reads calendars as they are once they are locked. One that was stored while the locks were waited for is none yet:
/// nothing keeps it.
async fn find_locked(
    tx: &Transaction<'_>,
    tenant: TenantId,
    names: &[&str],
    locked: &[Row],
) -> Result<Vec<Calendar>, StoreError> {
    let locked: BTreeSet<&str> = locked.iter().map(|row| row.get("name")).collect();
    let rows = tx.query(sql!("calendar/find.sql"), &[&tenant.0, &names]).await?;
    Ok(rows.iter().map(read).filter(|calendar| locked.contains(calendar.name.as_str())).collect())
}

/// Stores a calendar of `tenant`; its version, or none when the tenant has one of that name.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn insert(
    tx: &Transaction<'_>,
    tenant: TenantId,
    at: DateTime<Utc>,
    author: &str,
    name: &str,
    dates: &[NaiveDate],
) -> Result<Option<i64>, StoreError> {
    let rows = tx.query(sql!("calendar/insert.sql"), &[&tenant.0, &at, &author, &name, &dates]).await?;
    Ok(rows.first().map(|row| row.get("version")))
}

/// Gives a locked calendar other dates; its new version.
///
/// # Errors
/// [`StoreError::Database`]; [`StoreError::Corrupt`] when there is no such calendar.
pub async fn update(
    tx: &Transaction<'_>,
    tenant: TenantId,
    at: DateTime<Utc>,
    author: &str,
    name: &str,
    dates: &[NaiveDate],
) -> Result<i64, StoreError> {
    let rows = tx.query(sql!("calendar/update.sql"), &[&tenant.0, &at, &author, &name, &dates]).await?;
    let missing =
        || StoreError::Corrupt { what: "calendar", problem: format!("{name:?} is locked and gone") };
    rows.first().map(|row| row.get("version")).ok_or_else(missing)
}

/// Deletes a locked calendar.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn delete(
    tx: &Transaction<'_>,
    tenant: TenantId,
    at: DateTime<Utc>,
    name: &str,
) -> Result<(), StoreError> {
    tx.execute(sql!("calendar/mark_deleted.sql"), &[&tenant.0, &name, &at]).await.map(drop)
}

/// The jobs of `tenant` that name one of these calendars, by name, at most `limit` if there is one. Seen without a lock
/// unless the calendars are locked.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn used_by(
    tx: &Transaction<'_>,
    tenant: TenantId,
    names: &[&str],
    limit: Option<i64>,
) -> Result<Vec<(JobId, String)>, StoreError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let patterns: Vec<Value> = names
        .iter()
        .flat_map(|name| ["exclude", "only"].map(|list| json!({ list: [{ "name": name }] })))
        .collect();
    let limit = limit.unwrap_or(i64::MAX);
    let rows = tx.query(sql!("calendar/used_by.sql"), &[&tenant.0, &patterns, &limit]).await?;
    Ok(rows.iter().map(|row| (JobId(row.get("id")), row.get("name"))).collect())
}

fn read(row: &Row) -> Calendar {
    Calendar {
        name: row.get("name"),
        version: row.get("version"),
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
        dates: row.get("dates"),
    }
}
