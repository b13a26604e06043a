//! Shows each second that this dispatcher lives, and misses those that do not: its own silent workers, and the workers
//! of dispatchers whose counters stand still.
//!
//! Invariant: nobody is missed for a reason of ours. A loop that stood still grants every worker a full lease first;
//! time without the database counts for nobody; a counter must stand still for a full lease of our own monotonic time,
//! all of it in contact with the database. Nor is anybody whose worker may rely on a list that we are not in: whoever
//! is not in etcd for long enough gives on nobody of another dispatcher.

use crate::peers::LIST_AGE_MAX;
use crate::reap;
use crate::shared::Shared;
use crate::steady;
use election::Registration;
use model::ids::DispatcherId;
use service::health::{Beat, Condition};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use store::dispatcher::{self, Dispatcher};
use store::{StoreError, worker_session};
use tokio_util::sync::CancellationToken;

/// Between two renewals.
const EVERY: Duration = Duration::from_secs(1);
/// A renewal that takes longer has failed.
const RENEW_LIMIT: Duration = Duration::from_secs(2);
/// Between two looks for silent workers.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A loop that turns this much late stood still.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// Renews once; for the start, before workers are let in.
///
/// # Errors
/// [`StoreError`].
pub async fn renew(shared: &Shared, own: &Dispatcher) -> Result<(), StoreError> {
    let asked = Instant::now();
    let now = dispatcher::renew(&shared.store, own).await?;
    let answered = Instant::now();
    shared.contact().renewed(asked, answered);
    shared.steadiness.seen(now, asked, answered);
    Ok(())
}

/// Renews until `stop`.
pub async fn run(shared: &Shared, own: Dispatcher, beat: Beat, database: Condition, stop: CancellationToken) {
    let mut met = true;
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        beat.beat();
        tokio::select! {
            () = stop.cancelled() => break,
            _ = ticks.tick() => {}
        }
        let problem = match tokio::time::timeout(RENEW_LIMIT, renew(shared, &own)).await {
            Ok(Ok(())) => {
                if !std::mem::replace(&mut met, true) {
                    shared.contact_changed.notify_one();
                }
                database.met();
                if let Err(error) = steady::settle(shared).await {
                    shared.metrics.failed("deadlines");
                    tracing::warn!(
                        error = service::runtime::chain(&error),
                        "Could not move deadlines by a jump of the clock"
                    );
                }
                continue;
            }
            Ok(Err(error)) => service::runtime::chain(&error),
            Err(_) => format!("no answer within {RENEW_LIMIT:?}"),
        };
        met = false;
        if shared.contact().lost() {
            shared.contact_changed.notify_one();
        }
        shared.metrics.failed("renew");
        tracing::warn!(error = problem, "Could not renew the dispatcher's row: nobody is given up meanwhile");
        database.unmet(problem);
    }
    beat.done();
}

/// Notices when this process stands still, until `stop`. Waits for nothing else, so that a slow database does not look
/// like it.
pub async fn pulse(shared: &Shared, beat: Beat, stop: CancellationToken) {
    while tokio::time::timeout(LOOK_EVERY, stop.cancelled()).await.is_err() {
        beat.beat();
        stood_still(shared);
    }
    beat.done();
}

/// Grants every worker a full lease if this process stood still since the last pulse; how often it has until now.
fn stood_still(shared: &Shared) -> u64 {
    let now = Instant::now();
    let (gap, times) = shared.pulse(now, LOOK_EVERY + STOOD_STILL);
    if let Some(gap) = gap {
        let stood_ms = gap.as_millis() as u64;
        tracing::warn!(stood_ms, "Stood still: every worker has a full lease again");
        shared.roster().grant_all(now);
    }
    times
}

/// Looks for the dead until `stop`.
pub async fn watch(shared: &Shared, registration: Registration, beat: Beat, stop: CancellationToken) {
    let mut watch = Watch::default();
    let (mut seen, mut looked) = ((0, None), None::<Instant>);
    while tokio::time::timeout(LOOK_EVERY, stop.cancelled()).await.is_err() {
        beat.beat();
        // Looked at here too: after a freeze this loop may turn before the pulse does.
        let now_seen = (stood_still(shared), shared.contact().since());
        // A contact may have ended and begun again since the last look.
        if std::mem::replace(&mut seen, now_seen) != now_seen {
            watch = Watch::default();
        }
        let Some(since) = now_seen.1 else { continue };
        if !shared.steadiness.is_steady() {
            watch = Watch::default();
            continue;
        }
        let now = Instant::now();
        let result = async {
            if now.duration_since(since) >= shared.terms.lease {
                let silent = shared.roster().silent(shared.id, shared.terms.lease, now);
                if let (false, Some(leave)) = (silent.is_empty(), shared.reaping(since)) {
                    reap::reap(shared, &silent, &leave).await?;
                }
            }
            if looked.is_none_or(|looked| now.duration_since(looked) >= EVERY) {
                looked = Some(now);
                look_at_others(shared, &mut watch, since, &registration).await?;
            }
            Ok::<_, StoreError>(())
        };
        if let Err(error) = result.await {
            shared.metrics.failed("watch");
            tracing::warn!(error = service::runtime::chain(&error), "Could not look for the dead");
            watch = Watch::default();
        }
    }
    beat.done();
}

