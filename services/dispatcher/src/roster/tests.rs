use super::*;
use crate::spread::Load;
use crate::testing::{Received, assignment, attached, lease};
use model::token::Token;
use rpc::convert::run::write_ref;
use rpc::v1::to_worker::Message;
use store::run_lease::Lease;

fn received(from: &mut Received) -> Vec<Message> {
    std::iter::from_fn(|| from.try_recv().ok()).filter_map(|message| message.ok()?.message).collect()
}

fn numbers(messages: &[Message]) -> Vec<i64> {
    let number = |message: &Message| match message {
        Message::Assignment(assignment) => Some(assignment.number),
        _ => None,
    };
    messages.iter().filter_map(number).collect()
}

fn said(processed: i64, in_hand: &[AttemptRef]) -> Said {
    Said { processed, in_hand: in_hand.iter().copied().collect() }
}

#[test]
fn slots_are_offered_in_turns_and_held_runs_take_theirs() {
    let (mut roster, now) = (Roster::default(), Instant::now());
    let (one, other) = (SessionId::random(), SessionId::random());
    let (first, _keep) = attached(1, 2);
    let (second, _keep_too) = attached(1, 3);
    roster.attach(one, first, now);
    roster.attach(other, second, now);
    assert_eq!(roster.groups(4), [], "who has said nothing yet may not hear");
    assert_eq!(roster.heard(one, 1, said(0, &[]), now), Heard::Fine);
    assert_eq!(roster.heard(other, 1, said(0, &[]), now), Heard::Fine);
    let groups = roster.groups(4);
    assert_eq!(groups.len(), 1, "workers of the same queues are one group");
    let first_turn: HashSet<SessionId> = groups[0].slots[..2].iter().map(|slot| slot.session).collect();
    assert_eq!(first_turn, HashSet::from([one, other]));
    assert_eq!((groups[0].slots.len(), groups[0].free), (4, 5));
    roster.deliver(&assignment(&lease(one, 1)));
    roster.deliver(&assignment(&lease(one, 1)));
    assert!(roster.groups(10)[0].slots.iter().all(|slot| slot.session == other));
    roster.drain(other, 1);
    assert_eq!(roster.groups(10)[0].slots, []);
}

#[test]
fn a_run_that_was_leased_for_an_older_connection_is_not_sent_through_the_new_one() {
    let (mut roster, now, id) = (Roster::default(), Instant::now(), SessionId::random());
    let (old, mut old_end) = attached(1, 1);
    let (new, mut new_end) = attached(2, 1);
    roster.attach(id, old, now);
    roster.attach(id, new, now);
    roster.deliver(&assignment(&lease(id, 1)));
    assert_eq!(numbers(&received(&mut old_end)), [0; 0]);
    assert_eq!(numbers(&received(&mut new_end)), [0; 0]);
    roster.deliver(&assignment(&lease(id, 2)));
    assert_eq!(numbers(&received(&mut new_end)), [1]);
}

#[test]
fn only_what_the_worker_has_processed_and_does_not_have_is_missing() {
    let (mut roster, now, id) = (Roster::default(), Instant::now(), SessionId::random());
    let (connection, _end) = attached(1, 2);
    roster.attach(id, connection, now);
    let (one, two) = (lease(id, 1), lease(id, 1));
    roster.deliver(&assignment(&one));
    roster.deliver(&assignment(&two));
    let has_one = [message::attempt_of(&one)];
    assert_eq!(roster.heard(id, 1, said(0, &[]), now), Heard::Fine, "both are on their way");
    assert_eq!(roster.heard(id, 1, said(1, &has_one), now), Heard::Fine, "the second is");
    assert_eq!(roster.heard(id, 1, said(2, &has_one), now), Heard::Missing);
    assert_eq!(roster.heard(id, 2, said(2, &has_one), now), Heard::Superseded);
}

#[test]
fn a_run_that_nobody_knows_of_is_cancelled_when_it_is_named_twice_in_a_row() {
    let (mut roster, now, id) = (Roster::default(), Instant::now(), SessionId::random());
    let (connection, mut end) = attached(1, 1);
    roster.attach(id, connection, now);
    let stray = message::attempt_of(&lease(id, 1));
    roster.heard(id, 1, said(0, &[stray]), now);
    assert_eq!(received(&mut end), []);
    roster.heard(id, 1, said(0, &[]), now);
    roster.heard(id, 1, said(0, &[stray]), now);
    assert_eq!(received(&mut end), [], "not in a row");
    roster.heard(id, 1, said(0, &[stray]), now);
    assert!(matches!(received(&mut end)[..], [Message::Cancel(_)]));
}

