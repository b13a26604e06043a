use super::*;
use crate::testing::{Received, assignment, attached, lease};
use rpc::v1::to_worker::Message;

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
