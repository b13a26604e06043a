//! The life of alerts of every kind: what people see of them and do with them, and what is to be told because of it.
//!
//! Invariant: whoever changes an alert has locked its row first, and decides by what it reads after that, so that an
//! acknowledgement and a resolution at the same moment come one after the other. People write no deliveries: they leave
//! what is to be told in the row, and the watchdog, which knows how, tells it.

use crate::alert::{labels, severity};
use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::alert::life::{Life, State, Telling};
use model::ids::{JobId, TenantId};
use model::policy::UnknownName;
use model::severity::Severity;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_postgres::Row;
use uuid::Uuid;

/// Events of a history that are shown beside its first ten.
const HISTORY_LAST: i64 = 100;

/// An alert as people see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    /// Its identity.
    pub id: Uuid,
    /// `JOB`, `CHECK_IN` or `SYSTEM`.
    pub subject: String,
    /// Its job.
    pub job_id: Option<JobId>,
    /// Its check-in.
    pub check_in_id: Option<Uuid>,
    /// What it is about, as it is called now.
    pub name: String,
    /// The first occurrence that is complained of.
    pub first: Option<DateTime<Utc>>,
    /// The last one.
    pub last: Option<DateTime<Utc>>,
    /// How many.
    pub count: i64,
    /// When it was opened.
    pub opened_at: DateTime<Utc>,
    /// When it was resolved, and why.
    pub resolved: Option<(DateTime<Utc>, String)>,
    /// When it was acknowledged, and by whom.
    pub acknowledged: Option<(DateTime<Utc>, String)>,
    /// Until when it is silenced.
    pub silenced_until: Option<DateTime<Utc>>,
    /// When it is told again.
    pub next_repeat_at: Option<DateTime<Utc>>,
    /// Nobody was told of it.
    pub untold: bool,
    /// The alert that tells of the same.
    pub explained_by: Option<Uuid>,
    /// What kind of alert.
    pub kind: String,
    /// Why.
    pub cause: String,
    /// The same in words.
    pub detail: String,
    /// How grave; as by default when this version does not know it.
    pub severity: Severity,
    /// Where it is in its life.
    pub state: State,
    /// The labels of its subject when it was opened.
    pub labels: BTreeMap<String, String>,
}

/// What happened to an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happened {
    /// When.
    pub at: DateTime<Utc>,
    /// What: `OPENED`, `SILENCED`.
    pub what: String,
    /// Who did it; none is the watchdog.
    pub actor: Option<String>,
    /// Why, for people.
    pub note: String,
}

/// Which alerts are asked for; what is empty is any.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// In these states.
    pub states: Vec<State>,
    /// This grave.
    pub severities: Vec<Severity>,
    /// Of this job.
    pub job: Option<JobId>,
    /// Of this check-in.
    pub check_in: Option<Uuid>,
}

/// A locked alert's life, and what it takes to go on with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    /// Its identity.
    pub id: Uuid,
    /// Its life.
    pub life: Life,
    /// The moment, read after the lock was taken.
    pub at: DateTime<Utc>,
    /// How often it is told again; none is as by default.
    pub repeat: Option<Duration>,
    /// What a person did that is not told yet, or why this version can't read that.
    pub to_tell: Result<Option<Telling>, String>,
    /// How many occurrences it is about.
    pub count: i64,
    /// Why it is open, in words.
    pub detail: String,
    /// Who looks after it.
    pub acknowledged_by: Option<String>,
}

/// What is to be told of an alert of a job, of whose opening nobody was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owed {
    /// Its identity.
    pub id: Uuid,
    /// The job's tenant.
    pub tenant_id: TenantId,
    /// Its job.
    pub job_id: JobId,
    /// The job's name.
    pub job_name: String,
    /// The job's queue.
    pub queue: String,
    /// Names of the channels that the job names.
    pub channels: Vec<String>,
    /// What it is about, as stored.
    pub kind: String,
    /// Why the last occurrence had no success, as stored.
    pub cause: String,
    /// The same in words.
    pub detail: String,
    /// How grave it is; as by default when this version does not know it.
    pub severity: Severity,
    /// The job's labels when it was opened.
    pub labels: BTreeMap<String, String>,
    /// The first occurrence and the last one.
    pub span: (DateTime<Utc>, DateTime<Utc>),
    /// Their deadlines.
    pub deadlines: (DateTime<Utc>, DateTime<Utc>),
    /// How many.
    pub count: i64,
}

