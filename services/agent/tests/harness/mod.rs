//! An agent in this process, whose dispatcher is the test.

#![allow(dead_code, reason = "each test binary uses its own part")]

#[path = "../../../../libs/worker/tests/fake/mod.rs"]
pub mod fake;

use agent::{Agent, AgentConfig};
use fake::{FakeDispatcher, LIMIT, Session};
use rpc::v1::{self, completed::Outcome};
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinHandle;
use worker::{Summary, Worker};

pub const HOUR: Duration = Duration::from_secs(3_600);

/// The agent, and its session as the dispatcher sees it.
pub struct Subject {
    pub session: Session,
    number: i64,
    worker: JoinHandle<Summary>,
    _dispatcher: FakeDispatcher,
}

impl Subject {
    pub async fn start(settings: AgentConfig) -> Self {
        service::runtime::install_crypto();
        let mut dispatcher = FakeDispatcher::start().await;
        let worker = Worker::builder()
            .dispatchers([dispatcher.address.clone()])
            .token("secret")
            .executor(Agent::new(&settings).unwrap())
            .build()
            .unwrap();
        let worker = tokio::spawn(worker.run(std::future::pending()));
        let session = dispatcher.welcome("s1", false).await;
        Self { session, number: 0, worker, _dispatcher: dispatcher }
    }

    /// Hands a run out, and returns once it has started.
    pub async fn begin(&mut self, work: v1::run::Kind, max_runtime: Duration) -> v1::RunRef {
        self.number += 1;
        let run = fake::run(u128::try_from(self.number).unwrap(), 2);
        self.session.assign(self.number, &run, work, max_runtime).await;
        assert_eq!(self.session.accepted().await, run);
        run
    }

    /// Hands a run out, and returns how it ended.
    pub async fn run(&mut self, work: v1::run::Kind) -> v1::Completed {
        let run = self.begin(work, HOUR).await;
        let completed = self.session.completed().await;
        self.session.acknowledge(&run).await;
        completed
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.worker.abort();
    }
}

pub fn shell(line: impl Into<String>) -> v1::run::Kind {
    v1::run::Kind::Exec(v1::Exec { shell: line.into(), ..v1::Exec::default() })
}

pub fn argv(argv: &[&str]) -> v1::run::Kind {
    let argv = argv.iter().map(|text| (*text).to_owned()).collect();
    v1::run::Kind::Exec(v1::Exec { argv, ..v1::Exec::default() })
}

pub fn output(completed: &v1::Completed) -> String {
    String::from_utf8(completed.output.clone()).unwrap()
}

#[track_caller]
pub fn assert_outcome(completed: &v1::Completed, outcome: Outcome) {
    assert_eq!(completed.outcome(), outcome, "{} {:?}", completed.error, output(completed));
}

/// Waits until a file has a process id in it.
pub async fn pid_in(file: &Path) -> i32 {
    stack::wait::wait_for(LIMIT, "a process id in a file", async || {
        std::fs::read_to_string(file).ok().filter(|text| text.ends_with('\n'))?.trim().parse().ok()
    })
    .await
}

/// True while a process is there and is no zombie, which has ended and only waits to be noticed.
pub fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

pub async fn wait_for_end(pid: i32) {
    let ended = async || (!lives(pid)).then_some(());
    stack::wait::wait_for(LIMIT, &format!("the end of process {pid}"), ended).await;
}
