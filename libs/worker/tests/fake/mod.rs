//! A dispatcher whose every message is written by the test.

#![allow(dead_code, reason = "each test binary uses its own part")]

use rpc::v1::worker_service_server::{WorkerService, WorkerServiceServer};
use rpc::v1::{self, completed::Outcome, from_worker, to_worker};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// For whatever a test awaits.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Listens for workers.
pub struct FakeDispatcher {
    pub address: String,
    /// What it says of itself; nothing at first.
    pub standing: Arc<Mutex<Option<v1::StandingResponse>>>,
    sessions: mpsc::Receiver<Session>,
    server: JoinHandle<()>,
}

/// One connection of a worker.
pub struct Session {
    pub authorization: String,
    pub hello: v1::Hello,
    /// Answer heartbeats by themselves; on unless switched off.
    pub answers: bool,
    /// The last heartbeat that was read.
    pub heartbeat: Option<v1::Heartbeat>,
    to_worker: mpsc::Sender<Result<v1::ToWorker, Status>>,
    from_worker: Streaming<v1::FromWorker>,
}

/// The session's terms.
#[derive(Clone, Copy)]
pub struct Terms {
    pub heartbeat_ms: u64,
    pub self_deadline_ms: u64,
    pub kill_grace_ms: u64,
}

/// Fast enough for a test, slow enough for a loaded machine.
pub const TERMS: Terms = Terms { heartbeat_ms: 500, self_deadline_ms: 3_000, kill_grace_ms: 500 };

struct Service {
    sessions: mpsc::Sender<Session>,
    standing: Arc<Mutex<Option<v1::StandingResponse>>>,
}

#[tonic::async_trait]
impl WorkerService for Service {
    type WorkStream = ReceiverStream<Result<v1::ToWorker, Status>>;

    async fn work(
        &self,
        request: Request<Streaming<v1::FromWorker>>,
    ) -> Result<Response<Self::WorkStream>, Status> {
        let authorization = request.metadata().get("authorization");
        let authorization = authorization.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        let mut from_worker = request.into_inner();
        let first = from_worker.message().await?.and_then(|first| first.message);
        let Some(from_worker::Message::Hello(hello)) = first else {
            return Err(Status::invalid_argument("no Hello"));
        };
        let (to_worker, messages) = mpsc::channel(64);
        let session =
            Session { authorization, hello, answers: true, heartbeat: None, to_worker, from_worker };
        self.sessions.send(session).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    async fn standing(
        &self,
        request: Request<v1::StandingRequest>,
    ) -> Result<Response<v1::StandingResponse>, Status> {
        if !request.metadata().contains_key("authorization") {
            return Err(Status::unauthenticated("no token"));
        }
        let standing = self.standing.lock().unwrap().clone();
        standing.map(Response::new).ok_or_else(|| Status::unavailable("says nothing"))
    }
}

impl FakeDispatcher {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (sender, sessions) = mpsc::channel(16);
        let standing = Arc::new(Mutex::new(None));
        let service = Service { sessions: sender, standing: Arc::clone(&standing) };
        let serving = tonic::transport::Server::builder()
            .add_service(WorkerServiceServer::new(service))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let server = tokio::spawn(async move { serving.await.unwrap() });
        Self { address, standing, sessions, server }
    }

    /// The next connection, after its Hello.
    pub async fn accept(&mut self) -> Session {
        tokio::time::timeout(LIMIT, self.sessions.recv()).await.expect("a worker connects").unwrap()
    }

    /// The next connection, welcomed.
    pub async fn welcome(&mut self, session_id: &str, resumed: bool) -> Session {
        let session = self.accept().await;
        session.welcome(session_id, resumed, TERMS).await;
        session
    }
}

impl Drop for FakeDispatcher {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Session {
    pub async fn welcome(&self, session_id: &str, resumed: bool, terms: Terms) {
        let millis = |millis| Some(prost_types::Duration::try_from(Duration::from_millis(millis)).unwrap());
        self.send(to_worker::Message::Welcome(v1::Welcome {
            session_id: session_id.into(),
            connection: 1,
            resumed,
            lease: millis(15_000),
            heartbeat_interval: millis(terms.heartbeat_ms),
            self_deadline: millis(terms.self_deadline_ms),
            kill_grace: millis(terms.kill_grace_ms),
        }))
        .await;
    }

    pub async fn send(&self, message: to_worker::Message) {
        self.to_worker.send(Ok(v1::ToWorker { message: Some(message) })).await.expect("connected");
    }

