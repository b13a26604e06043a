//! When a stored job is due, as a transaction sees it: its schedule with the dates of its calendars.

use crate::definition;
use crate::failure::Failure;
use chrono::{DateTime, Utc};
use schedule::{DateSets, Schedule};
use store::job::Stored;
use store::{Transaction, calendar};

/// The schedule of a job, or why it has none.
///
/// # Errors
/// When the database fails.
pub async fn schedule(tx: &Transaction<'_>, job: &Stored) -> Result<Result<Schedule, String>, Failure> {
    let mut dates = DateSets::default();
    let missing = dates.missing([(job.tenant, &job.definition)]);
    for (version, found) in calendar::dates(tx, &missing).await? {
        dates.add(version, found);
    }
    let schedule = Schedule::of_job(&job.definition, definition::owner(job), &dates);
    Ok(schedule.map_err(|errors| {
        let messages: Vec<_> = errors.into_iter().map(|error| error.message).collect();
        messages.join("; ")
    }))
}

/// The first instant of a job after `after`; none when there is none, or its schedule can't be used.
///
/// # Errors
/// When the database fails.
pub async fn first_after(
    tx: &Transaction<'_>,
    job: &Stored,
    after: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, Failure> {
    Ok(schedule(tx, job).await?.ok().and_then(|schedule| schedule.next(after)))
}
