//! Every definition that a job ever had, who put it in force, and from when on. Append-only: the planner, the
//! watchdog and `why` answer from here what applied at an instant.

use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::{Generation, JobId};
use model::job::Definition;
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

/// What a revision did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The first one.
    Created,
    /// Another definition, or another name.
    Changed,
    /// Nothing is due after it.
    Deleted,
    /// Nothing is planned or handed out after it.
    Paused,
    /// It ends a pause; with `catches_up`, the pause counts as an outage.
    Resumed {
        /// What was due in the pause follows the misfire policy.
        catches_up: bool,
    },
    /// A calendar that it names has other dates.
    Calendar,
}

impl Action {
    /// The stored text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Changed => "CHANGED",
            Self::Deleted => "DELETED",
            Self::Paused => "PAUSED",
            Self::Resumed { .. } => "RESUMED",
            Self::Calendar => "CALENDAR",
        }
    }
}

/// One job's new revision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Revision<'a> {
    pub job: JobId,
    pub generation: Generation,
    pub definition: &'a Definition,
    pub paused: bool,
}

/// Records revisions that are in force from `at`, exclusive, and the author's reason.
pub(crate) async fn insert(
    tx: &Transaction<'_>,
    at: DateTime<Utc>,
    author: &str,
    action: Action,
    reason: Option<&str>,
    revisions: &[Revision<'_>],
) -> Result<(), StoreError> {
    let job: Vec<_> = revisions.iter().map(|revision| revision.job.0).collect();
    let generation: Vec<_> = revisions.iter().map(|revision| revision.generation.0).collect();
    let definition: Vec<_> = revisions.iter().map(|revision| Json(revision.definition)).collect();
    let paused: Vec<_> = revisions.iter().map(|revision| revision.paused).collect();
    let catches_up = action == Action::Resumed { catches_up: true };
    let action = action.as_str();
    tx.execute(
        sql!("job_revision/insert.sql"),
        &[&at, &author, &action, &job, &generation, &definition, &paused, &catches_up, &reason],
    )
    .await
    .map(drop)
}

/// A generation of a job: it never changes.
pub type Key = (JobId, Generation);

/// What the attempts of a generation execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The job's name when this was read.
    pub job_name: String,
    /// The definition.
    pub definition: Definition,
}

/// What the attempts of these generations execute; a missing one does not exist.
///
/// # Errors
/// [`StoreError::Database`]; [`StoreError::Corrupt`] when one can't be read by this version.
pub async fn specs(store: &Store, keys: &[Key]) -> Result<Vec<(Key, Spec)>, StoreError> {
    let (jobs, generations) = columns(keys);
    let client = store.client("read definitions").await?;
    let rows =
        client.query("read definitions", sql!("job_revision/specs.sql"), &[&jobs, &generations]).await?;
    rows.iter().map(spec).collect()
}

/// As [`specs`], inside a transaction.
///
/// # Errors
/// As there.
pub async fn specs_within(tx: &Transaction<'_>, keys: &[Key]) -> Result<Vec<(Key, Spec)>, StoreError> {
    let (jobs, generations) = columns(keys);
    tx.query(sql!("job_revision/specs.sql"), &[&jobs, &generations]).await?.iter().map(spec).collect()
}

fn columns(keys: &[Key]) -> (Vec<Uuid>, Vec<i64>) {
    keys.iter().map(|(job, generation)| (job.0, generation.0)).unzip()
}

fn spec(row: &Row) -> Result<(Key, Spec), StoreError> {
    let key = (JobId(row.get("job_id")), Generation(row.get("generation")));
    let definition: Json<Definition> = row.try_get("definition").map_err(|error| StoreError::Corrupt {
        what: "job_revision.definition",
        problem: error.to_string(),
    })?;
    Ok((key, Spec { job_name: row.get("job_name"), definition: definition.0 }))
}

/// A revision as people look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// Its number.
    pub generation: Generation,
    /// It applies to instants after this.
    pub in_force_from: DateTime<Utc>,
    /// As [`Action::as_str`].
    pub action: String,
    /// Who.
    pub author: String,
    /// Why, for people; may be empty.
    pub reason: String,
    /// The job is paused while it is in force.
    pub paused: bool,
    /// The definition, or why this version can't read it.
    pub definition: Result<Definition, String>,
}

/// At most `limit` revisions of `job` before generation `before`, the latest first.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn page(
    store: &Store,
    job: JobId,
    before: Generation,
    limit: i64,
) -> Result<Vec<Past>, StoreError> {
    let client = store.client("list revisions").await?;
    let rows =
        client.query("list revisions", sql!("job_revision/page.sql"), &[&job.0, &before.0, &limit]).await?;
    let past = |row: &Row| Past {
        generation: Generation(row.get("generation")),
        in_force_from: row.get("in_force_from"),
        action: row.get("action"),
        author: row.get("author"),
        reason: row.get::<_, Option<String>>("reason").unwrap_or_default(),
        paused: row.get("paused"),
        definition: row
            .try_get::<_, Json<Definition>>("definition")
            .map(|definition| definition.0)
            .map_err(|error| error.to_string()),
    };
    Ok(rows.iter().map(past).collect())
}
