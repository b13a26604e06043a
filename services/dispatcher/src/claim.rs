//! Takes due runs for the free slots of connected workers and hands them over.
//!
//! The loop sleeps until the next row becomes due, never longer than a second, and claims again at once while it gets
//! something: a little first, so that the first run need not wait for the last and other dispatchers have their part,
//! then more and more. Crash window, "leased, not sent": the run is in the database and the worker knows nothing; the
//! comparison of leases sends it, or another dispatcher's reap gives it on. Deliberately not here: what a claim may
//! take, which one statement decides.

use crate::park;
use crate::pause::Pause;
use crate::roster::Group;
use crate::shared::Shared;
use crate::steady;
use chrono::{DateTime, Utc};
use model::ids::{ClaimId, TenantId};
use service::health::Beat;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use store::run_lease::assignment::Assignment;
use store::run_queue::{self, Claimed, Due, Request, TENANTS_MAX, Tenants};
use store::{Retry, StoreError};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// While due rows are at hand that somebody else has locked, or may not start.
const SLEEP_OVERDUE: Duration = Duration::from_millis(100);
/// After a failure, and after many in a row.
const SLEEP_FAILED: Duration = Duration::from_millis(250);
const SLEEP_FAILED_MAX: Duration = Duration::from_secs(2);
/// A claim after a rest takes at most so many runs, and each that took all it could is followed by one of so many times more:
/// of 500 due at two dispatchers, both take a half at a time.
const BATCH_FIRST: usize = 256;
const BATCH_GROWTH: usize = 4;
/// Where claims begin.
const FIRST: Tenants = Tenants::After(TenantId(Uuid::nil()));
/// How long a floor is good, and how long it is raised from where it was.
const FLOOR_AGE_MAX: Duration = Duration::from_secs(5);
const FLOOR_LOOK_MAX: Duration = Duration::from_secs(30);
/// While more tenants have due rows than one claim serves, and those that it served could start nothing.
const SLEEP_CROWDED: Duration = Duration::from_millis(20);

/// Claims until `stop`.
pub async fn run(shared: &Shared, beat: Beat, stop: CancellationToken) {
    let mut claimer = Claimer::new(shared);
    let mut pause = Pause::new(SLEEP_FAILED, SLEEP_FAILED_MAX);
    while !stop.is_cancelled() {
        beat.beat();
        let sleep = match claimer.turn().await {
            Ok(sleep) => {
                pause.succeeded();
                sleep
            }
            Err(error) => {
                shared.metrics.failed("claim");
                tracing::warn!(error = service::runtime::chain(&error), "Could not claim runs");
                if error.retry() == Retry::AtOnce {
                    Sleep::For(Duration::ZERO)
                } else {
                    Sleep::For(pause.failed())
                }
            }
        };
        if sleep != Sleep::For(Duration::ZERO) {
            shared.rush().claimed(false, Instant::now());
        }
        sleep.wait(shared, &stop).await;
    }
    shared.rush().claimed(false, Instant::now());
    beat.done();
}

/// Until when the loop has nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sleep {
    /// So long, whatever slots become free: nothing is due before.
    For(Duration),
    /// Until a slot becomes free, or so long.
    ForSlot(Duration),
}

impl Sleep {
    async fn wait(self, shared: &Shared, stop: &CancellationToken) {
        let (limit, for_slot) = match self {
            Self::For(limit) => (limit, false),
            Self::ForSlot(limit) => (limit, true),
        };
        if limit.is_zero() {
            return tokio::task::yield_now().await;
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = shared.work.notified() => {}
            () = shared.slots.notified(), if for_slot => {}
            () = tokio::time::sleep(limit) => {}
        }
    }
}

struct Claimer<'a> {
    shared: &'a Shared,
    /// A row was due, or is by now: claim without looking first.
    eager: bool,
    /// Runs that the next claim takes at most.
    batch: usize,
    /// Where the claims for every tenant go on, by the queues of their group.
    rotation: HashMap<Vec<String>, Tenants>,
    floor: Option<Floor>,
}

/// Nothing is due before, in these queues.
struct Floor {
    at: DateTime<Utc>,
    queues: Vec<String>,
    /// In full.
    looked: Instant,
    raised: Instant,
}

impl<'a> Claimer<'a> {
    fn new(shared: &'a Shared) -> Self {
        let batch = first_batch(shared.config.claim_batch_max as usize);
        Self { shared, eager: false, batch, rotation: HashMap::new(), floor: None }
    }

    /// A look for due rows, and one claim for each group with a free slot when there are any.
    async fn turn(&mut self) -> Result<Sleep, StoreError> {
        let shared = self.shared;
        if !shared.epoch_ready() || !steady::may_go_on(shared).await? {
            return Ok(Sleep::For(SLEEP_MAX));
        }
        let (groups, sessions) = {
            let roster = shared.roster();
            (roster.groups(self.batch), roster.count())
        };
        let free = groups.iter().map(|group| group.free).sum();
        shared.metrics.attached(sessions, free);
        if free == 0 {
            return Ok(Sleep::ForSlot(SLEEP_MAX));
        }
        let floor = self.floor(&groups).await?;
        if !std::mem::take(&mut self.eager) {
            let due = self.next_due(&groups, floor).await?;
            if !due.overdue {
                return Ok(self.sleep(due, &groups, Rest::default()));
            }
        }
        let (mut moved, mut full, mut rest) = (false, false, Rest::default());
        for group in groups.iter().filter(|group| !group.slots.is_empty()) {
            let claimed = self.claim(group, floor).await?;
            moved |= claimed.moved();
            full |= usize::try_from(claimed.started).is_ok_and(|started| started >= self.batch);
            rest.held |= claimed.held > 0;
            rest.crowded |= claimed.tenants >= TENANTS_MAX;
            park::park(shared, &claimed.parking).await;
        }
        if moved {
            shared.rush().claimed(full, Instant::now());
            self.eager = true;
            if full {
                self.batch = next_batch(self.batch, shared.config.claim_batch_max as usize);
            }
            return Ok(Sleep::For(Duration::ZERO));
        }
        let due = self.next_due(&groups, floor).await?;
        Ok(self.sleep(due, &groups, rest))
    }

