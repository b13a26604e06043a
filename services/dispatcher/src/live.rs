//! Passes on what running attempts show, in groups, twice a second.
//!
//! Deliberately unreliable: of what a session shows of a run only the newest counts, what finds no place or no database is
//! left out, and the next second's word tells all. It must cost the recording of reports nothing. Invariants: what one
//! session says takes no place from another's, as long as all together is not too much; what waits has few bytes, whatever
//! workers say. A session's word of a run that it is not believed to hold is dropped at once; whose run it really is, the
//! statement knows.

use crate::roster::Roster;
use crate::shared::Shared;
use model::ids::{RunKey, SessionId};
use rpc::convert::run::{AttemptRef, read_ref};
use rpc::v1;
use service::health::Beat;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use store::run_live::{self, NOTE_CHARS_MAX, Showing, Shown, TAIL_BYTES_MAX};
use tokio_util::sync::CancellationToken;

/// Between two groups.
const EVERY: Duration = Duration::from_millis(500);
/// Runs of one session that wait to be shown, at most: no worker has more slots.
const WAITING_MAX: usize = 10_000;
/// Bytes of one session that wait: the whole tails of 500 runs.
const SESSION_BYTES_MAX: usize = 8 << 20;
/// Bytes of all sessions that wait.
const BYTES_MAX: usize = 64 << 20;
/// Bytes that a run takes besides its tail and note, about.
const SHOWING_BYTES: usize = 256;
/// Runs that one statement shows at most: 3 MiB.
const BATCH_MAX: usize = 200;
/// How long a group may take: then the database has better things to do.
const LIMIT: Duration = Duration::from_secs(2);

/// What waits to be shown.
#[derive(Debug, Default)]
pub struct Waiting(Mutex<Shows>);

#[derive(Debug, Default)]
struct Shows {
    sessions: BTreeMap<SessionId, Own>,
    bytes: usize,
}

/// What one session shows.
#[derive(Debug, Default)]
struct Own {
    runs: BTreeMap<RunKey, Showing>,
    bytes: usize,
}

impl Waiting {
    /// It is shown with the next group, in place of what the session showed of the run before; left out without a place.
    fn push(&self, showing: Showing) {
        let mut shows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Shows { sessions, bytes } = &mut *shows;
        let own = sessions.entry(showing.session).or_default();
        let (known, more) = (own.runs.get(&showing.key).map(bytes_of), bytes_of(&showing));
        let less = known.unwrap_or(0);
        let (own_after, all_after) = (own.bytes - less + more, *bytes - less + more);
        let has_place = known.is_some() || own.runs.len() < WAITING_MAX;
        if has_place && own_after <= SESSION_BYTES_MAX && all_after <= BYTES_MAX {
            own.runs.insert(showing.key, showing);
            (own.bytes, *bytes) = (own_after, all_after);
        }
    }

    fn take(&self) -> Vec<Showing> {
        let shows = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        shows.sessions.into_values().flat_map(|own| own.runs.into_values()).collect()
    }
}

fn bytes_of(showing: &Showing) -> usize {
    SHOWING_BYTES + showing.shown.tail.len() + showing.shown.note.len()
}

/// A worker shows what an attempt is at. What can't be understood, or is of an attempt that it is not believed to hold, is
/// left out.
pub fn hear(waiting: &Waiting, roster: &Roster, session: SessionId, live: v1::Live) {
    let Some((attempt, showing)) = read(session, live) else { return };
    if roster.held(session, &attempt).is_some() {
        waiting.push(showing);
    }
}

fn read(session: SessionId, live: v1::Live) -> Option<(AttemptRef, Showing)> {
    let attempt = read_ref("run", live.run.as_ref()).ok()?;
    let v1::Live { mut tail, offset, fraction, note, .. } = live;
    let surplus = tail.len().saturating_sub(TAIL_BYTES_MAX);
    tail.drain(..surplus);
    let shown = Shown {
        offset: offset.max(0).saturating_add(i64::try_from(surplus).unwrap_or(0)),
        tail,
        fraction: fraction.filter(|fraction| (0.0..=1.0).contains(fraction)),
        // PostgreSQL's text holds no NUL.
        note: note.chars().filter(|c| *c != '\0').take(NOTE_CHARS_MAX).collect(),
    };
    let AttemptRef { key, attempt: number, token } = attempt;
    Some((attempt, Showing { key, attempt: number, token, session, shown }))
}

