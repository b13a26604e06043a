//! The herd: every second's count against a count one by one, whose the peaks are, and that what is suggested does what is
//! said.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/jobs.rs"]
mod jobs;
mod support;

use chrono::{DateTime, TimeDelta, Utc};
use escapement_schedule::{By, DateSets, Herd, Owner, Picture, Schedule};
use jobs::{definition, owner};
use model::calendar::CalendarVersion;
use model::job::Definition;
use std::collections::BTreeMap;
use std::time::Duration;
use support::at;

const NO_JITTER: Duration = Duration::ZERO;

/// Jobs with their places in the herd.
type Jobs = Vec<(Definition, Owner)>;

fn same(count: usize, schedule: &str, jitter: Duration) -> Jobs {
    (0..count).map(|number| (definition(schedule, "UTC", jitter), owner(number))).collect()
}

fn herd(jobs: &Jobs, dates: &DateSets, from: DateTime<Utc>, to: DateTime<Utc>) -> Herd {
    let mut herd = Herd::new(from, to);
    for (number, (definition, owner)) in jobs.iter().enumerate() {
        herd.add(&format!("job-{number:05}"), definition, *owner, dates).expect("a sound job");
    }
    herd
}

fn picture(jobs: &Jobs, from: &str, to: &str, buckets: usize) -> Picture {
    herd(jobs, &DateSets::default(), at(from), at(to)).look(buckets).expect("not too much")
}

/// How many runs are due in each second, asked of each job one by one.
fn one_by_one(
    jobs: &Jobs,
    dates: &DateSets,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
) -> BTreeMap<DateTime<Utc>, u32> {
    let mut seconds = BTreeMap::new();
    for (definition, owner) in jobs {
        let schedule = Schedule::of_job(definition, *owner, dates).expect("a sound job");
        let seed = owner.job.to_string();
        let planned = escapement_schedule::Definition::of(definition, &schedule, &seed);
        let longest = TimeDelta::from_std(definition.jitter).unwrap();
        for occurrence in schedule.between(from - longest - TimeDelta::seconds(1), to) {
            let due = DateTime::from_timestamp(planned.due_at(occurrence).timestamp(), 0).unwrap();
            if due >= from && due < to {
                *seconds.entry(due).or_default() += 1;
            }
        }
    }
    seconds
}

#[test]
fn every_second_has_as_many_runs_as_counted_one_by_one() {
    let mut dates = DateSets::default();
    let closed = CalendarVersion { name: "closed".to_owned(), version: 1 };
    dates.add((owner(0).tenant, closed.clone()), ["2026-10-25".parse().unwrap()]);
    let mut jobs = Jobs::new();
    let expressions = [
        "* * * * *",
        "*/7 * * * *",
        "H/10 * * * *",
        "0 3 * * *",
        "H H(1-4) * * *",
        "30 2 * * *",
        "*/13 * * * * *",
        "@every 97s",
        "@every 1h30m",
        "15 0 */2 * * *",
        "@at 2026-10-25T04:00:00",
        "@daily",
    ];
    let zones = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"];
    let jitters = [0, 500, 20_000, 90_000, 14_400_000];
    for (number, expression) in expressions.iter().cycle().take(240).enumerate() {
        let jitter = Duration::from_millis(jitters[number / 12 % jitters.len()]);
        let mut job = definition(expression, zones[number % 7 % zones.len()], jitter);
        if number % 5 == 0 && !expression.starts_with("@every") {
            job.calendars.exclude.push(closed.clone());
        }
        if number % 11 == 0 {
            job.starts_at = Some(at("2026-10-25T02:30:07Z"));
        }
        if number % 13 == 0 {
            job.ends_at = Some(at("2026-10-25T02:31:00Z"));
        }
        jobs.push((job, owner(number)));
    }
    // The clocks of Berlin go back at 01:00, those of Lord Howe went forward three weeks before.
    let (from, to) = (at("2026-10-25T00:20:11Z"), at("2026-10-25T04:20:11Z"));
    let expected = one_by_one(&jobs, &dates, from, to);
    let mut found = BTreeMap::new();
    // Buckets of a second, as many as a picture has.
    for start in (0..4 * 3_600).step_by(960) {
        let (from, to) = (from + TimeDelta::seconds(start), from + TimeDelta::seconds(start + 960));
        let picture = herd(&jobs, &dates, from, to).look(960).expect("not too much");
        assert_eq!((picture.bucket, picture.cut), (Duration::from_secs(1), false));
        let due = picture.buckets.iter().filter(|bucket| bucket.peak > 0);
        found.extend(due.map(|bucket| (bucket.at, bucket.peak)));
    }
    assert_eq!(found, expected);
    let whole = herd(&jobs, &dates, from, to).look(50).expect("not too much");
    assert_eq!(whole.runs, expected.values().map(|runs| u64::from(*runs)).sum::<u64>());
    assert_eq!(whole.busiest.map(|(_, runs)| runs), expected.values().max().copied());
    assert_eq!(whole.buckets.iter().map(|bucket| bucket.runs).sum::<u64>(), whole.runs);
    assert_eq!(whole.buckets.iter().map(|bucket| bucket.peak).max(), expected.values().max().copied());
}

