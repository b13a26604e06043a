//! When jobs are due: expression, timezone and clock-change rules as instants, and what to do with those that
//! were missed.
//!
//! Pure: time is an argument, no clock, no I/O, no host timezone. [`Schedule`] answers `next` and `previous`;
//! [`plan`] turns a definition, a cursor and the present moment into what the ticker performs. The planner, the
//! watchdog, the preview and the console all ask this one source.
//!
//! Deliberately not here: how a missed occurrence is stored, and calendars of holidays.

mod bits;
mod civil;
mod days;
mod describe;
mod fields;
mod hash;
mod local;
mod misfire;
mod odd;
mod parse;
mod plan;
mod schedule;
mod spec;
mod walk;
mod zone;

pub use misfire::Settled;
pub use odd::Oddity;
pub use parse::EXPRESSION_BYTES_MAX;
pub use plan::{Definition, Missed, Occurrence, Plan, plan};
pub use schedule::Schedule;
pub use spec::{Spec, SpecError, SpecField};

/// The version of the timezone database in use: `2026f`.
pub fn tzdata_version() -> &'static str {
    zone::version()
}