#[test]
fn a_resuming_worker_is_sent_what_it_lacks_and_nothing_that_it_has() {
    let (mut roster, now, id) = (Roster::default(), Instant::now(), SessionId::random());
    let (connection, mut end) = attached(2, 2);
    roster.attach(id, connection, now);
    let (has, lacks) = (lease(id, 2), lease(id, 2));
    let in_hand = HashSet::from([message::attempt_of(&has)]);
    assert_eq!(roster.adopt(&[assignment(&has), assignment(&lacks)], &in_hand), 1);
    assert_eq!(numbers(&received(&mut end)), [1]);
    roster.heard(id, 2, said(0, &[message::attempt_of(&has)]), now);
    assert_eq!(roster.groups(10)[0].slots, [], "both take their slots");
    assert!(roster.release(id, &message::attempt_of(&has)));
    assert!(!roster.release(id, &message::attempt_of(&has)));
}

#[test]
fn silence_is_counted_from_the_last_word_and_forgiven_after_a_standstill() {
    let (mut roster, start, id) = (Roster::default(), Instant::now(), SessionId::random());
    let (own, second) = (DispatcherId::random(), Duration::from_secs(1));
    let (connection, _end) = attached(1, 1);
    roster.attach(id, connection, start);
    roster.detach(id, 1);
    assert_eq!(roster.silent(own, second * 15, start + second * 14), []);
    let seen = Seen { session: id, dispatcher: own, connection: 1 };
    assert_eq!(roster.silent(own, second * 15, start + second * 15), [seen]);
    roster.grant_all(start + second * 15);
    assert_eq!(roster.silent(own, second * 15, start + second * 29), []);
}

#[test]
fn a_connection_that_takes_no_more_is_closed() {
    let (sender, _end) = mpsc::channel(1);
    let link = Link::new(sender);
    link.send(message::drain());
    assert!(!link.closed.is_cancelled());
    link.send(message::drain());
    assert!(link.closed.is_cancelled());
}

#[test]
fn a_worker_that_speaks_and_does_not_hear_is_missed_like_a_silent_one() {
    let (mut roster, start) = (Roster::default(), Instant::now());
    let (deaf, sound) = (SessionId::random(), SessionId::random());
    let (own, lease, second) = (DispatcherId::random(), Duration::from_secs(15), Duration::from_secs(1));
    let (one, _keep) = attached(1, 1);
    let (other, _keep_too) = attached(1, 1);
    roster.attach(deaf, one, start);
    roster.attach(sound, other, start);
    for time in (3..=15).step_by(3) {
        roster.heard(deaf, 1, said(0, &[]), start);
        roster.heard(sound, 1, said(0, &[]), start + (time - 3) * second);
    }
    let silent = |roster: &Roster, at: u32| -> Vec<SessionId> {
        roster.silent(own, lease, start + at * second).iter().map(|seen| seen.session).collect()
    };
    assert_eq!(silent(&roster, 14), []);
    assert_eq!(silent(&roster, 15), [deaf]);
    // We stood still: both may have been heard and not been answered.
    roster.grant_all(start + 15 * second);
    roster.heard(deaf, 1, said(0, &[]), start);
    assert_eq!(silent(&roster, 16), [], "an older word takes nothing back");
}

#[test]
fn who_is_sent_away_gets_no_run_and_has_a_moment_to_go_by_itself() {
    let (mut roster, start, second) = (Roster::default(), Instant::now(), Duration::from_secs(1));
    let (goes, stays, gone) = (SessionId::random(), SessionId::random(), SessionId::random());
    let (first, mut first_end) = attached(1, 2);
    let first_link = first.link.clone();
    let (second_one, mut second_end) = attached(1, 3);
    let (third, _third_end) = attached(1, 4);
    roster.attach(goes, first, start);
    roster.attach(stays, second_one, start);
    roster.attach(gone, third, start);
    roster.detach(gone, 1);
    roster.heard(goes, 1, said(0, &[]), start);
    roster.deliver(&assignment(&lease(goes, 1)));
    let mut loads = roster.loads();
    loads.sort_by_key(|load| load.slots);
    let of = |session, slots, in_hand, settled| Load { session, connection: 1, slots, in_hand, settled };
    assert_eq!(loads, [of(goes, 2, 1, true), of(stays, 3, 0, false)], "of those that are connected");

    assert!(!roster.send_away(goes, 2, start), "another connection");
    assert!(!roster.send_away(gone, 1, start), "nobody is there");
    assert!(roster.send_away(goes, 1, start));
    assert!(matches!(received(&mut first_end)[..], [Message::Assignment(_), Message::Drain(_)]));
    assert_eq!(received(&mut second_end), []);
    assert_eq!(roster.loads(), [of(stays, 3, 0, false)]);
    assert_eq!(roster.groups(10), [], "nothing more for who goes, nor yet for who has said nothing");
    roster.close_lingering(second * 5, start + second * 4);
    assert!(!first_link.closed.is_cancelled());
    roster.close_lingering(second * 5, start + second * 5);
    assert!(first_link.closed.is_cancelled());

    let (back, _back_end) = attached(2, 2);
    let back_link = back.link.clone();
    roster.attach(goes, back, start + second * 6);
    roster.close_lingering(second * 5, start + second * 60);
    assert!(!back_link.closed.is_cancelled(), "who has come back is here as any other");
}

