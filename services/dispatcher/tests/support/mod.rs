//! A real dispatcher process on a real database and etcd, jobs that are due, and workers whose every word is scripted.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code, reason = "shared by several test programs")]

use rpc::convert::run::{AttemptRef, read_ref, write_ref};
use rpc::v1::worker_service_client::WorkerServiceClient;
use rpc::v1::{self, FromWorker, RunRef, completed, completion_ack, from_worker, to_worker};
use stack::process::{ManagedChild, Signal, Spec};
use stack::testkit::shared_etcd;
use stack::wait::{try_wait_for, wait_for};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming};

mod cell;

pub use cell::{Cell, LIMIT};

/// As in [`SHORT`].
pub const LEASE: Duration = Duration::from_millis(2_500);
/// As in [`SHORT`].
pub const RECONCILE: Duration = Duration::from_millis(300);

/// Terms under which a test need not wait 15 s for a lease to end.
const SHORT: &str =
    "lease_ms = 2500\nheartbeat_ms = 300\nself_deadline_ms = 900\nkill_grace_ms = 300\nreconcile_ms = 300\n";

impl Cell {
    /// Starts a dispatcher with short terms and waits until it is ready.
    pub async fn dispatcher(&self, name: &str) -> Dispatcher {
        self.dispatcher_with(name, SHORT).await
    }

    /// The same, but it compares leases so seldom that nothing here is owed to that.
    pub async fn incurious_dispatcher(&self, name: &str) -> Dispatcher {
        self.dispatcher_with(name, &SHORT.replace("reconcile_ms = 300", "reconcile_ms = 600000")).await
    }

    async fn dispatcher_with(&self, name: &str, terms: &str) -> Dispatcher {
        let path = |suffix: &str| self.folder.path().join(format!("{name}.{suffix}"));
        let etcd = shared_etcd().await.endpoints();
        let settings = format!(
            "name = {name:?}\ncell = {:?}\ndatabase_url = {:?}\netcd_endpoints = {etcd:?}\n{terms}",
            self.name, self.url
        );
        std::fs::write(path("toml"), settings).expect("settings");
        let spec = Spec::new(name, binary(), path("log"))
            .arg("--config")
            .arg(path("toml"))
            .arg("--endpoints-file")
            .arg(path("json"));
        let child = ManagedChild::spawn(&spec).expect("started");
        let mut dispatcher = Dispatcher { child, address: String::new(), http: String::new() };
        let endpoints =
            try_wait_for(LIMIT, "the dispatcher's addresses", async || read_json(&path("json"))).await;
        let endpoints = endpoints.unwrap_or_else(|error| panic!("{error}:\n{}", dispatcher.child.log_tail()));
        dispatcher.address = endpoints["grpc"].as_str().expect("an address").to_owned();
        dispatcher.http = endpoints["http"].as_str().expect("an address").to_owned();
        dispatcher
    }

    /// Waits until the dispatchers have shown twice more that they live: by then each has also looked for the dead.
    pub async fn until_renewed_twice(&self) {
        const COUNTER: &str = "SELECT min(counter)::bigint FROM dispatcher";
        let began = wait_for(LIMIT, "a renewal counter", async || self.try_count(COUNTER).await).await;
        let renewed = async || self.try_count(COUNTER).await.filter(|counter| *counter >= began + 2);
        wait_for(LIMIT, "two renewals", renewed).await;
    }

    /// One number, if the database answers.
    async fn try_count(&self, sql: &str) -> Option<i64> {
        let client = self.store.client("count").await.ok()?;
        client.query("count", sql, &[]).await.ok()?.first().map(|row| row.get(0))
    }
}

fn read_json(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_escapement-dispatcher"))
}

/// A running dispatcher.
pub struct Dispatcher {
    pub child: ManagedChild,
    pub address: String,
    pub http: String,
}

impl Dispatcher {
    pub fn kill(&mut self) {
        self.child.kill().expect("killed");
    }

    pub async fn terminate(&mut self) {
        self.child.end_with(Signal::SIGTERM, LIMIT).await.expect("ended");
    }

    /// A worker that says Hello, and its Welcome.
    pub async fn worker(&self, cell: &Cell, slots: i32) -> (Worker, v1::Welcome) {
        self.hello(cell, slots, String::new(), Vec::new()).await
    }

    pub async fn hello(
        &self,
        cell: &Cell,
        slots: i32,
        session_id: String,
        in_hand: Vec<RunRef>,
    ) -> (Worker, v1::Welcome) {
        let hello = v1::Hello {
            name: "scripted".to_owned(),
            queues: vec!["default".to_owned()],
            slots,
            version: "1".to_owned(),
            session_id,
            in_hand: in_hand.clone(),
            ..v1::Hello::default()
        };
        let mut worker = Worker::dial(&self.address, &cell.secret, hello).await.expect("welcomed");
        let Some(to_worker::Message::Welcome(welcome)) = worker.next().await else { panic!("no Welcome") };
        // It hears: before that it gets no runs.
        let (_, before) = worker.heartbeat(0, &in_hand).await;
        worker.heard.extend(before);
        (worker, welcome)
    }
}

