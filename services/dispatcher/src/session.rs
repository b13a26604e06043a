//! The stream of one worker: reads what it says, for as long as the connection lasts.
//!
//! Owns no state: what a message means for the runs is decided where they are kept. A message that can't be understood
//! ends the connection; the worker resumes and says it again.

use crate::attach::{self, Connected};
use crate::finish::{Event, Report};
use crate::live;
use crate::reap;
use crate::roster::{Heard, Link, Said};
use crate::shared::Shared;
use crate::standing;
use model::run::Reason;
use rpc::convert::run::{outcome, read_ref};
use rpc::v1::worker_service_server::WorkerService;
use rpc::v1::{self, FromWorker, ToWorker, from_worker::Message};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::run_end::Output;
use store::worker_session::{self, Seen};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

/// How long a worker may take to say Hello.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// Messages that wait to be sent to one worker, beside one for each of its slots.
const WAITING_MAX: usize = 1_024;
const TAIL_BYTES_MAX: usize = 4_096;
const ERROR_CHARS_MAX: usize = 2_048;

/// Serves workers.
#[derive(Clone)]
pub struct Sessions {
    shared: Arc<Shared>,
}

impl Sessions {
    /// Of this dispatcher.
    pub const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

#[tonic::async_trait]
impl WorkerService for Sessions {
    type WorkStream = ReceiverStream<Result<ToWorker, Status>>;

    async fn work(
        &self,
        request: Request<Streaming<FromWorker>>,
    ) -> Result<Response<Self::WorkStream>, Status> {
        let bearer = attach::authenticate(&self.shared, request.metadata()).await?;
        if let Some(guest) = request.extensions().get::<service::door::Guest>() {
            guest.vouch();
        }
        let mut inbound = request.into_inner();
        let hello = hello(&mut inbound).await?;
        let waiting = WAITING_MAX + 2 * usize::try_from(hello.slots).unwrap_or(0).min(10_000);
        let (sender, outbound) = mpsc::channel(waiting);
        let link = Link::new(sender);
        let connected = attach::attach(&self.shared, bearer.tenant, hello, link.clone()).await?;
        let connection = Connection {
            shared: self.shared.clone(),
            token: bearer.token,
            connected,
            link,
            heard: AtomicBool::new(false),
        };
        tokio::spawn(connection.serve(inbound));
        Ok(Response::new(ReceiverStream::new(outbound)))
    }

    async fn standing(
        &self,
        request: Request<v1::StandingRequest>,
    ) -> Result<Response<v1::StandingResponse>, Status> {
        Ok(Response::new(standing::answer(&self.shared, request.metadata()).await?))
    }
}

async fn hello(inbound: &mut Streaming<FromWorker>) -> Result<v1::Hello, Status> {
    let first = tokio::time::timeout(HELLO_LIMIT, inbound.message()).await;
    let first =
        first.map_err(|_| Status::deadline_exceeded(format!("no Hello within {HELLO_LIMIT:?}")))??;
    match first.and_then(|first| first.message) {
        Some(Message::Hello(hello)) => Ok(hello),
        _ => Err(Status::failed_precondition("the first message must be Hello")),
    }
}

struct Connection {
    shared: Arc<Shared>,
    /// What it came with.
    token: Uuid,
    connected: Connected,
    link: Link,
    /// A heartbeat has come through it: the worker hears.
    heard: AtomicBool,
}

impl Connection {
    async fn serve(self, mut inbound: Streaming<FromWorker>) {
        let Connected { session, connection } = self.connected;
        let _entered = self.shared.bearers.enter(self.token, self.link.clone());
        loop {
            let message = tokio::select! {
                () = self.link.closed() => break,
                message = inbound.message() => message,
            };
            match message {
                Ok(Some(FromWorker { message: Some(message) })) => {
                    if self.hear(message).await.is_break() {
                        break;
                    }
                }
                // A kind of message that this version does not know.
                Ok(Some(FromWorker { message: None })) => {}
                Ok(None) => break,
                Err(status) => {
                    tracing::debug!(session = %session, %status, "A worker's stream has broken");
                    break;
                }
            }
        }
        self.shared.roster().detach(session, connection);
        tracing::info!(session = %session, session.connection = connection, "A worker's connection has ended");
    }

