//! A schedule: expression, zone and rules, answering which instants are due.
//!
//! Invariants: answers are whole seconds from 1970-01-01 through 2199-12-31 UTC; [`Schedule::next`] is strictly
//! after its argument, [`Schedule::previous`] at or before it, and both walk the same instants
//! (`forward_and_backward_agree`). Every answer takes bounded time, also when there is none.

use crate::calendar::OpenDays;
use crate::every::Every;
use crate::local::Local;
use crate::parse::{self, Parsed};
use crate::spec::{Spec, SpecError};
use crate::walk::{self, Rules};
use crate::way::Way;
use crate::zone::{self, FIRST_INSTANT, LAST_INSTANT, Zone};
use chrono::{DateTime, Utc};
use model::policy::CalendarRule;
use std::sync::Arc;

/// When a job is due. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Schedule {
    pub(crate) kind: Kind,
    /// The first instant that counts, in seconds.
    first: i64,
    /// The last one.
    last: i64,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// Wall-clock times of a zone.
    Wall { local: Arc<Local>, zone: Arc<Zone>, rules: Rules },
    /// A steady interval.
    Every(Every),
}

impl Schedule {
    /// Reads a schedule, or says everything that is wrong with it.
    pub fn parse(spec: &Spec<'_>) -> Result<Self, Vec<SpecError>> {
        let zone = zone::name::find(spec.timezone).map_err(SpecError::timezone);
        let parsed = parse::expression(spec.expression, spec.seed);
        let (zone, parsed) = match (zone, parsed) {
            (Ok(zone), Ok(parsed)) => (zone, parsed),
            (zone, parsed) => {
                let wrong = parsed.err().unwrap_or_default().into_iter().map(SpecError::expression);
                return Err(wrong.chain(zone.err()).collect());
            }
        };
        let kind = match parsed {
            Parsed::Every(step) => {
                Kind::Every(Every { anchor: spec.anchor.timestamp(), step, zone, calendars: None })
            }
            Parsed::Local { local: named, zone: own } => {
                let zone = one_zone(zone, own).map_err(|error| vec![error])?;
                let local = Local { named, calendars: None };
                let rules = Rules::new(spec.dst_gap, spec.dst_fold, local.is_elapsed());
                Kind::Wall { local: Arc::new(local), zone, rules }
            }
        };
        let schedule = Self { kind, first: FIRST_INSTANT, last: LAST_INSTANT };
        if schedule.at_or_after(FIRST_INSTANT).is_none() {
            let why = "never comes: a clock change removes it and dstGap is SKIP, or it lies before 1970";
            return Err(vec![SpecError::expression(why)]);
        }
        Ok(schedule)
    }

    /// The same schedule without what lies before `starts_at` or after `ends_at`; both themselves still count.
    #[must_use]
    pub fn bounded(mut self, starts_at: Option<DateTime<Utc>>, ends_at: Option<DateTime<Utc>>) -> Self {
        if let Some(starts_at) = starts_at {
            // A whole second that is not before `starts_at`.
            let whole = starts_at.timestamp() + i64::from(starts_at.timestamp_subsec_nanos() > 0);
            self.first = self.first.max(whole);
        }
        if let Some(ends_at) = ends_at {
            self.last = self.last.min(ends_at.timestamp());
        }
        self
    }

    /// The same schedule on the days that calendars leave open: an occurrence on a closed day does not happen, or
    /// happens at the same local time of the nearest open day within [`MOVE_DAYS_MAX`](crate::MOVE_DAYS_MAX) days.
    /// Calendars may close every day; the schedule is exhausted then, until one of them changes.
    pub fn with_calendars(mut self, calendars: OpenDays) -> Result<Self, SpecError> {
        let rule = calendars.rule;
        let calendars = (!calendars.is_empty()).then(|| Arc::new(calendars));
        match &mut self.kind {
            Kind::Wall { local, .. } => Arc::make_mut(local).calendars = calendars,
            Kind::Every(_) if calendars.is_some() && rule != CalendarRule::Skip => {
                let message =
                    format!("@every keeps a steady interval, which {rule} would break: use the rule SKIP");
                return Err(SpecError::calendars(message));
            }
            Kind::Every(every) => every.calendars = calendars,
        }
        Ok(self)
    }

