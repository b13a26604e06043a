use super::*;
use crate::testing::{cursor, each_second, per_minute, revision, second};
use model::calendar::CalendarVersion;
use model::ids::TenantId;
use model::job::Definition;
use proptest::prelude::*;
use proptest::sample::select;
use std::sync::LazyLock;
use store::job_cursor::Revision;
use store::term::Worked;

/// No calendar.
static NONE: LazyLock<DateSets> = LazyLock::new(DateSets::default);

pub(super) fn moment(now: i64) -> Moment<'static> {
    Moment {
        at: second(now),
        floor: DateTime::UNIX_EPOCH,
        horizon: second(now + 120),
        lookahead: Duration::from_secs(60),
        occurrences_max: 10_000,
        evidence: Evidence { worked: &[], revision: 9, unreachable: &[] },
        dates: &NONE,
    }
}

/// Every second from `first` through `last` is exactly one of a run or counted as missed.
fn assert_exact(decision: &Decision, first: i64, last: i64) {
    for n in first..=last {
        let at = second(n);
        let fires = decision.fires.iter().filter(|fire| fire.scheduled_for == at).count();
        let counted =
            decision.misfires.iter().filter(|missed| (missed.first..=missed.last).contains(&at)).count();
        assert_eq!(fires + counted, 1, "second {n}: {fires} runs, counted {counted} times");
    }
    let counted: u64 = decision.misfires.iter().map(|missed| missed.count).sum();
    let expected = u64::try_from(last - first + 1).expect("few") - decision.fires.len() as u64;
    assert_eq!(counted, expected);
}

#[test]
fn a_job_is_planned_through_the_horizon_and_its_cursor_moves_behind_it() {
    let cursor = cursor(10, vec![revision(1, 0, each_second(MisfirePolicy::Once))]);
    let decision = decide(&cursor, &moment(9));
    assert_exact(&decision, 10, 129);
    assert!(decision.fires.iter().all(|fire| fire.how == How::InTime(fire.due_at + Duration::from_secs(10))));
    assert_eq!(decision.next, Some(second(130)));
    assert!(decision.complete && decision.settled);
}

#[test]
fn the_policies_count_and_run_what_was_missed_exactly() {
    for (policy, late, backlog) in
        [(MisfirePolicy::Skip, 0, 0), (MisfirePolicy::Once, 1, 0), (MisfirePolicy::CatchUp, 0, 30)]
    {
        let cursor = cursor(10, vec![revision(1, 0, each_second(policy))]);
        let decision = decide(&cursor, &moment(3_610));
        assert_exact(&decision, 10, 3_730);
        let count = |how| decision.fires.iter().filter(|fire| fire.how == how).count();
        assert_eq!((count(How::Late), count(How::Backlog)), (late, backlog), "{policy}");
    }
}

#[test]
fn each_instant_is_planned_by_the_definition_in_force_at_it() {
    let mut minutes = per_minute(MisfirePolicy::Once);
    minutes.priority = 7;
    let revisions = vec![revision(1, 0, each_second(MisfirePolicy::Once)), revision(2, 65, minutes)];
    let decision = decide(&cursor(61, revisions), &moment(66));
    let planned: Vec<_> = decision.fires.iter().map(|fire| (fire.scheduled_for, fire.generation.0)).collect();
    let expected = [(61, 1), (62, 1), (63, 1), (64, 1), (65, 1), (120, 2), (180, 2)];
    assert_eq!(planned, expected.map(|(at, generation)| (second(at), generation)));
    assert_eq!(decision.next, Some(second(240)));
}

#[test]
fn an_older_definitions_late_run_gives_way_to_a_newer_ones() {
    let revisions = vec![
        revision(1, 0, each_second(MisfirePolicy::Once)),
        revision(2, 100, each_second(MisfirePolicy::Once)),
    ];
    let decision = decide(&cursor(10, revisions), &moment(500));
    let late: Vec<_> = decision.fires.iter().filter(|fire| fire.how == How::Late).collect();
    assert_eq!(late.len(), 1);
    assert_eq!((late[0].scheduled_for, late[0].generation.0), (second(489), 2));
    assert_exact(&decision, 10, 620);
}