    pub async fn assign(&self, number: i64, run: &v1::RunRef, work: v1::run::Kind, max_runtime: Duration) {
        self.send(to_worker::Message::Assignment(v1::Assignment {
            number,
            run: Some(run.clone()),
            job_name: "invoices".into(),
            origin: "SCHEDULE".into(),
            idempotency_key: format!("{}@key", run.job_id),
            guard_key: run.job_id.clone(),
            max_runtime: Some(max_runtime.try_into().unwrap()),
            traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into(),
            work: Some(v1::Run { kind: Some(work) }),
            queue: "default".into(),
        }))
        .await;
    }

    pub async fn cancel(&self, run: &v1::RunRef, reason: &str) {
        self.send(to_worker::Message::Cancel(v1::Cancel { run: Some(run.clone()), reason: reason.into() }))
            .await;
    }

    pub async fn acknowledge(&self, run: &v1::RunRef) {
        let answer = v1::completion_ack::Answer::Recorded.into();
        self.send(to_worker::Message::CompletionAck(v1::CompletionAck { run: Some(run.clone()), answer }))
            .await;
    }

    pub async fn answer(&self, heartbeat: &v1::Heartbeat, renewal_age: Duration) {
        let sequence = heartbeat.sequence;
        let renewal_age = Some(renewal_age.try_into().unwrap());
        let ack = v1::HeartbeatAck { sequence, renewal_age, ..v1::HeartbeatAck::default() };
        self.send(to_worker::Message::HeartbeatAck(ack)).await;
    }

    /// As a dispatcher without the database, which knows these.
    pub async fn answer_without(
        &self,
        heartbeat: &v1::Heartbeat,
        renewal_age: Duration,
        dispatchers: &[(&str, &FakeDispatcher)],
    ) {
        let dispatcher = |(id, fake): &(&str, &FakeDispatcher)| v1::DispatcherRef {
            id: (*id).to_owned(),
            address: fake.address.clone(),
        };
        self.send(to_worker::Message::HeartbeatAck(v1::HeartbeatAck {
            sequence: heartbeat.sequence,
            renewal_age: Some(renewal_age.try_into().unwrap()),
            without_database: true,
            dispatchers: dispatchers.iter().map(dispatcher).collect(),
            list_age: Some(prost_types::Duration::default()),
        }))
        .await;
    }

    /// The next message; None when the worker has closed its side.
    pub async fn next(&mut self) -> Option<from_worker::Message> {
        let message = tokio::time::timeout(LIMIT, self.from_worker.message()).await.expect("a message");
        let message = message.ok().flatten()?.message;
        if let Some(from_worker::Message::Heartbeat(heartbeat)) = &message {
            if self.answers {
                self.answer(heartbeat, Duration::ZERO).await;
            }
            self.heartbeat = Some(heartbeat.clone());
        }
        message
    }

    /// The next message that `wanted` takes; others are skipped.
    pub async fn expect<T>(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(from_worker::Message) -> Option<T>,
    ) -> T {
        let find = async {
            loop {
                let message = self.next().await.unwrap_or_else(|| panic!("closed before {what}"));
                if let Some(found) = wanted(message) {
                    return found;
                }
            }
        };
        tokio::time::timeout(LIMIT, find).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
    }

    pub async fn heartbeat(&mut self) -> v1::Heartbeat {
        self.expect("a heartbeat", |message| match message {
            from_worker::Message::Heartbeat(heartbeat) => Some(heartbeat),
            _ => None,
        })
        .await
    }

    pub async fn accepted(&mut self) -> v1::RunRef {
        self.expect("Accepted", |message| match message {
            from_worker::Message::Accepted(accepted) => accepted.run,
            _ => None,
        })
        .await
    }

    pub async fn completed(&mut self) -> v1::Completed {
        self.expect("Completed", |message| match message {
            from_worker::Message::Completed(completed) => Some(completed),
            _ => None,
        })
        .await
    }

    /// The outcome of the next completion, acknowledged.
    pub async fn outcome(&mut self) -> Outcome {
        let completed = self.completed().await;
        self.acknowledge(completed.run.as_ref().unwrap()).await;
        completed.outcome()
    }
}

/// A run of a job that is the same for the same `job`.
pub fn run(job: u128, attempt: i32) -> v1::RunRef {
    v1::RunRef {
        job_id: model::ids::JobId(uuid::Uuid::from_u128(job)).to_string(),
        scheduled_for: Some(prost_types::Timestamp { seconds: 1_795_942_800, nanos: 0 }),
        attempt,
        token: (1_000 + attempt).to_string(),
    }
}

pub fn handler(name: &str, payload: &str) -> v1::run::Kind {
    v1::run::Kind::Handler(v1::Handler { name: name.into(), payload: payload.into() })
}
