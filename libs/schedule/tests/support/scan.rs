//! A scan of each minute or second that knows nothing of bit sets, and takes its local times from the other timezone
//! database.

use chrono::{
    DateTime, Datelike, MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeDelta, TimeZone,
    Timelike, Utc,
};
use chrono_tz::Tz;
use model::policy::{DstFold, DstGap};
use std::collections::BTreeSet;

/// One field, as a plain list of its values.
pub struct Values(Vec<u32>, bool);

impl Values {
    fn new(text: &str, min: u32, max: u32) -> Self {
        let mut values = Vec::new();
        for item in text.split(',') {
            let (base, step) =
                item.split_once('/').map_or((item, 1), |(base, step)| (base, step.parse().unwrap()));
            let (first, last) = match base.split_once('-') {
                _ if base == "*" => (min, max),
                Some((first, last)) => (first.parse().unwrap(), last.parse().unwrap()),
                None if item.contains('/') => (base.parse().unwrap(), max),
                None => (base.parse().unwrap(), base.parse().unwrap()),
            };
            values.extend((first..=last).step_by(step));
        }
        Self(values, text.starts_with('*'))
    }

    fn has(&self, value: u32) -> bool {
        self.0.contains(&value)
    }
}

/// An expression of five or six fields, matched by looking at one local time.
pub struct Matcher {
    fields: Vec<Values>,
}

impl Matcher {
    pub fn new(when: &str) -> Self {
        let mut texts: Vec<&str> = when.split(' ').collect();
        if texts.len() == 5 {
            texts.insert(0, "0");
        }
        let bounds = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
        let fields = texts.iter().zip(bounds).map(|(text, (min, max))| Values::new(text, min, max)).collect();
        Self { fields }
    }

    pub fn matches(&self, local: NaiveDateTime) -> bool {
        self.names_time(local.time()) && self.names_date(local.date())
    }

    pub fn names_time(&self, time: NaiveTime) -> bool {
        let [second, minute, hour, ..] = self.fields.as_slice() else { panic!("six fields") };
        second.has(time.second()) && minute.has(time.minute()) && hour.has(time.hour())
    }

    pub fn names_date(&self, date: NaiveDate) -> bool {
        let [_, _, _, day, month, weekday] = self.fields.as_slice() else { panic!("six fields") };
        let of_month = day.has(date.day());
        let of_week = weekday.has(date.weekday().num_days_from_sunday());
        let named = if day.1 || weekday.1 { of_month && of_week } else { of_month || of_week };
        named && month.has(date.month())
    }

    pub fn follows_elapsed_time(&self) -> bool {
        self.fields[1].1 || self.fields[2].1
    }
}

/// The instants at which the offset changes, and the local times before and after.
pub fn changes(
    zone: Tz,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
) -> Vec<(DateTime<Utc>, NaiveDateTime, NaiveDateTime)> {
    let offset = |at: DateTime<Utc>| zone.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc();
    let (mut found, mut day) = (Vec::new(), from);
    while day < to {
        let next = day + TimeDelta::days(1);
        if offset(day) != offset(next) {
            let (mut before, mut after) = (day, next);
            while after - before > TimeDelta::seconds(1) {
                let middle = before + TimeDelta::seconds((after - before).num_seconds() / 2);
                if offset(middle) == offset(day) { before = middle } else { after = middle }
            }
            let local = |offset: i32| after.naive_utc() + TimeDelta::seconds(offset.into());
            found.push((after, local(offset(day)), local(offset(next))));
        }
        day = next;
    }
    found
}

/// What is due in `from` to `to`, found by looking at each `step` of it.
pub struct Scan {
    pub zone: Tz,
    pub gap: DstGap,
    pub fold: DstFold,
    pub step: TimeDelta,
    /// The DST rules don't apply.
    pub elapsed: bool,
}

impl Scan {
    pub fn due(
        &self,
        matches: impl Fn(NaiveDateTime) -> bool,
        from: DateTime<Utc>,
        to: DateTime<Utc>,
    ) -> BTreeSet<DateTime<Utc>> {
        let mut due = BTreeSet::new();
        let mut at = from;
        while at <= to {
            let local = at.with_timezone(&self.zone).naive_local();
            if matches(local) && (self.elapsed || self.counts(at, local)) {
                due.insert(at);
            }
            at += self.step;
        }
        if !self.elapsed && self.gap == DstGap::RunAfter {
            for (change, mut missing, end) in changes(self.zone, from, to) {
                while missing < end {
                    if matches(missing) {
                        due.insert(change);
                    }
                    missing += self.step;
                }
            }
        }
        due
    }

    fn counts(&self, at: DateTime<Utc>, local: NaiveDateTime) -> bool {
        match self.zone.from_local_datetime(&local) {
            MappedLocalTime::Single(_) => true,
            MappedLocalTime::Ambiguous(first, second) => match self.fold {
                DstFold::First => at == first,
                DstFold::Second => at == second,
                DstFold::Both => true,
            },
            MappedLocalTime::None => panic!("{at} has the local time {local}"),
        }
    }
}