#[test]
fn each_definitions_policy_counts_for_its_own_past() {
    let revisions = vec![
        revision(1, 0, each_second(MisfirePolicy::Skip)),
        revision(2, 100, each_second(MisfirePolicy::CatchUp)),
    ];
    let decision = decide(&cursor(10, revisions), &moment(500));
    assert_exact(&decision, 10, 620);
    let outcomes: Vec<_> =
        decision.misfires.iter().map(|missed| (missed.outcome, missed.count, missed.last)).collect();
    assert_eq!(
        outcomes,
        [
            (MisfireOutcome::Skipped, 91, second(100)),
            (MisfireOutcome::BeyondCatchUp, 489 - 100 - 30, second(459))
        ]
    );
}

#[test]
fn after_a_deletion_nothing_is_due_and_what_was_before_is_accounted_for() {
    let mut gone = revision(2, 100, each_second(MisfirePolicy::Once));
    gone.deleted = true;
    let revisions = vec![revision(1, 0, each_second(MisfirePolicy::Once)), gone];
    let decision = decide(&cursor(10, revisions.clone()), &moment(500));
    assert_exact(&decision, 10, 100);
    assert_eq!(decision.next, None);
    let nothing = decide(&cursor(101, revisions), &moment(500));
    assert_eq!((nothing.fires.len(), nothing.misfires.len(), nothing.next), (0, 0, None));
}

#[test]
fn where_the_clock_was_set_back_between_two_changes_the_later_change_counts() {
    let revisions = vec![
        revision(1, 0, each_second(MisfirePolicy::Once)),
        revision(2, 50, each_second(MisfirePolicy::Once)),
        revision(3, 30, each_second(MisfirePolicy::Once)),
    ];
    let decision = decide(&cursor(20, revisions), &moment(21));
    assert_exact(&decision, 20, 141);
    let by = |generation| decision.fires.iter().filter(|fire| fire.generation.0 == generation).count();
    assert_eq!((by(1), by(2), by(3)), (11, 0, 111));
}

#[test]
fn a_batch_that_is_full_goes_on_where_it_stopped_and_decides_nothing_late_before_the_end() {
    let (mut next, mut counted, mut late) = (Some(second(10)), 0, Vec::new());
    for _ in 0..100 {
        let mut cursor = cursor(10, vec![revision(1, 0, each_second(MisfirePolicy::Once))]);
        cursor.next_fire_at = next;
        let decision = decide(&cursor, &Moment { occurrences_max: 100, ..moment(1_009) });
        next = decision.next;
        counted += decision.misfires.iter().map(|missed| missed.count).sum::<u64>();
        late.extend(
            decision.fires.iter().filter(|fire| fire.how == How::Late).map(|fire| fire.scheduled_for),
        );
        if decision.complete {
            assert_eq!((counted, late), (988, vec![second(998)]));
            return;
        }
        assert_eq!(decision.settled, !late.is_empty());
    }
    panic!("it never came to its end");
}

#[test]
fn what_the_ledger_no_longer_takes_is_counted_as_such() {
    let cursor = cursor(10, vec![revision(1, 0, each_second(MisfirePolicy::CatchUp))]);
    let decision = decide(&cursor, &Moment { floor: second(100), ..moment(111) });
    assert_exact(&decision, 10, 231);
    let below = decision.misfires[0];
    assert_eq!(
        (below.cause, below.outcome),
        (MisfireCause::BeyondRetention, MisfireOutcome::BeyondRetention)
    );
    assert_eq!((below.first, below.last, below.count), (second(10), second(99), 90));
    assert!(decision.fires.iter().all(|fire| fire.scheduled_for >= second(100)));
}

#[test]
fn a_definition_that_cant_be_used_is_broken_in_force_and_passed_over_in_the_past() {
    let mut bad = each_second(MisfirePolicy::Once);
    bad.timezone = "Europe/Nowhere".to_owned();
    let broken = decide(&cursor(10, vec![revision(1, 0, bad.clone())]), &moment(9));
    assert!(broken.broken.expect("broken").contains("Nowhere"));
    assert_eq!((broken.next, broken.fires.len()), (Some(second(10)), 0));

    let good = each_second(MisfirePolicy::Once);
    let mended = decide(&cursor(10, vec![revision(1, 0, bad), revision(2, 20, good)]), &moment(19));
    assert_eq!((mended.broken.as_ref(), mended.unusable.len()), (None, 1));
    assert_eq!(mended.fires[0].scheduled_for, second(21));
}

#[test]
fn a_broken_job_stays_where_it_is() {
    let mut cursor = cursor(10, vec![revision(1, 0, each_second(MisfirePolicy::Once))]);
    cursor.broken = true;
    let decision = decide(&cursor, &moment(100));
    assert_eq!((decision.next, decision.fires.len()), (cursor.next_fire_at, 0));
}

