use super::*;
use crate::cause::Evidence;
use crate::plan::decide::Fire;
use crate::testing::{cursor, each_second, revision, second};
use model::ids::{JobId, TenantId};
use std::time::Duration;

fn waiting(n: i64, generation: i64) -> Waiting {
    Waiting {
        key: RunKey::new(JobId(uuid::Uuid::from_u128(7)), second(n)),
        tenant_id: TenantId::DEFAULT,
        generation: Generation(generation),
        due_at: second(n),
        start_by: Some(second(n + 10)),
        late: false,
        exclusive: true,
        queue: "default".to_owned(),
    }
}

fn moment(now: i64, dates: &DateSets) -> Moment<'_> {
    Moment {
        at: second(now),
        floor: DateTime::UNIX_EPOCH,
        horizon: second(now + 120),
        lookahead: Duration::from_secs(60),
        occurrences_max: 10_000,
        evidence: Evidence { worked: &[], revision: 9, unreachable: &[] },
        dates,
    }
}

fn late(n: i64) -> Waiting {
    Waiting { start_by: None, late: true, ..waiting(n, 1) }
}

fn decided(fires: Vec<Fire>) -> Decision {
    Decision { fires, settled: true, complete: true, ..Decision::default() }
}

fn fire(n: i64, how: How) -> Fire {
    Fire { scheduled_for: second(n), due_at: second(n), how, generation: Generation(1) }
}

/// What becomes of `runs` under one definition: ended with reason, late, backlog.
fn settled(
    policy: MisfirePolicy,
    runs: &[Waiting],
    decision: &Decision,
) -> (Vec<(i64, Reason)>, Option<i64>, Vec<i64>) {
    let cursor = cursor(100, vec![revision(1, 0, each_second(policy))]);
    let runs: Vec<_> = runs.iter().collect();
    let settlement = settle(&cursor, &runs, decision, &moment(100, &DateSets::default()));
    let number = |key: &RunKey| (key.scheduled_for - second(0)).num_seconds();
    assert!(settlement.paced.is_empty());
    (
        settlement.ends.iter().map(|(run, reason)| (number(&run.key), *reason)).collect(),
        settlement.late.as_ref().map(number),
        settlement.backlog.iter().map(number).collect(),
    )
}

#[test]
fn each_policy_ends_or_keeps_the_overdue() {
    let runs = [waiting(1, 1), waiting(2, 1), waiting(3, 1)];
    let none = decided(Vec::new());
    use Reason::{Missed, Superseded};
    assert_eq!(
        settled(MisfirePolicy::Skip, &runs, &none),
        (vec![(1, Missed), (2, Missed), (3, Missed)], None, vec![])
    );
    assert_eq!(
        settled(MisfirePolicy::Once, &runs, &none),
        (vec![(1, Superseded), (2, Superseded)], Some(3), vec![])
    );
    assert_eq!(settled(MisfirePolicy::CatchUp, &runs, &none), (vec![], None, vec![1, 2, 3]));
}

#[test]
fn a_newer_late_occurrence_without_a_row_takes_the_place_of_all_that_have_one() {
    let runs = [late(1), waiting(2, 1), waiting(3, 1)];
    let decision = decided(vec![fire(50, How::Late)]);
    let (ends, late, _) = settled(MisfirePolicy::Once, &runs, &decision);
    assert_eq!(ends.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [2, 3, 1]);
    assert!(ends.iter().all(|(_, reason)| *reason == Reason::Superseded));
    assert_eq!(late, None);
}

#[test]
fn the_newest_overdue_run_takes_the_place_of_the_one_that_is_late() {
    let (ends, late, _) = settled(MisfirePolicy::Once, &[late(1), waiting(2, 1)], &decided(Vec::new()));
    assert_eq!((ends, late), (vec![(1, Reason::Superseded)], Some(2)));
}

#[test]
fn a_late_run_that_is_newer_than_all_overdue_ones_stays() {
    let (ends, late, _) = settled(MisfirePolicy::Once, &[waiting(2, 1), late(5)], &decided(Vec::new()));
    assert_eq!((ends, late), (vec![(2, Reason::Superseded)], None));
}

#[test]
fn nothing_is_settled_before_the_newer_ones_are_decided() {
    let decision = Decision { settled: false, ..decided(Vec::new()) };
    assert_eq!(settled(MisfirePolicy::Once, &[waiting(1, 1)], &decision), (vec![], None, vec![]));
}

#[test]
fn runs_beside_each_other_are_paced_and_those_beyond_the_limit_end() {
    let mut runs: Vec<_> = (1..=40).map(|n| waiting(n, 1)).collect();
    for run in &mut runs {
        run.exclusive = false;
    }
    let runs: Vec<_> = runs.iter().collect();
    let cursor = cursor(100, vec![revision(1, 0, each_second(MisfirePolicy::CatchUp))]);
    let decision = decided(vec![fire(60, How::Backlog); 5]);
    let settlement = settle(&cursor, &runs, &decision, &moment(100, &DateSets::default()));
    assert_eq!((settlement.ends.len(), settlement.paced.len(), settlement.backlog.len()), (15, 25, 0));
    assert_eq!(settlement.paced[0].scheduled_for, second(16), "the newest 25, oldest first");
}

#[test]
fn a_run_of_a_definition_that_cant_be_used_ends() {
    let mut bad = each_second(MisfirePolicy::Once);
    bad.schedule = "bad".to_owned();
    let cursor = cursor(100, vec![revision(1, 0, bad)]);
    let run = waiting(1, 1);
    let settlement = settle(&cursor, &[&run], &decided(Vec::new()), &moment(100, &DateSets::default()));
    assert_eq!(settlement.ends, [(&run, Reason::Missed)]);
}
