use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn aged(age: u64) -> Renewal {
    Renewal { age: Some(seconds(age)), peers: None }
}

/// From a dispatcher without the database, with a list of this age.
fn without(age: u64, list_age: u64) -> Renewal {
    let peer = |id: &str| Peer { id: id.into(), address: format!("http://{id}") };
    let peers = PeerList { peers: vec![peer("d1"), peer("d2")], age: seconds(list_age) };
    Renewal { age: Some(seconds(age)), peers: Some(peers) }
}

fn granted() -> Lease {
    let mut lease = Lease::default();
    lease.grant(Terms::default(), Moment::at(100), true);
    lease
}

#[test]
fn nothing_is_allowed_before_the_first_grant() {
    assert!(!Lease::default().is_valid(Moment::at(0)));
}

#[test]
fn a_renewal_counts_from_before_the_question_less_its_age() {
    let mut lease = granted();
    let sequence = lease.ask(Moment::at(103));
    lease.answered(sequence, aged(2));
    assert_eq!(lease.until(), Some(Moment::at(110)), "103 - 2 + 9, however late the answer came");
}

#[test]
fn an_answer_from_before_a_freeze_extends_nothing() {
    let mut lease = granted();
    let sequence = lease.ask(Moment::at(103));
    let thawed = Moment::at(163);
    lease.answered(sequence, aged(0));
    assert!(!lease.is_valid(thawed));
}

#[test]
fn a_dispatcher_without_its_database_does_not_extend_the_lease() {
    let mut lease = granted();
    for (now, age) in [(103, 1), (106, 4), (109, 7)] {
        let sequence = lease.ask(Moment::at(now));
        lease.answered(sequence, aged(age));
        assert_eq!(lease.until(), Some(Moment::at(111)), "its last renewal was at 102");
    }
}

#[test]
fn unknown_and_repeated_answers_change_nothing() {
    let mut lease = granted();
    let (first, second) = (lease.ask(Moment::at(103)), lease.ask(Moment::at(106)));
    lease.answered(second, aged(0));
    lease.answered(first, aged(0));
    lease.answered(second, aged(5));
    lease.answered(99, aged(0));
    let third = lease.ask(Moment::at(109));
    lease.answered(third, Renewal::default());
    assert_eq!(lease.until(), Some(Moment::at(115)));
}

#[test]
fn silence_is_the_age_of_the_oldest_open_question() {
    let mut lease = granted();
    assert_eq!(lease.silence(Moment::at(150)), seconds(0));
    let first = lease.ask(Moment::at(103));
    lease.ask(Moment::at(106));
    assert_eq!(lease.silence(Moment::at(107)), seconds(4));
    lease.answered(first, aged(0));
    assert_eq!(lease.silence(Moment::at(107)), seconds(1));
}

#[test]
fn a_resumption_renews_nothing_and_its_first_answer_does() {
    let mut lease = granted();
    let sequence = lease.ask(Moment::at(103));
    lease.answered(sequence, aged(0));
    lease.disconnected();
    lease.grant(Terms::default(), Moment::at(108), true);
    assert_eq!(lease.until(), Some(Moment::at(112)), "nobody knows whether the Welcome is heard");
    let sequence = lease.ask(Moment::at(108));
    lease.answered(sequence, aged(1));
    assert_eq!(lease.until(), Some(Moment::at(116)));
    lease.grant(Terms::default(), Moment::at(110), false);
    assert_eq!(lease.until(), Some(Moment::at(119)), "a new session begins anew");
}

#[test]
fn only_answers_count_as_heard() {
    let mut lease = Lease::default();
    assert_eq!(lease.unheard(Moment::at(100)), None);
    lease.grant(Terms::default(), Moment::at(100), true);
    let sequence = lease.ask(Moment::at(103));
    lease.ask(Moment::at(106));
    assert_eq!(lease.unheard(Moment::at(106)), Some(seconds(6)));
    lease.answered(sequence, aged(0));
    assert_eq!(lease.unheard(Moment::at(107)), Some(seconds(4)), "from before it was asked");
    lease.grant(Terms::default(), Moment::at(108), true);
    assert_eq!(lease.unheard(Moment::at(109)), Some(seconds(6)), "a Welcome is no answer");
    let mut without = without_its_database();
    assert!(without.vouched(Moment::at(105), &[Answer::Without], Moment::at(106)));
    assert_eq!(without.unheard(Moment::at(107)), Some(seconds(2)));
}

/// Renewed at 101 for the last time, so valid until 110; asked at 104 by a list from 102.
fn without_its_database() -> Lease {
    let mut lease = granted();
    let sequence = lease.ask(Moment::at(104));
    lease.answered(sequence, without(3, 2));
    lease
}

#[test]
fn only_when_every_dispatcher_is_without_the_database_the_worker_goes_on() {
    use Answer::{Silent, With, Without};
    for (answers, until) in [
        (vec![Without, Without], 114),
        (vec![Without], 114),
        (vec![Without, With], 110),
        (vec![Without, Silent], 110),
        (vec![Silent, Silent], 110),
        (vec![], 110),
    ] {
        let mut lease = without_its_database();
        let question = lease.question(Moment::at(105)).expect("a list of three seconds");
        assert_eq!((question.asked, question.peers.len()), (Moment::at(105), 2));
        let goes_on = lease.vouched(question.asked, &answers, Moment::at(107));
        assert_eq!((goes_on, lease.until()), (until == 114, Some(Moment::at(until))), "{answers:?}");
    }
}