#[test]
fn missed_occurrences_are_told_apart_by_cause() {
    // A ticker worked until 100, so that everything through 160 could have been planned; the next one began at 1,000.
    let worked = [
        Worked { revision: 8, began_at: second(0), last_cycle_at: Some(second(100)) },
        Worked { revision: 9, began_at: second(1_000), last_cycle_at: None },
    ];
    let evidence = Evidence { worked: &worked, revision: 9, unreachable: &[] };
    let cursor = cursor(151, vec![revision(1, 0, each_second(MisfirePolicy::Skip))]);
    let decision = decide(&cursor, &Moment { evidence, ..moment(1_001) });
    let causes: Vec<_> = decision
        .misfires
        .iter()
        .map(|missed| (missed.cause, missed.first, missed.last, missed.count))
        .collect();
    assert_eq!(
        causes,
        [
            (MisfireCause::Unknown, second(151), second(160), 10),
            (MisfireCause::NoTicker, second(161), second(990), 830)
        ]
    );
    assert_exact(&decision, 151, 1_121);
}

/// How many occurrences from the first through the second, by the number of the definition that they run by, or missed.
pub(super) fn accounted(decision: &Decision, first: i64, last: i64) -> (Vec<i64>, u64) {
    let within = |at: DateTime<Utc>| (second(first)..=second(last)).contains(&at);
    let fires = decision.fires.iter().filter(|fire| within(fire.scheduled_for));
    let missed = decision.misfires.iter().filter(|missed| within(missed.first) || within(missed.last));
    (fires.map(|fire| fire.generation.0).collect(), missed.map(|missed| missed.count).sum())
}

/// A tenant's calendars: version 1 closes the day of second 0, version 2 no day.
fn calendars() -> DateSets {
    let mut dates = DateSets::default();
    let version = |version| CalendarVersion { name: "holidays".to_owned(), version };
    dates.add((TenantId::DEFAULT, version(1)), [second(0).date_naive()]);
    dates.add((TenantId::DEFAULT, version(2)), []);
    dates
}

fn with_calendar(version: i64) -> Definition {
    let mut definition = each_second(MisfirePolicy::Skip);
    definition.calendars.exclude = vec![CalendarVersion { name: "holidays".to_owned(), version }];
    definition
}

#[test]
fn each_instant_is_read_with_the_calendars_of_its_time_and_a_second_change_counts_too() {
    let dates = calendars();
    let revisions = vec![
        revision(1, 0, with_calendar(1)),
        revision(2, 100, with_calendar(2)),
        revision(3, 200, with_calendar(1)),
        revision(4, 300, each_second(MisfirePolicy::Skip)),
    ];
    let decision = decide(&cursor(10, revisions), &Moment { dates: &dates, ..moment(500) });
    assert_eq!(decision.broken, None);
    for (first, last, expected) in [(10, 100, 0), (101, 200, 100), (201, 300, 0), (301, 489, 189)] {
        assert_eq!(accounted(&decision, first, last), (Vec::new(), expected), "{first} through {last}");
    }
    assert_eq!(decision.occurrences, 100 + 320);
}

#[test]
fn a_calendar_that_is_missing_breaks_its_job_and_no_other() {
    let decision = decide(&cursor(10, vec![revision(1, 0, with_calendar(3))]), &moment(9));
    let problem = decision.broken.expect("broken");
    assert!(problem.contains("holidays") && problem.contains('3'), "{problem}");
}

#[test]
fn nothing_is_due_outside_of_the_bounds() {
    let mut bounded = each_second(MisfirePolicy::Once);
    (bounded.starts_at, bounded.ends_at) = (Some(second(20)), Some(second(39)));
    let decision = decide(&cursor(10, vec![revision(1, 0, bounded.clone())]), &moment(15));
    assert_exact(&decision, 20, 39);
    assert_eq!((decision.fires.len(), decision.next), (20, None));
    // An hour later all of them are missed, and the last one runs.
    let decision = decide(&cursor(10, vec![revision(1, 0, bounded)]), &moment(3_600));
    assert_exact(&decision, 20, 39);
    assert_eq!((decision.fires[0].scheduled_for, decision.fires[0].how), (second(39), How::Late));
}

