//! The table's rules, one by one, without network and clock.

use super::*;
use crate::report::StopCause;
use chrono::DateTime;
use model::ids::{JobId, RunKey};
use model::token::Token;
use rpc::v1::completed::Outcome;
use std::time::Duration;

const MAX_RUNTIME: Duration = Duration::from_secs(60);

fn attempt(run: i64, number: u32) -> Attempt {
    Attempt {
        run: RunKey::new(JobId(Default::default()), DateTime::from_timestamp(run, 0).expect("in range")),
        number,
        token: Token::from_i64(i64::from(number)).expect("positive"),
    }
}

fn assignment(attempt: Attempt) -> Assignment {
    Assignment {
        attempt,
        job_name: "invoices".into(),
        origin: "SCHEDULE".into(),
        queue: "default".into(),
        idempotency_key: attempt.run.idempotency_key(),
        guard_key: "invoices".into(),
        max_runtime: MAX_RUNTIME,
        traceparent: String::new(),
        work: None,
    }
}

/// Welcomed at second 100, with a lease until 109.
fn hand(slots: usize) -> Hand {
    let mut hand = Hand::new(slots);
    assert_eq!(hand.welcomed(Terms::default(), Moment::at(100), true, Moment::at(100)), []);
    hand
}

fn give(hand: &mut Hand, number: i64, attempt: Attempt, second: u64) -> Vec<Action> {
    hand.assigned(number, assignment(attempt), Moment::at(second))
}

/// From a dispatcher that has just renewed.
fn fresh() -> Renewal {
    Renewal { age: Some(Duration::ZERO), peers: None }
}

/// A heartbeat at `second`, answered at once.
fn renew(hand: &mut Hand, second: u64) -> Vec<Action> {
    let (heartbeat, mut actions) = hand.heartbeat(Moment::at(second));
    actions.extend(hand.renewed(heartbeat.sequence, fresh(), Moment::at(second)));
    actions
}

fn started(attempt: Attempt) -> [Action; 2] {
    [Action::Start(Box::new(assignment(attempt))), Action::Accepted(attempt)]
}

fn outcomes(actions: &[Action]) -> Vec<Outcome> {
    let completed = actions.iter().filter_map(|action| match action {
        Action::Completed(completed) => Some(completed.outcome()),
        _ => None,
    });
    completed.collect()
}

#[test]
fn an_assignment_starts_once_however_often_it_arrives() {
    let mut hand = hand(2);
    let run = attempt(1, 1);
    assert_eq!(give(&mut hand, 1, run, 100), started(run));
    assert_eq!(give(&mut hand, 2, run, 101), [Action::Accepted(run)]);
    let ended = hand.ended(run, Report::succeeded(), false, Moment::at(102));
    assert_eq!(outcomes(&ended), [Outcome::Succeeded]);
    assert_eq!(give(&mut hand, 3, run, 103), ended, "not started again, but reported again");
    assert_eq!(hand.heartbeat(Moment::at(103)).0.processed, 3);
}

#[test]
fn a_run_stays_in_hand_until_its_completion_is_acknowledged() {
    let mut hand = hand(1);
    let run = attempt(1, 1);
    give(&mut hand, 1, run, 100);
    hand.acknowledged(run);
    assert_eq!(hand.in_hand(), [run.to_ref()], "a running one is not acknowledged away");
    hand.ended(run, Report::succeeded(), false, Moment::at(101));
    assert_eq!(hand.heartbeat(Moment::at(102)).0.in_hand, [run.to_ref()]);
    hand.acknowledged(run);
    assert!(hand.is_empty());
}

#[test]
fn an_unacknowledged_completion_is_sent_again_with_each_interval_and_after_a_reconnect() {
    let mut hand = hand(1);
    let run = attempt(1, 1);
    give(&mut hand, 1, run, 100);
    let ended = hand.ended(run, Report::failed("no paper"), false, Moment::at(101));
    assert_eq!(hand.heartbeat(Moment::at(103)).1, [], "two seconds are less than an interval");
    assert_eq!(hand.heartbeat(Moment::at(104)).1, ended);
    assert_eq!(hand.heartbeat(Moment::at(105)).1, []);
    assert_eq!(hand.welcomed(Terms::default(), Moment::at(106), true, Moment::at(106)), ended);
    assert_eq!(hand.heartbeat(Moment::at(106)).0.processed, 0, "numbers begin anew on each connection");
}

#[test]
fn a_resumed_session_keeps_its_runs_and_says_again_that_they_started() {
    let mut hand = hand(1);
    let run = attempt(1, 1);
    give(&mut hand, 1, run, 100);
    let actions = hand.welcomed(Terms::default(), Moment::at(105), true, Moment::at(105));
    assert_eq!(actions, [Action::Accepted(run)]);
}

