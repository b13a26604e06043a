//! Every definition that a job ever had, who put it in force, and from when on. Append-only: the planner, the
//! watchdog and `why` answer from here what applied at an instant.

use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::{Generation, JobId};
use model::job::Definition;
use tokio_postgres::types::Json;

/// What a revision did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The first one.
    Created,
    /// Another definition, or another name.
    Changed,
    /// Nothing is due after it.
    Deleted,
}

impl Action {
    /// The stored text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Changed => "CHANGED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One job's new revision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Revision<'a> {
    pub job: JobId,
    pub generation: Generation,
    pub definition: &'a Definition,
}

/// Records revisions that are in force from `at`, exclusive.
pub(crate) async fn insert(
    tx: &Transaction<'_>,
    at: DateTime<Utc>,
    author: &str,
    action: Action,
    revisions: &[Revision<'_>],
) -> Result<(), StoreError> {
    let job: Vec<_> = revisions.iter().map(|revision| revision.job.0).collect();
    let generation: Vec<_> = revisions.iter().map(|revision| revision.generation.0).collect();
    let definition: Vec<_> = revisions.iter().map(|revision| Json(revision.definition)).collect();
    let action = action.as_str();
    tx.execute(sql!("job_revision/insert.sql"), &[&at, &author, &action, &job, &generation, &definition])
        .await
        .map(drop)
}
