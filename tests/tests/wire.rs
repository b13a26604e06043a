//! The wire between workers and dispatchers: what crosses on it, breaks, is held or lost doubles no run and loses none.
//!
//! Crash windows of a dispatcher are entered by holding what it would do next, and then killing it there.

use harness::{Cell, PATIENCE, job, shell, token};
use serde_json::{Value, json};
use stack::dev::Options;
use stack::proxy::Direction;
use stack::wait::wait_for;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Without a heartbeat for this long, a worker is given up.
const LEASE: Duration = Duration::from_secs(15);
/// Looks and hand-overs on top of it.
const SLACK: Duration = Duration::from_secs(2);
/// The longest silence that breaks no connection.
const HOLD: Duration = Duration::from_millis(1_500);

/// A cell with links, and a file that the runs write to.
struct Wire {
    cell: Cell,
    marks: PathBuf,
}

impl Wire {
    async fn start(agents: usize) -> Self {
        let cell = Cell::start_with(|options| Options { linked: true, agents, ..options }).await;
        cell.leader().await;
        let marks = cell.folder().join("marks");
        Self { cell, marks }
    }

    /// A job whose run says when it starts, how it ends, and as which attempt; it ends when the file `<name>-go` is there.
    async fn gated(&self, name: &str) {
        let (marks, go) = (self.marks.display(), self.gate(name).display().to_string());
        let say = |what: &str| format!("echo {name} $ESCAPEMENT_ATTEMPT {what} >> {marks}");
        let line = format!(
            "trap '{}; exit 1' TERM; {}; while [ ! -e {go} ]; do sleep 0.05; done; {}",
            say("stopped"),
            say("started"),
            say("ended")
        );
        let mut gated = job(name, "0 0 0 1 1 *", shell(&line));
        gated["maxRuntime"] = json!("600s");
        self.cell.api.create(gated).await;
    }

    async fn trigger(&self, name: &str) {
        self.cell.api.post(&format!("/v1/jobs/{name}:trigger"), json!({})).await.expect("triggered");
    }

    fn gate(&self, name: &str) -> PathBuf {
        self.cell.folder().join(format!("{name}-go"))
    }

    fn open(&self, name: &str) {
        std::fs::write(self.gate(name), "").expect("opened");
    }

    /// What the runs of a job have said, in order.
    fn said(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(&self.marks).unwrap_or_default();
        text.lines().filter_map(|line| line.strip_prefix(&format!("{name} "))).map(str::to_owned).collect()
    }

    async fn until_said(&self, name: &str, expected: &[&str]) {
        let what = format!("{expected:?} of {name}");
        wait_for(PATIENCE, &what, async || (self.said(name) == expected).then_some(())).await;
    }

    /// The agent that has the run, and the dispatcher that its session is with, once it runs.
    async fn holders(&mut self, name: &str) -> (String, String) {
        let sql = format!(
            "SELECT s.name || '|' || d.name FROM run_lease l JOIN job j ON j.id = l.job_id \
             JOIN worker_session s ON s.id = l.session_id JOIN dispatcher d ON d.id = s.dispatcher_id WHERE j.name = '{name}'"
        );
        wait_for(PATIENCE, &format!("a holder of {name}"), async || {
            let found = self.cell.sql(&sql).await;
            found.split_once('|').map(|(agent, dispatcher)| (agent.to_owned(), dispatcher.to_owned()))
        })
        .await
    }

    /// The only agent's dispatcher.
    async fn dispatcher(&mut self) -> String {
        let sql = "SELECT d.name FROM worker_session s JOIN dispatcher d ON d.id = s.dispatcher_id WHERE s.ended_at IS NULL";
        wait_for(PATIENCE, "the agent's session", async || {
            let found = self.cell.sql(sql).await;
            (!found.is_empty()).then_some(found)
        })
        .await
    }

    async fn succeeded(&self, name: &str) -> Value {
        let runs = self.cell.api.wait_for_runs(name, "SUCCEEDED", 1).await;
        assert_eq!(runs.len(), 1);
        let path = format!("/v1/jobs/{name}/runs/{}", runs[0]["scheduledFor"].as_str().expect("an instant"));
        self.cell.api.get(&path).await.expect("the run")
    }