#[test]
fn all_are_asked_once_a_second_by_a_fresh_list_and_while_the_lease_holds() {
    let mut lease = without_its_database();
    let mut asks = |second| lease.question(Moment::at(second)).is_some();
    assert!(asks(105) && !asks(105));
    assert!(asks(106) && asks(108));
    assert!(!asks(109), "the list is seven seconds old");
    let mut expired = without_its_database();
    assert_eq!(expired.question(Moment::at(110)), None);
    assert_eq!(granted().question(Moment::at(105)), None, "its dispatcher has the database");
}

#[test]
fn an_answer_that_comes_after_the_end_takes_nothing_back() {
    let mut lease = without_its_database();
    assert!(!lease.vouched(Moment::at(105), &[Answer::Without], Moment::at(110)));
    assert_eq!(lease.until(), Some(Moment::at(110)));
}

#[test]
fn what_all_said_holds_whatever_a_later_renewal_says_and_not_beyond_a_connection() {
    let mut lease = without_its_database();
    assert!(lease.vouched(Moment::at(105), &[Answer::Without], Moment::at(106)));
    let sequence = lease.ask(Moment::at(107));
    lease.answered(sequence, without(6, 1));
    assert_eq!(lease.until(), Some(Moment::at(114)));
    lease.disconnected();
    assert_eq!(lease.question(Moment::at(108)), None, "nobody is sure to be asked");
    assert_eq!(lease.until(), Some(Moment::at(114)));
    let back = lease.ask(Moment::at(109));
    lease.answered(back, aged(0));
    assert_eq!((lease.until(), lease.question(Moment::at(110))), (Some(Moment::at(118)), None));
}

#[test]
fn another_process_at_the_same_address_does_not_answer_for_the_first() {
    let peer = Peer { id: "d1".into(), address: "http://d1".into() };
    let standing =
        |id: &str, without_database| v1::StandingResponse { dispatcher_id: id.into(), without_database };
    assert_eq!(Answer::of(&peer, &standing("d1", true)), Answer::Without);
    assert_eq!(Answer::of(&peer, &standing("d1", false)), Answer::With);
    assert_eq!(Answer::of(&peer, &standing("d2", true)), Answer::Silent);
}

#[test]
fn a_list_counts_only_from_a_dispatcher_without_the_database_that_knows_its_age() {
    let dispatchers = vec![v1::DispatcherRef { id: "d1".into(), address: "http://d1".into() }];
    let ack = v1::HeartbeatAck {
        without_database: true,
        dispatchers,
        list_age: Some(prost_types::Duration { seconds: 2, nanos: 0 }),
        ..v1::HeartbeatAck::default()
    };
    assert_eq!(Renewal::of(ack.clone()).peers.map(|list| list.age), Some(seconds(2)));
    for nothing in [
        v1::HeartbeatAck { without_database: false, ..ack.clone() },
        v1::HeartbeatAck { dispatchers: Vec::new(), ..ack.clone() },
        v1::HeartbeatAck { list_age: None, ..ack.clone() },
    ] {
        assert_eq!(Renewal::of(nothing).peers, None);
    }
}

#[test]
fn nobody_is_asked_for_a_lease_that_has_ended_however_fresh_the_list() {
    let mut lease = granted();
    let sequence = lease.ask(Moment::at(104));
    lease.answered(sequence, without(6, 0));
    assert!(lease.question(Moment::at(106)).is_some());
    assert_eq!(lease.question(Moment::at(107)), None, "104 - 6 + 9");
}

#[test]
fn what_all_said_does_not_outlive_its_session() {
    let mut lease = without_its_database();
    assert!(lease.vouched(Moment::at(108), &[Answer::Without], Moment::at(109)));
    lease.grant(Terms::default(), Moment::at(110), false);
    let sequence = lease.ask(Moment::at(111));
    lease.answered(sequence, aged(8));
    assert_eq!(lease.until(), Some(Moment::at(112)), "111 - 8 + 9, and not 108 + 9");
}

#[test]
fn only_the_newest_questions_are_remembered() {
    let mut lease = granted();
    let first = lease.ask(Moment::at(101));
    for _ in 0..ASKED_MAX {
        lease.ask(Moment::at(102));
    }
    assert_eq!(lease.silence(Moment::at(105)), seconds(3), "the first is forgotten");
    lease.answered(first, aged(0));
    assert_eq!(lease.until(), Some(Moment::at(109)));
}

#[test]
fn terms_are_the_welcomes_and_what_it_leaves_out_or_gives_as_nothing_has_its_default() {
    let of = |heartbeat_interval, self_deadline, kill_grace| {
        Terms::of(&v1::Welcome { heartbeat_interval, self_deadline, kill_grace, ..v1::Welcome::default() })
    };
    let given = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let terms = Terms { heartbeat_interval: seconds(1), self_deadline: seconds(5), kill_grace: seconds(2) };
    assert_eq!(of(given(1), given(5), given(2)), terms);
    for nothing in [None, given(0), given(-1)] {
        assert_eq!(of(nothing, nothing, nothing), Terms::default(), "{nothing:?}");
    }
}
