//! What rules did to the wall-clock times that a schedule names, for people who look at a preview or ask why.

use crate::calendar::{Closed, OpenDays};
use crate::civil::{self, DAY};
use crate::local::Local;
use crate::odd::{Oddity, wall};
use crate::schedule::{Kind, Schedule};
use crate::walk;
use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use model::policy::DstFold;

/// Days that one note names.
const DAYS_NAMED: usize = 5;

/// Why an instant is not simply the wall-clock time that the expression names, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// It happens on the day of a clock change.
    Clock(Oddity),
    /// It stands for occurrences of closed days.
    Moved {
        /// The nearest of these days, the nearest first.
        from: Vec<NaiveDate>,
        /// How many more there are.
        more: usize,
        /// Why the first is closed.
        by: Closed,
        /// Its own day is named too: those of the closed days are one with it.
        own: bool,
    },
    /// It does not happen: clocks skip the time, and `dstGap` is `SKIP`.
    Missing {
        /// The first local time that does not exist.
        from: NaiveDateTime,
        /// The local time with which the day goes on.
        to: NaiveDateTime,
    },
    /// It does not happen: the local time comes twice, and the other pass counts.
    OtherPass {
        /// The pass that counts: `FIRST` or `SECOND`.
        counts: DstFold,
    },
    /// It does not happen: its day is closed.
    Closed {
        /// The day.
        date: NaiveDate,
        /// Why it is closed.
        by: Closed,
        /// Occurrences move, but no open day is near enough.
        too_far: bool,
    },
    /// So many more don't happen here, or at least so many.
    More {
        /// How many.
        count: usize,
        /// There may be more than these.
        at_least: bool,
    },
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Clock(oddity) => oddity.fmt(f),
            Self::Moved { from, more, by, own } => {
                let mut days: Vec<String> = from.iter().map(ToString::to_string).collect();
                if *more > 0 {
                    days.push(format!("{more} more"));
                }
                let what = if *own { "stands also for" } else { "moved from" };
                let first = from.first().filter(|_| days.len() > 1);
                let which = first.map(|first| format!("{first} is ")).unwrap_or_default();
                write!(f, "{what} {}: {which}{by}", days.join(", "))
            }
            Self::Missing { from, to } => {
                write!(f, "skipped: the times {} do not exist, and dstGap is SKIP", span(*from, *to))
            }
            Self::OtherPass { counts } => {
                let this = if *counts == DstFold::First { "second" } else { "first" };
                write!(
                    f,
                    "skipped: this local time comes twice, this is the {this} pass, and dstFold is {counts}"
                )
            }
            Self::Closed { date, by, too_far } => {
                write!(f, "skipped: {date} is {by}")?;
                if *too_far {
                    write!(f, ", and no day within {} days is open", crate::MOVE_DAYS_MAX)?;
                }
                Ok(())
            }
            Self::More { count, at_least } => {
                let count = if *at_least { format!("at least {count}") } else { count.to_string() };
                write!(f, "skipped: {count} more")
            }
        }
    }
}

/// `from 02:00 to 03:00 on 2026-03-29`, or with both dates when they differ.
pub(crate) fn span(from: NaiveDateTime, to: NaiveDateTime) -> String {
    if from.date() == to.date() {
        return format!("from {} to {} on {}", from.format("%H:%M"), to.format("%H:%M"), from.date());
    }
    format!("from {} to {}", from.format("%Y-%m-%d %H:%M"), to.format("%Y-%m-%d %H:%M"))
}

impl Schedule {
    /// What rules did to the occurrence at `at`; nothing on ordinary days.
    pub fn notes(&self, at: DateTime<Utc>) -> Vec<Note> {
        let moved = match &self.kind {
            Kind::Wall { local, .. } => self.moved(local, at.timestamp()),
            Kind::Every(_) => None,
        };
        moved.into_iter().chain(self.oddity(at).map(Note::Clock)).collect()
    }

    /// Which closed days the occurrence at `t` stands for.
    fn moved(&self, local: &Local, t: i64) -> Option<Note> {
        let calendars = local.calendars.as_deref()?;
        let day = self.wall_of(local, t).div_euclid(DAY);
        let mut sources = sources(local, calendars, day);
        let own = sources.first() == Some(&day);
        sources.retain(|source| *source != day);
        let more = sources.len().saturating_sub(DAYS_NAMED);
        let from: Vec<NaiveDate> = sources.into_iter().take(DAYS_NAMED).filter_map(civil::date_of).collect();
        let by = calendars.closes(*from.first()?)?;
        Some(Note::Moved { from, more, by, own })
    }

    /// The wall-clock time that the occurrence at `t` comes from: that of `t`, or one that a gap removed.
    pub(crate) fn wall_of(&self, local: &Local, t: i64) -> i64 {
        let zone = self.zone();
        let stretch = zone.stretch_at(t);
        let here = t + zone.offset(stretch);
        let removed = t == zone.start(stretch) && local.at_or_after(here) != Some(here);
        if removed && walk::named_in_gap(local, zone, stretch) {
            return local.at_or_after(zone.local_end(stretch - 1)).unwrap_or(here);
        }
        here
    }

    /// The gap that ends at `t`, when it removed times of `local`: its first local time, and that after it.
    pub(crate) fn gap_before(&self, local: &Local, t: i64) -> Option<(NaiveDateTime, NaiveDateTime)> {
        let zone = self.zone();
        let stretch = zone.stretch_at(t);
        let removed = t == zone.start(stretch) && walk::named_in_gap(local, zone, stretch);
        removed.then(|| (wall(zone.local_end(stretch - 1)), wall(zone.local_start(stretch))))
    }
}

/// The named days whose occurrences happen on `day`, from it on.
fn sources(local: &Local, calendars: &OpenDays, day: i64) -> Vec<i64> {
    let farthest = calendars.farthest_source(day);
    let way = if farthest < day { crate::Way::Backward } else { crate::Way::Forward };
    let named = |from| local.named.day(from, way).filter(|day| !way.is_beyond(*day, farthest));
    std::iter::successors(named(day), |day| named(way.from(*day, 1))).collect()
}
