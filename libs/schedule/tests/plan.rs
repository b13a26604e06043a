//! Planning: every occurrence is decided exactly once, whatever the outage, the policy and the size of a batch.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use chrono::{DateTime, TimeDelta, Utc};
use escapement_schedule::{Definition, Missed, Plan, Schedule, plan};
use model::policy::MisfirePolicy;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use support::{at, schedule};

const BATCH: usize = 10_000;

fn definition(schedule: &Schedule, misfire: MisfirePolicy) -> Definition<'_> {
    Definition {
        schedule,
        misfire,
        grace: Duration::from_secs(60),
        catch_up_limit: 1_000,
        catch_up_window: Duration::from_secs(7 * 86_400),
        jitter: Duration::ZERO,
        job_seed: "job",
    }
}

/// An every-minute job that nobody planned from 08:30 on, seen at 10:21.
fn after_the_outage(misfire: MisfirePolicy) -> Plan {
    let schedule = schedule("* * * * *", "UTC");
    let (now, cursor) = (at("2026-05-04T10:21:00Z"), at("2026-05-04T08:30:00Z"));
    plan(&definition(&schedule, misfire), cursor, now, now + TimeDelta::minutes(2), BATCH)
}

fn on_time(plan: &Plan) -> Vec<String> {
    plan.planned.iter().map(|planned| planned.scheduled_for.format("%H:%M").to_string()).collect()
}

#[test]
fn skip_records_the_whole_outage() {
    let plan = after_the_outage(MisfirePolicy::Skip);
    // 10:20 is 60 s late, still within its grace.
    let missed = Missed { first: at("2026-05-04T08:30:00Z"), last: at("2026-05-04T10:19:00Z"), count: 110 };
    assert_eq!(plan.missed, [missed]);
    assert_eq!(on_time(&plan), ["10:20", "10:21", "10:22", "10:23"]);
    assert!(plan.late.is_none() && plan.catch_up.is_empty() && plan.reached_now);
    assert_eq!(plan.next_cursor, Some(at("2026-05-04T10:24:00Z")));
}

#[test]
fn once_runs_the_latest_and_records_the_rest() {
    let plan = after_the_outage(MisfirePolicy::Once);
    let missed = Missed { first: at("2026-05-04T08:30:00Z"), last: at("2026-05-04T10:18:00Z"), count: 109 };
    assert_eq!(plan.missed, [missed]);
    let late = plan.late.expect("one runs late");
    assert_eq!((late.scheduled_for, late.start_by), (at("2026-05-04T10:19:00Z"), None));
    assert_eq!(plan.planned.len(), 4);
}

#[test]
fn catch_up_runs_the_newest_oldest_first() {
    let schedule = schedule("* * * * *", "UTC");
    let (now, cursor) = (at("2026-05-04T10:21:00Z"), at("2026-05-04T08:30:00Z"));
    let mut definition = definition(&schedule, MisfirePolicy::CatchUp);
    let all = plan(&definition, cursor, now, now, BATCH);
    assert_eq!((all.catch_up.len(), all.missed.len()), (110, 0));

    definition.catch_up_limit = 3;
    let limited = plan(&definition, cursor, now, now, BATCH);
    let expected = ["10:17", "10:18", "10:19"].map(|time| at(&format!("2026-05-04T{time}:00Z")));
    assert_eq!(limited.catch_up, expected);
    assert_eq!(limited.missed[0].count, 107);

    definition.catch_up_limit = 1_000;
    definition.catch_up_window = Duration::from_secs(600);
    let recent = plan(&definition, cursor, now, now, BATCH);
    assert_eq!(recent.catch_up.first(), Some(&at("2026-05-04T10:11:00Z")));
    assert_eq!(recent.missed[0].count, 101);
}