/// Shows until `stop`.
pub async fn run(shared: &Shared, beat: Beat, stop: CancellationToken) {
    while tokio::time::timeout(EVERY, stop.cancelled()).await.is_err() {
        beat.beat();
        let waiting = shared.live.take();
        for group in waiting.chunks(BATCH_MAX) {
            match tokio::time::timeout(LIMIT, run_live::show(&shared.store, group)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    shared.metrics.failed("live");
                    let error = service::runtime::chain(&error);
                    tracing::debug!(error, runs = group.len(), "Could not show what runs are at");
                    break;
                }
                Err(_) => {
                    shared.metrics.failed("live");
                    break;
                }
            }
        }
    }
    beat.done();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message;
    use rpc::convert::run::write_ref;

    fn live(session: SessionId) -> v1::Live {
        let run = Some(write_ref(&message::attempt_of(&crate::testing::lease(session, 1))));
        v1::Live { run, offset: 5, tail: b"tail".to_vec(), fraction: Some(0.5), note: "at it".to_owned() }
    }

    fn push(waiting: &Waiting, session: SessionId, live: v1::Live) {
        if let Some((_, showing)) = read(session, live) {
            waiting.push(showing);
        }
    }

    /// As `live`, of another run of the job.
    fn of_another_run(live: &v1::Live, seconds: i64) -> v1::Live {
        let mut run = live.run.clone().expect("a run");
        let at = run.scheduled_for.expect("an instant");
        run.scheduled_for = Some(prost_types::Timestamp { seconds: at.seconds + seconds, ..at });
        v1::Live { run: Some(run), ..live.clone() }
    }

    #[test]
    fn of_each_run_the_newest_word_waits() {
        let (waiting, session) = (Waiting::default(), SessionId::random());
        let first = live(session);
        push(&waiting, session, first.clone());
        push(&waiting, session, v1::Live { tail: b"tail and more".to_vec(), ..first });
        push(&waiting, session, v1::Live::default());
        let taken = waiting.take();
        assert_eq!(taken.len(), 1);
        assert_eq!((taken[0].shown.tail.as_slice(), taken[0].shown.offset), (b"tail and more".as_slice(), 5));
        assert_eq!(waiting.take(), []);
    }

    #[test]
    fn what_one_session_shows_takes_no_place_from_anothers() {
        let (waiting, session, stranger) = (Waiting::default(), SessionId::random(), SessionId::random());
        let shown = live(session);
        push(&waiting, session, shown.clone());
        push(&waiting, stranger, v1::Live { tail: b"forged".to_vec(), ..shown.clone() });
        for second in 0..=i64::try_from(WAITING_MAX).expect("few") {
            push(&waiting, stranger, of_another_run(&shown, second));
        }
        let taken = waiting.take();
        let (own, strange): (Vec<_>, Vec<_>) = taken.iter().partition(|showing| showing.session == session);
        assert_eq!((own.len(), strange.len()), (1, WAITING_MAX));
        assert_eq!(own[0].shown.tail, b"tail");
    }

    #[test]
    fn what_a_session_says_of_a_run_that_it_does_not_hold_is_left_out() {
        let (mut roster, waiting, session) = (Roster::default(), Waiting::default(), SessionId::random());
        let (attached, _received) = crate::testing::attached(1, 1);
        roster.attach(session, attached, std::time::Instant::now());
        let lease = crate::testing::lease(session, 1);
        let run = Some(write_ref(&message::attempt_of(&lease)));
        let shown = v1::Live { run, ..live(session) };
        hear(&waiting, &roster, session, shown.clone());
        assert_eq!(waiting.take(), [], "it was not given to it");
        roster.deliver(&crate::testing::assignment(&lease));
        hear(&waiting, &roster, session, shown.clone());
        assert_eq!(waiting.take().len(), 1);
        hear(&waiting, &roster, SessionId::random(), shown.clone());
        hear(&waiting, &roster, session, of_another_run(&shown, 1));
        assert_eq!(waiting.take(), []);
    }

    #[test]
    fn what_waits_has_few_bytes_of_one_session_and_of_all() {
        let (waiting, tail) = (Waiting::default(), vec![b'x'; TAIL_BYTES_MAX]);
        let waits = |waiting: &Waiting| {
            let shows = waiting.0.lock().expect("whole");
            let told: usize = shows.sessions.values().map(|own| own.bytes).sum();
            let runs = || shows.sessions.values().flat_map(|own| own.runs.values());
            assert_eq!((shows.bytes, told), (runs().map(bytes_of).sum(), shows.bytes));
            (shows.bytes, shows.sessions.values().map(|own| own.bytes).max().unwrap_or(0))
        };
        let full = BYTES_MAX / SESSION_BYTES_MAX + 1;
        for _ in 0..full {
            let session = SessionId::random();
            let shown = v1::Live { tail: tail.clone(), ..live(session) };
            for second in 0..i64::try_from(SESSION_BYTES_MAX / TAIL_BYTES_MAX).expect("few") + 1 {
                push(&waiting, session, of_another_run(&shown, second));
                push(&waiting, session, of_another_run(&shown, second)); // the same again takes no more
            }
        }
        let (all, most) = waits(&waiting);
        let run = TAIL_BYTES_MAX + SHOWING_BYTES + NOTE_CHARS_MAX;
        assert!((BYTES_MAX - run..=BYTES_MAX).contains(&all), "{all}");
        assert!((SESSION_BYTES_MAX - run..=SESSION_BYTES_MAX).contains(&most), "{most}");
        waiting.take();
        assert_eq!(waits(&waiting), (0, 0));
    }

    #[test]
    fn what_is_too_much_is_cut() {
        let session = SessionId::random();
        let too_much = v1::Live {
            tail: vec![b'x'; TAIL_BYTES_MAX + 3],
            fraction: Some(7.0),
            note: "é\0".repeat(NOTE_CHARS_MAX),
            ..live(session)
        };
        let shown = read(session, too_much).expect("understood").1.shown;
        assert_eq!((shown.offset, shown.tail.len(), shown.fraction), (8, TAIL_BYTES_MAX, None));
        assert_eq!(shown.note.chars().count(), NOTE_CHARS_MAX);
    }
}
