//! Why an instant is an occurrence of a schedule, or why it is none.
//!
//! Invariant: an instant is explained as an occurrence exactly when [`Schedule::next`] comes upon it, and one that is
//! none has at least one reason (`each_instant_is_explained`).

use crate::calendar::Closed;
use crate::civil::{self, DAY};
use crate::describe::interval;
use crate::every::Every;
use crate::local::{Local, Named};
use crate::note::{Note, span};
use crate::schedule::{Kind, Schedule};
use crate::walk::Rules;
use crate::way::Way;
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, SecondsFormat, Utc};
use model::policy::DstFold;

/// What a schedule says about one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The instant on the clocks of the schedule's zone.
    pub local: DateTime<FixedOffset>,
    /// The answer.
    pub verdict: Verdict,
}

/// Whether an instant is an occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is one; with what rules did to it.
    Occurrence(Vec<Note>),
    /// It is none; with everything that stands against it, never nothing.
    Not(Vec<Reason>),
}

/// Why an instant is no occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Occurrences are whole seconds.
    Fraction,
    /// It lies before the first instant that counts.
    Before(DateTime<Utc>),
    /// It lies after the last instant that counts.
    After(DateTime<Utc>),
    /// A field has another value.
    Field {
        /// Its name: `day-of-week`.
        field: &'static str,
        /// What it is in local time: `Saturday (6)`.
        value: String,
        /// What the expression allows: `1-5`.
        allowed: String,
    },
    /// Its day is closed.
    Closed {
        /// The local date.
        date: NaiveDate,
        /// Why it is closed.
        by: Closed,
        /// The open day on which the occurrence happens instead; none when it does not happen.
        moved_to: Option<NaiveDate>,
    },
    /// Its local time comes twice, and the other pass counts.
    OtherPass {
        /// The pass that counts: `FIRST` or `SECOND`.
        counts: DstFold,
    },
    /// Clocks skip times right before it, and the schedule names some of them.
    Missing {
        /// The first local time that does not exist.
        from: NaiveDateTime,
        /// The local time with which the day goes on.
        to: NaiveDateTime,
        /// The expression follows elapsed time, so that `dstGap` plays no part.
        elapsed: bool,
    },
    /// It is no beat of `@every`.
    Between {
        /// The instant.
        at: DateTime<Utc>,
        /// The beat before it.
        before: Option<DateTime<Utc>>,
        /// The beat after it.
        after: Option<DateTime<Utc>>,
    },
    /// `@at` names another instant; none when that does not happen.
    Once(Option<DateTime<Utc>>),
}

impl Explanation {
    /// True when the instant is an occurrence.
    pub const fn is_occurrence(&self) -> bool {
        matches!(self.verdict, Verdict::Occurrence(_))
    }
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (is, why): (&str, Vec<String>) = match &self.verdict {
            Verdict::Occurrence(notes) => ("an occurrence", notes.iter().map(ToString::to_string).collect()),
            Verdict::Not(reasons) => ("not an occurrence", reasons.iter().map(ToString::to_string).collect()),
        };
        write!(f, "{} is {is}", self.local.to_rfc3339_opts(SecondsFormat::AutoSi, false))?;
        if why.is_empty() { Ok(()) } else { write!(f, ": {}", why.join("; ")) }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fraction => f.write_str("it is not a whole second"),
            Self::Before(first) => write!(f, "the schedule begins at {}", utc(*first)),
            Self::After(last) => write!(f, "the schedule ends at {}", utc(*last)),
            Self::Field { field, value, allowed } => {
                write!(f, "{field} is {value}, the expression allows {allowed}")
            }
            Self::Closed { date, by, moved_to } => {
                write!(f, "{date} is {by}: ")?;
                match moved_to {
                    Some(moved_to) => write!(f, "moved to {moved_to}"),
                    None => f.write_str("skipped"),
                }
            }
            Self::OtherPass { counts } => {
                let this = if *counts == DstFold::First { "second" } else { "first" };
                write!(f, "this local time comes twice, this is the {this} pass, and dstFold is {counts}")
            }
            Self::Missing { from, to, elapsed } => {
                let rule = if *elapsed {
                    "the expression follows elapsed time, which has no gap"
                } else {
                    "dstGap is SKIP"
                };
                write!(f, "the times {} do not exist, and {rule}", span(*from, *to))
            }
            Self::Between { at, before, after } => {
                let away = |to: DateTime<Utc>| interval((to - at).num_seconds().abs());
                let before = before.map(|to| format!("{} is {} before it", utc(to), away(to)));
                let after = after.map(|to| format!("{} is {} after it", utc(to), away(to)));
                let beats: Vec<String> = before.into_iter().chain(after).collect();
                let beats = if beats.is_empty() { "there is none".to_owned() } else { beats.join(", ") };
                write!(f, "it is no beat of @every: {beats}")
            }
            Self::Once(Some(at)) => write!(f, "the schedule names one instant only, {}", utc(*at)),
            Self::Once(None) => f.write_str("the schedule names one instant only, which does not happen"),
        }
    }
}