    async fn hear(&self, message: Message) -> ControlFlow<()> {
        let Connected { session, connection } = self.connected;
        match message {
            Message::Heartbeat(heartbeat) => return self.heartbeat(&heartbeat),
            Message::Accepted(v1::Accepted { run }) => {
                if let Ok(attempt) = read_ref("run", run.as_ref()) {
                    let event = Event::Accepted;
                    self.report(Report { session, attempt, event, heard: Instant::now(), link: None }).await;
                }
            }
            Message::Completed(completed) => match self.completed(completed) {
                Ok(report) => self.report(report).await,
                Err(error) => {
                    tracing::warn!(session = %session, error.field = error.field, error = error.message, "A worker reports what can't be understood");
                    return ControlFlow::Break(());
                }
            },
            Message::Live(live) => live::hear(&self.shared.live, &self.shared.roster(), session, live),
            Message::Drain(_) => self.shared.roster().drain(session, connection),
            Message::Goodbye(_) => {
                let seen = Seen { session, dispatcher: self.shared.id, connection };
                self.shared.roster().drain(session, connection);
                if let Err(error) = reap::leave(&self.shared, seen).await {
                    // Then it is missed, and reaped after its lease.
                    let error = service::runtime::chain(&error);
                    tracing::warn!(session = %session, error, "Could not end the session of a leaving worker");
                }
                return ControlFlow::Break(());
            }
            Message::Hello(_) => {
                tracing::warn!(session = %session, "A worker says Hello twice on one connection");
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn heartbeat(&self, heartbeat: &v1::Heartbeat) -> ControlFlow<()> {
        let Connected { session, connection } = self.connected;
        let said = Said { processed: heartbeat.processed, in_hand: attach::in_hand(&heartbeat.in_hand) };
        let now = Instant::now();
        let as_of = attach::known_to_hear(heartbeat.unheard, now);
        let heard = self.shared.roster().heard(session, connection, said, as_of);
        if heard == Heard::Superseded {
            return ControlFlow::Break(());
        }
        if heard == Heard::Missing {
            self.shared.reconcile.notify_one();
        }
        if !self.heard.swap(true, Ordering::Relaxed) {
            self.first_heard();
        }
        self.link.send(standing::acknowledge(&self.shared, heartbeat.sequence, now));
        ControlFlow::Continue(())
    }

    /// From now on the worker gets runs; and it may resume again. Not waited for: the database may be slow, or away.
    fn first_heard(&self) {
        self.shared.work.notify_one();
        let Connected { session, connection } = self.connected;
        if connection > 1 {
            let shared = self.shared.clone();
            tokio::spawn(async move {
                if let Err(error) = worker_session::heard(&shared.store, session, connection).await {
                    let error = service::runtime::chain(&error);
                    tracing::warn!(session = %session, error, "Could not note that a worker hears");
                }
            });
        }
    }

    fn completed(&self, completed: v1::Completed) -> Result<Report, model::validate::FieldError> {
        let attempt = read_ref("completed.run", completed.run.as_ref())?;
        let outcome = outcome(&completed, Reason::Requested)?;
        let event = Event::Ended(outcome, output(completed));
        let (session, heard, link) = (self.connected.session, Instant::now(), Some(self.link.clone()));
        Ok(Report { session, attempt, event, heard, link })
    }

    /// Waits for a place: a worker that reports faster than the database records is slowed down by its own stream, and
    /// its heartbeats with it. Completions come again, so those that find no place at once are left out.
    async fn report(&self, report: Report) {
        let result = match report.event {
            Event::Accepted => self.shared.reports.send(report).await.map_err(drop),
            Event::Ended(..) => self.shared.reports.try_send(report).map_err(drop),
        };
        if result.is_err() {
            self.shared.metrics.failed("report");
        }
    }
}

/// What is kept of an attempt's output; none when there is nothing to read.
fn output(completed: v1::Completed) -> Option<Output> {
    let v1::Completed { exit_status, output, output_truncated, error, .. } = completed;
    if exit_status.is_none() && output.is_empty() && error.is_empty() {
        return None;
    }
    let mut tail = output;
    let surplus = tail.len().saturating_sub(TAIL_BYTES_MAX);
    tail.drain(..surplus);
    // PostgreSQL's text holds no NUL.
    let error = error.chars().filter(|c| *c != '\0').take(ERROR_CHARS_MAX).collect();
    Some(Output { exit_status, tail, truncated: output_truncated || surplus > 0, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_cut_to_what_the_ledger_keeps() {
        let mut long = vec![b'a'; 10];
        long.extend(vec![b'b'; TAIL_BYTES_MAX]);
        let completed = v1::Completed { output: long, error: "a\0b".to_owned(), ..v1::Completed::default() };
        let output = output(completed).expect("something to read");
        assert_eq!(
            (output.tail.len(), output.truncated, output.error.as_str()),
            (TAIL_BYTES_MAX, true, "ab")
        );
        assert!(output.tail.iter().all(|byte| *byte == b'b'));
    }

    #[test]
    fn what_the_worker_has_cut_counts_as_cut_however_short_it_is() {
        let of = |output_truncated| {
            output(v1::Completed { output: b"end".to_vec(), output_truncated, ..v1::Completed::default() })
        };
        assert_eq!(of(true).map(|output| output.truncated), Some(true));
        assert_eq!(of(false).map(|output| output.truncated), Some(false));
    }

    #[test]
    fn silence_leaves_nothing_to_keep() {
        assert_eq!(output(v1::Completed::default()), None);
        let zero = v1::Completed { exit_status: Some(0), ..v1::Completed::default() };
        assert!(output(zero).is_some());
    }
}