    /// The run was attempted once, by a worker that started it once.
    async fn assert_once(&mut self, name: &str) {
        assert_eq!(self.succeeded(name).await["attempt"], 1);
        assert_eq!(self.said(name), ["1 started", "1 ended"]);
        assert_eq!(self.cell.count("SELECT count(*) FROM run_outcome").await, 0, "no attempt was lost");
    }

    fn kill(&mut self, dispatcher: &str) {
        self.cell.stack.service(dispatcher).expect("a dispatcher").process().kill().expect("killed");
    }
}

async fn passes(time: Duration) {
    let began = Instant::now();
    wait_for(PATIENCE, "time to pass", async || (began.elapsed() >= time).then_some(())).await;
}

#[tokio::test]
async fn heartbeats_and_assignments_that_cross_double_nothing() {
    let mut wire = Wire::start(1).await;
    let line = format!("echo $ESCAPEMENT_IDEMPOTENCY_KEY $ESCAPEMENT_ATTEMPT >> {}", wire.marks.display());
    for number in 1..=4 {
        let mut each_second = job(&format!("each-second-{number}"), "* * * * * *", shell(&line));
        each_second["overlap"] = json!("ALLOW");
        wire.cell.api.create(each_second).await;
    }
    wire.cell.api.wait_for_runs("each-second-1", "SUCCEEDED", 2).await;
    let dispatcher = wire.dispatcher().await;
    for turn in 0..8 {
        let link = wire.cell.stack.links().between("agent-1", &dispatcher).expect("linked");
        let direction = if turn % 2 == 0 { Direction::ToClient } else { Direction::ToTarget };
        link.hold(direction);
        passes(HOLD).await;
        link.release(direction);
        passes(HOLD / 3).await;
    }
    assert_eq!(wire.dispatcher().await, dispatcher, "no connection broke");
    let until = wire.cell.sql("SELECT esc_now()").await;
    let open = format!("SELECT count(*) FROM run WHERE scheduled_for <= '{until}' AND state = 'PLANNED'");
    wait_for(PATIENCE, "every run to end", async || (wire.cell.count(&open).await == 0).then_some(())).await;
    let text = std::fs::read_to_string(&wire.marks).expect("effects");
    let mut effects: BTreeMap<&str, usize> = BTreeMap::new();
    text.lines().for_each(|line| *effects.entry(line).or_default() += 1);
    assert!(effects.len() > 40, "{} runs", effects.len());
    assert!(effects.iter().all(|(key, times)| *times == 1 && key.ends_with(" 1")), "{effects:?}");
    assert_eq!(
        wire.cell.count("SELECT count(*) FROM run_outcome WHERE attempt > 0").await,
        0,
        "no attempt was lost"
    );
    wire.cell.stop().await;
}

#[tokio::test]
async fn a_completion_that_waits_in_the_group_commit_while_the_connection_breaks_is_recorded_once() {
    let mut wire = Wire::start(1).await;
    wire.gated("gated").await;
    wire.trigger("gated").await;
    wire.until_said("gated", &["1 started"]).await;
    let (_, dispatcher) = wire.holders("gated").await;
    wire.cell.api.wait_for_runs("gated", "RUNNING", 1).await;

    // The commit can't get through; the report is made into it, and then the worker's connection breaks.
    wire.cell.stack.links().database(&dispatcher).expect("linked").hold(Direction::ToTarget);
    wire.open("gated");
    wire.until_said("gated", &["1 started", "1 ended"]).await;
    passes(Duration::from_millis(500)).await;
    wire.cell.stack.links().between("agent-1", &dispatcher).expect("linked").sever();
    let other = async || {
        let now = wire.dispatcher().await;
        (now != dispatcher).then_some(())
    };
    wait_for(PATIENCE, "the worker at the other dispatcher", other).await;
    wire.cell.stack.links().database(&dispatcher).expect("linked").heal();
    wire.assert_once("gated").await;
    assert_nothing_in_hand(&mut wire, "agent-1").await;
    wire.cell.stop().await;
}

