//! Who waits, who ends and who is to stop, as values. Pure.

use super::Holder;
use crate::run_cancel::Pending;
use model::ids::{JobId, RunKey};
use model::policy::OverlapPolicy;
use model::release::{Release, Way, release};
use model::run::{Origin, Reason};
use std::collections::{BTreeMap, BTreeSet};

/// What is locked.
#[derive(Debug, Default)]
pub(super) struct Locked {
    /// Jobs of which a backlog is worked off.
    pub(super) draining: BTreeSet<JobId>,
    /// Runs that were put off, and are in the queue still.
    pub(super) queued: Vec<Queued>,
    /// Who has the open runs of their jobs.
    pub(super) open: Vec<Holder>,
    /// What is parked of their jobs.
    pub(super) parked: Vec<RunKey>,
}

/// A run that was put off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queued {
    pub(super) key: RunKey,
    pub(super) origin: Origin,
    pub(super) overlap: OverlapPolicy,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// To be parked, the newest run of its job.
    pub(super) park: Vec<RunKey>,
    /// To end: a newer one waits in their place.
    pub(super) supersede: Vec<RunKey>,
    /// To be asked to stop.
    pub(super) replace: Vec<Pending>,
    /// To end at once: replaced between two attempts.
    pub(super) end: Vec<Holder>,
    /// To be claimed at once: nothing stands in their way.
    pub(super) unblock: Vec<RunKey>,
}

/// Of the runs of a job that may wait, the newest does, whether it is parked already or not.
pub(super) fn decide(locked: &Locked) -> Decision {
    let mut decision = Decision::default();
    let mut by_job: BTreeMap<JobId, Vec<Queued>> = BTreeMap::new();
    for queued in &locked.queued {
        by_job.entry(queued.key.job_id).or_default().push(*queued);
    }
    for (job, queued) in by_job {
        let open: Vec<Holder> =
            locked.open.iter().filter(|holder| holder.key.job_id == job).copied().collect();
        let way = match (open.is_empty(), locked.draining.contains(&job)) {
            (true, _) => Way::Free,
            (false, false) => Way::Blocked,
            (false, true) => Way::Draining,
        };
        let parked = locked.parked.iter().find(|key| key.job_id == job).copied();
        decide_job(&mut decision, &queued, &open, way, parked);
    }
    decision
}

fn decide_job(decision: &mut Decision, queued: &[Queued], open: &[Holder], way: Way, parked: Option<RunKey>) {
    let mut waiting: Vec<RunKey> = parked.into_iter().collect();
    let mut replaces = None;
    for run in queued {
        match release(run.overlap, run.origin, way) {
            Release::Start => decision.unblock.push(run.key),
            Release::Park => waiting.push(run.key),
            Release::Replace => {
                waiting.push(run.key);
                replaces = replaces.max(Some(run.key));
            }
            // The claim's to end, or to try again.
            Release::End(..) | Release::Wait => {}
        }
    }
    waiting.sort_unstable();
    let Some(newest) = waiting.pop() else { return };
    if parked != Some(newest) {
        decision.park.push(newest);
    }
    decision.supersede.extend(waiting);
    // An older run does not replace on behalf of a newer one that only waits.
    if replaces == Some(newest) {
        replace(decision, open);
    }
}

fn replace(decision: &mut Decision, open: &[Holder]) {
    for holder in open {
        match holder.session {
            None => decision.end.push(*holder),
            Some(session) if !holder.asked => decision.replace.push(Pending {
                session,
                key: holder.key,
                attempt: holder.attempt,
                token: holder.token,
                reason: Reason::Replaced,
            }),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{DateTime, TimeDelta};
    use model::ids::SessionId;
    use model::token::Token;

    fn key(job: JobId, second: i64) -> RunKey {
        RunKey::new(job, DateTime::UNIX_EPOCH + TimeDelta::seconds(second))
    }

    fn queued(job: JobId, second: i64, overlap: OverlapPolicy) -> Queued {
        Queued { key: key(job, second), origin: Origin::Schedule, overlap }
    }

    fn open(job: JobId, session: Option<SessionId>) -> Holder {
        let token = Token::from_i64(1 << 44).expect("positive");
        Holder { key: key(job, 0), attempt: 1, token, session, asked: false }
    }

    #[test]
    fn the_newest_waits_and_the_others_end() {
        let job = JobId::random();
        let locked = Locked {
            queued: vec![queued(job, 3, OverlapPolicy::Queue), queued(job, 2, OverlapPolicy::Queue)],
            open: vec![open(job, Some(SessionId::random()))],
            parked: vec![key(job, 1)],
            ..Locked::default()
        };
        let decision = decide(&locked);
        assert_eq!(decision.park, [key(job, 3)]);
        assert_eq!(decision.supersede, [key(job, 1), key(job, 2)]);
        assert_eq!((decision.replace.len(), decision.end.len(), decision.unblock.len()), (0, 0, 0));
    }

    #[test]
    fn one_that_is_older_than_the_parked_one_ends() {
        let job = JobId::random();
        let locked = Locked {
            queued: vec![queued(job, 2, OverlapPolicy::Replace)],
            open: vec![open(job, Some(SessionId::random()))],
            parked: vec![key(job, 3)],
            ..Locked::default()
        };
        let decision = decide(&locked);
        assert_eq!((decision.park, decision.supersede), (vec![], vec![key(job, 2)]));
        assert_eq!(decision.replace, []);
    }

    #[test]
    fn a_run_whose_way_is_free_is_left_to_the_next_claim() {
        let job = JobId::random();
        let locked = Locked { queued: vec![queued(job, 2, OverlapPolicy::Queue)], ..Locked::default() };
        assert_eq!(decide(&locked), Decision { unblock: vec![key(job, 2)], ..Decision::default() });
    }

    #[test]
    fn to_replace_is_to_ask_a_worker_once_and_to_end_what_waits_for_a_retry() {
        let (held, asked, between) = (JobId::random(), JobId::random(), JobId::random());
        let queued = [held, asked, between].map(|job| queued(job, 2, OverlapPolicy::Replace));
        let session = SessionId::random();
        let locked = Locked {
            queued: queued.to_vec(),
            open: vec![
                open(held, Some(session)),
                Holder { asked: true, ..open(asked, Some(session)) },
                open(between, None),
            ],
            ..Locked::default()
        };
        let decision = decide(&locked);
        assert_eq!(decision.park.len(), 3);
        assert_eq!(decision.replace.iter().map(|pending| pending.key.job_id).collect::<Vec<_>>(), [held]);
        assert_eq!(decision.end, [open(between, None)]);
    }

    #[test]
    fn nothing_of_a_backlog_is_replaced() {
        let job = JobId::random();
        let locked = Locked {
            draining: BTreeSet::from([job]),
            queued: vec![queued(job, 2, OverlapPolicy::Replace)],
            open: vec![open(job, Some(SessionId::random()))],
            ..Locked::default()
        };
        assert_eq!(decide(&locked), Decision::default());
    }
}
