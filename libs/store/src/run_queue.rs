//! What waits to be handed out, and the claim that takes it.
//!
//! A claim is one pipelined batch in one transaction: choose the tenants and lock those with limits, hold the sessions,
//! take the rows, draw the tokens and read what was taken. No parameter depends on an earlier answer, so that locks are held
//! for the statements alone and not for round trips. What is due but may not start now is moved out of the way by the
//! same statement.

use crate::job_revision::Key;
use crate::run_lease::assignment::{self, Assignment};
use crate::{Store, StoreError, sql};
use chrono::{DateTime, Utc};
use futures_util::future::try_join4;
use model::ids::{ClaimId, DispatcherId, Generation, JobId, RunKey, SessionId, TenantId};
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// A free slot of a connected worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Whose.
    pub session: SessionId,
    /// The connection through which the run would go.
    pub connection: i32,
}

/// Whose runs a claim looks at, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tenants {
    /// One tenant's.
    Only(TenantId),
    /// Every tenant's, beginning with the one after this.
    After(TenantId),
    /// Every tenant's, beginning with this one, which gets what was left of its share: so many runs.
    Resuming(TenantId, i64),
}

impl Tenants {
    /// Spans of identities, each after the one and through the other.
    fn spans(self) -> (Vec<Uuid>, Vec<Uuid>) {
        match self {
            Self::Only(TenantId(tenant)) => (vec![before(tenant)], vec![tenant]),
            Self::After(TenantId(cursor)) => (vec![cursor, Uuid::nil()], vec![Uuid::max(), cursor]),
            Self::Resuming(TenantId(cursor), _) => {
                (vec![before(cursor), Uuid::nil()], vec![Uuid::max(), before(cursor)])
            }
        }
    }

    /// The tenant whose share was cut short, and what is left of it.
    const fn credit(self) -> (Option<Uuid>, Option<i64>) {
        match self {
            Self::Resuming(TenantId(tenant), credit) => (Some(tenant), Some(credit)),
            Self::Only(_) | Self::After(_) => (None, None),
        }
    }
}

const fn before(id: Uuid) -> Uuid {
    Uuid::from_u128(id.as_u128().saturating_sub(1))
}

/// What a claim asks for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its name.
    pub claim: ClaimId,
    /// Who asks.
    pub dispatcher: DispatcherId,
    /// At most one run for each.
    pub slots: Vec<Slot>,
    /// The queues that all of the slots serve.
    pub queues: Vec<String>,
    /// Whose runs.
    pub tenants: Tenants,
    /// Nothing is due before; see [`floor`].
    pub floor: DateTime<Utc>,
    /// A clock that shows more has jumped, and nothing is taken by it.
    pub latest: Option<DateTime<Utc>>,
    /// At most so many rows of one tenant for each unit of its weight.
    pub quantum: i64,
}

/// What a claim did. Nothing of it is true before the transaction has committed.
#[derive(Debug, Clone, Default)]
pub struct Claimed {
    /// False when the database is not the one that the epoch was made for: nothing was taken.
    pub identified: bool,
    /// False when the clock showed more than [`Request::latest`]: nothing was taken.
    pub believed: bool,
    /// What the workers are to be told.
    pub assignments: Vec<Assignment>,
    /// How many those are.
    pub started: i64,
    /// Occurrences that ended because an earlier run of their job is open.
    pub skipped: i64,
    /// Runs that wait for an earlier one of their job.
    pub postponed: i64,
    /// Those of them that are to wait aside: see [`crate::run_parked::park`].
    pub parking: Vec<RunKey>,
    /// How many tenants had due rows, [`TENANTS_MAX`] at most.
    pub tenants: i64,
    /// How many queues of them had, but for tenants that another claim held.
    pub lanes: i64,
    /// How many queues of tenants were at a limit.
    pub held: i64,
    /// The last tenant that was served.
    pub last_tenant: Option<TenantId>,
    /// What was left of its share when the slots ran out.
    pub credit: i64,
}

/// A claim serves at most so many tenants.
pub const TENANTS_MAX: i64 = 64;

impl Claimed {
    /// True when rows were moved, so that there may be more.
    pub fn moved(&self) -> bool {
        self.started > 0 || self.skipped > 0 || self.postponed > 0
    }

