//! The watchdog's cursors: which occurrence of each job it judges next, and when it looks at it.
//!
//! Owns `watch_cursor` as the watchdog sees it (the registry writes it with each change of a definition) and
//! `watch_rest`, what is left to judge of a replaced definition. A cursor's position is exclusive: occurrences
//! through it are judged. What is expected from there on is decided by the watchdog, not here.

use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use futures_util::future::{try_join, try_join3};
use model::ids::{JobId, TenantId};
use model::job::Definition;
use tokio_postgres::Row;

/// The locked cursors and rests of one batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Locked {
    jobs: Vec<JobId>,
    rests: Vec<(JobId, DateTime<Utc>)>,
}

impl Locked {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.jobs.len() + self.rests.len()
    }

    /// True when nothing is due.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a batch is judged from.
#[derive(Debug, Clone)]
pub struct Due {
    /// The cell's clock, read after the locks were taken.
    pub at: DateTime<Utc>,
    /// The ledger keeps nothing before this.
    pub floor: DateTime<Utc>,
    /// The locked cursors.
    pub cursors: Vec<Cursor>,
}

/// Where judging a job goes on, and by which definitions.
#[derive(Debug, Clone)]
pub struct Cursor {
    /// Whose.
    pub job_id: JobId,
    /// The job's tenant.
    pub tenant_id: TenantId,
    /// The job's name now.
    pub name: String,
    /// When the job was created.
    pub created_at: DateTime<Utc>,
    /// Every occurrence through this is judged.
    pub judged_through: DateTime<Utc>,
    /// The end of a rest; none for the cursor itself, which has no end.
    pub through: Option<DateTime<Utc>>,
    /// The definitions from the one in force after `judged_through` on, in order.
    pub revisions: Vec<Revision>,
}

/// A definition and since when it is in force.
#[derive(Debug, Clone)]
pub struct Revision {
    /// It applies to instants after this.
    pub in_force_from: DateTime<Utc>,
    /// The job was deleted by it.
    pub deleted: bool,
    /// The job is paused while it is in force.
    pub paused: bool,
    /// The definition, or why this version can't read it.
    pub definition: Result<Definition, String>,
}

/// How a cursor moves on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advance {
    /// Whose.
    pub job_id: JobId,
    /// Every occurrence through this is judged.
    pub judged_through: DateTime<Utc>,
    /// The next one; none when there is none until the definition changes.
    pub next_at: Option<DateTime<Utc>>,
    /// When to look at it.
    pub judge_at: Option<DateTime<Utc>>,
}

/// What is left to judge of a definition that was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest {
    /// Whose.
    pub job_id: JobId,
    /// The last instant to which the definition applies.
    pub through: DateTime<Utc>,
    /// Every occurrence through this is judged.
    pub judged_through: DateTime<Utc>,
    /// When to look at the next one.
    pub judge_at: DateTime<Utc>,
}

/// Locks up to `limit` due cursors and as many due rests; those that somebody else has locked are left out.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn lock_due(tx: &Transaction<'_>, limit: i64) -> Result<Locked, StoreError> {
    let cursors = tx.prepare(sql!("watch_cursor/lock_due.sql")).await?;
    let rests = tx.prepare(sql!("watch_rest/lock_due.sql")).await?;
    let (cursors, rests) =
        try_join(tx.query_prepared(&cursors, &[&limit]), tx.query_prepared(&rests, &[&limit])).await?;
    Ok(Locked {
        jobs: cursors.iter().map(|row| JobId(row.get("job_id"))).collect(),
        rests: rests.iter().map(|row| (JobId(row.get("job_id")), row.get("through"))).collect(),
    })
}

/// Reads what the locked cursors are judged from.
///
/// # Errors
/// [`StoreError::Database`]. A definition that can't be read is part of the answer, not an error.
pub async fn read(tx: &Transaction<'_>, locked: &Locked) -> Result<Due, StoreError> {
    let clock = tx.prepare(sql!("watch_cursor/clock.sql")).await?;
    let read = tx.prepare(sql!("watch_cursor/read.sql")).await?;
    let jobs: Vec<_> = locked.jobs.iter().map(|job| job.0).collect();
    let (rest_jobs, throughs): (Vec<_>, Vec<_>) =
        locked.rests.iter().map(|(job, through)| (job.0, *through)).unzip();
    let (clock, rows) =
        try_join(tx.query_prepared(&clock, &[]), tx.query_prepared(&read, &[&jobs, &rest_jobs, &throughs]))
            .await?;
    let clock = clock
        .first()
        .ok_or_else(|| StoreError::Corrupt { what: "ledger_floor", problem: "has no row".to_owned() })?;
    let mut cursors: Vec<Cursor> = Vec::new();
    for row in &rows {
        let (job_id, through) = (JobId(row.get("job_id")), row.get("through"));
        match cursors.last_mut() {
            Some(cursor) if cursor.job_id == job_id && cursor.through == through => {
                cursor.revisions.push(revision(row));
            }
            _ => cursors.push(Cursor {
                job_id,
                tenant_id: TenantId(row.get("tenant_id")),
                name: row.get("name"),
                created_at: row.get("created_at"),
                judged_through: row.get("judged_through"),
                through,
                revisions: vec![revision(row)],
            }),
        }
    }
    Ok(Due { at: clock.get("at"), floor: clock.get("floor"), cursors })
}

fn revision(row: &Row) -> Revision {
    Revision {
        in_force_from: row.get("in_force_from"),
        deleted: row.get("deleted"),
        paused: row.get("paused"),
        definition: serde_json::from_value(row.get("definition")).map_err(|error| error.to_string()),
    }
}

/// Moves cursors on, stores what is left of replaced definitions and removes the rests that are judged to their end.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn advance(
    tx: &Transaction<'_>,
    advances: &[Advance],
    rests: &[Rest],
    closed: &[(JobId, DateTime<Utc>)],
) -> Result<(), StoreError> {
    let advance = tx.prepare(sql!("watch_cursor/advance.sql")).await?;
    let store = tx.prepare(sql!("watch_rest/store.sql")).await?;
    let close = tx.prepare(sql!("watch_rest/close.sql")).await?;
    let jobs: Vec<_> = advances.iter().map(|advance| advance.job_id.0).collect();
    let judged: Vec<_> = advances.iter().map(|advance| advance.judged_through).collect();
    let next: Vec<_> = advances.iter().map(|advance| advance.next_at).collect();
    let judge: Vec<_> = advances.iter().map(|advance| advance.judge_at).collect();
    let rest_jobs: Vec<_> = rests.iter().map(|rest| rest.job_id.0).collect();
    let rest_through: Vec<_> = rests.iter().map(|rest| rest.through).collect();
    let rest_judged: Vec<_> = rests.iter().map(|rest| rest.judged_through).collect();
    let rest_judge: Vec<_> = rests.iter().map(|rest| rest.judge_at).collect();
    let (closed_jobs, closed_through): (Vec<_>, Vec<_>) =
        closed.iter().map(|(job, through)| (job.0, *through)).unzip();
    try_join3(
        tx.query_prepared(&advance, &[&jobs, &judged, &next, &judge]),
        tx.query_prepared(&store, &[&rest_jobs, &rest_through, &rest_judged, &rest_judge]),
        tx.query_prepared(&close, &[&closed_jobs, &closed_through]),
    )
    .await
    .map(drop)
}
