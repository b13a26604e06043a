//! Around every clock change of more than forty zones from 2020 to 2037, the schedule's answers equal a scan of each minute
//! or second that knows nothing of bit sets, and takes its local times from the other timezone database.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chrono::{
    DateTime, Datelike, MappedLocalTime, NaiveDateTime, Offset, TimeDelta, TimeZone, Timelike, Utc,
};
use chrono_tz::Tz;
use model::policy::{DstFold, DstGap};
use std::collections::BTreeSet;
use support::{ZONES, at, parse};

/// One field, as a plain list of its values.
struct Values(Vec<u32>, bool);

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
struct Matcher {
    fields: Vec<Values>,
}

impl Matcher {
    fn new(when: &str) -> Self {
        let mut texts: Vec<&str> = when.split(' ').collect();
        if texts.len() == 5 {
            texts.insert(0, "0");
        }
        let bounds = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
        let fields = texts.iter().zip(bounds).map(|(text, (min, max))| Values::new(text, min, max)).collect();
        Self { fields }
    }

    fn matches(&self, local: NaiveDateTime) -> bool {
        let [second, minute, hour, day, month, weekday] = self.fields.as_slice() else {
            panic!("six fields")
        };
        let of_month = day.has(local.day());
        let of_week = weekday.has(local.weekday().num_days_from_sunday());
        let date = if day.1 || weekday.1 { of_month && of_week } else { of_month || of_week };
        let time = second.has(local.second()) && minute.has(local.minute()) && hour.has(local.hour());
        time && date && month.has(local.month())
    }

    fn follows_elapsed_time(&self) -> bool {
        self.fields[1].1 || self.fields[2].1
    }
}

/// The instants at which the offset changes, and the local times before and after.
fn changes(
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
struct Scan {
    zone: Tz,
    gap: DstGap,
    fold: DstFold,
    step: TimeDelta,
}

impl Scan {
    fn due(&self, matcher: &Matcher, from: DateTime<Utc>, to: DateTime<Utc>) -> BTreeSet<DateTime<Utc>> {
        let elapsed = matcher.follows_elapsed_time();
        let mut due = BTreeSet::new();
        let mut at = from;
        while at <= to {
            let local = at.with_timezone(&self.zone).naive_local();
            if matcher.matches(local) && (elapsed || self.counts(at, local)) {
                due.insert(at);
            }
            at += self.step;
        }
        if !elapsed && self.gap == DstGap::RunAfter {
            for (change, mut missing, end) in changes(self.zone, from, to) {
                while missing < end {
                    if matcher.matches(missing) {
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

/// Instants to ask from: every 19 minutes of the window, and each second next to the change.
fn probes(
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    change: DateTime<Utc>,
) -> impl Iterator<Item = DateTime<Utc>> {
    let regular = std::iter::successors(Some(from), |at| Some(*at + TimeDelta::minutes(19)));
    let close = (-2..=2).map(move |second| change + TimeDelta::seconds(second));
    regular.take_while(move |at| *at <= to).chain(close)
}

/// Compares around every change; returns how many zones had one and how many windows were compared.
fn compare(zones: &[&str], whens: &[&str], margin: TimeDelta, step: TimeDelta) -> (usize, usize) {
    let (mut with_changes, mut windows) = (0, 0);
    for name in zones {
        let zone: Tz = name.parse().unwrap();
        let all = changes(zone, at("2020-01-01T00:00:00Z"), at("2038-01-01T00:00:00Z"));
        with_changes += usize::from(!all.is_empty());
        for (index, (change, _, _)) in all.iter().enumerate() {
            let (from, to) = (*change - margin, *change + margin);
            for (number, when) in whens.iter().enumerate() {
                let matcher = Matcher::new(when);
                // The rules take turns: every pair meets every expression within a few changes.
                let turn = index + number;
                let (gap, fold) = (DstGap::ALL[turn % 2], DstFold::ALL[turn / 2 % 3]);
                let expected = Scan { zone, gap, fold, step }.due(&matcher, from, to);
                let schedule = parse(when, name, gap, fold).unwrap();
                let case = format!("{when} in {name} around {change}, {gap}, {fold}");
                let forward: Vec<_> = schedule.between(from - TimeDelta::seconds(1), to).collect();
                assert!(forward.iter().eq(expected.iter()), "{case}: {forward:?} is not {expected:?}");
                let before = |at: &DateTime<Utc>| schedule.previous(*at - TimeDelta::seconds(1));
                let backward =
                    std::iter::successors(schedule.previous(to), before).take_while(|at| *at >= from);
                assert!(backward.eq(expected.iter().rev().copied()), "{case}, backward");
                // Asked in the middle of a pass, or right before the end of a gap, it answers the same.
                for at in probes(from, to, *change) {
                    let (next, previous) = (schedule.next(at), schedule.previous(at));
                    let expected_next = expected.range(at + TimeDelta::seconds(1)..).next();
                    assert_eq!(next.filter(|next| *next <= to).as_ref(), expected_next, "{case}, after {at}");
                    let expected_previous = expected.range(..=at).next_back();
                    assert_eq!(
                        previous.filter(|previous| *previous >= from).as_ref(),
                        expected_previous,
                        "{case}, until {at}"
                    );
                }
                windows += 1;
            }
        }
    }
    (with_changes, windows)
}

#[test]
fn every_minute_around_every_change_agrees() {
    let whens = [
        "* * * * *",
        "*/15 2 * * *",
        "0 */2 * * *",
        "0,30 0-3 * * *",
        "30 1 * * *",
        "59 23 * * *",
        "0 0 * * 0",
        "10-50/20 0-2,22-23 1-7,25-31 * 0,6",
        "5 0-23 */2 3-11 *",
    ];
    let (zones, windows) = compare(&ZONES, &whens, TimeDelta::hours(6), TimeDelta::minutes(1));
    assert!(zones >= 40 && windows > 5_000, "{windows} windows in {zones} zones");
}

#[test]
fn every_second_around_changes_agrees() {
    let zones = ["America/New_York", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Cairo"];
    let whens = ["*/20 59 1 * * *", "7 0,30 0-3 * * *", "*/25 */10 * * * *"];
    let (_, windows) = compare(&zones, &whens, TimeDelta::minutes(150), TimeDelta::seconds(1));
    assert!(windows > 300, "{windows} windows");
}
