//! A worker under test, whose work ends when the test wants.

#![allow(dead_code, reason = "each test binary uses its own part")]

use crate::fake::{FakeDispatcher, LIMIT, Session, handler};
use rpc::v1;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use worker::{BoxError, RunContext, Summary, Worker, WorkerBuilder};

pub const HOUR: Duration = Duration::from_secs(3_600);

/// A worker whose handler `gate` ends when the test opens it, or when it is cancelled.
pub struct Subject {
    gate: Arc<Semaphore>,
    starts: Arc<AtomicUsize>,
    pub shutdown: CancellationToken,
    worker: JoinHandle<Summary>,
}

impl Subject {
    pub fn start(dispatchers: &[&FakeDispatcher]) -> Self {
        Self::start_with(dispatchers, |builder| builder)
    }

    pub fn start_with(
        dispatchers: &[&FakeDispatcher],
        adapt: impl FnOnce(WorkerBuilder) -> WorkerBuilder,
    ) -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let starts = Arc::new(AtomicUsize::new(0));
        let (opened, counted) = (Arc::clone(&gate), Arc::clone(&starts));
        let gated = move |run: RunContext| {
            counted.fetch_add(1, Ordering::SeqCst);
            let gate = Arc::clone(&opened);
            async move {
                tokio::select! {
                    permit = gate.acquire() => permit.map(tokio::sync::SemaphorePermit::forget).map_err(BoxError::from),
                    () = run.cancelled() => Err("told to stop".into()),
                }
            }
        };
        let stubborn = |_| async { std::future::pending::<Result<(), BoxError>>().await };
        let panics = |run: RunContext| async move {
            if run.attempt() > 0 {
                panic!("no paper");
            }
            Ok::<(), BoxError>(())
        };
        let builder = Worker::builder()
            .dispatchers(dispatchers.iter().map(|dispatcher| dispatcher.address.clone()))
            .token("secret")
            .name("subject")
            .queue("default")
            .slots(4)
            .handler("gate", gated)
            .handler("stubborn", stubborn)
            .handler("panics", panics);
        let worker = adapt(builder).build().unwrap();
        let shutdown = CancellationToken::new();
        let worker = tokio::spawn(worker.run(shutdown.clone().cancelled_owned()));
        Self { gate, starts, shutdown, worker }
    }

    pub fn open(&self) {
        self.gate.add_permits(1);
    }

    pub fn starts(&self) -> usize {
        self.starts.load(Ordering::SeqCst)
    }

    pub async fn ended(self) -> Summary {
        tokio::time::timeout(LIMIT, self.worker).await.expect("the worker ends").unwrap()
    }
}

/// Hands a run out, and returns once it has started.
pub async fn give(session: &mut Session, number: i64, run: &v1::RunRef) {
    session.assign(number, run, handler("gate", ""), HOUR).await;
    assert_eq!(session.accepted().await, *run);
}