#[test]
fn an_occurrence_within_its_grace_is_on_time_to_the_instant() {
    let schedule = schedule("5 0 * * *", "UTC");
    let due = at("2026-05-04T00:05:00Z");
    let once = definition(&schedule, MisfirePolicy::Once);
    let last_moment = plan(&once, due, due + TimeDelta::seconds(60), due + TimeDelta::seconds(60), BATCH);
    assert_eq!((last_moment.planned.len(), last_moment.late), (1, None));
    assert_eq!(last_moment.planned[0].start_by, Some(due + TimeDelta::seconds(60)));
    let too_late = due + TimeDelta::milliseconds(60_001);
    let late = plan(&once, due, too_late, too_late, BATCH);
    assert_eq!((late.planned.len(), late.late.map(|late| late.scheduled_for)), (0, Some(due)));
}

#[test]
fn a_long_outage_is_counted_over_several_batches_and_only_the_last_runs_one() {
    let schedule = schedule("* * * * * *", "UTC");
    let once = definition(&schedule, MisfirePolicy::Once);
    let (mut cursor, mut now) = (at("2026-05-04T00:00:00Z"), at("2026-05-04T10:00:00Z"));
    let (mut counted, mut batches) = (0, 0);
    loop {
        let plan = plan(&once, cursor, now, now, BATCH);
        counted += plan.missed.iter().map(|missed| missed.count).sum::<u64>();
        batches += 1;
        if plan.reached_now {
            assert_eq!(plan.late.expect("one runs").scheduled_for, now - TimeDelta::seconds(61));
            break;
        }
        assert!(plan.late.is_none() && plan.planned.is_empty());
        cursor = plan.next_cursor.expect("a per-second job goes on");
        now += TimeDelta::seconds(1);
    }
    assert_eq!(batches, 4);
    let until = now - TimeDelta::seconds(61);
    assert_eq!(counted, u64::try_from((until - at("2026-05-04T00:00:00Z")).num_seconds()).unwrap());
}

#[test]
fn a_backlog_larger_than_a_batch_runs_although_time_goes_on() {
    let schedule = schedule("* * * * * *", "UTC");
    let definition = Definition { catch_up_limit: 40, ..definition(&schedule, MisfirePolicy::CatchUp) };
    let (mut cursor, mut now) = (at("2026-05-04T08:00:00Z"), at("2026-05-04T09:00:00Z"));
    for _ in 0..1_000 {
        let plan = plan(&definition, cursor, now, now, 10);
        if !plan.catch_up.is_empty() {
            assert_eq!(plan.catch_up.len(), 40);
            return;
        }
        assert!(!plan.missed.is_empty());
        cursor = plan.next_cursor.expect("it goes on");
        now += TimeDelta::seconds(2); // in which two more come due
    }
    panic!("the backlog never runs");
}

#[test]
fn an_exhausted_schedule_has_no_cursor() {
    let schedule = schedule("@at 2026-12-24T18:00:00 Europe/Berlin", "UTC");
    let now = at("2026-12-24T16:59:30Z");
    let plan =
        plan(&definition(&schedule, MisfirePolicy::Once), now, now, now + TimeDelta::minutes(1), BATCH);
    assert_eq!(plan.planned[0].scheduled_for, at("2026-12-24T17:00:00Z"));
    assert_eq!((plan.next_cursor, plan.reached_now), (None, true));
}

#[test]
fn jitter_only_delays_and_stays_before_the_next_occurrence() {
    let hourly = schedule("0 * * * *", "UTC");
    let mut seconds = std::collections::BTreeSet::new();
    for job in 0..500 {
        let seed = format!("job-{job}");
        let jitter = Duration::from_secs(7_200);
        let definition = Definition { jitter, job_seed: &seed, ..definition(&hourly, MisfirePolicy::Once) };
        let due = definition.due_at(at("2026-05-04T14:00:00Z"));
        assert!(due >= at("2026-05-04T14:00:00Z") && due < at("2026-05-04T15:00:00Z"), "{due}");
        assert_eq!(due, definition.due_at(at("2026-05-04T14:00:00Z")));
        seconds.insert(due.timestamp());
    }
    // A spread longer than the interval still spreads over all of it.
    assert!(seconds.len() > 400, "{} different seconds", seconds.len());
}

