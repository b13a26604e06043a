//! Verdicts: occurrences that had no success by their deadline, each recorded once, and the ledger's evidence that
//! they are judged by.

use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::alert::{Cause, Kind, Seen};
use model::ids::{JobId, RunKey};
use model::policy::UnknownName;
use model::run::{MisfireCause, Phase, Reason};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Row;

/// What the ledger shows of occurrences; of one that this version can't read, why. One that is missing has no row.
pub type Shown = BTreeMap<RunKey, Result<Evidence, String>>;

/// What the ledger shows of one occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Where the run is.
    pub phase: Phase,
    /// Why it ended as it did; none, too, when this version knows no such reason.
    pub reason: Option<Reason>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// When it was to start.
    pub due_at: DateTime<Utc>,
    /// When a worker took it last.
    pub claimed_at: Option<DateTime<Utc>>,
    /// The last attempt; 0 when it was never handed out.
    pub attempt: i32,
    /// Exit or HTTP status of a failed run.
    pub exit_status: Option<i32>,
    /// What a failed run said.
    pub error: Option<String>,
}

impl Evidence {
    /// What the judgement needs of it; without a row nothing was seen.
    pub fn seen(evidence: Option<&Self>) -> Seen {
        evidence.map_or(Seen::NOTHING, |evidence| Seen {
            phase: Some(evidence.phase),
            reason: evidence.reason,
            finished_at: evidence.finished_at,
        })
    }
}

/// One occurrence without success by its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The occurrence.
    pub key: RunKey,
    /// By when it should have succeeded.
    pub deadline: DateTime<Utc>,
    /// Why it had not.
    pub cause: Cause,
}

/// What the ledger shows of these occurrences.
///
/// # Errors
/// [`StoreError::Database`]. What this version can't read is part of the answer, not an error: it stops nobody else.
pub async fn evidence(tx: &Transaction<'_>, keys: &[RunKey]) -> Result<Shown, StoreError> {
    let instants = || keys.iter().map(|key| key.scheduled_for);
    let (Some(first), Some(last)) = (instants().min(), instants().max()) else {
        return Ok(BTreeMap::new());
    };
    let jobs: Vec<_> = keys.iter().map(|key| key.job_id.0).collect();
    let occurrences: Vec<_> = instants().collect();
    let rows = tx.query(sql!("verdict/evidence.sql"), &[&jobs, &occurrences, &first, &last]).await?;
    let shown = |row| (key(row, "scheduled_for"), read(row).map_err(|error| error.to_string()));
    Ok(rows.iter().map(shown).collect())
}

fn key(row: &Row, occurrence: &str) -> RunKey {
    RunKey::new(JobId(row.get("job_id")), row.get(occurrence))
}

fn read(row: &Row) -> Result<Evidence, StoreError> {
    let unknown =
        |error: UnknownName| StoreError::Corrupt { what: "run_phase.phase", problem: error.to_string() };
    Ok(Evidence {
        phase: row.get::<_, &str>("phase").parse().map_err(unknown)?,
        reason: row.get::<_, Option<&str>>("reason").and_then(|reason| reason.parse().ok()),
        finished_at: row.get("finished_at"),
        due_at: row.get("due_at"),
        claimed_at: row.get("claimed_at"),
        attempt: row.get("attempt"),
        exit_status: row.get("exit_status"),
        error: row.get("error"),
    })
}

/// Why these occurrences, which have no row, were missed; one that is missing in the answer is not recorded. A cause that
/// this version does not know is [`MisfireCause::Unknown`].
///
/// # Errors
/// [`StoreError::Database`].
pub async fn missed(
    tx: &Transaction<'_>,
    keys: &[RunKey],
) -> Result<BTreeMap<RunKey, MisfireCause>, StoreError> {
    let (jobs, occurrences): (Vec<_>, Vec<_>) =
        keys.iter().map(|key| (key.job_id.0, key.scheduled_for)).unzip();
    let rows = tx.query(sql!("verdict/missed.sql"), &[&jobs, &occurrences]).await?;
    let cause = |row: &Row| row.get::<_, &str>("cause").parse().unwrap_or(MisfireCause::Unknown);
    Ok(rows.iter().map(|row| (key(row, "scheduled_for"), cause(row))).collect())
}

/// Records verdicts and returns the occurrences that had none of this kind before: only those are told to anybody.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn insert(
    tx: &Transaction<'_>,
    kind: Kind,
    verdicts: &[Verdict],
) -> Result<BTreeSet<RunKey>, StoreError> {
    let jobs: Vec<_> = verdicts.iter().map(|verdict| verdict.key.job_id.0).collect();
    let occurrences: Vec<_> = verdicts.iter().map(|verdict| verdict.key.scheduled_for).collect();
    let deadlines: Vec<_> = verdicts.iter().map(|verdict| verdict.deadline).collect();
    let causes: Vec<_> = verdicts.iter().map(|verdict| verdict.cause.as_str()).collect();
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [&kind.as_str(), &jobs, &occurrences, &deadlines, &causes];
    let rows = tx.query(sql!("verdict/insert.sql"), &params).await?;
    Ok(rows.iter().map(|row| key(row, "occurrence")).collect())
}
