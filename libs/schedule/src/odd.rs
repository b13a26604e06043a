//! What a clock change did to an occurrence, for people who look at a preview.

use crate::note::span;
use crate::schedule::{Kind, Schedule};
use crate::walk;
use chrono::{DateTime, FixedOffset, NaiveDateTime, TimeDelta, Utc};

/// Why an instant is not simply the wall-clock time that the expression names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oddity {
    /// The expression names a time that this gap removed; this is the first instant after it.
    AfterGap {
        /// The first local time that does not exist.
        from: NaiveDateTime,
        /// The local time with which the day goes on.
        to: NaiveDateTime,
    },
    /// The local time comes twice, and this is the first pass.
    FirstPass,
    /// The local time comes twice, and this is the second pass.
    SecondPass,
}

impl std::fmt::Display for Oddity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AfterGap { from, to } if from.date() != to.date() => {
                write!(
                    f,
                    "the times {} do not exist: moved to the first instant after them",
                    span(*from, *to)
                )
            }
            Self::AfterGap { from, to } => write!(
                f,
                "the times from {} to {} do not exist on {}: moved to the first instant after them",
                from.format("%H:%M"),
                to.format("%H:%M"),
                from.format("%Y-%m-%d"),
            ),
            Self::FirstPass => f.write_str("this local time comes twice: the first pass"),
            Self::SecondPass => f.write_str("this local time comes twice: the second pass"),
        }
    }
}

impl Schedule {
    /// The instant on the clocks of the schedule's zone; in UTC where chrono has no such local time, within a day of
    /// its first and last instant.
    pub fn local_time(&self, at: DateTime<Utc>) -> DateTime<FixedOffset> {
        let zone = self.zone();
        let offset = zone.offset(zone.stretch_at(at.timestamp()));
        let offset = i32::try_from(offset).ok().and_then(FixedOffset::east_opt);
        let offset = offset.filter(|offset| at.naive_utc().checked_add_offset(*offset).is_some());
        offset.map_or_else(|| at.fixed_offset(), |offset| at.with_timezone(&offset))
    }

    /// What a clock change did to the occurrence at `at`; none on ordinary days and for `@every`.
    pub fn oddity(&self, at: DateTime<Utc>) -> Option<Oddity> {
        let Kind::Wall { local, zone, rules } = &self.kind else { return None };
        let t = at.timestamp();
        let stretch = zone.stretch_at(t);
        let here = t + zone.offset(stretch);
        if rules.after_gap && t == zone.start(stretch) && walk::named_in_gap(local, zone, stretch) {
            let (from, to) = (zone.local_end(stretch - 1), zone.local_start(stretch));
            return Some(Oddity::AfterGap { from: wall(from), to: wall(to) });
        }
        if here >= zone.repeats_from(stretch) {
            return Some(Oddity::FirstPass);
        }
        (stretch > 0 && here < zone.local_end(stretch - 1)).then_some(Oddity::SecondPass)
    }
}

/// A local time as chrono has it.
pub(crate) fn wall(local: i64) -> NaiveDateTime {
    DateTime::UNIX_EPOCH.naive_utc() + TimeDelta::seconds(local)
}