#[test]
fn a_midnight_herd_with_jitter_peaks_below_twice_its_mean() {
    let daily = schedule("0 0 * * *", "UTC");
    let mut per_second = BTreeMap::<i64, u32>::new();
    for job in 0..33_000_u32 {
        let seed = format!("0190c0de-0000-7000-8000-{job:012x}");
        let jitter = Duration::from_secs(600);
        let definition = Definition { jitter, job_seed: &seed, ..definition(&daily, MisfirePolicy::Once) };
        *per_second.entry(definition.due_at(at("2026-05-04T00:00:00Z")).timestamp()).or_default() += 1;
    }
    assert!(per_second.len() == 600 && per_second.values().all(|jobs| *jobs <= 110), "{per_second:?}");
}

#[test]
fn planned_rows_that_were_missed_follow_the_same_policy() {
    let schedule = schedule("* * * * *", "UTC");
    let now = at("2026-05-04T10:21:00Z");
    let rows = [14, 15, 16, 17].map(|minute| at(&format!("2026-05-04T10:{minute}:00Z")));
    let settled = |misfire, newer| definition(&schedule, misfire).settle(&rows, newer, now);
    assert_eq!(settled(MisfirePolicy::Skip, 0).dropped, rows);
    let once = settled(MisfirePolicy::Once, 0);
    assert_eq!((once.late, once.dropped.as_slice()), (Some(rows[3]), &rows[..3]));
    assert_eq!(settled(MisfirePolicy::Once, 1).dropped, rows);
    assert_eq!(settled(MisfirePolicy::CatchUp, 0).catch_up, rows);
    assert_eq!(settled(MisfirePolicy::CatchUp, 998).catch_up, rows[2..]);
    assert_eq!(settled(MisfirePolicy::CatchUp, 998).dropped, rows[..2]);
}

/// Where each occurrence of a series of batches ended.
#[derive(Default)]
struct Ledger {
    places: BTreeMap<DateTime<Utc>, &'static str>,
    batches_with_runs: usize,
}

impl Ledger {
    fn enter(&mut self, at: DateTime<Utc>, place: &'static str) {
        let before = self.places.insert(at, place);
        assert_eq!(before, None, "{at} is {place}");
    }

    fn take(&mut self, schedule: &Schedule, plan: &Plan) {
        for missed in &plan.missed {
            let counted: Vec<_> =
                schedule.between(missed.first - TimeDelta::seconds(1), missed.last).collect();
            assert_eq!(counted.len() as u64, missed.count);
            assert_eq!((counted.first(), counted.last()), (Some(&missed.first), Some(&missed.last)));
            counted.into_iter().for_each(|at| self.enter(at, "missed"));
        }
        plan.late.iter().for_each(|late| self.enter(late.scheduled_for, "late"));
        plan.catch_up.iter().for_each(|at| self.enter(*at, "catch-up"));
        plan.planned.iter().for_each(|planned| self.enter(planned.scheduled_for, "planned"));
        self.batches_with_runs += usize::from(plan.late.is_some() || !plan.catch_up.is_empty());
    }

