//! When jobs are due: expression, timezone and clock-change rules as instants, and what to do with those that
//! were missed.
//!
//! Pure: time is an argument, no clock, no I/O, no host timezone. [`Schedule`] answers `next` and `previous`;
//! [`plan`] turns a definition, a cursor and the present moment into what the ticker performs. The planner, the
//! watchdog, the preview and the console all ask this one source.
//!
//! Deliberately not here: how a missed occurrence is stored, and where calendars come from.

mod bits;
mod calendar;
mod civil;
mod coming;
mod days;
mod describe;
mod every;
mod explain;
mod fields;
mod hash;
mod herd;
mod local;
mod misfire;
mod mismatch;
mod note;
mod odd;
mod of_job;
mod parse;
mod plan;
mod preview;
mod schedule;
mod spec;
mod walk;
mod way;
mod zone;

pub use calendar::{Closed, DateSet, MOVE_DAYS_MAX, OpenDays};
pub use coming::{AHEAD as COMING_AHEAD, Change, Coming, INSTANTS_MAX as COMING_INSTANTS_MAX, Load, coming};
pub use explain::{Explanation, Reason, Verdict};
pub use herd::{Bucket, By, Herd, Peak, Picture, STEPS_MAX as HERD_STEPS_MAX, Spread, TooMuch};
pub use misfire::Settled;
pub use note::Note;
pub use odd::Oddity;
pub use of_job::{DateSetKey, DateSets, Owner};
pub use parse::EXPRESSION_BYTES_MAX;
pub use plan::{Definition, Missed, Occurrence, Plan, plan};
pub use preview::{DROPPED_MAX, Effect, Entry, Preview};
pub use schedule::Schedule;
pub use spec::{Spec, SpecError, SpecField};
pub use way::Way;

/// The version of the timezone database in use: `2026f`.
pub fn tzdata_version() -> &'static str {
    zone::version()
}
