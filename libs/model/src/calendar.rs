//! Calendars: named sets of dates that open or close days to a job.
//!
//! A definition names versions, which never change: what applied at an instant stays known.

use crate::policy::CalendarRule;
use serde::{Deserialize, Serialize};

/// Which days are open to a job, and what becomes of occurrences on the others.
///
/// A day is open when no calendar of `exclude` has it and, unless `only` is empty, one of `only` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calendars {
    /// Their dates are closed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<CalendarVersion>,
    /// Only their dates are open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<CalendarVersion>,
    /// What becomes of an occurrence on a closed day.
    #[serde(default, skip_serializing_if = "CalendarRule::is_skip")]
    pub rule: CalendarRule,
}

impl Calendars {
    /// Every version that is named.
    pub fn versions(&self) -> impl Iterator<Item = &CalendarVersion> {
        self.exclude.iter().chain(&self.only)
    }

    /// True when every day is open.
    pub fn is_empty(&self) -> bool {
        self.exclude.is_empty() && self.only.is_empty()
    }
}

/// One version of a tenant's calendar.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CalendarVersion {
    /// The calendar's name.
    pub name: String,
    /// Counted from 1; 0 in a definition that was read and not stored yet.
    pub version: i64,
}