#[test]
fn ten_thousand_jobs_of_each_second_are_counted_for_a_day() {
    let picture =
        picture(&same(10_000, "* * * * * *", NO_JITTER), "2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z", 96);
    assert_eq!((picture.jobs, picture.runs, picture.cut), (10_000, 864_000_000, false));
    assert_eq!(picture.busiest, Some((at("2026-11-29T00:00:00Z"), 10_000)));
    assert_eq!((picture.buckets.len(), picture.buckets[95].runs), (96, 9_000_000));
    assert!(picture.peaks.is_empty(), "no second stands out: {:?}", picture.peaks);
}

#[test]
fn what_is_too_much_is_cut_in_time_and_whole_until_then() {
    // Each ends at a second of its own, so that none is counted with another.
    let mut jobs = same(20, "* * * * * *", NO_JITTER);
    for (number, (job, _)) in jobs.iter_mut().enumerate() {
        job.ends_at = Some(at("2027-01-01T00:00:00Z") + TimeDelta::seconds(number as i64));
    }
    let limited = |steps| {
        let (from, to) = (at("2026-11-29T00:00:00Z"), at("2026-11-30T00:00:00Z"));
        herd(&jobs, &DateSets::default(), from, to).within(steps).look(96)
    };
    let cut = limited(1_000_000).expect("some of it");
    assert!(cut.cut && cut.to < at("2026-11-30T00:00:00Z"));
    let seconds = (cut.to - cut.from).num_seconds();
    assert!(seconds > 3_600, "{cut:?}");
    assert_eq!((cut.jobs, cut.runs), (20, seconds as u64 * 20), "all of them, until then");
    let error = limited(100_000).expect_err("too much");
    assert!(error.to_string().starts_with("20 jobs have too many runs"), "{error}");
}

#[test]
fn a_peak_names_its_jobs_and_how_often_they_meet() {
    let mut jobs = same(12, "0 * * * *", NO_JITTER);
    jobs.extend((12..15).map(|number| (definition("30 7 * * *", "UTC", NO_JITTER), owner(number))));
    jobs.extend(
        (15..17).map(|number| (definition(&format!("{number} 9 * * *"), "UTC", NO_JITTER), owner(number))),
    );
    let picture = picture(&jobs, "2026-11-29T00:30:00Z", "2026-11-30T00:30:00Z", 48);
    let [hourly, morning] = picture.peaks.as_slice() else { panic!("{:?}", picture.peaks) };
    assert_eq!((hourly.at, hourly.runs, hourly.times), (at("2026-11-29T01:00:00Z"), 12, 24));
    assert_eq!((hourly.jobs.len(), hourly.jobs[9].as_str()), (10, "job-00009"));
    assert_eq!((morning.at, morning.runs, morning.times), (at("2026-11-29T07:30:00Z"), 3, 1));
    assert_eq!(morning.jobs, ["job-00012", "job-00013", "job-00014"]);
}

