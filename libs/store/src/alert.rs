//! The jobs' alerts: one for each job and kind while it is open, with the first and last occurrence and how many there were.
//!
//! Opened, added to and resolved by the leading watchdog only, in transactions that hold its fence. What people do with
//! them is [`crate::alert_life`]'s.

use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::alert::life::Life;
use model::alert::{Cause, Kind};
use model::ids::{JobId, TenantId};
use model::severity::Severity;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_postgres::Row;
use uuid::Uuid;

/// What is to be complained about: one or more occurrences of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The alert's identity, if it is opened by this.
    pub id: Uuid,
    /// The job's tenant.
    pub tenant_id: TenantId,
    /// The job.
    pub job_id: JobId,
    /// The first occurrence that is new.
    pub first: DateTime<Utc>,
    /// The last one.
    pub last: DateTime<Utc>,
    /// How many.
    pub count: i64,
    /// Why the last one had no success.
    pub cause: Cause,
    /// The same in words; at most 2,048 characters.
    pub detail: String,
    /// How grave it is.
    pub severity: Severity,
    /// The job's labels.
    pub labels: BTreeMap<String, String>,
    /// How long after it was told it is told again; zero is never.
    pub repeat: Duration,
    /// Nobody is told of it.
    pub untold: bool,
    /// The open alert that tells of the same.
    pub explained_by: Option<Uuid>,
}

/// An alert that was opened or added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raised {
    /// Its identity.
    pub id: Uuid,
    /// Its job.
    pub job_id: JobId,
    /// When it was opened.
    pub opened_at: DateTime<Utc>,
    /// The moment, read when it was written.
    pub at: DateTime<Utc>,
    /// It was opened by this.
    pub opened: bool,
}

/// An open alert of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// Its identity.
    pub id: Uuid,
    /// Its job.
    pub job_id: JobId,
    /// What it is about, as stored.
    pub kind: String,
    /// Its life.
    pub life: Life,
}

/// An alert that has nothing left to complain about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Its identity.
    pub id: Uuid,
    /// The job's tenant.
    pub tenant_id: TenantId,
    /// Its job.
    pub job_id: JobId,
    /// The job's name.
    pub job_name: String,
    /// What it is about, as stored.
    pub kind: String,
    /// How grave it is; as by default when this version does not know it.
    pub severity: Severity,
    /// The job's labels when it was opened.
    pub labels: BTreeMap<String, String>,
    /// Its end is told to those whom the job names too, though nobody was told of its opening.
    pub is_news: bool,
    /// Names of the channels that the job names.
    pub channels: Vec<String>,
    /// The first occurrence without success.
    pub first: DateTime<Utc>,
    /// The last one.
    pub last: DateTime<Utc>,
    /// The first one's deadline.
    pub first_deadline: Option<DateTime<Utc>>,
    /// The last one's deadline.
    pub last_deadline: Option<DateTime<Utc>>,
    /// How many there were.
    pub count: i64,
    /// Why the last one had none, as stored.
    pub cause: String,
    /// What ended it.
    pub resolution: Resolution,
}

/// What ended an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// The job succeeded again.
    Succeeded,
    /// The job was deleted.
    JobDeleted,
    /// The job was paused.
    JobPaused,
    /// The job's owner no longer wants it watched.
    NotWatched,
}

impl Resolution {
    /// As stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "SUCCEEDED",
            Self::JobDeleted => "JOB_DELETED",
            Self::JobPaused => "JOB_PAUSED",
            Self::NotWatched => "NOT_WATCHED",
        }
    }
}

/// Locks the open alerts of these jobs.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn lock_open(tx: &Transaction<'_>, jobs: &[JobId]) -> Result<Vec<Open>, StoreError> {
    let jobs: Vec<_> = jobs.iter().map(|job| job.0).collect();
    let rows = tx.query(sql!("alert/lock_open.sql"), &[&jobs]).await?;
    let open = rows.iter().map(|row| Open {
        id: row.get("id"),
        job_id: JobId(row.get("job_id")),
        kind: row.get("kind"),
        life: Life {
            acknowledged: row.get("acknowledged"),
            silenced_until: row.get("silenced_until"),
            resolved: false,
            untold: row.get("untold"),
            next_repeat_at: row.get("next_repeat_at"),
        },
    });
    Ok(open.collect())
}

