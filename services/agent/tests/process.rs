//! The agent as a process: frozen, killed, stopped and misconfigured.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod harness;

use harness::fake::{FakeDispatcher, LIMIT, Session, TERMS, Terms};
use harness::{HOUR, assert_outcome, fake, lives, pid_in, shell, wait_for_end};
use rpc::v1::{self, completed::Outcome};
use stack::process::{ManagedChild, Signal, Spec};
use stack::testkit::TempFolder;
use std::path::PathBuf;
use std::time::Duration;

const AGENT: &str = env!("CARGO_BIN_EXE_escapement-agent");

struct Subject {
    agent: ManagedChild,
    session: Session,
    folder: TempFolder,
    dispatcher: FakeDispatcher,
}

impl Subject {
    async fn start(terms: Terms) -> Self {
        let folder = TempFolder::create("agent").unwrap();
        let mut dispatcher = FakeDispatcher::start().await;
        let spec = Spec::new("agent", AGENT, folder.path().join("agent.log"))
            .clear_env()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("ESCAPEMENT_DISPATCHERS", &dispatcher.address)
            .env("ESCAPEMENT_WORKER_TOKEN", "secret")
            .env("ESCAPEMENT_EXEC_ALLOWED", "true")
            .env("ESCAPEMENT_ENDPOINTS_FILE", folder.path().join("endpoints.json"));
        let agent = ManagedChild::spawn(&spec).unwrap();
        let session = dispatcher.accept().await;
        session.welcome("s1", false, terms).await;
        Self { agent, session, folder, dispatcher }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a run that goes on, and returns its process id.
    async fn begin(&mut self) -> i32 {
        let file = self.file("pid");
        let line = format!("echo $$ > {}; exec sleep 1000", file.display());
        self.give(&line).await;
        pid_in(&file).await
    }

    /// A thawed agent may find its connection silent for too long, and resume on another.
    async fn completed_on_any_connection(&mut self) -> v1::Completed {
        let completed = async {
            loop {
                match self.session.next().await {
                    Some(v1::from_worker::Message::Completed(completed)) => return completed,
                    Some(_) => {}
                    None => self.session = self.dispatcher.welcome("s1", true).await,
                }
            }
        };
        tokio::time::timeout(LIMIT, completed).await.expect("the run's end is reported")
    }

    async fn give(&mut self, line: &str) -> v1::RunRef {
        let run = fake::run(1, 1);
        self.session.assign(1, &run, shell(line), HOUR).await;
        assert_eq!(self.session.accepted().await, run);
        run
    }
}

#[tokio::test]
async fn a_frozen_agent_that_thaws_cancels_its_runs_by_itself() {
    let terms = Terms { self_deadline_ms: 1_500, ..TERMS };
    let mut subject = Subject::start(terms).await;
    let process = subject.begin().await;
    subject.session.heartbeat().await;
    subject.agent.signal(Signal::SIGSTOP).unwrap();
    // That the lease runs out meanwhile is what is tested; there is nothing to wait for but the time itself.
    tokio::time::sleep(Duration::from_millis(terms.self_deadline_ms + 500)).await;
    assert!(lives(process), "nobody has stopped it yet");
    subject.agent.signal(Signal::SIGCONT).unwrap();
    // Its heartbeats are answered as fast as they come, and that takes nothing back.
    let completed = subject.completed_on_any_connection().await;
    assert_outcome(&completed, Outcome::Abandoned);
    assert!(completed.error.contains("lease could not be renewed"), "{}", completed.error);
    wait_for_end(process).await;
}

/// Nobody has seen whose it is, and nobody else is there to need it.
#[tokio::test]
async fn what_clears_its_environment_does_not_outlive_the_only_run() {
    let mut subject = Subject::start(TERMS).await;
    let file = subject.file("hidden");
    let line = format!(
        "setsid env -i /bin/sh -c 'echo $$ > {0}; sleep 60; true' & until [ -s {0} ]; do :; done",
        file.display()
    );
    subject.give(&line).await;
    assert_outcome(&subject.session.completed().await, Outcome::Succeeded);
    let hidden = pid_in(&file).await;
    assert!(!lives(hidden), "it was ended before the report");
}

#[tokio::test]
async fn a_killed_agent_takes_its_processes_along() {
    let mut subject = Subject::start(TERMS).await;
    let process = subject.begin().await;
    subject.agent.signal(Signal::SIGKILL).unwrap();
    wait_for_end(process).await;
}

#[tokio::test]
async fn a_stopped_agent_finishes_what_it_has_and_exits_in_order() {
    let mut subject = Subject::start(TERMS).await;
    let (begun, go) = (subject.file("begun"), subject.file("go"));
    let line = format!("echo $$ > {}; until [ -e {} ]; do sleep 0.05; done", begun.display(), go.display());
    let run = subject.give(&line).await;
    pid_in(&begun).await;
    let endpoints = std::fs::read_to_string(subject.file("endpoints.json")).unwrap();
    assert!(endpoints.contains("\"http\""), "{endpoints}");
    subject.agent.signal(Signal::SIGTERM).unwrap();
    let drain = |message| matches!(message, v1::from_worker::Message::Drain(_)).then_some(());
    subject.session.expect("Drain", drain).await;
    std::fs::write(&go, "").unwrap();
    assert_outcome(&subject.session.completed().await, Outcome::Succeeded);
    subject.session.acknowledge(&run).await;
    let goodbye = |message| matches!(message, v1::from_worker::Message::Goodbye(_)).then_some(());
    subject.session.expect("Goodbye", goodbye).await;
    let status = subject.agent.exited_within(LIMIT).await.unwrap().expect("the agent ends");
    assert_eq!(status.code(), Some(0), "{}", subject.agent.log_tail());
}

#[tokio::test]
async fn a_wrong_configuration_is_named_and_ends_with_code_2() {
    let folder = TempFolder::create("agent").unwrap();
    let spec = Spec::new("agent", AGENT, folder.path().join("agent.log"))
        .clear_env()
        .env("ESCAPEMENT_SLOTS", "0")
        .env("ESCAPEMENT_WORKER_TOKEN_FILE", "/no/such/file");
    let mut agent = ManagedChild::spawn(&spec).unwrap();
    let status = agent.exited_within(LIMIT).await.unwrap().expect("the agent ends");
    let log = agent.log_tail();
    assert_eq!(status.code(), Some(2), "{log}");
    for setting in ["dispatchers", "worker_token_file", "slots"] {
        assert!(log.contains(setting), "{setting} is not named in {log}");
    }
}