#[test]
fn a_load_that_is_spread_has_no_peak() {
    let spread = same(6_000, "0 0 * * *", Duration::from_secs(600));
    let picture = picture(&spread, "2026-11-29T23:00:00Z", "2026-11-30T01:00:00Z", 60);
    assert_eq!(picture.runs, 6_000);
    assert!(picture.peaks.is_empty(), "{:?}", picture.peaks);
}

/// The busiest second once every job that a suggestion means was changed as it says.
fn after(jobs: &Jobs, by: &By, from: &str, to: &str) -> (usize, u32) {
    let mut jobs = jobs.clone();
    let mut changed = 0;
    for (job, _) in &mut jobs {
        match by {
            By::Jitter(jitter) if job.jitter < *jitter => job.jitter = *jitter,
            By::Schedule { was, is } if job.schedule == *was && job.jitter.is_zero() => {
                job.schedule = is.clone()
            }
            _ => continue,
        }
        changed += 1;
    }
    let seconds = one_by_one(&jobs, &DateSets::default(), at(from), at(to));
    (changed, seconds.values().max().copied().unwrap_or(0))
}

#[test]
fn a_suggestion_does_what_it_says() {
    let little = Duration::from_secs(5);
    for (schedule, jitter, expected) in [
        ("0 0 * * *", NO_JITTER, vec!["jitter", "H 0 * * *"]),
        ("@daily", NO_JITTER, vec!["jitter", "H 0 * * *"]),
        ("0 * * * *", NO_JITTER, vec!["jitter", "H * * * *"]),
        ("* * * * *", NO_JITTER, vec!["jitter", "H * * * * *"]),
        ("*/10 * * * * *", NO_JITTER, vec!["jitter", "H/10 * * * * *"]),
        ("0,20 0 * * *", NO_JITTER, vec!["jitter"]),
        ("0 0 * * *", little, vec!["jitter"]),
    ] {
        let mut jobs = same(500, schedule, jitter);
        // Nothing spreads these, and what is spread comes on top of them.
        jobs.extend((500..503).map(|number| (definition("* * * * * *", "UTC", NO_JITTER), owner(number))));
        let picture = picture(&jobs, "2026-11-29T23:30:00Z", "2026-11-30T00:20:00Z", 60);
        let peak = &picture.peaks[0];
        let named: Vec<&str> = peak
            .spreads
            .iter()
            .map(|spread| match &spread.by {
                By::Jitter(_) => "jitter",
                By::Schedule { is, .. } => is,
            })
            .collect();
        assert_eq!(named, expected, "{schedule}");
        for spread in &peak.spreads {
            let (from, to) = ("2026-11-29T23:00:01Z", "2026-11-30T01:00:00Z");
            let (changed, busiest) = after(&jobs, &spread.by, from, to);
            assert_eq!((spread.jobs, spread.peak), (changed, busiest), "{schedule}: {spread:?}");
            assert!(busiest < peak.runs);
        }
    }
}

#[test]
fn what_can_not_be_spread_is_left_as_it_is() {
    // A beat of two seconds has nothing to draw, and a spread of two seconds halves it at best.
    let mut jobs = same(40, "@every 2s", NO_JITTER);
    for (job, _) in &mut jobs {
        job.starts_at = Some(at("2026-11-29T00:00:00Z"));
    }
    jobs.push((definition("0 12 * * *", "UTC", NO_JITTER), owner(40)));
    let picture = picture(&jobs, "2026-11-29T11:59:00Z", "2026-11-29T12:01:00Z", 120);
    assert_eq!(picture.busiest, Some((at("2026-11-29T12:00:00Z"), 41)));
    assert_eq!(picture.peaks.len(), 2, "{:?}", picture.peaks);
    for peak in &picture.peaks {
        assert!(
            peak.spreads.iter().all(|spread| matches!(spread.by, By::Jitter(_)) && spread.peak < peak.runs)
        );
    }
}
