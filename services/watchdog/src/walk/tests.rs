mod owner;
mod property;

use super::*;
use model::calendar::Calendars;
use model::ids::{JobId, TenantId};
use model::job::{Alert, Handler, Misfire, Retry, Work, defaults};
use model::policy::{DstFold, DstGap, MisfirePolicy, OverlapPolicy};
use model::validate::limits;
use std::collections::BTreeMap;
use std::time::Duration as Time;
use uuid::Uuid;

/// 2026-11-29T12:00:00Z plus so many seconds.
fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_953_600 + second, 0).expect("in range")
}

fn definition(schedule: &str, within: u64) -> Definition {
    Definition {
        schedule: schedule.to_owned(),
        timezone: "UTC".to_owned(),
        dst_gap: DstGap::RunAfter,
        dst_fold: DstFold::First,
        starts_at: None,
        ends_at: None,
        calendars: Calendars::default(),
        misfire: Misfire {
            policy: MisfirePolicy::Once,
            grace: defaults::MISFIRE_GRACE,
            catch_up_limit: defaults::CATCH_UP_LIMIT,
            catch_up_window: defaults::CATCH_UP_WINDOW,
            catch_up_per_second: 10,
        },
        overlap: OverlapPolicy::Forbid,
        max_runtime: defaults::MAX_RUNTIME,
        retry: Retry {
            max_attempts: 1,
            backoff: defaults::BACKOFF,
            backoff_max: defaults::BACKOFF_MAX,
            ..Retry::default()
        },
        jitter: Time::ZERO,
        queue: defaults::QUEUE.to_owned(),
        priority: 0,
        labels: BTreeMap::new(),
        alert: Alert { success_within: Some(Time::from_secs(within)), ..Alert::default() },
        run: Work::Handler(Handler::default()),
    }
}

fn revision(from: i64, definition: Definition) -> Revision {
    Revision { in_force_from: at(from), deleted: false, paused: false, definition: Ok(definition) }
}

fn deleted(from: i64) -> Revision {
    Revision { deleted: true, ..revision(from, definition("* * * * *", 10)) }
}

fn unwatched(from: i64) -> Revision {
    let mut definition = definition("* * * * *", 10);
    definition.alert.disabled = true;
    revision(from, definition)
}

fn cursor(judged_through: i64, revisions: Vec<Revision>) -> Cursor {
    Cursor {
        job_id: JobId(Uuid::nil()),
        tenant_id: TenantId::DEFAULT,
        name: "invoices".to_owned(),
        created_at: at(0),
        judged_through: at(judged_through),
        through: None,
        revisions,
    }
}

fn go(cursor: &Cursor, now: i64) -> Walk {
    walk(cursor, &DateSets::default(), at(now), DateTime::UNIX_EPOCH, 1_000)
}

fn seconds(walk: &Walk) -> Vec<i64> {
    walk.expected.iter().map(|expected| (expected.occurrence - at(0)).num_seconds()).collect()
}

fn next(walk: &Walk) -> Option<(i64, i64)> {
    let advance = walk.advance.expect("a cursor moves");
    let since = |instant: DateTime<Utc>| (instant - at(0)).num_seconds();
    Some((since(advance.next_at?), since(advance.judge_at?)))
}

#[test]
fn an_occurrence_is_expected_three_seconds_after_its_deadline_and_not_before() {
    let cursor = cursor(0, vec![revision(0, definition("* * * * *", 10))]);
    let early = go(&cursor, 72);
    assert_eq!((seconds(&early), next(&early)), (vec![], Some((60, 73))));
    let due = go(&cursor, 73);
    assert_eq!((seconds(&due), next(&due)), (vec![60], Some((120, 133))));
    assert_eq!(due.expected[0].deadline, at(70));
    assert_eq!(due.advance.map(|advance| advance.judged_through), Some(at(60)));
}

#[test]
fn nothing_before_the_creation_is_expected() {
    let cursor = cursor(-600, vec![revision(30, definition("* * * * *", 10))]);
    assert_eq!(seconds(&go(&cursor, 200)), [60, 120, 180]);
}

#[test]
fn a_backlog_is_walked_in_pieces_that_join() {
    let mut cursor = cursor(0, vec![revision(0, definition("* * * * * *", 10))]);
    let first = walk(&cursor, &DateSets::default(), at(1_000), DateTime::UNIX_EPOCH, 600);
    assert_eq!((first.expected.len(), next(&first)), (600, Some((601, 614))));
    cursor.judged_through = first.advance.expect("moved").judged_through;
    let second = go(&cursor, 1_000);
    assert_eq!(seconds(&second), (601..=987).collect::<Vec<_>>());
}

#[test]
fn each_occurrence_is_judged_by_the_definition_in_force_at_it() {
    let revisions =
        vec![revision(0, definition("* * * * *", 10)), revision(120, definition("*/5 * * * *", 20))];
    let walked = go(&cursor(0, revisions), 1_000);
    // 120 belongs to the old one: a definition applies through the moment of the change.
    assert_eq!(seconds(&walked), [60, 120, 300, 600, 900]);
    assert_eq!(walked.expected[1].deadline, at(130));
    assert_eq!(walked.expected[2].deadline, at(320));
}

