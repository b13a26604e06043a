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
}

/// What stands in a picked run's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Nothing: no other run of the job holds a lease that excludes it.
    Free,
    /// Another run of the job does.
    Blocked,
    /// Another run of the job does, and a backlog of the job is being worked off.
    Draining,
}

/// Decides for one picked run.
///
/// Only occurrences of the schedule are skipped by `FORBID`: a backlog row was promised to run, and a retry holds
/// its lease already. While a backlog drains not even those: they join its end.
pub fn release(overlap: OverlapPolicy, origin: Origin, way: Way) -> Release {
    match (overlap, origin, way) {
        (_, _, Way::Free) | (OverlapPolicy::Allow, ..) => Release::Start,
        (OverlapPolicy::Forbid, Origin::Schedule, Way::Blocked) => {
            Release::End(State::Skipped, Reason::Overlap)
        }
        _ => Release::Wait,
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
}