    /// The first instant strictly after `after`; none when the schedule is exhausted.
    pub fn next(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let found = self.at_or_after(after.timestamp() + 1)?;
        DateTime::from_timestamp(found, 0)
    }

    /// The last instant at or before `at`; none when there was none yet.
    pub fn previous(&self, at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let found = self.at_or_before(at.timestamp())?;
        DateTime::from_timestamp(found, 0)
    }

    /// The first instant at or after `from`.
    pub fn first_from(&self, from: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let whole = from.timestamp() + i64::from(from.timestamp_subsec_nanos() > 0);
        DateTime::from_timestamp(self.at_or_after(whole)?, 0)
    }

    /// Every instant after `after`, through `through`, in order.
    pub fn between(
        &self,
        after: DateTime<Utc>,
        through: DateTime<Utc>,
    ) -> impl Iterator<Item = DateTime<Utc>> {
        let mut reached = after;
        std::iter::from_fn(move || {
            let next = self.next(reached).filter(|next| *next <= through)?;
            reached = next;
            Some(next)
        })
    }

    /// The zone's name, as the database spells it.
    pub fn timezone(&self) -> &'static str {
        self.zone().name()
    }

    /// True when it follows elapsed time and not the clocks: an interval, or a minute or hour that begins with `*`.
    pub fn follows_elapsed_time(&self) -> bool {
        match &self.kind {
            Kind::Wall { local, .. } => local.is_elapsed(),
            Kind::Every(_) => true,
        }
    }

    pub(crate) fn zone(&self) -> &Zone {
        match &self.kind {
            Kind::Wall { zone, .. } => zone,
            Kind::Every(every) => &every.zone,
        }
    }

    pub(crate) fn calendars(&self) -> Option<&OpenDays> {
        match &self.kind {
            Kind::Wall { local, .. } => local.calendars.as_deref(),
            Kind::Every(every) => every.calendars.as_deref(),
        }
    }

    /// The same schedule with every day open.
    pub(crate) fn without_calendars(&self) -> Self {
        let mut every_day = self.clone();
        match &mut every_day.kind {
            Kind::Wall { local, .. } => Arc::make_mut(local).calendars = None,
            Kind::Every(every) => every.calendars = None,
        }
        every_day
    }

    /// The first and the last second that count.
    pub(crate) const fn bounds(&self) -> (i64, i64) {
        (self.first, self.last)
    }

    /// The nearest instant in either way.
    pub(crate) fn find(&self, t: i64, way: Way) -> Option<i64> {
        match way {
            Way::Forward => self.at_or_after(t),
            Way::Backward => self.at_or_before(t),
        }
    }

    fn at_or_after(&self, t: i64) -> Option<i64> {
        let t = t.max(self.first);
        if t > self.last {
            return None;
        }
        let found = match &self.kind {
            Kind::Wall { local, zone, rules } => walk::at_or_after(local, zone, *rules, t)?,
            Kind::Every(every) => every.find(t, Way::Forward)?,
        };
        (found <= self.last).then_some(found)
    }

    fn at_or_before(&self, t: i64) -> Option<i64> {
        let t = t.min(self.last);
        if t < self.first {
            return None;
        }
        let found = match &self.kind {
            Kind::Wall { local, zone, rules } => walk::at_or_before(local, zone, *rules, t)?,
            Kind::Every(every) => every.find(t, Way::Backward)?,
        };
        (found >= self.first).then_some(found)
    }
}

/// The zone in which `@at` is read: its own, unless the job's timezone says something else.
fn one_zone(zone: Arc<Zone>, named: Option<&str>) -> Result<Arc<Zone>, SpecError> {
    let Some(named) = named else { return Ok(zone) };
    let own =
        zone::name::find(named).map_err(|message| SpecError::expression(format!("timezone {message}")))?;
    if zone.name() != own.name() && zone.name() != "UTC" {
        let (own, zone) = (own.name(), zone.name());
        let message = format!("names the zone {own}, but the timezone is {zone}: remove one of them");
        return Err(SpecError::expression(message));
    }
    Ok(own)
}
