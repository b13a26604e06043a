//! What a run writes, while it writes it.
//!
//! The database is looked at twice a second; what is new since the last look is sent. Invariant: no byte is sent twice, and
//! each message says where in its attempt's output it begins; what was written faster than it is shown is left out. When
//! the run has ended, the end of the output that the ledger keeps completes it.

use crate::failure::Failure;
use crate::jobs;
use crate::limits;
use crate::watching::Watching;
use chrono::{DateTime, Utc};
use model::ids::run_name;
use model::run::Phase;
use rpc::auth::Caller;
use rpc::convert::{run, time};
use rpc::v1;
use std::time::Duration;
use store::history::{self, Run};
use store::job::Stored;
use store::run_live::{self, Shown};
use store::{Store, StoreError};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(500);
/// Messages that wait for a slow watcher.
const WAITING_MAX: usize = 4;
/// Looks after the end: the last words may come a moment later than the ledger's.
const LOOKS_AFTER_END: u32 = 2;

/// Messages for one who watches.
pub type Messages = ReceiverStream<Result<v1::WatchOutputResponse, Status>>;

/// Watches a run until it has ended.
///
/// # Errors
/// A [`Failure`] when there is no such run; RESOURCE_EXHAUSTED when too many watch.
pub async fn watch(
    store: &Store,
    watching: &Watching,
    caller: &Caller,
    request: &v1::WatchOutputRequest,
) -> Result<Messages, Status> {
    let scheduled_for = time::instant_of_text("scheduledFor", &request.scheduled_for)
        .map_err(|error| Failure::Invalid(vec![error]))?;
    let job = jobs::find_or_deleted(store, caller, &request.job).await?;
    limits::still_shown(store, caller, scheduled_for, || run_name(&job.name, scheduled_for)).await?;
    let found = history::get(store, caller.tenant_id, job.id, scheduled_for).await.map_err(Failure::from)?;
    if found.is_none() {
        let name = run_name(&job.name, scheduled_for);
        return Err(Failure::NotFound { kind: "run", name }.into());
    }
    let place = watching.place(caller.tenant_id)?;
    let (sender, messages) = mpsc::channel(WAITING_MAX);
    let (store, watching, once) = (store.clone(), watching.clone(), request.once);
    tokio::spawn(async move {
        let (_place, stop) = (place, watching.stopped());
        let following = follow(&store, &watching, &job, scheduled_for, once, &sender);
        tokio::select! {
            () = stop.cancelled() => {}
            () = sender.closed() => {}
            ended = following => {
                if let Err(error) = ended {
                    // Whoever watches may have gone.
                    let _ = sender.send(Err(Failure::from(error).into())).await;
                }
            }
        }
    });
    Ok(ReceiverStream::new(messages))
}

async fn follow(
    store: &Store,
    watching: &Watching,
    job: &Stored,
    scheduled_for: DateTime<Utc>,
    once: bool,
    sender: &mpsc::Sender<Result<v1::WatchOutputResponse, Status>>,
) -> Result<(), StoreError> {
    let mut seen = Seen::default();
    let mut looks_after_end = 0;
    loop {
        let turn = watching.look().await;
        // In this order: what is shown after the run was seen to have ended is its last word.
        let Some(found) = history::get(store, job.tenant, job.id, scheduled_for).await? else {
            return Ok(());
        };
        let live = run_live::read(store, job.tenant, job.id, scheduled_for).await?;
        drop(turn);
        let ended = is_end(found.phase);
        looks_after_end += u32::from(ended);
        let over = once || looks_after_end > LOOKS_AFTER_END;
        let gone = match seen.next(&found, live.as_ref(), over) {
            Some(message) => sender.send(Ok(message)).await.is_err(),
            None => false,
        };
        if over || gone {
            return Ok(());
        }
        tokio::time::sleep(EVERY).await;
    }
}

const fn is_end(phase: Phase) -> bool {
    !matches!(phase, Phase::Planned | Phase::Waiting | Phase::Running | Phase::Retrying)
}

/// What was sent so far.
#[derive(Debug, Default)]
struct Seen {
    attempt: i32,
    /// Bytes of the attempt's output that were sent, or left out.
    through: i64,
    /// The end of what was sent, for finding it in what the ledger keeps.
    tail: Vec<u8>,
    /// What was said beside the output.
    told: Option<(Phase, Option<f64>, String)>,
}

impl Seen {
    /// What is new, if anything; `over` when nothing comes after it.
    fn next(
        &mut self,
        run: &Run,
        live: Option<&(i32, Shown)>,
        over: bool,
    ) -> Option<v1::WatchOutputResponse> {
        let attempt = run.attempt.max(live.map_or(0, |(attempt, _)| *attempt));
        if attempt != self.attempt {
            *self = Self { attempt, ..Self::default() };
        }
        let shown = live.filter(|(of, _)| *of == attempt).map(|(_, shown)| shown);
        let (offset, mut output) =
            shown.map_or_else(|| (self.through, Vec::new()), |shown| self.new_of(shown));
        self.sent(offset, &output);
        if over && is_end(run.phase) {
            let rest = after(&self.tail, &run.output).to_vec();
            self.sent(self.through, &rest);
            output.extend(rest);
        }
        let (fraction, note) = shown.map_or((None, ""), |shown| (shown.fraction, shown.note.as_str()));
        let telling = (run.phase, fraction, note.to_owned());
        if output.is_empty() && self.told.as_ref() == Some(&telling) {
            return None;
        }
        let state = run::phase(run.phase).into();
        let note = telling.2.clone();
        self.told = Some(telling);
        Some(v1::WatchOutputResponse { attempt, state, offset, output, fraction, note })
    }