#[test]
fn a_session_that_is_gone_stops_every_run() {
    let mut hand = hand(1);
    let (running, waiting) = (attempt(1, 1), attempt(2, 1));
    give(&mut hand, 1, running, 100);
    give(&mut hand, 2, waiting, 100);
    let actions = hand.welcomed(Terms::default(), Moment::at(105), false, Moment::at(105));
    assert!(actions.contains(&Action::Stop(running, StopCause::SessionGone)), "{actions:?}");
    let ended = hand.ended(running, Report::failed("signal 15"), true, Moment::at(106));
    assert_eq!(
        outcomes(&ended),
        [Outcome::Abandoned],
        "and the waiting one is not started after it: {ended:?}"
    );
    assert_eq!(ended.len(), 1);
}

#[test]
fn the_expired_lease_stops_what_runs_and_a_renewal_takes_nothing_back() {
    let mut hand = hand(2);
    let run = attempt(1, 1);
    give(&mut hand, 1, run, 100);
    assert_eq!(hand.wakes_at(), Some(Moment::at(109)));
    assert_eq!(hand.passed(Moment::at(108)), []);
    assert_eq!(hand.passed(Moment::at(109)), [Action::Stop(run, StopCause::LeaseExpired)]);
    assert_eq!(hand.passed(Moment::at(110)), [], "asked once");
    assert_ne!(hand.wakes_at(), Some(Moment::at(109)), "nothing is left to do at that moment");
    renew(&mut hand, 111);
    let ended = hand.ended(run, Report::succeeded(), true, Moment::at(112));
    assert_eq!(outcomes(&ended), [Outcome::Abandoned]);
}

#[test]
fn a_renewed_lease_keeps_runs_going() {
    let mut hand = hand(1);
    give(&mut hand, 1, attempt(1, 1), 100);
    for second in (103..150).step_by(3) {
        renew(&mut hand, second);
        assert_eq!(hand.passed(Moment::at(second + 8)), []);
    }
}

#[test]
fn nothing_starts_while_the_lease_is_not_valid() {
    let mut hand = hand(1);
    let run = attempt(1, 1);
    assert_eq!(give(&mut hand, 1, run, 110), []);
    assert_eq!(hand.passed(Moment::at(111)), [], "it waits: nobody else has it");
    assert_eq!(renew(&mut hand, 112), started(run));
}

#[test]
fn more_than_the_slots_wait_and_are_in_hand() {
    let mut hand = hand(1);
    let (first, second) = (attempt(1, 1), attempt(2, 1));
    give(&mut hand, 1, first, 100);
    assert_eq!(give(&mut hand, 2, second, 100), []);
    assert_eq!((hand.running(), hand.len()), (1, 2));
    assert_eq!(hand.heartbeat(Moment::at(100)).0.in_hand, [first.to_ref(), second.to_ref()]);
    let actions = hand.ended(first, Report::succeeded(), false, Moment::at(101));
    assert_eq!(actions[1..], started(second));
}

#[test]
fn max_runtime_counts_from_the_start() {
    let mut hand = hand(1);
    let (first, second) = (attempt(1, 1), attempt(2, 1));
    give(&mut hand, 1, first, 100);
    give(&mut hand, 2, second, 100);
    renew(&mut hand, 130);
    hand.ended(first, Report::succeeded(), false, Moment::at(130));
    renew(&mut hand, 185);
    assert_eq!(hand.passed(Moment::at(189)), []);
    assert_eq!(hand.passed(Moment::at(190)), [Action::Stop(second, StopCause::TimedOut)]);
    let ended = hand.ended(second, Report::failed("signal 15"), true, Moment::at(191));
    assert_eq!(outcomes(&ended), [Outcome::TimedOut]);
}

#[test]
fn work_that_ended_before_it_was_asked_to_stop_is_reported_as_it_ended() {
    let mut hand = hand(1);
    let run = attempt(1, 1);
    give(&mut hand, 1, run, 100);
    hand.cancelled(run, "by hand", Moment::at(101));
    let ended = hand.ended(run, Report::succeeded(), false, Moment::at(101));
    assert_eq!(outcomes(&ended), [Outcome::Succeeded]);
}

