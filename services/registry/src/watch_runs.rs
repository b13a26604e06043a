//! What becomes of runs, as it happens, for programs that react to it.
//!
//! The database is looked at twice a second. Invariants: each message carries a token, and whoever reads on from it gets
//! everything after that message once, whichever registry answers; what a slow reader has not taken waits in the database
//! and not here. What it does not do: remember who watches.

use crate::failure::{Failure, wrong};
use crate::jobs;
use crate::runs;
use crate::watching::Watching;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::ids::JobId;
use model::run::Phase;
use rpc::auth::Caller;
use rpc::convert::{run, time};
use rpc::v1;
use std::pin::Pin;
use std::time::Duration;
use store::run_event::{self, Event, Found, Lost, Position, Within};
use store::{Store, StoreError};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(500);
/// Silence after which a message without a run says that the watch goes on, and from where.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Messages that wait for a slow reader.
const WAITING_MAX: usize = 64;
/// How long the oldest of them waits before the reader is dropped.
const PATIENCE: Duration = Duration::from_secs(30);

/// Messages for one who watches.
pub type Messages = Pin<Box<dyn Stream<Item = Result<v1::WatchRunsResponse, Status>> + Send>>;

type Sender = mpsc::Sender<Result<v1::WatchRunsResponse, Status>>;

/// Which events are wanted.
struct Wanted {
    job: Option<JobId>,
    /// Any, when empty.
    phases: Vec<Phase>,
}

/// Watches the runs of the caller's tenant from the request's token on, or from now on.
///
/// # Errors
/// A [`Failure`] when the request is wrong, or nothing can be read on from its token; RESOURCE_EXHAUSTED when too many
/// watch.
pub async fn watch(
    store: &Store,
    watching: &Watching,
    caller: &Caller,
    request: &v1::WatchRunsRequest,
) -> Result<Messages, Status> {
    let from = match request.resume_token.as_str() {
        "" => None,
        token => Some(position(token).ok_or_else(|| bad_token("is not one that a message held"))?),
    };
    let phases = run::phases("states", &request.states).map_err(Failure::Invalid)?;
    let job = match request.job.as_str() {
        "" => None,
        job => Some(jobs::find_or_deleted(store, caller, job).await?.id),
    };
    let wanted = Wanted { job, phases };
    let place = watching.place(caller.tenant_id)?;
    let first = run_event::read(store, caller.tenant_id, job, from.as_ref()).await.map_err(Failure::from)?;
    let first = first.map_err(lost)?;
    let (sender, messages) = mpsc::channel(WAITING_MAX);
    // Beside the messages: those may be waiting in vain.
    let (last_word, end) = mpsc::channel(1);
    let (store, stop, tenant) = (store.clone(), watching.stopped(), caller.tenant_id);
    tokio::spawn(async move {
        let _place = place;
        let following = follow(&store, tenant, &wanted, first, &sender);
        let ended = tokio::select! {
            () = stop.cancelled() => Err(Status::unavailable("this registry stops: resume at another one")),
            () = sender.closed() => Ok(()),
            ended = following => ended,
        };
        if let Err(status) = ended {
            last_word.try_send(Err(status)).ok(); // there is room for one
        }
    });
    Ok(Box::pin(ReceiverStream::new(messages).chain(ReceiverStream::new(end))))
}

async fn follow(
    store: &Store,
    tenant: model::ids::TenantId,
    wanted: &Wanted,
    first: Found,
    sender: &Sender,
) -> Result<(), Status> {
    let mut found = first;
    // At once: whoever is cut off before anything happens reads on from here.
    let mut told_at = None;
    loop {
        let Found { events, position, more } = found;
        for event in events.into_iter().filter(|event| wanted.has(event)) {
            send(sender, message(event)).await?;
            told_at = Some(Instant::now());
        }
        if !more {
            if told_at.is_none_or(|told: Instant| told.elapsed() >= HEARTBEAT) {
                let resume_token = token(&position);
                send(sender, v1::WatchRunsResponse { time: None, run: None, resume_token }).await?;
                told_at = Some(Instant::now());
            }
            tokio::time::sleep(EVERY).await;
        }
        let read = run_event::read(store, tenant, wanted.job, Some(&position)).await;
        found = read.map_err(ended)?.map_err(lost)?;
    }
}