    /// What of `shown` was not sent yet, and where it begins.
    fn new_of(&self, shown: &Shown) -> (i64, Vec<u8>) {
        let end = shown.offset + shown.tail.len() as i64;
        let from = self.through.max(shown.offset).min(end);
        let known = usize::try_from(from - shown.offset).unwrap_or(0);
        (from, shown.tail[known..].to_vec())
    }

    fn sent(&mut self, offset: i64, output: &[u8]) {
        self.through = self.through.max(offset + output.len() as i64);
        self.tail.extend_from_slice(output);
        let surplus = self.tail.len().saturating_sub(run_live::TAIL_BYTES_MAX);
        self.tail.drain(..surplus);
    }
}

/// What of `kept`, the end of an output, comes after `sent`.
fn after<'a>(sent: &[u8], kept: &'a [u8]) -> &'a [u8] {
    let most = sent.len().min(kept.len());
    let known = (0..=most).rev().find(|known| sent.ends_with(&kept[..*known]));
    &kept[known.unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ids::Generation;

    fn run(phase: Phase, attempt: i32, output: &str) -> Run {
        Run {
            scheduled_for: DateTime::UNIX_EPOCH,
            due_at: DateTime::UNIX_EPOCH,
            phase,
            reason: None,
            origin: "SCHEDULE".to_owned(),
            generation: Generation::FIRST,
            term: 1,
            attempt,
            token: None,
            worker: None,
            claimed_at: None,
            accepted_at: None,
            finished_at: None,
            exit_status: None,
            output: output.as_bytes().to_vec(),
            error: String::new(),
        }
    }

    fn live(attempt: i32, offset: i64, tail: &str) -> (i32, Shown) {
        (attempt, Shown { offset, tail: tail.as_bytes().to_vec(), ..Shown::default() })
    }

    /// Offset and text of a message.
    fn text(message: Option<v1::WatchOutputResponse>) -> Option<(i64, String)> {
        message.map(|message| (message.offset, String::from_utf8(message.output).expect("text")))
    }

    #[test]
    fn each_byte_is_sent_once_with_its_place() {
        let (mut seen, running) = (Seen::default(), run(Phase::Running, 1, ""));
        assert_eq!(text(seen.next(&running, None, false)), Some((0, String::new())), "its state");
        assert_eq!(text(seen.next(&running, None, false)), None);
        assert_eq!(text(seen.next(&running, Some(&live(1, 0, "one\n")), false)), Some((0, "one\n".into())));
        assert_eq!(text(seen.next(&running, Some(&live(1, 0, "one\n")), false)), None);
        assert_eq!(
            text(seen.next(&running, Some(&live(1, 2, "e\ntwo\n")), false)),
            Some((4, "two\n".into()))
        );
        assert_eq!(text(seen.next(&running, Some(&live(1, 100, "far")), false)), Some((100, "far".into())));
        assert_eq!(text(seen.next(&running, Some(&live(2, 0, "again")), false)), Some((0, "again".into())));
    }

    #[test]
    fn the_ledgers_end_of_the_output_completes_what_was_shown() {
        let (mut seen, running) = (Seen::default(), run(Phase::Running, 1, ""));
        seen.next(&running, Some(&live(1, 0, "one\ntwo\n")), false);
        let ended = run(Phase::Succeeded, 1, "o\nthree\n");
        assert_eq!(text(seen.next(&ended, Some(&live(1, 0, "one\ntwo\n")), false)), Some((8, String::new())));
        assert_eq!(
            text(seen.next(&ended, Some(&live(1, 0, "one\ntwo\n")), true)),
            Some((8, "three\n".into()))
        );
        let mut late = Seen::default();
        assert_eq!(text(late.next(&ended, None, true)), Some((0, "o\nthree\n".into())), "nothing was shown");
    }

    #[test]
    fn progress_is_a_message_of_its_own() {
        let (mut seen, running) = (Seen::default(), run(Phase::Running, 1, ""));
        let at =
            |fraction| (1, Shown { fraction: Some(fraction), note: "at it".to_owned(), ..Shown::default() });
        assert_eq!(
            seen.next(&running, Some(&at(0.1)), false).and_then(|message| message.fraction),
            Some(0.1)
        );
        assert_eq!(seen.next(&running, Some(&at(0.1)), false), None);
        assert_eq!(
            seen.next(&running, Some(&at(0.2)), false).and_then(|message| message.fraction),
            Some(0.2)
        );
    }
}
