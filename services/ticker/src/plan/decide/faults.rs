//! Traps that schedulers fall into after outages, pauses, edits and jumps of the clock, each as a test.

use super::tests::moment;
use super::*;
use crate::testing::{cursor, each_second, revision};
use model::job::{Definition, defaults};
use store::job_cursor::{Cursor, Revision};

fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect(text)
}

fn looked(now: &str) -> Moment<'static> {
    Moment { at: at(now), horizon: at(now) + TimeDelta::seconds(120), ..moment(0) }
}

fn of(schedule: &str, policy: MisfirePolicy) -> Definition {
    Definition { schedule: schedule.to_owned(), ..each_second(policy) }
}

fn since(from: &str, definition: Definition) -> Revision {
    Revision { in_force_from: at(from), ..revision(1, 0, definition) }
}

/// A job that was created with these revisions, and is planned up to `next`.
fn job(next: &str, revisions: Vec<Revision>) -> Cursor {
    let created_at = revisions[0].in_force_from;
    Cursor { next_fire_at: Some(at(next)), created_at, ..cursor(0, revisions) }
}

/// The runs that a decision brings, and how many occurrences it counts as missed.
fn brought(decision: &Decision) -> (Vec<(String, How)>, u64) {
    let text = |fire: &Fire| (fire.scheduled_for.format("%dT%H:%M:%S").to_string(), fire.how);
    (decision.fires.iter().map(text).collect(), decision.misfires.iter().map(|missed| missed.count).sum())
}

fn late(text: &str) -> (String, How) {
    (text.to_owned(), How::Late)
}

#[test]
fn more_than_a_hundred_missed_minutes_stop_nothing() {
    for (policy, extra) in [(MisfirePolicy::Skip, 0), (MisfirePolicy::Once, 1), (MisfirePolicy::CatchUp, 30)]
    {
        let down = job("2026-05-04T08:30:00Z", vec![since("2026-05-04T00:00:00Z", of("* * * * *", policy))]);
        let decision = decide(&down, &looked("2026-05-04T10:21:00Z"));
        let (runs, missed) = brought(&decision);
        let not_in_time = runs.iter().filter(|(_, how)| !matches!(how, How::InTime(_))).count();
        assert_eq!((not_in_time, missed), (extra, 111 - extra as u64), "{policy}");
        assert_eq!(runs.len() - not_in_time, 3, "10:21, and on it goes: {policy}");
        assert!(
            decision
                .fires
                .iter()
                .rev()
                .take(not_in_time)
                .is_sorted_by_key(|fire| std::cmp::Reverse(fire.scheduled_for))
        );
    }
}

#[test]
fn ninety_days_of_pause_are_passed_at_once() {
    let minutes = of("* * * * *", MisfirePolicy::CatchUp);
    let mut paused = since("2026-01-02T00:00:00Z", minutes.clone());
    (paused.paused, paused.generation) = (true, Generation(2));
    let mut resumed = since("2026-04-02T00:00:30Z", minutes.clone());
    resumed.generation = Generation(3);
    let job = job("2026-01-02T00:01:00Z", vec![since("2026-01-01T00:00:00Z", minutes), paused, resumed]);
    let decision = decide(&job, &looked("2026-04-02T00:00:31Z"));
    assert_eq!((decision.occurrences, decision.misfires.len()), (2, 0), "nothing of the pause is looked at");
    assert_eq!(decision.fires[0].scheduled_for, at("2026-04-02T00:01:00Z"));
}

#[test]
fn a_job_that_never_ran_catches_up_from_its_creation_on() {
    let created = "2026-05-04T12:00:10Z";
    let job = job("2026-05-04T12:01:00Z", vec![since(created, of("* * * * *", MisfirePolicy::CatchUp))]);
    let (runs, missed) = brought(&decide(&job, &looked("2026-05-04T12:02:20Z")));
    let backlog = |text: &str| (text.to_owned(), How::Backlog);
    assert_eq!(runs[..2], [backlog("04T12:01:00"), backlog("04T12:02:00")]);
    assert_eq!(missed, 0);
}

#[test]
fn an_edit_neither_fires_for_a_past_slot_of_the_new_expression_nor_for_a_coming_one_of_the_old() {
    for (old, new, edited, looked_at, first) in [
        // The new one's slot lies before the edit; the old one's was to come.
        ("30 11 * * 5", "0 11 * * 5", "2018-01-04T23:49:00Z", "2018-01-05T10:59:00Z", "05T11:00:00"),
        ("30 11 * * 5", "0 11 * * 5", "2018-01-05T11:10:00Z", "2018-01-12T10:59:00Z", "12T11:00:00"),
        ("0 23 * * *", "0 5 * * *", "2018-01-04T12:00:00Z", "2018-01-05T04:59:30Z", "05T05:00:00"),
        ("0 21 * * 2,5", "0 23 * * 3,0", "2024-02-02T17:21:39Z", "2024-02-04T22:59:30Z", "04T23:00:00"),
    ] {
        let mut changed = since(edited, of(new, MisfirePolicy::Once));
        changed.generation = Generation(2);
        let revisions = vec![since("2018-01-01T00:00:00Z", of(old, MisfirePolicy::Once)), changed];
        // Planned by the old one through the edit; the edit took the rest back.
        let (runs, missed) = brought(&decide(&job(edited, revisions), &looked(looked_at)));
        let runs: Vec<_> = runs.iter().map(|(at, _)| at.as_str()).collect();
        assert_eq!((runs, missed), (vec![first], 0), "{old} to {new}");
    }
}

