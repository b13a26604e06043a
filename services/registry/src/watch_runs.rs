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
use model::ids::{JobId, TenantId};
use model::run::Phase;
use rpc::auth::Caller;
use rpc::convert::{run, time};
use rpc::v1;
use std::pin::Pin;
use std::time::Duration;
use store::Store;
use store::run_event::{self, Event, Found, Lost, Position, Within};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// How often is looked, and how long is waited.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Between two looks.
    look_every: Duration,
    /// Silence after which a message without a run says that the watch goes on, and from where.
    heartbeat: Duration,
    /// How long the oldest of the messages that wait for a slow reader waits before the reader is dropped.
    patience: Duration,
}

const PACE: Pace = Pace {
    look_every: Duration::from_millis(500),
    heartbeat: Duration::from_secs(15),
    patience: Duration::from_secs(30),
};
/// Messages that wait for a slow reader.
const WAITING_MAX: usize = 64;

/// Messages for one who watches.
pub type Messages = Pin<Box<dyn Stream<Item = Result<v1::WatchRunsResponse, Status>> + Send>>;

type Sender = mpsc::Sender<Result<v1::WatchRunsResponse, Status>>;

/// Which events are wanted.
struct Wanted {
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
    let wanted = Wanted { phases };
    let place = watching.place(caller.tenant_id)?;
    let looking = Looking { store: store.clone(), watching: watching.clone(), tenant: caller.tenant_id, job };
    let first = looking.look(from.as_ref()).await?;
    Ok(told(place, watching.stopped(), async move |sender| {
        let read = async |from: Position| looking.look(Some(&from)).await;
        follow(read, &wanted, first, PACE, &sender).await
    }))
}

/// Where is looked for events.
struct Looking {
    store: Store,
    watching: Watching,
    tenant: TenantId,
    job: Option<JobId>,
}

impl Looking {
    /// Reads on, when it is this one's turn.
    async fn look(&self, from: Option<&Position>) -> Result<Found, Status> {
        let _turn = self.watching.look().await;
        let read = run_event::read(&self.store, self.tenant, self.job, from).await;
        read.map_err(Failure::from)?.map_err(lost)
    }
}

/// What `follow` sends, while it runs in a task that keeps `place`; then why it ended.
fn told<Following>(
    place: impl Send + 'static,
    stop: CancellationToken,
    follow: impl FnOnce(Sender) -> Following,
) -> Messages
where
    Following: Future<Output = Result<(), Status>> + Send + 'static,
{
    let (sender, messages) = mpsc::channel(WAITING_MAX);
    // Beside the messages: those may be waiting in vain.
    let (last_word, end) = mpsc::channel(1);
    let following = follow(sender.clone());
    tokio::spawn(async move {
        let _place = place;
        let ended = tokio::select! {
            () = stop.cancelled() => Err(Status::unavailable("this registry stops: resume at another one")),
            () = sender.closed() => Ok(()),
            ended = following => ended,
        };
        if let Err(status) = ended {
            last_word.try_send(Err(status)).ok(); // there is room for one
        }
    });
    Box::pin(ReceiverStream::new(messages).chain(ReceiverStream::new(end)))
}

/// Sends what is wanted of `first` and of what `read` finds after it.
async fn follow<Reading>(
    mut read: impl FnMut(Position) -> Reading,
    wanted: &Wanted,
    first: Found,
    pace: Pace,
    sender: &Sender,
) -> Result<(), Status>
where
    Reading: Future<Output = Result<Found, Status>>,
{
    let mut found = first;
    // At once: whoever is cut off before anything happens reads on from here.
    let mut told_at = None;
    loop {
        let Found { events, position, more } = found;
        for event in events.into_iter().filter(|event| wanted.has(event)) {
            send(sender, message(event), pace.patience).await?;
            told_at = Some(Instant::now());
        }
        if !more {
            if told_at.is_none_or(|told: Instant| told.elapsed() >= pace.heartbeat) {
                let resume_token = token(&position);
                let nothing = v1::WatchRunsResponse { time: None, run: None, resume_token };
                send(sender, nothing, pace.patience).await?;
                told_at = Some(Instant::now());
            }
            tokio::time::sleep(pace.look_every).await;
        }
        found = read(position).await?;
    }
}

/// Whoever watches is told where to read on by the last message that it got.
async fn send(sender: &Sender, message: v1::WatchRunsResponse, patience: Duration) -> Result<(), Status> {
    let sent = sender.send_timeout(Ok(message), patience).await;
    sent.map_err(|_| {
        Status::resource_exhausted(format!(
            "the messages were not read for {} s: resume with the last token, and read faster",
            patience.as_secs()
        ))
    })
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
    use model::ids::Generation;
    use store::history::Run;

    const HASTE: Pace = Pace {
        look_every: Duration::from_millis(1),
        heartbeat: Duration::from_millis(30),
        patience: Duration::from_millis(30),
    };
    const ANY: Wanted = Wanted { phases: Vec::new() };

    fn begin() -> Position {
        Position { server: 1, seen: "100:100:".to_owned(), within: None }
    }

    fn run() -> Run {
        Run {
            scheduled_for: chrono::DateTime::UNIX_EPOCH,
            due_at: chrono::DateTime::UNIX_EPOCH,
            phase: Phase::Failed,
            reason: None,
            origin: "SCHEDULE".to_owned(),
            generation: Generation::FIRST,
            term: 1,
            attempt: 1,
            token: None,
            worker: None,
            claimed_at: None,
            accepted_at: None,
            finished_at: None,
            exit_status: None,
            output: Vec::new(),
            error: String::new(),
        }
    }

    fn event() -> Event {
        let at = chrono::DateTime::UNIX_EPOCH;
        Event { at, job: JobId(uuid::Uuid::nil()), job_name: "a".to_owned(), run: run(), position: begin() }
    }

    #[tokio::test]
    async fn silence_is_broken_by_a_message_that_says_where_to_read_on() {
        let first = Found { events: Vec::new(), position: begin(), more: false };
        let since = Instant::now();
        let mut messages = told((), CancellationToken::new(), async move |sender| {
            let silent = async |position| Ok(Found { events: Vec::new(), position, more: false });
            follow(silent, &ANY, first, HASTE, &sender).await
        });
        for beats in 0..3 {
            let message = messages.next().await.expect("a message").expect("no end");
            assert!(message.run.is_none() && message.resume_token == token(&begin()), "{message:?}");
            assert!(since.elapsed() >= HASTE.heartbeat * beats, "{beats} after {:?}", since.elapsed());
        }
    }

    #[tokio::test]
    async fn whoever_does_not_read_is_dropped_keeps_what_waits_and_is_told_why() {
        let (dropped, was_dropped) = tokio::sync::oneshot::channel();
        let first = Found { events: Vec::new(), position: begin(), more: true };
        let since = Instant::now();
        let messages = told((), CancellationToken::new(), async move |sender| {
            let endless = async |position| Ok(Found { events: vec![event(); 10], position, more: true });
            let ended = follow(endless, &ANY, first, HASTE, &sender).await;
            let _ = dropped.send(());
            ended
        });
        was_dropped.await.expect("it is dropped");
        assert!(since.elapsed() >= HASTE.patience, "{:?}", since.elapsed());
        let read: Vec<_> = messages.collect().await;
        let (told, end) = read.split_at(WAITING_MAX);
        assert!(told.iter().all(Result::is_ok));
        let codes: Vec<_> = end.iter().map(|end| end.as_ref().map_err(Status::code).err()).collect();
        assert_eq!(codes, [Some(tonic::Code::ResourceExhausted)]);
    }

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