/// Opens an alert for each complaint, or adds it to the job's open one, and returns them.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn raise(
    tx: &Transaction<'_>,
    kind: Kind,
    complaints: &[Complaint],
) -> Result<Vec<Raised>, StoreError> {
    fn each<'a, T>(complaints: &'a [Complaint], of: impl Fn(&'a Complaint) -> T) -> Vec<T> {
        complaints.iter().map(of).collect()
    }
    let ids = each(complaints, |complaint| complaint.id);
    let tenants = each(complaints, |complaint| complaint.tenant_id.0);
    let jobs = each(complaints, |complaint| complaint.job_id.0);
    let firsts = each(complaints, |complaint| complaint.first);
    let lasts = each(complaints, |complaint| complaint.last);
    let counts = each(complaints, |complaint| complaint.count);
    let causes = each(complaints, |complaint| complaint.cause.as_str());
    let details = each(complaints, |complaint| complaint.detail.as_str());
    let severities = each(complaints, |complaint| complaint.severity.as_str());
    let labels = each(complaints, |complaint| json(&complaint.labels));
    let repeats = each(complaints, |complaint| milliseconds(complaint.repeat));
    let untold = each(complaints, |complaint| complaint.untold);
    let explained = each(complaints, |complaint| complaint.explained_by);
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 14] = [
        &kind.as_str(),
        &ids,
        &tenants,
        &jobs,
        &firsts,
        &lasts,
        &counts,
        &causes,
        &details,
        &severities,
        &labels,
        &repeats,
        &untold,
        &explained,
    ];
    let rows = tx.query(sql!("alert/raise.sql"), &params).await?;
    let raised = rows.iter().map(|row| {
        let id = row.get("id");
        let job_id = JobId(row.get("job_id"));
        let (opened_at, at) = (row.get("opened_at"), row.get("at"));
        Raised { id, job_id, opened_at, at, opened: ids.contains(&id) }
    });
    Ok(raised.collect())
}

/// Labels as stored.
pub(crate) fn json(labels: &BTreeMap<String, String>) -> Value {
    labels.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect()
}

/// Labels as they were stored; what is no text is left out.
pub(crate) fn labels(stored: &Value) -> BTreeMap<String, String> {
    let entries = stored.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// An interval as SQL takes it; none is never.
pub(crate) fn milliseconds(interval: Duration) -> Option<i64> {
    i64::try_from(interval.as_millis()).ok().filter(|interval| *interval > 0)
}

/// Locks up to `limit` open alerts that have nothing left to complain about. An alert of a kind that this version does not
/// know is not ended by a success: only a later release knows which success would count.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn recovered(tx: &Transaction<'_>, limit: i64) -> Result<Vec<Recovered>, StoreError> {
    let kinds: Vec<_> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    let rows = tx.query(sql!("alert/recovered.sql"), &[&limit, &kinds]).await?;
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Recovered, StoreError> {
    Ok(Recovered {
        id: row.get("id"),
        tenant_id: TenantId(row.get("tenant_id")),
        job_id: JobId(row.get("job_id")),
        job_name: row.get("job_name"),
        kind: row.get("kind"),
        severity: severity(row),
        labels: labels(&row.get("labels")),
        is_news: row.get("is_news"),
        channels: row.get("channels"),
        first: row.get("first_occurrence"),
        last: row.get("last_occurrence"),
        first_deadline: row.get("first_deadline"),
        last_deadline: row.get("last_deadline"),
        count: row.get("count"),
        cause: row.get("cause"),
        resolution: resolution(row)?,
    })
}

/// How grave an alert is, of a row; as by default, which is gravest, when this version does not know it.
pub(crate) fn severity(row: &Row) -> Severity {
    row.get::<_, &str>("severity").parse().unwrap_or_default()
}

/// What ends an alert, of a row.
pub(crate) fn resolution(row: &Row) -> Result<Resolution, StoreError> {
    match row.get("resolution") {
        "SUCCEEDED" => Ok(Resolution::Succeeded),
        "JOB_DELETED" => Ok(Resolution::JobDeleted),
        "JOB_PAUSED" => Ok(Resolution::JobPaused),
        "NOT_WATCHED" => Ok(Resolution::NotWatched),
        other => Err(StoreError::Corrupt { what: "resolution", problem: format!("{other:?}") }),
    }
}

/// Resolves alerts and returns when; one that is missing was resolved before.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn resolve(
    tx: &Transaction<'_>,
    alerts: &[(Uuid, Resolution)],
) -> Result<BTreeMap<Uuid, DateTime<Utc>>, StoreError> {
    let (ids, reasons): (Vec<_>, Vec<_>) = alerts.iter().map(|(id, reason)| (*id, reason.as_str())).unzip();
    let rows = tx.query(sql!("alert/resolve.sql"), &[&ids, &reasons]).await?;
    Ok(rows.iter().map(|row| (row.get("id"), row.get("resolved_at"))).collect())
}

/// How long no ticker has finished a cycle; none when there never was one.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn ticker_silence(store: &Store) -> Result<Option<Duration>, StoreError> {
    let operation = "look for the ticker's last cycle";
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("alert/ticker_silence.sql"), &[]).await?;
    Ok(rows.first().and_then(|row| {
        let last: DateTime<Utc> = row.get::<_, Option<_>>("last_cycle_at")?;
        (row.get::<_, DateTime<Utc>>("at") - last).to_std().ok()
    }))
}