fn utc(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn instant(t: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(t, 0)
}

impl Schedule {
    /// Whether `at` is an occurrence, and why.
    pub fn explain(&self, at: DateTime<Utc>) -> Explanation {
        Explanation { local: self.local_time(at), verdict: self.verdict(at) }
    }

    fn verdict(&self, at: DateTime<Utc>) -> Verdict {
        let t = at.timestamp();
        let (first, last) = self.bounds();
        let not = |reason: Option<Reason>| Verdict::Not(reason.into_iter().collect());
        if at.timestamp_subsec_nanos() > 0 {
            return not(Some(Reason::Fraction));
        }
        if t < first {
            return not(instant(first).map(Reason::Before));
        }
        if t > last {
            return not(instant(last).map(Reason::After));
        }
        if self.find(t, Way::Forward) == Some(t) {
            return Verdict::Occurrence(self.notes(at));
        }
        Verdict::Not(match &self.kind {
            Kind::Every(every) => vec![self.against_beat(every, t)],
            Kind::Wall { local, rules, .. } => self.against_wall(local, *rules, t),
        })
    }

    fn against_beat(&self, every: &Every, t: i64) -> Reason {
        let closed = (every.beat(t, Way::Forward) == Some(t)).then(|| self.closed(self.day_of(t))).flatten();
        closed.unwrap_or_else(|| Reason::Between {
            at: instant(t).unwrap_or_default(),
            before: self.find(t, Way::Backward).and_then(instant),
            after: self.find(t, Way::Forward).and_then(instant),
        })
    }

    fn against_wall(&self, local: &Local, rules: Rules, t: i64) -> Vec<Reason> {
        let zone = self.zone();
        let stretch = zone.stretch_at(t);
        let here = t + zone.offset(stretch);
        let day = here.div_euclid(DAY);
        let happens = local.at_or_after(here) == Some(here);
        let mut reasons = Vec::new();
        if happens {
            reasons.push(Reason::OtherPass { counts: rules.fold });
        } else {
            let named = local.named.day(day, Way::Forward) == Some(day);
            match &local.named {
                Named::Once(at) if *at != here => {
                    reasons.push(Reason::Once(self.find(0, Way::Forward).and_then(instant)))
                }
                Named::Once(_) => {}
                Named::Fields(fields) => {
                    reasons.extend(fields.against_time(here.rem_euclid(DAY)));
                    if !self.takes(local, day) && !named {
                        reasons.extend(fields.against_day(day));
                    }
                }
            }
            reasons.extend(named.then(|| self.closed(day)).flatten());
        }
        if !rules.after_gap
            && let Some((from, to)) = self.gap_before(local, t)
        {
            reasons.push(Reason::Missing { from, to, elapsed: local.is_elapsed() });
        }
        reasons
    }

    /// True when occurrences happen on `day`, its own or those of closed days.
    fn takes(&self, local: &Local, day: i64) -> bool {
        let midnight = day * DAY;
        local.at_or_after(midnight).is_some_and(|found| found < midnight + DAY)
    }

    fn day_of(&self, t: i64) -> i64 {
        let zone = self.zone();
        (t + zone.offset(zone.stretch_at(t))).div_euclid(DAY)
    }

    /// Why `day` is closed, and where its occurrences go; none when it is open.
    fn closed(&self, day: i64) -> Option<Reason> {
        let calendars = self.calendars()?;
        let date = civil::date_of(day)?;
        let by = calendars.closes(date)?;
        let moved_to = calendars.target(day).and_then(civil::date_of);
        Some(Reason::Closed { date, by, moved_to })
    }
}
