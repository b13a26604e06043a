use super::*;
use crate::roster::{Held, Said};
use crate::testing::idle::Idle;
use crate::testing::lease;
use chrono::DateTime;
use model::ids::DispatcherId;

/// A session that holds `held`, each with its number and how often it was sent again, and what it said last.
fn view(connection: i32, held: &[(&Lease, i64, u32)], said: Option<(i64, &[&Lease])>) -> View {
    let held = held.iter().map(|(lease, number, again)| {
        let attempt = message::attempt_of(lease);
        (lease.key, Held { attempt, number: *number, due_at: DateTime::UNIX_EPOCH, again: *again })
    });
    let said = said.map(|(processed, in_hand)| Said {
        processed,
        in_hand: in_hand.iter().map(|lease| message::attempt_of(lease)).collect(),
    });
    View { connection, held: held.collect(), said }
}

/// Of the leases of tests, whose tokens have it.
const EPOCH: Option<u32> = Some(1);

fn compared(id: SessionId, view: View, leases: &[Lease]) -> Plan {
    let seen = Seen { session: id, dispatcher: DispatcherId::random(), connection: view.connection };
    compare(&HashMap::from([(id, view)]), &[seen], leases, EPOCH)
}

fn delivered(plan: &Plan) -> Vec<RunKey> {
    plan.deliver.values().flatten().copied().collect()
}

#[test]
fn what_agrees_needs_nothing() {
    let id = SessionId::random();
    let lease = lease(id, 1);
    let plan = compared(id, view(1, &[(&lease, 1, 0)], Some((1, &[&lease]))), std::slice::from_ref(&lease));
    assert_eq!(plan, Plan::default());
}

#[test]
fn a_lease_that_was_never_sent_is_sent() {
    let id = SessionId::random();
    let lease = lease(id, 1);
    let plan = compared(id, view(1, &[], Some((0, &[]))), std::slice::from_ref(&lease));
    assert_eq!(delivered(&plan), [lease.key]);
}

#[test]
fn a_lost_assignment_is_sent_once_more_and_then_given_on() {
    let id = SessionId::random();
    let lease = lease(id, 1);
    let leases = std::slice::from_ref(&lease);
    let on_its_way = compared(id, view(1, &[(&lease, 2, 0)], Some((1, &[]))), leases);
    assert_eq!(on_its_way, Plan::default());
    let lost = compared(id, view(1, &[(&lease, 2, 0)], Some((2, &[]))), leases);
    assert_eq!(delivered(&lost), [lease.key]);
    let lost_again = compared(id, view(1, &[(&lease, 3, 1)], Some((3, &[]))), leases);
    assert_eq!(lost_again.end, [(id, message::attempt_of(&lease), Outcome::Undelivered)]);
}

#[test]
fn what_a_restored_database_still_has_leased_is_sent_with_no_token_of_before() {
    let id = SessionId::random();
    let lease = lease(id, 1);
    let with = |view: View, epoch| {
        let seen = Seen { session: id, dispatcher: DispatcherId::random(), connection: 1 };
        compare(&HashMap::from([(id, view)]), &[seen], std::slice::from_ref(&lease), epoch)
    };
    let given_on = vec![(id, message::attempt_of(&lease), Outcome::Undelivered)];
    for lacking in [view(1, &[], Some((0, &[]))), view(1, &[(&lease, 2, 0)], Some((2, &[])))] {
        assert_eq!(with(lacking.clone(), Some(2)), Plan { end: given_on.clone(), ..Plan::default() });
        assert_eq!(with(lacking.clone(), None), Plan::default(), "nor before the epoch is known");
        assert_eq!(delivered(&with(lacking, EPOCH)), [lease.key]);
    }
    let at_work = view(1, &[(&lease, 2, 0)], Some((2, &[&lease])));
    assert_eq!(with(at_work, Some(2)), Plan::default(), "what a worker has goes on");
}

#[test]
fn a_worker_that_has_said_nothing_yet_lacks_nothing() {
    let id = SessionId::random();
    let lease = lease(id, 1);
    let plan = compared(id, view(1, &[(&lease, 1, 0)], None), std::slice::from_ref(&lease));
    assert_eq!(plan, Plan::default());
}

#[test]
fn what_was_decided_for_another_connection_is_left_alone() {
    let id = SessionId::random();
    let resumed = lease(id, 2);
    let known = view(1, &[], Some((0, &[])));
    let seen = Seen { session: id, dispatcher: DispatcherId::random(), connection: 2 };
    let plan = compare(&HashMap::from([(id, known)]), &[seen], &[resumed], EPOCH);
    assert_eq!(plan, Plan { forget: vec![(id, 1)], ..Plan::default() });
}