/// One page of a tenant's alerts, the newest first, from before (`opened_at`, `id`).
///
/// # Errors
/// [`StoreError`].
pub async fn page(
    store: &Store,
    tenant: TenantId,
    before: (DateTime<Utc>, Uuid),
    filter: &Filter,
    limit: i64,
) -> Result<Vec<Alert>, StoreError> {
    let operation = "list alerts";
    let states: Vec<_> = filter.states.iter().map(|state| state.as_str()).collect();
    let severities: Vec<_> = filter.severities.iter().map(|severity| severity.as_str()).collect();
    let job = filter.job.map(|job| job.0);
    let open_only = !states.is_empty() && !filter.states.contains(&State::Resolved);
    let text = if open_only { sql!("alert/page_unresolved.sql") } else { sql!("alert/page.sql") };
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 8] =
        [&tenant.0, &before.0, &before.1, &job, &filter.check_in, &severities, &states, &limit];
    let rows = store.client(operation).await?.query(operation, text, &params).await?;
    rows.iter().map(alert).collect()
}

/// One alert and its history.
///
/// # Errors
/// As [`page`].
pub async fn find(
    store: &Store,
    tenant: TenantId,
    id: Uuid,
) -> Result<Option<(Alert, Vec<Happened>)>, StoreError> {
    let operation = "find an alert";
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("alert/find.sql"), &[&tenant.0, &id]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let events = client.query(operation, sql!("alert_event/page.sql"), &[&id, &HISTORY_LAST]).await?;
    Ok(Some((alert(row)?, events.iter().map(happened).collect())))
}

fn alert(row: &Row) -> Result<Alert, StoreError> {
    let unknown =
        |error: UnknownName| StoreError::Corrupt { what: "alert state", problem: error.to_string() };
    let resolution: Option<String> = row.get("resolution");
    let actor: Option<String> = row.get("acknowledged_by");
    Ok(Alert {
        id: row.get("id"),
        subject: row.get("subject"),
        job_id: row.get::<_, Option<Uuid>>("job_id").map(JobId),
        check_in_id: row.get("check_in_id"),
        name: row.get::<_, Option<String>>("name").unwrap_or_default(),
        first: row.get("first_occurrence"),
        last: row.get("last_occurrence"),
        count: row.get("count"),
        opened_at: row.get("opened_at"),
        resolved: row.get::<_, Option<_>>("resolved_at").map(|at| (at, resolution.unwrap_or_default())),
        acknowledged: row.get::<_, Option<_>>("acknowledged_at").zip(actor),
        silenced_until: row.get("silenced_until"),
        next_repeat_at: row.get("next_repeat_at"),
        untold: row.get("untold"),
        explained_by: row.get("explained_by"),
        kind: row.get("kind"),
        cause: row.get("cause"),
        detail: row.get("detail"),
        severity: severity(row),
        state: row.get::<_, &str>("state").parse().map_err(unknown)?,
        labels: labels(&row.get("labels")),
    })
}

fn happened(row: &Row) -> Happened {
    Happened { at: row.get("at"), what: row.get("what"), actor: row.get("actor"), note: row.get("note") }
}

/// Locks a tenant's alert; none when it has no such alert.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn lock(tx: &Transaction<'_>, tenant: TenantId, id: Uuid) -> Result<Option<Locked>, StoreError> {
    let rows = tx.query(sql!("alert/lock.sql"), &[&tenant.0, &id]).await?;
    if rows.is_empty() {
        return Ok(None);
    }
    Ok(lives(tx, &[id]).await?.into_iter().next())
}

/// Locks up to `limit` alerts of which there is something to tell, and as many that are to be told again.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn lock_to_tell(tx: &Transaction<'_>, limit: i64) -> Result<Vec<Locked>, StoreError> {
    let rows = tx.query(sql!("alert/lock_to_tell.sql"), &[&limit]).await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.get("id")).collect();
    if ids.is_empty() { Ok(Vec::new()) } else { lives(tx, &ids).await }
}

async fn lives(tx: &Transaction<'_>, ids: &[Uuid]) -> Result<Vec<Locked>, StoreError> {
    let rows = tx.query(sql!("alert/lives.sql"), &[&ids]).await?;
    Ok(rows.iter().map(locked).collect())
}

