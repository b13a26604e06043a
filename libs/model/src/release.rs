//! What a claim does with a due run that meets an earlier run of its job. The claim statement applies the same
//! table in SQL, because it must decide while it holds the rows; a test holds the two against each other.

use crate::policy::OverlapPolicy;
use crate::run::{Origin, Reason, State};

/// What becomes of a picked run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// It gets a lease and goes to a worker.
    Start,
    /// It ends without having started.
    End(State, Reason),
    /// It stays in the queue and is looked at again shortly: it may not be skipped, and may not start yet.
    Wait,
    /// It waits aside until the open run has ended; the newest of a job does, what it displaces ends as superseded.
    Park,
    /// As [`Release::Park`], and the open run is to stop.
    Replace,
}

/// What stands in a picked run's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Nothing: no other run of the job holds a lease that excludes it.
    Free,
    /// Another run of the job does.
    Blocked,
    /// Another run of the job does, and a backlog of the job is being worked off, or was when this run came due.
    Draining,
}

/// Decides for one picked run.
///
/// Only occurrences of the schedule are skipped by `FORBID`: a backlog row was promised to run, and a retry holds
/// its lease already. While a backlog drains not even those: they wait for a gap, or follow it. A backlog's rows wait in
/// the queue, because there are many of them and one is out at a time; a person's run waits aside whatever the policy
/// says, and replaces nothing of a backlog.
pub fn release(overlap: OverlapPolicy, origin: Origin, way: Way) -> Release {
    match (overlap, origin, way) {
        (_, _, Way::Free) | (OverlapPolicy::Allow, ..) => Release::Start,
        (_, Origin::CatchUp | Origin::Backfill, _) | (_, Origin::Schedule, Way::Draining) => Release::Wait,
        (OverlapPolicy::Forbid, Origin::Schedule, Way::Blocked) => {
            Release::End(State::Skipped, Reason::Overlap)
        }
        (OverlapPolicy::Replace, _, Way::Blocked) => Release::Replace,
        (OverlapPolicy::Queue, _, Way::Blocked) | (_, Origin::Manual, _) => Release::Park,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbid_skips_an_occurrence_but_never_a_backlog_row() {
        let skip = Release::End(State::Skipped, Reason::Overlap);
        assert_eq!(release(OverlapPolicy::Forbid, Origin::Schedule, Way::Blocked), skip);
        assert_eq!(release(OverlapPolicy::Forbid, Origin::CatchUp, Way::Blocked), Release::Wait);
        assert_eq!(release(OverlapPolicy::Forbid, Origin::Schedule, Way::Draining), Release::Wait);
        assert_eq!(release(OverlapPolicy::Forbid, Origin::Schedule, Way::Free), Release::Start);
    }

    #[test]
    fn allow_starts_beside_others() {
        assert_eq!(release(OverlapPolicy::Allow, Origin::Schedule, Way::Blocked), Release::Start);
    }

    #[test]
    fn a_waiting_run_is_parked_and_a_replacing_one_stops_the_other() {
        assert_eq!(release(OverlapPolicy::Queue, Origin::Schedule, Way::Blocked), Release::Park);
        assert_eq!(release(OverlapPolicy::Replace, Origin::Schedule, Way::Blocked), Release::Replace);
        assert_eq!(release(OverlapPolicy::Forbid, Origin::Manual, Way::Blocked), Release::Park);
    }

    #[test]
    fn a_backlog_is_neither_overtaken_by_the_schedule_nor_replaced() {
        for overlap in [OverlapPolicy::Forbid, OverlapPolicy::Queue, OverlapPolicy::Replace] {
            assert_eq!(release(overlap, Origin::Schedule, Way::Draining), Release::Wait);
            assert_eq!(release(overlap, Origin::CatchUp, Way::Blocked), Release::Wait);
            assert_eq!(release(overlap, Origin::Manual, Way::Draining), Release::Park);
        }
    }
}
