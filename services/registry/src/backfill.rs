//! Running the past occurrences of a range that have no run: which they are, and putting them into the ledger.
//!
//! What the planner has still to decide is left to it: a backfill ends before its cursor, which is locked. Partitions of
//! past days are made before, each in a transaction of its own, because each locks the whole ledger for a moment.

mod range;

use crate::failure::{Failure, retrying};
use crate::idempotency::Call;
use crate::{audit, jobs, occurrences};
use chrono::{DateTime, NaiveDate, Utc};
use range::{Asked, days};
use rpc::auth::Caller;
use rpc::convert::time;
use rpc::v1;
use std::collections::BTreeSet;
use std::time::Duration;
use store::job::Stored;
use store::{Store, StoreError, Transaction, backfill, job_change, ledger_floor, partition};

/// Everybody else waits behind a new partition: it does not wait for long.
const PATIENCE: Duration = Duration::from_millis(500);

/// Puts the missing past runs of a range into the ledger, or says what that would do.
///
/// # Errors
/// When there is no such job, it is paused, or the range can't be filled.
pub async fn backfill(
    store: &Store,
    caller: &Caller,
    request: &v1::BackfillJobRequest,
    key: Option<String>,
) -> Result<v1::BackfillJobResponse, Failure> {
    let asked = Asked::read(request).map_err(Failure::Invalid)?;
    let found = jobs::find(store, caller, &request.job).await?;
    if asked.dry_run {
        return retrying(|| estimate(store, &found, &asked)).await;
    }
    let body = v1::BackfillJobRequest { job: String::new(), ..request.clone() };
    let call = Call::new(caller, format!("BackfillJob {}", found.id), key, &body);
    retrying(async || match make_partitions(store, &found, &asked, &call).await? {
        Some(answer) => Ok(answer),
        None => fill(store, caller, &found, &asked, &call).await,
    })
    .await
}

/// The occurrences of the range that are not the planner's to decide.
struct Range {
    job: Stored,
    at: DateTime<Utc>,
    instants: Vec<DateTime<Utc>>,
}

/// Locks the job and finds the occurrences. Nothing is planned for the job until the transaction ends.
async fn look(tx: &Transaction<'_>, found: &Stored, asked: &Asked) -> Result<Range, Failure> {
    let floor = ledger_floor::hold(tx).await?;
    let locked = job_change::lock_unqueued(tx, &[found.id]).await?;
    let job = jobs::still_there(locked.jobs, found)?;
    jobs::not_paused(&job)?;
    asked.check(locked.at, floor).map_err(Failure::Invalid)?;
    let schedule = occurrences::schedule(tx, &job).await?.map_err(|problem| {
        Failure::Refused(format!("the schedule of job {:?} can't be used: {problem}", job.name))
    })?;
    let before = backfill::planner_at(tx, job.id).await?;
    let instants = asked.occurrences(&schedule, before).map_err(|error| Failure::Invalid(vec![error]))?;
    Ok(Range { job, at: locked.at, instants })
}

async fn estimate(store: &Store, found: &Stored, asked: &Asked) -> Result<v1::BackfillJobResponse, Failure> {
    let mut client = store.client("estimate a backfill").await?;
    let tx = client.begin("estimate a backfill").await?;
    let range = look(&tx, found, asked).await?;
    let existing: BTreeSet<_> =
        backfill::existing(&tx, range.job.id, &range.instants).await?.into_iter().collect();
    let missing: Vec<_> = range.instants.iter().copied().filter(|at| !existing.contains(at)).collect();
    Ok(answer(&range, &missing, true))
}

/// Makes the partitions that the range needs, as far as it can be known before the job is locked; or finds the answer of
/// the first call with this key, whatever has become of the job since.
async fn make_partitions(
    store: &Store,
    found: &Stored,
    asked: &Asked,
    call: &Call,
) -> Result<Option<v1::BackfillJobResponse>, Failure> {
    let operation = "make partitions for a backfill";
    let mut client = store.client(operation).await?;
    let missing = {
        let tx = client.begin(operation).await?;
        if let Some(answer) = call.begin(&tx).await? {
            return Ok(Some(answer));
        }
        let range = look(&tx, found, asked).await?;
        missing_days(&tx, &range.instants).await?
    };
    for day in missing {
        let tx = client.begin(operation).await?;
        match partition::ensure(&tx, day, day, PATIENCE).await {
            Ok(_) => tx.commit().await?,
            Err(error) => {
                drop(tx);
                made_by_another(&client.begin(operation).await?, day, error).await?;
            }
        }
    }
    Ok(None)
}

/// Two that make the same partition meet: what fails for one is there for both.
async fn made_by_another(tx: &Transaction<'_>, day: NaiveDate, error: StoreError) -> Result<(), Failure> {
    if partition::days(tx).await?.contains(&day) { Ok(()) } else { Err(error.into()) }
}

async fn missing_days(
    tx: &Transaction<'_>,
    instants: &[DateTime<Utc>],
) -> Result<BTreeSet<NaiveDate>, Failure> {
    let there: BTreeSet<_> = partition::days(tx).await?.into_iter().collect();
    Ok(days(instants).difference(&there).copied().collect())
}

async fn fill(
    store: &Store,
    caller: &Caller,
    found: &Stored,
    asked: &Asked,
    call: &Call,
) -> Result<v1::BackfillJobResponse, Failure> {
    let mut client = store.client("backfill a job").await?;
    let tx = client.begin("backfill a job").await?;
    if let Some(answer) = call.begin(&tx).await? {
        return Ok(answer);
    }
    let range = look(&tx, found, asked).await?;
    if !missing_days(&tx, &range.instants).await?.is_empty() {
        return Err(Failure::Overtaken); // the job was changed since its days were made
    }
    let (job, at) = (&range.job, range.at);
    let trace = service::telemetry::traceparent(&tracing::Span::current());
    let interval = asked.interval(&job.definition);
    let added = backfill::insert(&tx, job, &range.instants, at, interval, trace.as_deref()).await?;
    let answer = answer(&range, &added, false);
    let event = audit::job_backfilled(job, asked.from, asked.to, added.len());
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    call.answer(&tx, &answer).await?;
    // Crash window: committed and not answered; repeated, it answers the same or finds that nothing is missing.
    tx.commit().await?;
    tracing::info!(
        job.name = %job.name, job.id = %job.id, runs.added = answer.added, runs.existing = answer.existing,
        actor = caller.token_name, "Backfills a job"
    );
    Ok(answer)
}

fn answer(range: &Range, added: &[DateTime<Utc>], dry_run: bool) -> v1::BackfillJobResponse {
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    v1::BackfillJobResponse {
        added: count(added.len()),
        existing: count(range.instants.len().saturating_sub(added.len())),
        first: added.first().copied().map(time::timestamp),
        last: added.last().copied().map(time::timestamp),
        dry_run,
    }
}