#[test]
fn a_shorter_deadline_does_not_wait_behind_an_older_longer_one() {
    let revisions =
        vec![revision(0, definition("* * * * *", 3_600)), revision(90, definition("* * * * *", 10))];
    let walked = go(&cursor(0, revisions.clone()), 140);
    assert_eq!((seconds(&walked), next(&walked)), (vec![120], Some((180, 193))));
    let rest = walked.rests[0];
    assert_eq!((rest.through, rest.judged_through, rest.judge_at), (at(90), at(0), at(3_663)));

    let rest = Cursor { through: Some(at(90)), ..cursor(0, revisions) };
    let walked = go(&rest, 3_663);
    assert_eq!((seconds(&walked), walked.closed, walked.advance), (vec![60], true, None));
}

#[test]
fn a_rest_is_judged_no_further_than_its_end() {
    let revisions =
        vec![revision(0, definition("* * * * *", 10)), revision(90, definition("* * * * * *", 10))];
    let rest = Cursor { through: Some(at(90)), ..cursor(0, revisions) };
    let floor_above = walk(&rest, &DateSets::default(), at(500), at(200), 1_000);
    assert_eq!((seconds(&floor_above), floor_above.closed), (vec![], true));
    assert_eq!(seconds(&go(&rest, 500)), [60]);
}

#[test]
fn what_is_deleted_before_its_deadline_is_not_expected() {
    let before = vec![revision(0, definition("* * * * *", 10)), deleted(65)];
    let walked = go(&cursor(0, before), 500);
    assert_eq!((seconds(&walked), next(&walked), walked.rests), (vec![], None, vec![]));
    let after = vec![revision(0, definition("* * * * *", 10)), deleted(75)];
    assert_eq!(seconds(&go(&cursor(0, after), 500)), [60]);
}

#[test]
fn what_is_not_watched_is_passed_over_and_taken_up_again() {
    let revisions = vec![
        revision(0, definition("* * * * *", 10)),
        unwatched(100),
        revision(100_000, definition("* * * * *", 10)),
    ];
    let off = go(&cursor(0, revisions[..2].to_vec()), 50_000);
    assert_eq!((seconds(&off), next(&off)), (vec![60], None));
    assert_eq!(seconds(&go(&cursor(60, revisions), 100_100)), [100_020, 100_080]);
}

#[test]
fn a_broken_definition_hides_only_its_own_time() {
    let broken = Revision { definition: Err("unknown field".to_owned()), ..deleted(100) };
    let broken = Revision { deleted: false, ..broken };
    let revisions =
        vec![revision(0, definition("* * * * *", 10)), broken, revision(200, definition("* * * * *", 10))];
    let walked = go(&cursor(0, revisions.clone()), 320);
    assert_eq!(seconds(&walked), [60, 240, 300]);
    assert_eq!(walked.broken, [(at(100), "unknown field".to_owned())]);

    let last = go(&cursor(0, revisions[..2].to_vec()), 320);
    assert_eq!((seconds(&last), next(&last)), (vec![60], Some((100, 920))));
}

#[test]
fn a_schedule_that_can_not_be_read_is_broken_not_silent() {
    let walked = go(&cursor(0, vec![revision(0, definition("61 * * * *", 10))]), 320);
    assert_eq!(walked.broken.len(), 1);
}

#[test]
fn a_deadline_beyond_all_reason_is_broken_and_no_panic() {
    let walked = go(&cursor(0, vec![revision(0, definition("* * * * *", u64::MAX / 1_000))]), 320);
    assert_eq!(walked.broken, [(at(0), "its deadline is too far away".to_owned())]);
}

#[test]
fn the_longest_deadline_that_a_definition_may_have_is_watched() {
    let mut longest = definition("* * * * *", 0);
    longest.alert.success_within = None;
    for duration in [&mut longest.jitter, &mut longest.misfire.grace, &mut longest.max_runtime] {
        *duration = limits::DURATION_MAX;
    }
    longest.retry = Retry {
        max_attempts: limits::ATTEMPTS_MAX,
        backoff: limits::DURATION_MAX,
        backoff_max: limits::DURATION_MAX,
        ..Retry::default()
    };
    let walked = go(&cursor(0, vec![revision(0, longest)]), 300);
    assert!(walked.broken.is_empty(), "{:?}", walked.broken);
    assert!(walked.advance.is_some_and(|advance| advance.judge_at > Some(at(180 * 86_400))));
}

#[test]
fn nothing_that_the_ledger_no_longer_keeps_is_expected() {
    let cursor = cursor(0, vec![revision(0, definition("* * * * *", 10))]);
    let walked = walk(&cursor, &DateSets::default(), at(300), at(180), 1_000);
    assert_eq!(seconds(&walked), [180, 240]);
}

fn paused(from: i64, definition: Definition) -> Revision {
    Revision { paused: true, ..revision(from, definition) }
}