    fn sleep(&mut self, due: Due, groups: &[Group], rest: Rest) -> Sleep {
        self.batch = first_batch(self.shared.config.claim_batch_max as usize);
        self.eager = !due.overdue && due.wait.is_some_and(|wait| wait <= SLEEP_MAX);
        sleep_until(due, Rest { full: groups.iter().any(|group| group.slots.is_empty()), ..rest })
    }

    async fn claim(&mut self, group: &Group, floor: DateTime<Utc>) -> Result<Claimed, StoreError> {
        let shared = self.shared;
        let rotation = self.rotation.get(&group.queues).copied();
        let request = Request {
            claim: ClaimId::random(),
            dispatcher: shared.id,
            slots: group.slots.clone(),
            queues: group.queues.clone(),
            tenants: group.tenant.map(Tenants::Only).or(rotation).unwrap_or(FIRST),
            floor,
            latest: shared.steadiness.latest(Instant::now()),
            quantum: i64::try_from(group.slots.len()).unwrap_or(i64::MAX),
        };
        let started = Instant::now();
        let _claiming = shared.claiming.lock().await;
        let mut claimed = match run_queue::claim(&shared.store, &request).await {
            Ok(claimed) => claimed,
            Err(error) => {
                // Perhaps it has committed all the same: the leases tell.
                shared.reconcile.notify_one();
                return Err(error);
            }
        };
        if !claimed.identified {
            tracing::error!("The database is not the one that the epoch was made for: claiming nothing");
            shared.set_epoch_ready(false);
            return Ok(claimed);
        }
        if !claimed.believed {
            // The next look says more, and stops everything that goes by the clock.
            tracing::warn!("The database's clock jumped between the look and the claim: claiming nothing");
            return Ok(claimed);
        }
        self.hand_out(std::mem::take(&mut claimed.assignments)).await?;
        shared.metrics.claimed(started.elapsed(), &claimed);
        if group.tenant.is_none()
            && let Some(next) = claimed.next()
        {
            self.rotation.insert(group.queues.clone(), next);
        }
        Ok(claimed)
    }

    async fn hand_out(&self, assignments: Vec<Assignment>) -> Result<(), StoreError> {
        let shared = self.shared;
        let handouts = match shared.definitions.handouts(&shared.store, assignments).await {
            Ok(handouts) => handouts,
            Err(error) => {
                // They are leased all the same: the comparison of leases sends them.
                shared.reconcile.notify_one();
                return Err(error);
            }
        };
        let mut roster = shared.roster();
        handouts.iter().for_each(|handout| roster.deliver(handout));
        Ok(())
    }

    /// The remembered floor, raised when it is old, and looked up in full when it is older or other queues are served.
    async fn floor(&mut self, groups: &[Group]) -> Result<DateTime<Utc>, StoreError> {
        let queues = queues_of(groups);
        let now = Instant::now();
        let known = self.floor.take().filter(|floor| floor.queues == queues);
        let (since, looked) = match &known {
            Some(floor) if now.duration_since(floor.raised) < FLOOR_AGE_MAX => {
                let at = floor.at;
                self.floor = known;
                return Ok(at);
            }
            Some(floor) if now.duration_since(floor.looked) < FLOOR_LOOK_MAX => (floor.at, floor.looked),
            Some(_) | None => (DateTime::UNIX_EPOCH, now),
        };
        let at = run_queue::floor(&self.shared.store, &queues, since).await?;
        self.rotation.retain(|of, _| groups.iter().any(|group| group.queues == *of));
        self.floor = Some(Floor { at, queues, looked, raised: now });
        Ok(at)
    }

    async fn next_due(&self, groups: &[Group], floor: DateTime<Utc>) -> Result<Due, StoreError> {
        let tenants: Option<Vec<TenantId>> = groups.iter().map(|group| group.tenant).collect();
        run_queue::next_due(&self.shared.store, &queues_of(groups), tenants.as_deref(), floor, SLEEP_MAX)
            .await
    }
}

fn first_batch(max: usize) -> usize {
    BATCH_FIRST.min(max)
}

/// After a claim that took all of `batch`.
fn next_batch(batch: usize, max: usize) -> usize {
    batch.saturating_mul(BATCH_GROWTH).min(max)
}

fn queues_of(groups: &[Group]) -> Vec<String> {
    let mut queues: Vec<String> = groups.iter().flat_map(|group| group.queues.iter().cloned()).collect();
    queues.sort_unstable();
    queues.dedup();
    queues
}

/// Why due rows stayed where they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Rest {
    /// Some group has no free slot: what is due may be its.
    full: bool,
    /// A tenant or a queue is at its limit: a run that ends makes room.
    held: bool,
    /// There may be tenants that the claims have not come to.
    crowded: bool,
}

fn sleep_until(due: Due, rest: Rest) -> Sleep {
    let next = due.wait.unwrap_or(SLEEP_MAX).clamp(Duration::from_millis(1), SLEEP_MAX);
    let overdue = next.min(if rest.crowded { SLEEP_CROWDED } else { SLEEP_OVERDUE });
    match (due.overdue, rest.full || rest.held) {
        (false, _) => Sleep::For(next),
        (true, false) => Sleep::For(overdue),
        (true, true) => Sleep::ForSlot(overdue),
    }
}

#[cfg(test)]
mod tests;