fn locked(row: &Row) -> Locked {
    let to_tell = row.get::<_, Option<&str>>("to_tell").map(str::parse);
    let repeat: Option<i64> = row.get("repeat");
    Locked {
        id: row.get("id"),
        life: Life {
            acknowledged: row.get("acknowledged"),
            silenced_until: row.get("silenced_until"),
            resolved: row.get("resolved"),
            untold: row.get("untold"),
            next_repeat_at: row.get("next_repeat_at"),
        },
        at: row.get("at"),
        repeat: repeat.and_then(|repeat| u64::try_from(repeat).ok()).map(Duration::from_millis),
        to_tell: to_tell.transpose().map_err(|error: UnknownName| error.to_string()),
        count: row.get("count"),
        detail: row.get("detail"),
        acknowledged_by: row.get("acknowledged_by"),
    }
}

/// Writes how locked alerts live on, and what is left to tell of each; `actor` is who acknowledges or resolves.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn live_on(
    tx: &Transaction<'_>,
    lives: &[(Uuid, Life, Option<Telling>)],
    actor: Option<&str>,
) -> Result<(), StoreError> {
    let ids: Vec<_> = lives.iter().map(|(id, _, _)| *id).collect();
    let silenced: Vec<_> = lives.iter().map(|(_, life, _)| life.silenced_until).collect();
    let repeats: Vec<_> = lives.iter().map(|(_, life, _)| life.next_repeat_at).collect();
    let acknowledged: Vec<_> = lives.iter().map(|(_, life, _)| life.acknowledged).collect();
    let resolved: Vec<_> = lives.iter().map(|(_, life, _)| life.resolved).collect();
    let to_tell: Vec<_> = lives.iter().map(|(_, _, telling)| telling.map(Telling::as_str)).collect();
    let untold: Vec<_> = lives.iter().map(|(_, life, _)| life.untold).collect();
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 8] =
        [&ids, &silenced, &repeats, &acknowledged, &resolved, &to_tell, &untold, &actor];
    tx.execute(sql!("alert/live_on.sql"), &params).await.map(drop)
}

/// Adds to the histories of alerts what happened to each, as (alert, what, note); `actor` is who did it, none the
/// watchdog.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn record(
    tx: &Transaction<'_>,
    events: &[(Uuid, &str, &str)],
    actor: Option<&str>,
) -> Result<(), StoreError> {
    if events.is_empty() {
        return Ok(());
    }
    let ids: Vec<_> = events.iter().map(|(id, _, _)| *id).collect();
    let whats: Vec<_> = events.iter().map(|(_, what, _)| *what).collect();
    let notes: Vec<_> = events.iter().map(|(_, _, note)| *note).collect();
    tx.execute(sql!("alert_event/insert.sql"), &[&ids, &whats, &actor, &notes]).await.map(drop)
}

/// What was told of the opening of these alerts, as (alert, channel, body).
///
/// # Errors
/// [`StoreError::Database`].
pub async fn openings(
    tx: &Transaction<'_>,
    alerts: &[Uuid],
) -> Result<Vec<(Uuid, Uuid, String)>, StoreError> {
    let rows = tx.query(sql!("alert_delivery/openings.sql"), &[&alerts]).await?;
    Ok(rows.iter().map(|row| (row.get("alert_id"), row.get("channel_id"), row.get("body"))).collect())
}

/// What is to be told of those of these alerts that are about jobs, and of whose openings nobody was told.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn owed(tx: &Transaction<'_>, alerts: &[Uuid]) -> Result<Vec<Owed>, StoreError> {
    let rows = tx.query(sql!("alert/owed.sql"), &[&alerts]).await?;
    Ok(rows.iter().map(being_owed).collect())
}

fn being_owed(row: &Row) -> Owed {
    let span = (row.get("first_occurrence"), row.get("last_occurrence"));
    let deadline = |name, occurrence| row.get::<_, Option<_>>(name).unwrap_or(occurrence);
    Owed {
        id: row.get("id"),
        tenant_id: TenantId(row.get("tenant_id")),
        job_id: JobId(row.get("job_id")),
        job_name: row.get("job_name"),
        queue: row.get("queue"),
        channels: row.get("channels"),
        kind: row.get("kind"),
        cause: row.get("cause"),
        detail: row.get("detail"),
        severity: severity(row),
        labels: labels(&row.get("labels")),
        span,
        deadlines: (deadline("first_deadline", span.0), deadline("last_deadline", span.1)),
        count: row.get("count"),
    }
}