#[test]
fn an_interval_counts_from_its_begin() {
    let mut every = each_second(MisfirePolicy::Once);
    (every.schedule, every.starts_at) = ("@every 7s".to_owned(), Some(second(30)));
    let decision = decide(&cursor(10, vec![revision(1, 0, every)]), &moment(9));
    let due: Vec<_> = decision.fires.iter().take(3).map(|fire| fire.scheduled_for).collect();
    assert_eq!(due, [second(30), second(37), second(44)]);
}

/// A definition of any kind.
fn any_definition() -> impl Strategy<Value = Definition> {
    let policies = MisfirePolicy::ALL.to_vec();
    let schedules = vec!["* * * * * *", "*/7 * * * * *", "* * * * *", "30 */2 * * * *"];
    (select(policies), select(schedules), 10_u64..40, 1_u32..50).prop_map(
        |(policy, schedule, grace, limit)| {
            let mut definition = each_second(policy);
            definition.schedule = schedule.to_owned();
            definition.misfire.grace = Duration::from_secs(grace);
            definition.misfire.catch_up_limit = limit;
            definition
        },
    )
}

/// Every instant that the definitions in force ask for from second 10 on, through `through`.
fn asked_for(revisions: &[Revision], through: i64) -> Vec<DateTime<Utc>> {
    let cursor = cursor(10, Vec::new());
    let usable: Vec<_> =
        revisions.iter().map(|revision| Usable::read(&cursor, revision, &NONE).ok()).collect();
    let asks = |at: DateTime<Utc>| {
        let index = revisions.iter().rposition(|revision| revision.in_force_from < at)?;
        let in_force = &revisions[index];
        let resumed = revisions[index..].iter().find(|revision| !revision.paused);
        if in_force.paused && !resumed.is_some_and(|revision| revision.catches_up) {
            return None;
        }
        let usable = usable[index].as_ref().filter(|_| !in_force.deleted)?;
        usable.schedule().first_from(at).filter(|first| *first == at)
    };
    (10..=through).filter_map(|n| asks(second(n))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is changed, paused and deleted meanwhile, however small the batches are and however long they take: each
    /// occurrence is decided once, and what runs late is the newest that was missed under its definition.
    #[test]
    fn every_occurrence_is_decided_exactly_once(
        definitions in prop::collection::vec(any_definition(), 1..4),
        mut changes in prop::collection::vec(20_i64..900, 3),
        deleted in prop::bool::weighted(0.2),
        paused in prop::collection::vec((prop::bool::weighted(0.3), prop::bool::ANY), 3),
        batch in 5_usize..400,
        now in 900_i64..1_200,
        pause in 0_i64..3,
    ) {
        changes.sort_unstable();
        let froms = std::iter::once(0).chain(changes);
        let mut revisions: Vec<_> = definitions
            .into_iter()
            .zip(froms)
            .zip(1..)
            .map(|((definition, from), generation)| revision(generation, from, definition))
            .collect();
        if let Some(last) = revisions.last_mut().filter(|last| deleted && last.generation.0 > 1) {
            last.deleted = true;
        }
        for index in 1..revisions.len() {
            revisions[index].paused = paused[index - 1].0 && !revisions[index].deleted;
            let ends = revisions[index - 1].paused && !revisions[index].paused && !revisions[index].deleted;
            revisions[index].catches_up = ends && paused[index - 1].1;
        }
        let asked = asked_for(&revisions, 4_000);
        let mut decided = Vec::new();
        let (mut cursor, mut now) = (cursor(10, revisions.clone()), now);
        loop {
            let moment = Moment { occurrences_max: batch, ..moment(now) };
            let decision = decide(&cursor, &moment);
            prop_assert!(decision.fires.iter().filter(|fire| fire.how == How::Late).count() <= 1);
            decided.extend(decision.fires.iter().map(|fire| fire.scheduled_for));
            for missed in &decision.misfires {
                let counted: Vec<_> = asked
                    .iter()
                    .copied()
                    .filter(|at| (missed.first..=missed.last).contains(at))
                    .collect();
                prop_assert_eq!(counted.len() as u64, missed.count);
                decided.extend(counted);
            }
            prop_assert!(decision.complete || decision.next > cursor.next_fire_at, "it goes on");
            cursor.next_fire_at = decision.next;
            if decision.complete {
                break;
            }
            now += pause;
        }
        decided.sort_unstable();
        let through = second(now + 120);
        prop_assert_eq!(decided, asked.into_iter().filter(|at| *at <= through).collect::<Vec<_>>());
    }
}
