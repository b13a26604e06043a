//! Passes on what running attempts show, in groups, twice a second.
//!
//! Deliberately unreliable: of what a session shows of a run only the newest counts, what finds no place or no database is
//! left out, and the next second's word tells all. It must cost the recording of reports nothing. Invariant: what one
//! session says takes no place from another's; whose run it is, the statement knows.

use crate::shared::Shared;
use model::ids::{RunKey, SessionId};
use rpc::convert::run::read_ref;
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
/// Runs that one statement shows at most: 3 MiB.
const BATCH_MAX: usize = 200;
/// How long a group may take: then the database has better things to do.
const LIMIT: Duration = Duration::from_secs(2);

/// What waits to be shown.
#[derive(Debug, Default)]
pub struct Waiting(Mutex<BTreeMap<SessionId, BTreeMap<RunKey, Showing>>>);

impl Waiting {
    /// A worker shows what an attempt is at. What can't be understood is left out.
    pub fn push(&self, session: SessionId, live: v1::Live) {
        let Some(showing) = read(session, live) else { return };
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = sessions.entry(session).or_default();
        if waiting.len() < WAITING_MAX || waiting.contains_key(&showing.key) {
            waiting.insert(showing.key, showing);
        }
    }

    fn take(&self) -> Vec<Showing> {
        let sessions = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        sessions.into_values().flat_map(BTreeMap::into_values).collect()
    }
}

fn read(session: SessionId, live: v1::Live) -> Option<Showing> {
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
    Some(Showing { key: attempt.key, attempt: attempt.attempt, token: attempt.token, session, shown })
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

    #[test]
    fn of_each_run_the_newest_word_waits() {
        let (waiting, session) = (Waiting::default(), SessionId::random());
        let first = live(session);
        waiting.push(session, first.clone());
        waiting.push(session, v1::Live { tail: b"tail and more".to_vec(), ..first });
        waiting.push(session, v1::Live::default());
        let taken = waiting.take();
        assert_eq!(taken.len(), 1);
        assert_eq!((taken[0].shown.tail.as_slice(), taken[0].shown.offset), (b"tail and more".as_slice(), 5));
        assert_eq!(waiting.take(), []);
    }

    #[test]
    fn what_one_session_shows_takes_no_place_from_anothers() {
        let (waiting, session, stranger) = (Waiting::default(), SessionId::random(), SessionId::random());
        let shown = live(session);
        waiting.push(session, shown.clone());
        waiting.push(stranger, v1::Live { tail: b"forged".to_vec(), ..shown.clone() });
        let begins = shown.run.clone().and_then(|run| run.scheduled_for).expect("an instant");
        for second in 0..=i64::try_from(WAITING_MAX).expect("few") {
            let mut run = shown.run.clone().expect("a run");
            run.scheduled_for = Some(prost_types::Timestamp { seconds: begins.seconds + second, ..begins });
            waiting.push(stranger, v1::Live { run: Some(run), ..shown.clone() });
        }
        let taken = waiting.take();
        let (own, strange): (Vec<_>, Vec<_>) = taken.iter().partition(|showing| showing.session == session);
        assert_eq!((own.len(), strange.len()), (1, WAITING_MAX));
        assert_eq!(own[0].shown.tail, b"tail");
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
        let shown = read(session, too_much).expect("understood").shown;
        assert_eq!((shown.offset, shown.tail.len(), shown.fraction), (8, TAIL_BYTES_MAX, None));
        assert_eq!(shown.note.chars().count(), NOTE_CHARS_MAX);
    }
}
