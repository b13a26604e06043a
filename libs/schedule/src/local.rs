//! A set of local times: those of an expression's fields, or the single one of `@at`.

use crate::fields::Fields;

/// What a schedule names before a zone makes instants of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Local {
    /// Every local time that the fields match.
    Fields(Fields),
    /// One local time, in seconds.
    Once(i64),
}

impl Local {
    /// The first that is at least `from`.
    pub(crate) fn at_or_after(&self, from: i64) -> Option<i64> {
        match self {
            Self::Fields(fields) => fields.at_or_after(from),
            Self::Once(at) => (*at >= from).then_some(*at),
        }
    }

    /// The last that is at most `upto`.
    pub(crate) fn at_or_before(&self, upto: i64) -> Option<i64> {
        match self {
            Self::Fields(fields) => fields.at_or_before(upto),
            Self::Once(at) => (*at <= upto).then_some(*at),
        }
    }

    /// True when the DST rules don't apply.
    pub(crate) const fn is_elapsed(&self) -> bool {
        match self {
            Self::Fields(fields) => fields.elapsed,
            Self::Once(_) => false,
        }
    }
}