#[test]
fn a_cancelled_run_says_why_and_the_first_cause_stays() {
    let mut hand = hand(1);
    let run = attempt(1, 1);
    give(&mut hand, 1, run, 100);
    let cause = StopCause::Cancelled { reason: "by hand".into() };
    assert_eq!(hand.cancelled(run, "by hand", Moment::at(101)), [Action::Stop(run, cause)]);
    assert_eq!(hand.cancelled(run, "again", Moment::at(101)), []);
    assert_eq!(hand.passed(Moment::at(300)), []);
    let ended = hand.ended(run, Report::failed("signal 15"), true, Moment::at(301));
    let [Action::Completed(completed)] = &ended[..] else { panic!("one message, got {ended:?}") };
    assert_eq!(completed.outcome(), Outcome::Cancelled);
    assert_eq!(completed.error, "cancelled: by hand (signal 15)");
}

#[test]
fn a_waiting_run_is_cancelled_without_a_start() {
    let mut hand = hand(1);
    let (first, second) = (attempt(1, 1), attempt(2, 1));
    give(&mut hand, 1, first, 100);
    give(&mut hand, 2, second, 100);
    let actions = hand.cancelled(second, "by hand", Moment::at(101));
    assert_eq!(outcomes(&actions), [Outcome::Cancelled]);
    assert_eq!(hand.ended(first, Report::succeeded(), false, Moment::at(102)).len(), 1);
}

#[test]
fn a_newer_attempt_waits_for_the_end_of_the_older() {
    let mut hand = hand(2);
    let (older, newer) = (attempt(1, 1), attempt(1, 2));
    give(&mut hand, 1, older, 100);
    assert_eq!(give(&mut hand, 2, newer, 101), [Action::Stop(older, StopCause::NewerAttempt)]);
    let actions = hand.ended(older, Report::failed("signal 15"), true, Moment::at(102));
    assert_eq!(outcomes(&actions[..1]), [Outcome::Abandoned]);
    assert_eq!(actions[1..], started(newer));
}

#[test]
fn an_older_attempt_that_arrives_late_never_starts() {
    let mut hand = hand(2);
    let (older, newer) = (attempt(1, 1), attempt(1, 2));
    give(&mut hand, 1, newer, 100);
    assert_eq!(outcomes(&give(&mut hand, 2, older, 101)), [Outcome::Abandoned]);
}

#[test]
fn unknown_attempts_change_nothing() {
    let mut hand = hand(1);
    let stranger = attempt(9, 1);
    assert_eq!(hand.cancelled(stranger, "", Moment::at(100)), []);
    assert_eq!(hand.ended(stranger, Report::succeeded(), false, Moment::at(100)), []);
    hand.acknowledged(stranger);
    assert!(hand.is_empty());
}

#[test]
fn nobody_is_asked_for_the_sake_of_nothing() {
    let mut hand = hand(1);
    let without = || {
        let peers = vec![crate::lease::Peer { id: "d".into(), address: "http://d".into() }];
        let peers = Some(crate::lease::PeerList { peers, age: Duration::ZERO });
        Renewal { age: Some(Duration::ZERO), peers }
    };
    let (heartbeat, _) = hand.heartbeat(Moment::at(101));
    hand.renewed(heartbeat.sequence, without(), Moment::at(101));
    assert_eq!(hand.question(Moment::at(102)), None, "nothing runs");
    give(&mut hand, 1, attempt(1, 1), 102);
    let question = hand.question(Moment::at(103)).expect("something runs");
    assert!(hand.vouched(question.asked, &[Answer::Without], Moment::at(104)));
    assert_eq!(hand.passed(Moment::at(111)), []);
    assert_eq!(hand.wakes_at(), Some(Moment::at(112)));
    assert_eq!(hand.passed(Moment::at(112)).len(), 1, "nobody has said so since 103");
}

#[test]
fn the_highest_number_counts_in_whatever_order_assignments_arrive() {
    let mut hand = hand(2);
    give(&mut hand, 3, attempt(1, 1), 100);
    give(&mut hand, 2, attempt(2, 1), 100);
    assert_eq!(hand.heartbeat(Moment::at(100)).0.processed, 3);
    hand.skipped(5);
    hand.skipped(4);
    assert_eq!(hand.heartbeat(Moment::at(101)).0.processed, 5);
}

#[test]
fn a_run_whose_time_is_over_has_timed_out_though_the_lease_is_over_too() {
    let mut hand = hand(2);
    let (old, young) = (attempt(1, 1), attempt(2, 1));
    give(&mut hand, 1, old, 100);
    renew(&mut hand, 155);
    give(&mut hand, 2, young, 156);
    let stops = [Action::Stop(old, StopCause::TimedOut), Action::Stop(young, StopCause::LeaseExpired)];
    assert_eq!(hand.passed(Moment::at(170)), stops);
}
