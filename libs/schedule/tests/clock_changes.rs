//! Around every clock change of more than forty zones from 2020 to 2037, the schedule's answers equal a scan of each minute
//! or second that knows nothing of bit sets, and takes its local times from the other timezone database.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;
use model::policy::{DstFold, DstGap};
use support::scan::{Matcher, Scan, changes};
use support::{ZONES, at, parse};

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
                let elapsed = matcher.follows_elapsed_time();
                let scan = Scan { zone, gap, fold, step, elapsed };
                let expected = scan.due(|local| matcher.matches(local), from, to);
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

#[test]
fn every_second_around_every_change_agrees() {
    let whens = ["*/20 59 1 * * *", "7 0,30 0-3 * * *", "*/25 */10 * * * *"];
    let mut all = (0, 0);
    // The zones share the expressions out among themselves.
    for (zones, when) in ZONES.chunks(ZONES.len().div_ceil(whens.len())).zip(whens) {
        let (with_changes, windows) = compare(zones, &[when], TimeDelta::minutes(65), TimeDelta::seconds(1));
        all = (all.0 + with_changes, all.1 + windows);
    }
    assert!(all.0 >= 40 && all.1 > 1_000, "{} windows in {} zones", all.1, all.0);
}
