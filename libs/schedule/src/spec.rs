//! What a schedule is made from, and what can be wrong with it.

use chrono::{DateTime, Utc};
use model::policy::{DstFold, DstGap};

/// Everything that decides when a job is due.
#[derive(Debug, Clone, Copy)]
pub struct Spec<'a> {
    /// The expression, as written.
    pub expression: &'a str,
    /// IANA name of the zone in which the expression is read.
    pub timezone: &'a str,
    /// What becomes of a wall-clock time that does not exist.
    pub dst_gap: DstGap,
    /// Which pass of a wall-clock time that exists twice counts.
    pub dst_fold: DstFold,
    /// The job's immutable identity, from which `H` is drawn.
    pub seed: &'a str,
    /// Where `@every` counts from, cut to a whole second: the job's beginning, or its creation.
    pub anchor: DateTime<Utc>,
}

/// The field of a [`Spec`] that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecField {
    /// [`Spec::expression`].
    Expression,
    /// [`Spec::timezone`].
    Timezone,
    /// The calendars that the job names.
    Calendars,
}

/// One thing wrong with a [`Spec`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SpecError {
    /// Where.
    pub field: SpecField,
    /// What is wrong and what would be right: `day-of-week 8 (position 9): use 0-7, 0 and 7 are Sunday`.
    pub message: String,
}

impl SpecError {
    pub(crate) fn expression(message: impl Into<String>) -> Self {
        Self { field: SpecField::Expression, message: message.into() }
    }

    pub(crate) fn calendars(message: impl Into<String>) -> Self {
        Self { field: SpecField::Calendars, message: message.into() }
    }

    pub(crate) fn timezone(message: impl Into<String>) -> Self {
        Self { field: SpecField::Timezone, message: message.into() }
    }
}