    /// Where the next claim of the same queues goes on, so that every tenant has its turn.
    pub fn next(&self) -> Option<Tenants> {
        let tenant = self.last_tenant?;
        Some(if self.credit > 0 { Tenants::Resuming(tenant, self.credit) } else { Tenants::After(tenant) })
    }
}

/// Takes due runs for free slots. A slot whose session has ended, moved on or reconnected takes nothing.
///
/// # Errors
/// [`StoreError`]; after a failed commit the outcome is unknown: the sessions' leases tell.
pub async fn claim(store: &Store, request: &Request) -> Result<Claimed, StoreError> {
    let sessions: Vec<Uuid> = request.slots.iter().map(|slot| slot.session.0).collect();
    let connections: Vec<i32> = request.slots.iter().map(|slot| slot.connection).collect();
    let mut distinct = sessions.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let (after, through) = request.tenants.spans();
    let (resuming, credit) = request.tenants.credit();
    let claim = request.claim.0;

    let mut client = store.client("claim runs").await?;
    let tx = client.begin("claim runs").await?;
    let serve = tx.prepare(sql!("tenant/serve.sql")).await?;
    let hold = tx.prepare(sql!("worker_session/hold.sql")).await?;
    let take = tx.prepare(sql!("run_queue/claim.sql")).await?;
    let draw = tx.prepare(sql!("run_lease/draw_tokens.sql")).await?;
    let (due, _, took, assignments) = try_join4(
        tx.query_prepared(&serve, &[&after, &through, &request.queues, &request.floor]),
        tx.query_prepared(&hold, &[&distinct]),
        tx.query_prepared(
            &take,
            &[
                &sessions,
                &connections,
                &request.dispatcher.0,
                &claim,
                &request.queues,
                &request.floor,
                &request.quantum,
                &resuming,
                &credit,
                &request.latest,
            ],
        ),
        tx.query_prepared(&draw, &[&claim, &distinct]),
    )
    .await?;
    let claimed = Claimed {
        assignments: assignments.iter().map(assignment::read).collect::<Result<_, _>>()?,
        tenants: due.first().map_or(0, |row| row.get("due")),
        ..took.first().map(summary).unwrap_or_default()
    };
    tx.commit().await?;
    Ok(claimed)
}

fn summary(row: &Row) -> Claimed {
    let jobs: Vec<Uuid> = row.get::<_, Option<_>>("parking_jobs").unwrap_or_default();
    let instants: Vec<DateTime<Utc>> = row.get::<_, Option<_>>("parking_instants").unwrap_or_default();
    Claimed {
        identified: row.get("identified"),
        believed: row.get("believed"),
        assignments: Vec::new(),
        started: row.get("started"),
        skipped: row.get("skipped"),
        postponed: row.get("postponed"),
        parking: jobs
            .into_iter()
            .zip(instants)
            .map(|(job, scheduled_for)| RunKey::new(JobId(job), scheduled_for))
            .collect(),
        tenants: 0,
        lanes: row.get("lanes"),
        held: row.get("held"),
        last_tenant: row.get::<_, Option<Uuid>>("last_tenant").map(TenantId),
        credit: row.get::<_, Option<_>>("credit").unwrap_or(0),
    }
}

/// When there is something to claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Due {
    /// A row is due already; others may be at it.
    pub overdue: bool,
    /// Until the next one becomes due; none when none does within the horizon.
    pub wait: Option<Duration>,
}

/// When there is something to claim in `queues`, of `tenants` (none: of every tenant), not before `floor` and not later
/// than `horizon` from now.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn next_due(
    store: &Store,
    queues: &[String],
    tenants: Option<&[TenantId]>,
    floor: DateTime<Utc>,
    horizon: Duration,
) -> Result<Due, StoreError> {
    let tenants: Option<Vec<Uuid>> = tenants.map(|tenants| tenants.iter().map(|tenant| tenant.0).collect());
    let horizon = i64::try_from(horizon.as_millis()).unwrap_or(i64::MAX);
    let client = store.client("look for the next due run").await?;
    let rows = client
        .query(
            "look for the next due run",
            sql!("run_queue/next_due.sql"),
            &[&queues, &tenants, &floor, &horizon],
        )
        .await?;
    Ok(rows.first().map_or_else(Due::default, |row| Due {
        overdue: row.get("overdue"),
        wait: row
            .get::<_, Option<i64>>("wait_ms")
            .map(|wait| Duration::from_millis(u64::try_from(wait).unwrap_or(0))),
    }))
}