    fn count(&self, place: &str) -> usize {
        self.places.values().filter(|found| **found == place).count()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_occurrence_ends_in_exactly_one_place(
        when in prop_oneof![Just("* * * * *"), Just("*/7 * * * * *"), Just("0 9 * * 1-5"), Just("13,37 */2 * * *"),
            Just("@every 41s"), Just("30 1 * * *")],
        zone in support::any_zone(),
        misfire in proptest::sample::select(MisfirePolicy::ALL),
        start in 1_774_000_000_i64..1_795_000_000,
        outage in 0_i64..40_000,
        steps in proptest::collection::vec(0_i64..200, 1..20),
        lookahead in 0_i64..300,
        jitter in 0_u64..200,
        grace in 10_u64..200,
        limit in 0_u32..50,
        window in 0_u64..20_000,
        batch in 1_usize..120,
    ) {
        let schedule = schedule(when, zone);
        let definition = Definition {
            grace: Duration::from_secs(grace),
            jitter: Duration::from_secs(jitter),
            catch_up_limit: limit,
            catch_up_window: Duration::from_secs(window),
            ..definition(&schedule, misfire)
        };
        let first = DateTime::from_timestamp(start, 0).unwrap();
        let mut ledger = Ledger::default();
        let (mut cursor, mut now) = (first, first + TimeDelta::seconds(outage));
        for step in steps {
            now += TimeDelta::seconds(step);
            let horizon = now + TimeDelta::seconds(lookahead);
            let plan = plan(&definition, cursor, now, horizon, batch);
            let bound = batch.max(limit as usize + batch.div_ceil(2));
            let held = plan.planned.len() + plan.catch_up.len() + usize::from(plan.late.is_some())
                + plan.missed.iter().map(|missed| missed.count as usize).sum::<usize>();
            prop_assert!(held <= bound, "{held} in a batch of {bound}");
            for planned in &plan.planned {
                prop_assert!(!definition.is_missed(planned.due_at, now));
                let next = schedule.next(planned.scheduled_for).unwrap();
                prop_assert!(planned.due_at >= planned.scheduled_for && planned.due_at < next);
            }
            let next = plan.next_cursor.expect("these schedules go on");
            prop_assert!(plan.reached_now == (next > horizon), "reached {} at {next}", plan.reached_now);
            prop_assert!(next > cursor || plan.reached_now, "a batch that is cut off makes progress");
            ledger.take(&schedule, &plan);
            // Everything before the next cursor is decided, nothing after it.
            let decided: Vec<_> = schedule.between(first - TimeDelta::seconds(1), next).collect();
            prop_assert!(ledger.places.keys().eq(decided.iter().filter(|at| **at < next)));
            cursor = next;
        }
        if misfire == MisfirePolicy::Skip {
            prop_assert_eq!(ledger.batches_with_runs, 0);
        }
        if misfire != MisfirePolicy::CatchUp {
            prop_assert_eq!(ledger.count("catch-up"), 0);
        }
    }

    #[test]
    fn catch_up_runs_exactly_the_newest_within_limit_and_window(
        outage in 0_i64..9_000,
        limit in 0_u32..60,
        window in 0_u64..9_000,
        batch in 1_usize..40,
    ) {
        let schedule = schedule("*/30 * * * * *", "UTC");
        let definition = Definition {
            catch_up_limit: limit,
            catch_up_window: Duration::from_secs(window),
            ..definition(&schedule, MisfirePolicy::CatchUp)
        };
        let first = at("2026-05-04T00:00:00Z");
        let now = first + TimeDelta::seconds(outage);
        let mut ledger = Ledger::default();
        let mut cursor = first;
        loop {
            let plan = plan(&definition, cursor, now, now, batch);
            ledger.take(&schedule, &plan);
            cursor = plan.next_cursor.unwrap();
            if plan.reached_now {
                break;
            }
        }
        let all: Vec<_> = schedule.between(first - TimeDelta::seconds(1), now).collect();
        let missed = all.iter().filter(|at| now > **at + TimeDelta::seconds(60));
        let recent = missed.rev().take(limit as usize);
        let mut expected: Vec<_> =
            recent.filter(|at| now - **at <= TimeDelta::seconds(window as i64)).copied().collect();
        expected.reverse();
        let ran: Vec<_> = ledger.places.iter().filter(|(_, place)| **place == "catch-up").map(|(at, _)| *at).collect();
        prop_assert_eq!(ran, expected);
    }
}
