//! Which trouble of the system explains that a job had no success: found from what is known to be wrong, not guessed.

use super::{Subject, Trouble};
use crate::alert::Cause;
use std::collections::BTreeSet;

/// The troubles that are open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Open(BTreeSet<Subject>);

impl FromIterator<Subject> for Open {
    fn from_iter<T: IntoIterator<Item = Subject>>(subjects: T) -> Self {
        Self(subjects.into_iter().collect())
    }
}

impl Open {
    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the whole system has this trouble.
    fn has(&self, kind: Trouble) -> bool {
        self.has_of(kind, "")
    }

    fn has_of(&self, kind: Trouble, about: &str) -> bool {
        self.0.contains(&(kind, about.to_owned()))
    }
}

/// The trouble that explains `cause` for a run of `queue` of the tenant named `tenant`: no ticker before no dispatcher
/// before no worker; none when it is the job's own.
pub fn explain(cause: Cause, tenant: &str, queue: &str, open: &Open) -> Option<Trouble> {
    match cause {
        // Who was not planned never came to a dispatcher.
        Cause::NeverPlanned => open.has(Trouble::NoTicker).then_some(Trouble::NoTicker),
        // A retry waits in the queue as a first attempt does.
        Cause::Waiting | Cause::Retrying => {
            if open.has(Trouble::NoDispatcher) {
                return Some(Trouble::NoDispatcher);
            }
            let unserved = open.has_of(Trouble::NoWorker, &format!("{tenant}/{queue}"));
            unserved.then_some(Trouble::NoWorker)
        }
        // A worker had it: what became of it there is between the two, whatever else is wrong.
        Cause::Running
        | Cause::SucceededLate
        | Cause::Failed
        | Cause::TimedOut
        | Cause::Lost
        | Cause::Cancelled
        | Cause::Skipped
        | Cause::Slow => None,
    }
}
