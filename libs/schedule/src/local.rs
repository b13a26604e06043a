//! A set of local times: those of an expression's fields, or the single one of `@at`, on the days that calendars
//! leave open.

use crate::calendar::OpenDays;
use crate::civil::DAY;
use crate::fields::Fields;
use crate::way::Way;
use std::sync::Arc;

/// What a schedule names before a zone makes instants of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Local {
    /// What the expression says.
    pub named: Named,
    /// Which days are closed, and what then; none when no day is.
    pub calendars: Option<Arc<OpenDays>>,
}

/// What an expression says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Named {
    /// Every local time that the fields match.
    Fields(Fields),
    /// One local time, in seconds.
    Once(i64),
}

impl Local {
    /// The first that is at least `from`.
    pub(crate) fn at_or_after(&self, from: i64) -> Option<i64> {
        match &self.calendars {
            None => self.named.at_or_after(from),
            Some(calendars) => self.on_open_days(calendars, from, Way::Forward),
        }
    }

    /// The last that is at most `upto`.
    pub(crate) fn at_or_before(&self, upto: i64) -> Option<i64> {
        match &self.calendars {
            None => self.named.at_or_before(upto),
            Some(calendars) => self.on_open_days(calendars, upto, Way::Backward),
        }
    }

    /// The nearest in either way.
    pub(crate) fn find(&self, from: i64, way: Way) -> Option<i64> {
        match way {
            Way::Forward => self.at_or_after(from),
            Way::Backward => self.at_or_before(from),
        }
    }

    fn on_open_days(&self, calendars: &OpenDays, from: i64, way: Way) -> Option<i64> {
        let (day, second) = (from.div_euclid(DAY), from.rem_euclid(DAY));
        let nearest = |day| calendars.day(day, way, &self.named);
        let mut found = nearest(day)?;
        if found == day {
            if let Some(time) = self.named.time(second, way) {
                return Some(day * DAY + time);
            }
            found = nearest(way.from(day, 1))?;
        }
        let whole_day = if way == Way::Forward { 0 } else { DAY - 1 };
        self.named.time(whole_day, way).map(|time| found * DAY + time)
    }

    /// True when the DST rules don't apply.
    pub(crate) const fn is_elapsed(&self) -> bool {
        match &self.named {
            Named::Fields(fields) => fields.elapsed,
            Named::Once(_) => false,
        }
    }
}

impl Named {
    pub(crate) fn at_or_after(&self, from: i64) -> Option<i64> {
        match self {
            Self::Fields(fields) => fields.at_or_after(from),
            Self::Once(at) => (*at >= from).then_some(*at),
        }
    }

    fn at_or_before(&self, upto: i64) -> Option<i64> {
        match self {
            Self::Fields(fields) => fields.at_or_before(upto),
            Self::Once(at) => (*at <= upto).then_some(*at),
        }
    }

    /// The nearest day that is named.
    pub(crate) fn day(&self, from: i64, way: Way) -> Option<i64> {
        match (self, way) {
            (Self::Fields(fields), Way::Forward) => fields.day_at_or_after(from),
            (Self::Fields(fields), Way::Backward) => fields.day_at_or_before(from),
            (Self::Once(at), _) => {
                let day = at.div_euclid(DAY);
                (!way.is_beyond(from, day)).then_some(day)
            }
        }
    }

    /// The nearest day that is named and open.
    pub(crate) fn day_among(&self, from: i64, way: Way, open: &OpenDays) -> Option<i64> {
        let in_month = |year, month| open.open_in_month(year, month, way);
        match (self, way) {
            (Self::Fields(fields), Way::Forward) => fields.day_at_or_after_among(from, in_month),
            (Self::Fields(fields), Way::Backward) => fields.day_at_or_before_among(from, in_month),
            (Self::Once(_), _) => self.day(from, way).filter(|day| open.is_open(*day)),
        }
    }

    /// The nearest time of a day that is named, in seconds; the same for each such day.
    fn time(&self, from: i64, way: Way) -> Option<i64> {
        let from_time = u32::try_from(from).unwrap_or(0);
        match (self, way) {
            (Self::Fields(fields), Way::Forward) => fields.time_at_or_after(from_time).map(i64::from),
            (Self::Fields(fields), Way::Backward) => fields.time_at_or_before(from_time).map(i64::from),
            (Self::Once(at), _) => {
                let time = at.rem_euclid(DAY);
                (!way.is_beyond(from, time)).then_some(time)
            }
        }
    }
}
