//! What a pause leaves of the occurrences that lie in it: nothing, unless it ends as an outage.

use super::tests::{accounted, moment};
use super::*;
use crate::testing::{cursor, each_second, revision, second};
use model::job::Definition;
use store::job_cursor::Revision;

/// A revision that pauses its job after second `from`.
fn pause(generation: i64, from: i64, definition: Definition) -> Revision {
    Revision { paused: true, ..revision(generation, from, definition) }
}

/// One that ends a pause, as an outage or not.
fn resumption(generation: i64, from: i64, definition: Definition, catches_up: bool) -> Revision {
    Revision { catches_up, ..revision(generation, from, definition) }
}

#[test]
fn what_lies_in_a_pause_is_neither_planned_nor_missed_unless_it_was_an_outage() {
    use MisfirePolicy::{CatchUp, Skip};
    let each = each_second;
    struct Case {
        what: &'static str,
        revisions: Vec<Revision>,
        /// Planned or missed, from one second through another: how many.
        asked: &'static [(i64, i64)],
        /// In no way.
        rests: &'static [(i64, i64)],
        next: Option<i64>,
    }
    let cases = [
        Case {
            what: "paused now",
            revisions: vec![revision(1, 0, each(Skip)), pause(2, 100, each(Skip))],
            asked: &[(10, 100)],
            rests: &[(101, 620)],
            next: None,
        },
        Case {
            what: "a pause inside of an outage",
            revisions: vec![
                revision(1, 0, each(Skip)),
                pause(2, 100, each(Skip)),
                resumption(3, 200, each(Skip), false),
            ],
            asked: &[(10, 100), (201, 620)],
            rests: &[(101, 200)],
            next: Some(621),
        },
        Case {
            what: "the same, caught up",
            revisions: vec![
                revision(1, 0, each(Skip)),
                pause(2, 100, each(Skip)),
                resumption(3, 200, each(Skip), true),
            ],
            asked: &[(10, 620)],
            rests: &[],
            next: Some(621),
        },
        Case {
            what: "changed while paused",
            revisions: vec![
                revision(1, 0, each(Skip)),
                pause(2, 100, each(Skip)),
                pause(3, 150, each(CatchUp)),
                resumption(4, 200, each(Skip), false),
            ],
            asked: &[(10, 100), (201, 620)],
            rests: &[(101, 200)],
            next: Some(621),
        },
        Case {
            what: "changed while paused, and all of it caught up",
            revisions: vec![
                revision(1, 0, each(Skip)),
                pause(2, 100, each(Skip)),
                pause(3, 150, each(CatchUp)),
                resumption(4, 200, each(Skip), true),
            ],
            asked: &[(10, 620)],
            rests: &[],
            next: Some(621),
        },
        Case {
            what: "two pauses, the second caught up",
            revisions: vec![
                pause(1, 0, each(Skip)),
                resumption(2, 100, each(Skip), false),
                pause(3, 200, each(Skip)),
                resumption(4, 300, each(Skip), true),
            ],
            asked: &[(101, 620)],
            rests: &[(10, 100)],
            next: Some(621),
        },
    ];
    for Case { what, revisions, asked, rests, next } in cases {
        let decision = decide(&cursor(10, revisions), &moment(500));
        let mut expected = 0;
        for (first, last) in asked {
            let (fires, missed) = accounted(&decision, *first, *last);
            let all = u64::try_from(last - first + 1).expect("few");
            assert_eq!(fires.len() as u64 + missed, all, "{what}: {first} through {last}");
            expected += all;
        }
        for (first, last) in rests {
            assert_eq!(
                accounted(&decision, *first, *last),
                (Vec::new(), 0),
                "{what}: {first} through {last}"
            );
        }
        assert_eq!(decision.occurrences as u64, expected, "{what}");
        assert_eq!(decision.next, next.map(second), "{what}");
    }
}

#[test]
fn what_was_missed_in_a_pause_that_is_caught_up_says_so() {
    let revisions = vec![
        pause(1, 0, each_second(MisfirePolicy::Skip)),
        resumption(2, 300, each_second(MisfirePolicy::Skip), true),
    ];
    let decision = decide(&cursor(10, revisions), &moment(500));
    let paused = |misfire: &Misfire| misfire.cause == MisfireCause::Paused;
    assert!(decision.misfires.iter().all(|misfire| paused(misfire) == (misfire.last <= second(300))));
    let count: u64 =
        decision.misfires.iter().filter(|misfire| paused(misfire)).map(|misfire| misfire.count).sum();
    assert_eq!(count, 291, "from 10 through 300");
}

#[test]
fn what_a_pause_missed_follows_the_policy_in_force_then() {
    let revisions = vec![
        revision(1, 0, each_second(MisfirePolicy::Skip)),
        pause(2, 100, each_second(MisfirePolicy::Skip)),
        pause(3, 150, each_second(MisfirePolicy::CatchUp)),
        resumption(4, 200, each_second(MisfirePolicy::Skip), true),
    ];
    let decision = decide(&cursor(101, revisions), &moment(500));
    assert_eq!(accounted(&decision, 101, 150), (Vec::new(), 50));
    assert_eq!(accounted(&decision, 151, 200), (vec![3; 30], 20), "its limit is 30");
}

#[test]
fn a_pause_that_comes_after_a_miss_does_not_undo_it() {
    let revisions = vec![
        revision(1, 0, each_second(MisfirePolicy::Once)),
        pause(2, 100, each_second(MisfirePolicy::Once)),
    ];
    let decision = decide(&cursor(10, revisions), &moment(500));
    let late: Vec<_> = decision.fires.iter().map(|fire| (fire.scheduled_for, fire.how)).collect();
    assert_eq!(late, [(second(100), How::Late)], "it waits, held, for the resumption");
}