#[test]
fn a_planner_that_comes_back_late_runs_the_slot_once_or_counts_it() {
    let midnight = |policy, grace| {
        let mut definition = of("5 0 * * *", policy);
        definition.misfire.grace = grace;
        job("2026-05-04T00:05:00Z", vec![since("2026-05-01T00:00:00Z", definition)])
    };
    let back = looked("2026-05-04T00:05:50Z");
    let (runs, missed) = brought(&decide(&midnight(MisfirePolicy::Once, Duration::from_secs(10)), &back));
    assert_eq!((runs, missed), (vec![late("04T00:05:00")], 0));
    assert_eq!(brought(&decide(&midnight(MisfirePolicy::Skip, Duration::from_secs(10)), &back)), (vec![], 1));
    let (runs, missed) = brought(&decide(&midnight(MisfirePolicy::Skip, defaults::MISFIRE_GRACE), &back));
    assert!(matches!(&runs[..], [(_, How::InTime(_))]) && missed == 0, "by default a minute is no miss");
    // A machine that was suspended for 42 minutes before the slot, and for two days.
    for (now, ran, counted) in
        [("2026-05-04T00:42:00Z", "04T00:05:00", 0), ("2026-05-06T00:01:00Z", "05T00:05:00", 1)]
    {
        let (runs, missed) =
            brought(&decide(&midnight(MisfirePolicy::Once, Duration::from_secs(10)), &looked(now)));
        assert_eq!((&runs[0], missed), (&late(ran), counted), "{now}");
    }
}

#[test]
fn no_slot_falls_between_two_looks_or_into_both_however_they_drift() {
    let mut job = job(
        "2026-05-04T03:00:00Z",
        vec![since("2026-05-01T00:00:00Z", of("* * * * *", MisfirePolicy::Once))],
    );
    let mut planned = Vec::new();
    // 60.2 s apart, twice in a minute, on a minute's edge, and a minute and a half apart.
    let looks =
        ["02:59:59.900", "03:01:00.100", "03:01:20", "03:01:59.990", "03:03:01.010", "03:04:31", "03:04:31"];
    for look in looks {
        let now = at(&format!("2026-05-04T{look}Z"));
        let decision = decide(&job, &Moment { at: now, horizon: now, ..moment(0) });
        assert!(decision.misfires.iter().all(|missed| missed.count <= 1));
        planned.extend(decision.misfires.iter().map(|missed| missed.first));
        planned.extend(decision.fires.iter().map(|fire| fire.scheduled_for));
        job.next_fire_at = decision.next;
    }
    let minutes: Vec<_> = (0..5).map(|n| at("2026-05-04T03:00:00Z") + TimeDelta::minutes(n)).collect();
    planned.sort_unstable();
    assert_eq!(planned, minutes);
}

#[test]
fn a_new_job_is_not_due_because_it_has_no_past() {
    let monthly = vec![since("2026-05-14T09:00:00Z", of("0 0 1 * *", MisfirePolicy::Once))];
    let loaded = decide(&job("2026-05-14T09:00:00.000001Z", monthly), &looked("2026-05-14T09:00:01Z"));
    assert_eq!((brought(&loaded), loaded.next), ((vec![], 0), Some(at("2026-06-01T00:00:00Z"))));
}

#[test]
fn a_long_interval_survives_every_restart() {
    let created = "2026-05-01T10:00:00Z";
    let mut weekly =
        job("2026-05-08T10:00:00Z", vec![since(created, of("@every 168h", MisfirePolicy::Once))]);
    let mut due = Vec::new();
    for day in (1..=22).step_by(3) {
        let now = at(created) + TimeDelta::days(day);
        let decision = decide(&weekly, &Moment { at: now, horizon: now, ..moment(0) });
        due.extend(decision.fires.iter().map(|fire| fire.scheduled_for.format("%d").to_string()));
        weekly.next_fire_at = decision.next;
    }
    assert_eq!(due, ["08", "15", "22"]);
}

#[test]
fn an_outage_of_five_minutes_loses_no_run_by_default() {
    let mut definition = of("* * * * *", MisfirePolicy::Once);
    definition.misfire.grace = defaults::MISFIRE_GRACE;
    let down = job("2026-05-04T08:30:00Z", vec![since("2026-05-04T00:00:00Z", definition)]);
    let decision = decide(&down, &looked("2026-05-04T08:35:00Z"));
    let (runs, missed) = brought(&decision);
    assert_eq!((&runs[0], missed), (&late("04T08:33:00"), 3));
    let counted = decision.misfires[0];
    assert_eq!((counted.outcome, counted.cause), (MisfireOutcome::Superseded, MisfireCause::NoTicker));
    assert!(defaults::CATCH_UP_WINDOW >= Duration::from_secs(86_400));
}

#[test]
fn a_jump_forward_replays_nothing_that_the_policy_does_not_want() {
    for (policy, expected) in
        [(MisfirePolicy::Skip, 0), (MisfirePolicy::Once, 1), (MisfirePolicy::CatchUp, 30)]
    {
        let jumped =
            job("2026-05-04T08:00:05Z", vec![since("2026-05-04T00:00:00Z", of("*/5 * * * * *", policy))]);
        let (runs, missed) = brought(&decide(&jumped, &looked("2026-05-04T09:00:00Z")));
        let not_in_time = runs.iter().filter(|(_, how)| !matches!(how, How::InTime(_))).count();
        assert_eq!(not_in_time, expected, "{policy}");
        // 720 slots; the last three are within their grace.
        assert_eq!(missed + not_in_time as u64, 717, "{policy}");
    }
}
