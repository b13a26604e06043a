//! What else than a missed deadline its owner wants to be told of: `alert.on`.
//!
//! Pure. Each end of a run that an owner asked for is found in the ledger; what it means is decided here.
//! Decided, too, is what is told once: an occurrence that one alert tells of is not told again by another kind, for a
//! run that failed and a deadline that passed because of that are one event. Failures in a row are the exception:
//! their alert says more than that of the single one.

use super::Kind;
use crate::run::{Phase, Reason};
use crate::severity::Severity;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Failures in a row that may be asked for: the ledger is looked back through that many runs.
pub const FAILURES_MAX: u16 = 100;

/// What its owner wants to be told of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct On {
    /// Each run that failed, timed out or was lost, its attempts used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// So many runs in a row that ended so; a success, and nothing else, begins a new count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures_in_row: Option<u16>,
    /// An attempt that runs longer than this, whether it ends well or not.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::job::millis_option")]
    pub runtime_over: Option<Duration>,
    /// An occurrence that was skipped because an earlier run was open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped_by_overlap: bool,
    /// The success that follows failures, even if nobody was to be told of those.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recovered: bool,
}

impl On {
    /// True when nothing is asked for.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// What the end of a run is to its owner. `failures` is how many runs in a row have failed with it, this one
    /// included, as the ledger shows.
    pub fn of_end(&self, phase: Phase, reason: Option<Reason>, failures: u16) -> Vec<Kind> {
        let failed = matches!(phase, Phase::Failed | Phase::TimedOut | Phase::Lost);
        let overlap = phase == Phase::Skipped && reason == Some(Reason::Overlap);
        let in_row = self.failures_in_row.is_some_and(|wanted| failures >= wanted);
        [
            (Kind::Failed, failed && (self.failed || self.recovered)),
            (Kind::FailuresInRow, failed && in_row),
            (Kind::SkippedOverlap, overlap && self.skipped_by_overlap),
        ]
        .into_iter()
        .filter_map(|(kind, wanted)| wanted.then_some(kind))
        .collect()
    }

    /// Whether the opening of an alert of this kind is told; else only its end is.
    pub fn tells_opening(&self, kind: Kind) -> bool {
        kind != Kind::Failed || self.failed
    }

    /// How grave an alert of this kind is, when its job's alerts are `grave`: a single failure, a slow or a skipped
    /// run is not more than a warning, for the deadline still watches over the success.
    pub fn severity(kind: Kind, grave: Severity) -> Severity {
        match kind {
            Kind::Failed | Kind::Runtime | Kind::SkippedOverlap => grave.min(Severity::Warning),
            _ => grave,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> On {
        On {
            failed: true,
            failures_in_row: Some(3),
            runtime_over: Some(Duration::from_secs(60)),
            skipped_by_overlap: true,
            recovered: true,
        }
    }

    #[test]
    fn each_end_is_what_its_owner_asked_for() {
        for phase in [Phase::Failed, Phase::TimedOut, Phase::Lost] {
            assert_eq!(all().of_end(phase, None, 2), [Kind::Failed], "{phase}");
            assert_eq!(all().of_end(phase, None, 3), [Kind::Failed, Kind::FailuresInRow], "{phase}");
            assert_eq!(On::default().of_end(phase, None, 3), [], "{phase}");
        }
        assert_eq!(all().of_end(Phase::Skipped, Some(Reason::Overlap), 0), [Kind::SkippedOverlap]);
        assert_eq!(all().of_end(Phase::Skipped, Some(Reason::Missed), 0), []);
        assert_eq!(all().of_end(Phase::Cancelled, Some(Reason::Requested), 0), []);
        assert_eq!(all().of_end(Phase::Succeeded, None, 0), []);
    }

    #[test]
    fn who_asks_for_recoveries_only_hears_of_the_end_of_failures() {
        let on = On { recovered: true, ..On::default() };
        assert_eq!(on.of_end(Phase::Failed, None, 1), [Kind::Failed]);
        assert!(!on.tells_opening(Kind::Failed));
        assert!(all().tells_opening(Kind::Failed));
    }

    #[test]
    fn the_stored_form_names_only_what_is_asked_for() {
        let one = On { failures_in_row: Some(3), ..On::default() };
        assert_eq!(serde_json::to_string(&one).expect("serialises"), r#"{"failures_in_row":3}"#);
        let text = serde_json::to_string(&all()).expect("serialises");
        assert_eq!(serde_json::from_str::<On>(&text).expect("comes back"), all());
    }

    #[test]
    fn the_deadline_is_graver_than_a_single_failure() {
        assert_eq!(On::severity(Kind::NoSuccess, Severity::Critical), Severity::Critical);
        assert_eq!(On::severity(Kind::FailuresInRow, Severity::Critical), Severity::Critical);
        assert_eq!(On::severity(Kind::Failed, Severity::Critical), Severity::Warning);
        assert_eq!(On::severity(Kind::Failed, Severity::Info), Severity::Info);
    }
}