/// The instant before which nothing in `queues` is due, never above now − 10 s, given that nothing is due before `since`:
/// claims that carry it step over the index entries of rows that are long gone. To look from an older floor on costs
/// little; now and then it should be the beginning of time, for a row that should not be there.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn floor(
    store: &Store,
    queues: &[String],
    since: DateTime<Utc>,
) -> Result<DateTime<Utc>, StoreError> {
    let client = store.client("look for the oldest queued run").await?;
    let rows = client
        .query("look for the oldest queued run", sql!("run_queue/floor.sql"), &[&queues, &since])
        .await?;
    Ok(rows.first().map_or(since, |row| row.get("floor")))
}

/// What becomes due, looked at ahead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coming {
    /// The instant through which was looked.
    pub through: DateTime<Utc>,
    /// What each of the runs executes; several may be alike.
    pub keys: Vec<Key>,
}

/// What the runs execute that become due in `queues`, of `tenants` (none: of every tenant), after `since` (none: after
/// now) and within `ahead` from now: `limit` runs at most.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn coming(
    store: &Store,
    queues: &[String],
    tenants: Option<&[TenantId]>,
    since: Option<DateTime<Utc>>,
    ahead: Duration,
    limit: i64,
) -> Result<Coming, StoreError> {
    let tenants: Option<Vec<Uuid>> = tenants.map(|tenants| tenants.iter().map(|tenant| tenant.0).collect());
    let ahead = i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX);
    let client = store.client("look ahead").await?;
    let values: [&(dyn ToSql + Sync); 5] = [&queues, &tenants, &since, &ahead, &limit];
    let rows = client.query("look ahead", sql!("run_queue/coming.sql"), &values).await?;
    let row = rows.first().ok_or_else(|| StoreError::Corrupt {
        what: "run_queue/coming.sql",
        problem: "no row: it answers one".to_owned(),
    })?;
    let jobs: Vec<Uuid> = row.get::<_, Option<_>>("jobs").unwrap_or_default();
    let generations: Vec<i64> = row.get::<_, Option<_>>("generations").unwrap_or_default();
    let keys = jobs.into_iter().map(JobId).zip(generations.into_iter().map(Generation)).collect();
    Ok(Coming { through: row.get("through"), keys })
}

/// How many due runs a limit of their tenant or of their queue keeps back, 100,000 at most.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn held(store: &Store) -> Result<u64, StoreError> {
    let client = store.client("count the runs that limits hold").await?;
    let rows = client.query("count the runs that limits hold", sql!("run_queue/held.sql"), &[]).await?;
    Ok(rows.first().map_or(0, |row| u64::try_from(row.get::<_, i64>("runs")).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tenant_is_in_one_span_and_the_one_after_the_cursor_comes_first() {
        let cursor = Uuid::from_u128(7);
        let (after, through) = Tenants::After(TenantId(cursor)).spans();
        assert_eq!(after, [cursor, Uuid::nil()]);
        assert_eq!(through, [Uuid::max(), cursor]);
        let (after, through) = Tenants::Only(TenantId(cursor)).spans();
        assert_eq!((after, through), (vec![Uuid::from_u128(6)], vec![cursor]));
        let (after, through) = Tenants::Resuming(TenantId(cursor), 3).spans();
        assert_eq!(after, [Uuid::from_u128(6), Uuid::nil()]);
        assert_eq!(through, [Uuid::max(), Uuid::from_u128(6)]);
    }

    #[test]
    fn a_claim_that_ran_out_of_slots_goes_on_with_what_was_left_of_the_share() {
        let tenant = Some(TenantId(Uuid::from_u128(7)));
        let next = |credit| Claimed { last_tenant: tenant, credit, ..Claimed::default() }.next();
        assert_eq!(next(0), tenant.map(Tenants::After));
        assert_eq!(next(2), tenant.map(|tenant| Tenants::Resuming(tenant, 2)));
        assert_eq!(Claimed::default().next(), None);
    }
}