async fn look_at_others(
    shared: &Shared,
    watch: &mut Watch,
    since: Instant,
    registration: &Registration,
) -> Result<(), StoreError> {
    let asked = Instant::now();
    let counters = dispatcher::others(&shared.store, shared.id).await?;
    for dead in watch.observe(&counters, asked, Instant::now(), shared.terms.lease) {
        if !is_listed(registration.since(), Instant::now(), shared.terms.lease) {
            tracing::debug!(dispatcher = %dead, "A dispatcher seems dead: not in etcd for long enough to give on its runs");
            continue;
        }
        let Some(leave) = shared.reaping(since) else { return Ok(()) };
        let sessions = worker_session::of_dispatcher(&shared.store, dead).await?;
        let reaped = reap::reap(shared, &sessions, &leave).await?;
        tracing::warn!(dispatcher = %dead, sessions = reaped, "A dispatcher is dead: gave on the runs of its workers");
    }
    Ok(())
}

/// True when every list that a worker may still rely on has us: it asks by a list of [`LIST_AGE_MAX`] at most, and has
/// stopped a lease after it asked.
fn is_listed(registered: Option<Instant>, now: Instant, lease: Duration) -> bool {
    registered.is_some_and(|since| now.saturating_duration_since(since) >= lease + LIST_AGE_MAX)
}

/// What this process itself has seen of the others' counters.
#[derive(Debug, Default)]
struct Watch {
    seen: HashMap<DispatcherId, (i64, Instant)>,
}

impl Watch {
    /// Takes in what a question sent at `asked` and answered at `answered` found; who has stood still for `lease`.
    fn observe(
        &mut self,
        counters: &[(DispatcherId, i64)],
        asked: Instant,
        answered: Instant,
        lease: Duration,
    ) -> Vec<DispatcherId> {
        self.seen.retain(|id, _| counters.iter().any(|(other, _)| other == id));
        let mut dead = Vec::new();
        for (id, counter) in counters {
            let (known, since) = self.seen.entry(*id).or_insert((*counter, answered));
            if *known != *counter {
                (*known, *since) = (*counter, answered);
            } else if asked.saturating_duration_since(*since) >= lease {
                dead.push(*id);
            }
        }
        dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    #[test]
    fn a_counter_that_stands_still_for_a_lease_of_our_own_time_is_dead() {
        let (mut watch, id, start) = (Watch::default(), DispatcherId::random(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let mut observe = |counter, ms| watch.observe(&[(id, counter)], at(ms), at(ms), LEASE);
        assert_eq!(observe(7, 0), []);
        assert_eq!(observe(7, 14_999), []);
        assert_eq!(observe(8, 20_000), []);
        assert_eq!(observe(8, 34_999), [], "not a millisecond early");
        assert_eq!(observe(8, 35_000), [id]);
    }

    #[test]
    fn what_was_seen_before_a_loss_of_contact_does_not_count() {
        let (id, start) = (DispatcherId::random(), Instant::now());
        let later = start + Duration::from_secs(60);
        let mut before = Watch::default();
        assert_eq!(before.observe(&[(id, 7)], start, start, LEASE), []);
        let mut after = Watch::default();
        assert_eq!(after.observe(&[(id, 7)], later, later, LEASE), []);
    }
    #[test]
    fn whoever_is_in_no_list_that_may_be_relied_on_gives_nobody_on() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!is_listed(None, at(60), LEASE));
        assert!(!is_listed(Some(start), at(21), LEASE));
        assert!(is_listed(Some(start), at(22), LEASE));
    }

    #[test]
    fn the_time_that_an_answer_takes_is_nobodys_silence() {
        let (mut watch, id, start) = (Watch::default(), DispatcherId::random(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut observe =
            |counter, asked, answered| watch.observe(&[(id, counter)], at(asked), at(answered), LEASE);
        assert_eq!(observe(7, 0, 5), []);
        assert_eq!(observe(7, 19, 30), [], "asked 14 s after it was seen");
        assert_eq!(observe(8, 31, 40), []);
        assert_eq!(observe(8, 54, 60), [], "asked 14 s after it was seen to have moved");
        assert_eq!(observe(8, 55, 60), [id]);
    }

    #[test]
    fn a_dispatcher_that_was_away_is_watched_anew() {
        let (mut watch, id, start) = (Watch::default(), DispatcherId::random(), Instant::now());
        let later = start + 2 * LEASE;
        assert_eq!(watch.observe(&[(id, 7)], start, start, LEASE), []);
        assert_eq!(watch.observe(&[], start, start, LEASE), []);
        assert_eq!(watch.observe(&[(id, 7)], later, later, LEASE), []);
    }
}