/// A worker that says what the test says; dropping it cuts its connection.
pub struct Worker {
    outbound: mpsc::Sender<FromWorker>,
    inbound: Streaming<v1::ToWorker>,
    sequence: i64,
    /// What came already and was not looked at.
    heard: VecDeque<to_worker::Message>,
}

impl Worker {
    pub async fn dial(address: &str, secret: &str, hello: v1::Hello) -> Result<Self, Status> {
        let mut client = WorkerServiceClient::connect(address.to_owned()).await.expect("connected");
        let (outbound, messages) = mpsc::channel(64);
        outbound.try_send(FromWorker { message: Some(from_worker::Message::Hello(hello)) }).expect("room");
        let mut request = Request::new(ReceiverStream::new(messages));
        request.metadata_mut().insert("authorization", format!("Bearer {secret}").parse().expect("a header"));
        let inbound = client.work(request).await?.into_inner();
        Ok(Self { outbound, inbound, sequence: 0, heard: VecDeque::new() })
    }

    pub async fn say(&self, message: from_worker::Message) {
        self.outbound.send(FromWorker { message: Some(message) }).await.expect("connected");
    }

    /// The same on a connection that the dispatcher may end.
    pub async fn say_to_nobody(&self, message: from_worker::Message) {
        let _ = self.outbound.send(FromWorker { message: Some(message) }).await;
    }

    /// The next message; none when the connection has ended.
    pub async fn next(&mut self) -> Option<to_worker::Message> {
        if let Some(message) = self.heard.pop_front() {
            return Some(message);
        }
        let message = tokio::time::timeout(LIMIT, self.inbound.message()).await.expect("a message in time");
        message.ok().flatten().and_then(|message| message.message)
    }

    /// The next assignment; answers to heartbeats may come before it.
    pub async fn assignment(&mut self) -> v1::Assignment {
        loop {
            match self.next().await {
                Some(to_worker::Message::Assignment(assignment)) => return assignment,
                Some(to_worker::Message::HeartbeatAck(_)) => {}
                other => panic!("no assignment but {other:?}"),
            }
        }
    }

    /// The next answer to a Completed.
    pub async fn answer(&mut self) -> completion_ack::Answer {
        loop {
            match self.next().await {
                Some(to_worker::Message::CompletionAck(ack)) => return ack.answer(),
                Some(to_worker::Message::HeartbeatAck(_)) => {}
                other => panic!("no answer but {other:?}"),
            }
        }
    }

    /// A heartbeat, and its answer's age of the renewal. What comes before the answer is returned too.
    pub async fn heartbeat(
        &mut self,
        processed: i64,
        in_hand: &[RunRef],
    ) -> (Duration, Vec<to_worker::Message>) {
        self.sequence += 1;
        let sequence = self.sequence;
        let heartbeat =
            v1::Heartbeat { sequence, processed, in_hand: in_hand.to_vec(), ..v1::Heartbeat::default() };
        self.say(from_worker::Message::Heartbeat(heartbeat)).await;
        let mut before = Vec::new();
        loop {
            match self.next().await {
                Some(to_worker::Message::HeartbeatAck(ack)) if ack.sequence == sequence => {
                    let age = ack.renewal_age.expect("an age");
                    return (Duration::try_from(age).expect("not negative"), before);
                }
                Some(message) => before.push(message),
                None => panic!("the connection has ended"),
            }
        }
    }

    /// Heartbeats, with these runs in hand, until a message comes that is wanted.
    pub async fn beat_until<T>(
        &mut self,
        (processed, in_hand): (i64, &[RunRef]),
        what: &str,
        mut wanted: impl FnMut(to_worker::Message) -> Option<T>,
    ) -> T {
        wait_for(LIMIT, what, async || {
            let (_, before) = self.heartbeat(processed, in_hand).await;
            before.into_iter().find_map(&mut wanted)
        })
        .await
    }

    pub async fn accept(&self, run: &RunRef) {
        self.say(from_worker::Message::Accepted(v1::Accepted { run: Some(run.clone()) })).await;
    }

    pub async fn complete(&self, run: &RunRef, outcome: completed::Outcome) {
        let completed = v1::Completed {
            run: Some(run.clone()),
            outcome: outcome.into(),
            exit_status: Some(0),
            output: b"done".to_vec(),
            ..v1::Completed::default()
        };
        self.say(from_worker::Message::Completed(completed)).await;
    }
}

/// For [`Worker::beat_until`].
pub fn an_assignment(message: to_worker::Message) -> Option<v1::Assignment> {
    match message {
        to_worker::Message::Assignment(assignment) => Some(assignment),
        _ => None,
    }
}

/// For [`Worker::beat_until`].
pub fn a_cancel(message: to_worker::Message) -> Option<v1::Cancel> {
    match message {
        to_worker::Message::Cancel(cancel) => Some(cancel),
        _ => None,
    }
}

/// What an assignment names.
pub fn attempt(assignment: &v1::Assignment) -> (AttemptRef, RunRef) {
    let attempt = read_ref("run", assignment.run.as_ref()).expect("an attempt");
    (attempt, write_ref(&attempt))
}
