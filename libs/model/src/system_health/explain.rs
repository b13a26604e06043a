//! Which trouble of the system explains that a job had no success: found from what is known to be wrong, not guessed.

use super::{Subject, Trouble};
use crate::alert::Cause;
use crate::run::Reason;
use std::collections::BTreeSet;

/// The troubles that are open, or were until a moment ago: what they made late is judged a moment later.
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
/// before no worker; none when it is the job's own. `reason` is why a run ended without having been tried.
pub fn explain(
    cause: Cause,
    reason: Option<Reason>,
    tenant: &str,
    queue: &str,
    open: &Open,
) -> Option<Trouble> {
    let any_of = |troubles: &[Trouble]| {
        troubles.iter().copied().find(|trouble| match trouble {
            Trouble::NoWorker => open.has_of(Trouble::NoWorker, &format!("{tenant}/{queue}")),
            _ => open.has(*trouble),
        })
    };
    match cause {
        // Who was not planned never came to a dispatcher.
        Cause::NeverPlanned => any_of(&[Trouble::NoTicker]),
        // A retry waits in the queue as a first attempt does.
        Cause::Waiting | Cause::Retrying => any_of(&[Trouble::NoDispatcher, Trouble::NoWorker]),
        // It was planned or handed out when it was too late for that.
        Cause::SucceededLate => any_of(&[Trouble::NoTicker, Trouble::NoDispatcher, Trouble::NoWorker]),
        // Or what was late was in its way.
        Cause::Skipped if matches!(reason, Some(Reason::Missed | Reason::Superseded | Reason::Overlap)) => {
            any_of(&[Trouble::NoTicker, Trouble::NoDispatcher, Trouble::NoWorker])
        }
        // A worker had it: what became of it there is between the two, whatever else is wrong.
        _ => None,
    }
}