#[test]
fn a_full_dispatcher_takes_nobody_but_who_has_a_session_here() {
    let (mut roster, now, id) = (Roster::default(), Instant::now(), SessionId::random());
    assert!(roster.has_room(None, 1));
    let (attached, _received) = attached(1, 1);
    roster.attach(id, attached, now);
    assert!(roster.has_room(None, 2));
    assert!(!roster.has_room(None, 1) && !roster.has_room(Some(SessionId::random()), 1));
    assert!(roster.has_room(Some(id), 1));
    roster.detach(id, 1);
    assert!(!roster.has_room(None, 1), "its worker is missed, and may come back");
    assert!(roster.has_room(Some(id), 1));
    roster.forget(id, 1);
    assert!(roster.has_room(None, 1));
}

#[test]
fn what_an_older_connection_still_brings_does_not_touch_the_present_one() {
    let (mut roster, now, id) = (Roster::default(), Instant::now(), SessionId::random());
    let (old, _old_end) = attached(1, 1);
    let (new, _end) = attached(2, 1);
    let old_link = old.link.clone();
    roster.attach(id, old, now);
    roster.attach(id, new, now);
    assert!(old_link.closed.is_cancelled(), "one at a time");
    roster.heard(id, 2, said(0, &[]), now);
    roster.detach(id, 1);
    roster.drain(id, 1);
    roster.forget(id, 1);
    assert!(roster.connected());
    assert_eq!(roster.groups(1)[0].slots, [Slot { session: id, connection: 2 }]);
    roster.forget(id, 2);
    assert_eq!(roster.count(), 0);
}

#[test]
fn another_attempt_of_a_held_run_neither_frees_its_slot_nor_is_known() {
    let (mut roster, now, id) = (Roster::default(), Instant::now(), SessionId::random());
    let (connection, mut end) = attached(1, 1);
    roster.attach(id, connection, now);
    let second = Lease { attempt: 2, ..lease(id, 1) };
    roster.deliver(&assignment(&second));
    received(&mut end);
    let held = message::attempt_of(&second);
    let first = AttemptRef { attempt: 1, ..held };
    let of_another_token = AttemptRef { token: Token::from_i64(7).expect("positive"), ..held };
    for other in [first, of_another_token] {
        assert_eq!(roster.held(id, &other), None);
        assert!(!roster.release(id, &other));
    }
    assert!(roster.held(id, &held).is_some());
    for _ in 0..2 {
        roster.heard(id, 1, said(1, &[held, first]), now);
    }
    let told = received(&mut end);
    let [Message::Cancel(cancel)] = &told[..] else { panic!("one cancel, got {told:?}") };
    assert_eq!(cancel.run, Some(write_ref(&first)));
}

#[test]
fn a_worker_whose_connection_has_broken_is_offered_nothing_until_it_is_heard_on_a_new_one() {
    let (mut roster, now, id) = (Roster::default(), Instant::now(), SessionId::random());
    let (connection, _end) = attached(1, 1);
    roster.attach(id, connection, now);
    roster.heard(id, 1, said(0, &[]), now);
    roster.detach(id, 1);
    assert_eq!(roster.groups(1), [], "a run would wait for its return");
    let (again, _end) = attached(2, 1);
    roster.attach(id, again, now);
    assert_eq!(roster.groups(1), [], "it may not hear");
    roster.heard(id, 2, said(0, &[]), now);
    assert_eq!(roster.groups(1)[0].slots, [Slot { session: id, connection: 2 }]);
}

#[test]
fn workers_that_are_sent_elsewhere_get_nothing_more() {
    let (mut roster, now, id) = (Roster::default(), Instant::now(), SessionId::random());
    let (connection, mut end) = attached(1, 1);
    roster.attach(id, connection, now);
    roster.heard(id, 1, said(0, &[]), now);
    assert_eq!(roster.groups(1).len(), 1);
    roster.drain_all();
    assert!(matches!(received(&mut end)[..], [Message::Drain(_)]));
    assert_eq!(roster.groups(1), []);
}

#[test]
fn a_session_without_a_connection_is_missed_once_for_a_lease() {
    let (mut roster, start) = (Roster::default(), Instant::now());
    let (own, second) = (DispatcherId::random(), Duration::from_secs(1));
    let seen = Seen { session: SessionId::random(), dispatcher: own, connection: 3 };
    roster.miss(seen, start);
    roster.miss(seen, start + second * 10);
    assert_eq!(roster.silent(own, second * 15, start + second * 14), []);
    assert_eq!(roster.silent(own, second * 15, start + second * 15), [seen], "the first look counts");
}
