//! Alerts about the system itself, and outages of this database.
//!
//! Invariant: of one kind about one thing at most one is open, whoever opens it: the index says so, not a fence. So those
//! that every watchdog may raise, because none can lead, are raised once all the same; the leader raises its own under its
//! fence. Whom they are told is decided by the watchdog.

use crate::alert::milliseconds;
use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::alert::life::REPEAT_DEFAULT;
use model::ids::{JobId, TenantId};
use model::severity::Severity;
use model::system_health::{Subject, Trouble};
use std::time::Duration;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// What an alert about the whole cell is about: a key is never empty.
const CELL: &str = "cell";

/// The key of the alerts that stand for jobs; see [`crate::alert_group`].
pub(crate) const JOBS: &str = "jobs";

/// An alert to be opened.
#[derive(Debug, Clone, Copy)]
pub struct New<'a> {
    /// Its identity.
    pub id: Uuid,
    /// Who sees it.
    pub tenant: TenantId,
    /// What is wrong.
    pub kind: Trouble,
    /// Of which queue, channel, job or role; empty for the whole system.
    pub about: &'a str,
    /// How grave it is.
    pub severity: Severity,
    /// How many runs, deliveries or the like; below 1 is 1.
    pub count: i64,
    /// What is wrong in words; what is longer than 2,048 characters is cut.
    pub detail: &'a str,
}

/// An alert that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Its identity.
    pub id: Uuid,
    /// Since when it was open.
    pub opened_at: DateTime<Utc>,
    /// When it ended.
    pub resolved_at: DateTime<Utc>,
    /// How many.
    pub count: i64,
    /// What was wrong.
    pub detail: String,
}

/// What is open, with the kinds that this release knows.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn open(store: &Store) -> Result<Vec<Subject>, StoreError> {
    let operation = "read open alerts about the system";
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("system/open.sql"), &[]).await?;
    let subject = |row: &tokio_postgres::Row| {
        let kind = row.get::<_, &str>("kind").parse().ok()?;
        let key: String = row.get("system_key");
        (key != JOBS).then(|| (kind, about(key)))
    };
    Ok(rows.iter().filter_map(subject).collect())
}

/// Opens an alert, and says when; none when one is open. It is told again every [`REPEAT_DEFAULT`].
///
/// # Errors
/// [`StoreError::Database`].
pub async fn raise(tx: &Transaction<'_>, new: New<'_>) -> Result<Option<DateTime<Utc>>, StoreError> {
    let detail: String = new.detail.chars().take(2_048).collect();
    let params: [&(dyn ToSql + Sync); 8] = [
        &new.id,
        &new.tenant.0,
        &new.kind.as_str(),
        &key(new.about),
        &new.severity.as_str(),
        &new.count,
        &detail,
        &milliseconds(REPEAT_DEFAULT),
    ];
    let rows = tx.query(sql!("system/raise.sql"), &params).await?;
    Ok(rows.first().map(|row| row.get("opened_at")))
}

/// Resolves what is open of `subject`; none when somebody else has.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn resolve(tx: &Transaction<'_>, (kind, about): &Subject) -> Result<Vec<Resolved>, StoreError> {
    let rows = tx.query(sql!("system/resolve.sql"), &[&kind.as_str(), &key(about)]).await?;
    let resolved = rows.iter().map(|row| Resolved {
        id: row.get("id"),
        opened_at: row.get("opened_at"),
        resolved_at: row.get("resolved_at"),
        count: row.get("count"),
        detail: row.get("detail"),
    });
    Ok(resolved.collect())
}

/// The channels that a job names; none when there is no such job.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn job_channels(tx: &Transaction<'_>, job: JobId) -> Result<Vec<String>, StoreError> {
    let rows = tx.query(sql!("system/job_channels.sql"), &[&job.0]).await?;
    Ok(rows.first().map(|row| row.get("names")).unwrap_or_default())
}

/// The number under which all watchdogs tell of this database's next outage.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn next_outage(store: &Store) -> Result<i64, StoreError> {
    let operation = "read the number of the next outage";
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("outage/read.sql"), &[]).await?;
    let missing = || StoreError::Corrupt { what: "outage", problem: "has no row".to_owned() };
    rows.first().map(|row| row.get("next")).ok_or_else(missing)
}

/// An outage that is over.
#[derive(Debug, Clone, Copy)]
pub struct Outage<'a> {
    /// Its number.
    pub number: i64,
    /// The identity of the alert that tells of it.
    pub alert: Uuid,
    /// Who sees it.
    pub tenant: TenantId,
    /// How long it was.
    pub lasted: Duration,
    /// The same in words.
    pub detail: &'a str,
}

/// Keeps an outage of this database in the history of alerts, and lets the next one have the next number. Again and again,
/// and by many, is harmless.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn keep_outage(store: &Store, outage: Outage<'_>) -> Result<(), StoreError> {
    let operation = "keep an outage";
    let lasted = i64::try_from(outage.lasted.as_millis()).unwrap_or(i64::MAX);
    let kind = Trouble::DatabaseUnreachable.as_str();
    let mut client = store.client(operation).await?;
    let tx = client.begin(operation).await?;
    if !tx.query(sql!("outage/close.sql"), &[&outage.number]).await?.is_empty() {
        let params: [&(dyn ToSql + Sync); 5] =
            [&outage.alert, &outage.tenant.0, &lasted, &kind, &outage.detail];
        tx.execute(sql!("outage/keep.sql"), &params).await?;
    }
    tx.commit().await
}

fn key(about: &str) -> String {
    if about.is_empty() { CELL.to_owned() } else { about.chars().take(128).collect() }
}

fn about(key: String) -> String {
    if key == CELL { String::new() } else { key }
}