/// Whoever watches is told where to read on by the last message that it got.
async fn send(sender: &Sender, message: v1::WatchRunsResponse) -> Result<(), Status> {
    match sender.send_timeout(Ok(message), PATIENCE).await {
        Ok(()) => Ok(()),
        Err(_) => Err(Status::resource_exhausted(
            "the messages were not read for 30 s: resume with the last token, and read faster",
        )),
    }
}

fn ended(error: StoreError) -> Status {
    Failure::from(error).into()
}

fn lost(lost: Lost) -> Status {
    bad_token(match lost {
        Lost::Forgotten => {
            "is older than the 24 h for which events are kept: list the runs, and watch without a token"
        }
        Lost::Foreign => {
            "is of another database, or of this one before it was restored: list the runs, and watch without a token"
        }
    })
}

fn bad_token(problem: &str) -> Status {
    wrong("resumeToken", problem).into()
}

impl Wanted {
    fn has(&self, event: &Event) -> bool {
        self.phases.is_empty() || self.phases.contains(&event.run.phase)
    }
}

fn message(event: Event) -> v1::WatchRunsResponse {
    let Event { at, job, job_name, run, position } = event;
    v1::WatchRunsResponse {
        time: Some(time::timestamp(at)),
        run: Some(runs::message_of(job, &job_name, run)),
        resume_token: token(&position),
    }
}

/// A position as a text that callers may not read anything into.
fn token(position: &Position) -> String {
    let Position { server, seen, within } = position;
    let within = within.as_ref().map(|Within { target, row, events }| format!(" {target} {row} {events}"));
    URL_SAFE_NO_PAD.encode(format!("{server} {seen}{}", within.unwrap_or_default()))
}

fn position(token: &str) -> Option<Position> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let mut parts = text.split(' ');
    let server = parts.next()?.parse().ok()?;
    let seen = snapshot(parts.next()?)?;
    let within = match parts.next() {
        None => None,
        Some(target) => Some(Within {
            target: snapshot(target)?,
            row: parts.next()?.parse().ok()?,
            events: parts.next()?.parse().ok()?,
        }),
    };
    parts.next().is_none().then_some(Position { server, seen, within })
}

/// A snapshot as PostgreSQL writes it, `xmin:xmax:xip,…` with rising numbers: it refuses any other text.
fn snapshot(text: &str) -> Option<String> {
    let mut parts = text.split(':');
    let (low, high): (u64, u64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let running = parts.next()?;
    let numbers: Option<Vec<u64>> = match running {
        "" => Some(Vec::new()),
        list => list.split(',').map(|number| number.parse().ok()).collect(),
    };
    let numbers = numbers?;
    let in_order = numbers.windows(2).all(|pair| pair[0] < pair[1]);
    let within = numbers.iter().all(|number| (low..high).contains(number));
    let sound = parts.next().is_none() && low > 0 && low <= high && high < 1 << 63 && in_order && within;
    sound.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_it_was() {
        let seen = "100:105:101,103".to_owned();
        let within = Within { target: "104:110:".to_owned(), row: 7, events: 2 };
        for within in [None, Some(within)] {
            let read = Position { server: -7, seen: seen.clone(), within };
            assert_eq!(position(&token(&read)), Some(read));
        }
    }

    #[test]
    fn what_postgresql_would_refuse_never_reaches_it() {
        for text in [
            "",
            "1",
            "1:2",
            "2:1:",
            "1:5:7",
            "1:5:3,2",
            "0:1:",
            "1:2:x",
            "1:2::",
            "-1:2:",
            "1:9223372036854775808:",
        ] {
            assert_eq!(snapshot(text), None, "{text}");
            assert_eq!(position(&URL_SAFE_NO_PAD.encode(format!("1 {text}"))), None, "{text}");
        }
        assert_eq!(position("%"), None);
        assert_eq!(position(&URL_SAFE_NO_PAD.encode("1 1:2: 1:2: 3")), None);
    }
}