#[test]
fn sessions_come_and_go_with_the_database() {
    let (ours, gone) = (SessionId::random(), SessionId::random());
    let seen = Seen { session: ours, dispatcher: DispatcherId::random(), connection: 3 };
    let plan = compare(&HashMap::from([(gone, view(1, &[], None))]), &[seen], &[], EPOCH);
    assert_eq!(plan, Plan { miss: vec![seen], forget: vec![(gone, 1)], ..Plan::default() });
}

#[test]
fn a_run_without_a_lease_frees_its_slot() {
    let id = SessionId::random();
    let lease = lease(id, 1);
    let plan = compared(id, view(1, &[(&lease, 1, 0)], None), &[]);
    assert_eq!(plan.release, [(id, message::attempt_of(&lease))]);
}

#[test]
fn an_overdue_run_is_asked_to_stop_and_ended_once_its_worker_had_its_chance() {
    let id = SessionId::random();
    let overdue = Lease { overdue: true, ..lease(id, 1) };
    let known = |lease: &Lease| view(1, &[(lease, 1, 0)], Some((1, &[lease])));
    let plan = compared(id, known(&overdue), std::slice::from_ref(&overdue));
    assert_eq!(plan.cancel, [(id, message::attempt_of(&overdue), "MAX_RUNTIME")]);
    let given_up = Lease { given_up: true, ..overdue };
    let plan = compared(id, known(&given_up), std::slice::from_ref(&given_up));
    assert_eq!(plan.end, [(id, message::attempt_of(&given_up), Outcome::TimedOut)]);
    let requested = Lease { cancel: Some(Reason::Requested), ..given_up };
    let plan = compared(id, known(&requested), std::slice::from_ref(&requested));
    assert_eq!(plan.end[0].2, Outcome::Cancelled(Reason::Requested));
}

#[test]
fn a_run_that_somebody_wants_cancelled_is_told_why() {
    let id = SessionId::random();
    let requested = Lease { cancel: Some(Reason::Requested), ..lease(id, 1) };
    let known = view(1, &[(&requested, 1, 0)], Some((1, &[&requested])));
    let plan = compared(id, known, std::slice::from_ref(&requested));
    let cancel = vec![(id, message::attempt_of(&requested), "REQUESTED")];
    assert_eq!(plan, Plan { cancel, ..Plan::default() });
}

#[test]
fn a_newer_attempt_of_a_held_run_is_sent_and_the_older_one_is_held_no_more() {
    let id = SessionId::random();
    let older = lease(id, 1);
    let newer = Lease { attempt: 2, ..older.clone() };
    let known = view(1, &[(&older, 1, 0)], Some((1, &[&older])));
    let plan = compared(id, known, std::slice::from_ref(&newer));
    assert_eq!(delivered(&plan), [newer.key]);
    assert_eq!(plan.release, [(id, message::attempt_of(&older))]);
}

/// A run whose time was over long ago.
async fn overdue_run(idle: &Idle) -> AttemptRef {
    let attempt = idle.in_hand(&idle.worker().await).await;
    let overdue = "UPDATE run_lease SET accepted_at = claimed_at, deadline = claimed_at - interval '1 hour'";
    idle.cell.meddle(overdue).await;
    attempt
}

#[tokio::test]
async fn nobodys_time_is_over_by_a_clock_that_jumped() {
    let mut idle = Idle::create().await;
    let attempt = overdue_run(&idle).await;
    run_once(&idle.shared).await.expect("compared");
    let ended = idle.reports.try_recv().expect("an end");
    assert_eq!(ended.attempt, attempt);
    let looked = Instant::now();
    let now = store::clock::now(&idle.cell.store).await.expect("a clock");
    assert!(!idle.shared.steadiness.seen(now + Duration::from_secs(3_600), looked, looked));
    run_once(&idle.shared).await.expect("looked");
    assert!(idle.reports.try_recv().is_err(), "it may have jumped back");
}

#[tokio::test]
async fn a_comparison_waits_for_the_claim_whose_runs_are_not_handed_out_yet() {
    let mut idle = Idle::create().await;
    overdue_run(&idle).await;
    let (shared, reports) = (&idle.shared, &mut idle.reports);
    let claiming = shared.claiming.lock().await;
    let mut comparing = std::pin::pin!(run_once(shared));
    let compared = tokio::time::timeout(Duration::from_millis(300), comparing.as_mut()).await;
    assert!(compared.is_err() && reports.try_recv().is_err(), "not while somebody claims");
    drop(claiming);
    comparing.await.expect("compared");
    assert!(reports.try_recv().is_ok());
}