async fn assert_nothing_in_hand(wire: &mut Wire, agent: &str) {
    wait_for(PATIENCE, "an empty hand", async || {
        (wire.cell.metric(agent, "agent_runs_in_hand").await == 0.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn two_dispatchers_with_one_session_share_no_run() {
    let mut wire = Wire::start(1).await;
    wire.gated("gated").await;
    wire.trigger("gated").await;
    wire.until_said("gated", &["1 started"]).await;
    let (agent, first) = wire.holders("gated").await;
    let line =
        format!("echo $ESCAPEMENT_IDEMPOTENCY_KEY $ESCAPEMENT_ATTEMPT >> {}.each", wire.marks.display());
    let mut each_second = job("each-second", "* * * * * *", shell(&line));
    each_second["overlap"] = json!("ALLOW");
    wire.cell.api.create(each_second).await;
    wire.cell.api.wait_for_runs("each-second", "SUCCEEDED", 2).await;

    // The first dispatcher hears nothing more and can't tell; the worker goes on with the second.
    wire.cell.stack.links().between(&agent, &first).expect("linked").cut();
    let second = wait_for(PATIENCE, "the session at the second", async || {
        let now = wire.dispatcher().await;
        (now != first).then_some(now)
    })
    .await;
    let done = "SELECT count(*) FROM run WHERE state = 'SUCCEEDED'";
    let before = wire.cell.count(done).await;
    wait_for(PATIENCE, "runs through the second", async || {
        (wire.cell.count(done).await >= before + 3).then_some(())
    })
    .await;
    // Everything that was held arrives at the first: heartbeats and reports of a connection that is no longer the session's.
    wire.cell.stack.links().between(&agent, &first).expect("linked").heal();
    let before = wire.cell.count(done).await;
    wait_for(PATIENCE, "runs after that", async || (wire.cell.count(done).await >= before + 5).then_some(()))
        .await;
    assert_eq!(wire.dispatcher().await, second);
    wire.open("gated");
    assert_eq!(wire.succeeded("gated").await["attempt"], 1);
    assert_eq!(wire.said("gated"), ["1 started", "1 ended"]);
    let text = std::fs::read_to_string(format!("{}.each", wire.marks.display())).expect("effects");
    let mut effects: BTreeMap<&str, usize> = BTreeMap::new();
    text.lines().for_each(|line| *effects.entry(line).or_default() += 1);
    assert!(effects.values().all(|times| *times == 1), "{effects:?}");
    assert_eq!(wire.cell.count("SELECT count(*) FROM run_outcome WHERE state = 'LOST'").await, 0);
    wire.cell.stop().await;
}

/// In these directions nothing passes between the agent and any dispatcher.
async fn cut_is_handed_on(directions: &[Direction]) {
    let mut wire = Wire::start(2).await;
    wire.gated("gated").await;
    wire.trigger("gated").await;
    wire.until_said("gated", &["1 started"]).await;
    let (agent, _) = wire.holders("gated").await;
    let before = wire.cell.api.wait_for_runs("gated", "RUNNING", 1).await.remove(0);

    for link in wire.cell.stack.links().of_agent(&agent) {
        directions.iter().for_each(|direction| link.hold(*direction));
    }
    let cut = Instant::now();
    // By itself, before anybody else starts.
    wire.until_said("gated", &["1 started", "1 stopped", "2 started"]).await;
    let took = cut.elapsed();
    assert!(took < LEASE + SLACK, "handed on after {took:?}");
    let (other, _) = wire.holders("gated").await;
    assert_ne!(other, agent);
    for link in wire.cell.stack.links().of_agent(&agent) {
        link.heal();
    }
    wire.open("gated");
    let ended = wire.succeeded("gated").await;
    assert_eq!((&ended["attempt"], &ended["attempts"][0]["state"]), (&json!(2), &json!("LOST")));
    assert!(token(&ended) > token(&before), "{ended}");
    assert_eq!(wire.said("gated"), ["1 started", "1 stopped", "2 started", "2 ended"]);
    wire.cell.stop().await;
}

#[tokio::test]
async fn a_worker_that_is_cut_off_in_both_directions_is_missed_within_a_lease() {
    cut_is_handed_on(&[Direction::ToTarget, Direction::ToClient]).await;
}

#[tokio::test]
async fn a_worker_that_is_not_heard_any_more_is_missed_within_a_lease() {
    cut_is_handed_on(&[Direction::ToTarget]).await;
}

#[tokio::test]
async fn a_worker_that_does_not_hear_any_more_is_missed_within_a_lease() {
    cut_is_handed_on(&[Direction::ToClient]).await;
}

#[tokio::test]
async fn a_frozen_workers_run_is_handed_on_and_the_thawed_one_stops_its_own() {
    let mut wire = Wire::start(2).await;
    wire.gated("gated").await;
    wire.trigger("gated").await;
    wire.until_said("gated", &["1 started"]).await;
    let (agent, _) = wire.holders("gated").await;
    let before = wire.cell.api.wait_for_runs("gated", "RUNNING", 1).await.remove(0);
    wire.cell.stack.service(&agent).expect("an agent").process().stop().expect("frozen");
    let frozen = Instant::now();
    wire.until_said("gated", &["1 started", "2 started"]).await;
    assert!(frozen.elapsed() < LEASE + SLACK, "handed on after {:?}", frozen.elapsed());
    wire.cell.stack.service(&agent).expect("an agent").process().cont().expect("thawed");
    wire.until_said("gated", &["1 started", "2 started", "1 stopped"]).await;
    wire.open("gated");
    let ended = wire.succeeded("gated").await;
    assert_eq!((&ended["attempt"], &ended["attempts"][0]["state"]), (&json!(2), &json!("LOST")));
    assert!(token(&ended) > token(&before), "{ended}");
    // Its last word agrees with what the ledger has: the attempt was lost.
    assert_nothing_in_hand(&mut wire, &agent).await;
    wire.cell.stop().await;
}

/// Crash window "leased, not sent".
#[tokio::test]
async fn a_dispatcher_killed_after_the_claim_and_before_the_delivery_leaves_nothing_stuck() {
    let mut wire = Wire::start(1).await;
    wire.gated("gated").await;
    let dispatcher = wire.dispatcher().await;
    wire.cell.stack.links().between("agent-1", &dispatcher).expect("linked").hold(Direction::ToClient);
    wire.trigger("gated").await;
    let (_, holder) = wire.holders("gated").await;
    assert_eq!((holder, wire.said("gated")), (dispatcher.clone(), Vec::new()), "leased, not sent");
    wire.kill(&dispatcher);
    wire.cell.stack.links().between("agent-1", &dispatcher).expect("linked").sever();
    let killed = Instant::now();
    wire.until_said("gated", &["1 started"]).await;
    assert!(killed.elapsed() < LEASE, "stuck for {:?}", killed.elapsed());
    wire.open("gated");
    wire.assert_once("gated").await;
    wire.cell.stop().await;
}

/// Crash window "sent, start not recorded".
#[tokio::test]
async fn a_dispatcher_killed_after_the_delivery_and_before_the_start_is_recorded_has_the_run_started_once() {
    let mut wire = Wire::start(1).await;
    wire.gated("gated").await;
    let dispatcher = wire.dispatcher().await;
    wire.cell.stack.links().between("agent-1", &dispatcher).expect("linked").hold(Direction::ToTarget);
    wire.trigger("gated").await;
    wire.until_said("gated", &["1 started"]).await;
    let accepted = "SELECT count(*) FROM run_lease WHERE accepted_at IS NOT NULL";
    assert_eq!(wire.cell.count(accepted).await, 0, "sent, start not recorded");
    wire.kill(&dispatcher);
    wire.cell.stack.links().between("agent-1", &dispatcher).expect("linked").sever();
    let killed = Instant::now();
    wait_for(PATIENCE, "the start recorded", async || (wire.cell.count(accepted).await == 1).then_some(()))
        .await;
    assert!(killed.elapsed() < LEASE, "stuck for {:?}", killed.elapsed());
    wire.open("gated");
    wire.assert_once("gated").await;
    wire.cell.stop().await;
}

/// Crash window "recorded, not answered".
#[tokio::test]
async fn a_dispatcher_killed_after_the_completion_and_before_the_answer_has_the_run_recorded_once() {
    let mut wire = Wire::start(1).await;
    wire.gated("gated").await;
    wire.trigger("gated").await;
    wire.until_said("gated", &["1 started"]).await;
    wire.cell.api.wait_for_runs("gated", "RUNNING", 1).await;
    let (_, dispatcher) = wire.holders("gated").await;
    wire.cell.stack.links().between("agent-1", &dispatcher).expect("linked").hold(Direction::ToClient);
    wire.open("gated");
    wire.cell.api.wait_for_runs("gated", "SUCCEEDED", 1).await;
    assert_eq!(wire.cell.metric("agent-1", "agent_runs_in_hand").await, 1.0, "recorded, not answered");
    wire.kill(&dispatcher);
    wire.cell.stack.links().between("agent-1", &dispatcher).expect("linked").sever();
    assert_nothing_in_hand(&mut wire, "agent-1").await;
    wire.assert_once("gated").await;
    wire.cell.stop().await;
}
