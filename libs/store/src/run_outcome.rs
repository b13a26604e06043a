//! How attempts ended, for reports that come again after their acknowledgement was lost.

use crate::run_end::Attempt;
use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::{JobId, RunKey};
use model::run::State;
use std::collections::BTreeMap;
use uuid::Uuid;

/// How these attempts were recorded, by attempt and token; their session may have ended since. A missing one is not
/// in the ledger under that token.
///
/// # Errors
/// [`StoreError::Database`]; [`StoreError::Corrupt`].
pub async fn recorded(
    tx: &Transaction<'_>,
    attempts: &[(RunKey, Attempt)],
) -> Result<BTreeMap<(RunKey, i32), State>, StoreError> {
    let instants: Vec<DateTime<Utc>> = attempts.iter().map(|(key, _)| key.scheduled_for).collect();
    let (Some(first), Some(last)) = (instants.iter().min(), instants.iter().max()) else {
        return Ok(BTreeMap::new());
    };
    let jobs: Vec<Uuid> = attempts.iter().map(|(key, _)| key.job_id.0).collect();
    let numbers: Vec<i32> = attempts.iter().map(|(_, attempt)| attempt.number).collect();
    let tokens: Vec<i64> = attempts.iter().map(|(_, attempt)| attempt.token.as_i64()).collect();
    let rows = tx
        .query(sql!("run_outcome/recorded.sql"), &[&jobs, &instants, &numbers, &tokens, first, last])
        .await?;
    rows.iter()
        .map(|row| {
            let key = RunKey::new(JobId(row.get("job_id")), row.get("scheduled_for"));
            let state: &str = row.get("state");
            let state = state
                .parse()
                .map_err(|error| StoreError::Corrupt { what: "run.state", problem: format!("{error}") })?;
            Ok(((key, row.get("attempt")), state))
        })
        .collect()
}
