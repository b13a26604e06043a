//! Who belongs to which run, from what was seen of the agent's descendants. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// A run whose leader was started, until what it left behind was ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    number: u64,
    token: String,
}

/// A process: its number may be another one's later, its start tells them apart.
pub(super) type Who = (i32, u64);

/// What is known of the agent's descendants.
#[derive(Debug)]
pub(super) struct Family {
    /// The process has no children but leaders and orphans of runs.
    pub alone: bool,
    /// Leaders that are not reaped yet.
    pub leaders: BTreeSet<i32>,
    runs: BTreeSet<u64>,
    started: u64,
    /// Seen below a leader, or below somebody who is known to be its run's.
    known: BTreeMap<Who, u64>,
    /// Strangers of whom nothing is known: the runs that may have started them.
    suspects: BTreeMap<Who, BTreeSet<u64>>,
}

impl Family {
    /// Of nobody yet.
    pub const fn new() -> Self {
        Self {
            alone: false,
            leaders: BTreeSet::new(),
            runs: BTreeSet::new(),
            started: 0,
            known: BTreeMap::new(),
            suspects: BTreeMap::new(),
        }
    }

    /// A run's leader was started.
    pub fn begin(&mut self, leader: i32, token: String) -> Run {
        self.started += 1;
        self.leaders.insert(leader);
        self.runs.insert(self.started);
        Run { number: self.started, token }
    }

    /// Somebody was seen below the run's leader.
    pub fn know(&mut self, run: &Run, who: Who) {
        self.suspects.remove(&who);
        self.known.insert(who, run.number);
    }

    /// Remembers who may have started a stranger, if nothing says it.
    pub fn notice(&mut self, who: Who, marked: bool) {
        if self.alone && !marked && !self.known.contains_key(&who) {
            self.suspects.entry(who).or_insert_with(|| self.runs.clone());
        }
    }

    /// Whether a stranger ends with this run.
    pub fn ends_with(&mut self, run: &Run, who: Who, mark: Option<&str>) -> bool {
        if let Some(mark) = mark {
            return mark == run.token;
        }
        if let Some(known) = self.known.get(&who) {
            return *known == run.number;
        }
        self.notice(who, false);
        let Some(suspects) = self.suspects.get_mut(&who) else { return false };
        suspects.remove(&run.number);
        // Those that have ended since have left it to the others.
        suspects.retain(|run| self.runs.contains(run));
        suspects.is_empty()
    }

    /// Nothing of the run is left; these strangers are there.
    pub fn ended(&mut self, run: &Run, strangers: &[Who]) {
        self.runs.remove(&run.number);
        self.known.retain(|_, known| *known != run.number);
        self.suspects.retain(|who, _| strangers.contains(who));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: Who = (7, 1);

    fn family() -> (Family, Run, Run) {
        let mut family = Family { alone: true, ..Family::new() };
        let (one, other) = (family.begin(1, "1001".into()), family.begin(2, "1002".into()));
        (family, one, other)
    }

    #[test]
    fn a_marked_stranger_ends_with_the_run_that_it_names() {
        let (mut family, one, other) = family();
        assert!(family.ends_with(&one, WHO, Some("1001")));
        assert!(!family.ends_with(&other, WHO, Some("1001")));
        assert!(!family.ends_with(&one, WHO, Some("999")), "not one of ours");
    }

    #[test]
    fn one_that_was_seen_below_a_leader_ends_with_that_run_whatever_it_has_cleared() {
        let (mut family, one, other) = family();
        family.know(&one, WHO);
        assert!(!family.ends_with(&other, WHO, None));
        assert!(family.ends_with(&one, WHO, None));
        assert!(!family.ends_with(&one, (7, 2), None), "its number is another one's by now");
    }

    #[test]
    fn one_of_whom_nothing_is_known_ends_with_the_last_run_that_may_have_started_it() {
        let (mut family, one, other) = family();
        assert!(!family.ends_with(&one, WHO, None), "the other may need it");
        family.ended(&one, &[WHO]);
        let later = family.begin(3, "1003".into());
        assert!(!family.ends_with(&later, WHO, None), "not ended by one that came after it");
        assert!(family.ends_with(&other, WHO, None));
    }

    #[test]
    fn a_run_alone_leaves_nobody_behind() {
        let mut family = Family { alone: true, ..Family::new() };
        let run = family.begin(1, "1001".into());
        assert!(family.ends_with(&run, WHO, None));
    }

    #[test]
    fn what_somebody_else_in_the_process_started_is_left_alone() {
        let mut family = Family::new();
        let run = family.begin(1, "1001".into());
        assert!(!family.ends_with(&run, WHO, None));
        family.know(&run, WHO);
        assert!(family.ends_with(&run, WHO, None), "but not what was seen below a leader");
    }

    #[test]
    fn nothing_is_remembered_of_those_that_are_gone() {
        let (mut family, one, other) = family();
        family.notice(WHO, false);
        family.know(&one, (8, 1));
        family.ended(&one, &[]);
        family.ended(&other, &[]);
        assert!(family.runs.is_empty() && family.known.is_empty() && family.suspects.is_empty());
    }
}
