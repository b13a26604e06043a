//! A database in trouble under load: it crashes, has no connection left, stands still, is locked or slow. Errors say what
//! failed and for what, tries are few, and afterwards the ledger has every second once.

use chrono::{DateTime, TimeDelta, Utc};
use harness::{Cell, PATIENCE, instant, job, shell};
use serde_json::json;
use stack::dev::Options;
use stack::postgres::Stop;
use stack::proxy::Direction;
use stack::wait::wait_for;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const JOBS: [&str; 3] = ["alone", "beside", "beside-too"];
const DISPATCHERS: [&str; 2] = ["dispatcher-1", "dispatcher-2"];
/// How long a trouble lasts: longer than any statement waits for a lock.
const TROUBLE: Duration = Duration::from_secs(6);
/// Of one dispatcher, all its loops together.
const COMPLAINTS_PER_SECOND: usize = 10;

/// A cell with jobs each second that say what they do.
struct Load {
    cell: Cell,
    effects: PathBuf,
}

impl Load {
    async fn start() -> Self {
        let cell = Cell::start_with(|options| Options { linked: true, agents: 2, ..options }).await;
        cell.leader().await;
        let effects = cell.folder().join("effects");
        let line =
            format!("echo \"$ESCAPEMENT_IDEMPOTENCY_KEY $ESCAPEMENT_ATTEMPT\" >> {}", effects.display());
        for name in JOBS {
            let mut each_second = job(name, "* * * * * *", shell(&line));
            each_second["overlap"] = json!(if name == "alone" { "FORBID" } else { "ALLOW" });
            each_second["misfire"] = json!({"policy": "CATCH_UP", "grace": "300s"});
            cell.api.create(each_second).await;
        }
        cell.api.wait_for_runs("beside-too", "SUCCEEDED", 2).await;
        Self { cell, effects }
    }

    async fn done(&mut self) -> i64 {
        self.cell.count("SELECT count(*) FROM run WHERE state = 'SUCCEEDED'").await
    }

    /// Work goes on as before.
    async fn goes_on(&mut self) {
        let before = self.done().await;
        wait_for(PATIENCE, "runs after the trouble", async || {
            (self.done().await >= before + 9).then_some(())
        })
        .await;
    }

    /// The server's processes for the dispatchers, and those that write.
    async fn backends(&mut self) -> Vec<u32> {
        let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'escapement-dispatcher' \
                      OR backend_type IN ('walwriter', 'background writer', 'checkpointer')";
        self.cell.sql(sql).await.lines().filter_map(|pid| pid.trim().parse().ok()).collect()
    }

    /// The dispatchers have complained of this since their logs had these lengths, and not in floods.
    fn assert_said(&mut self, since: &[usize], what: &str) {
        let logs: Vec<String> = DISPATCHERS.iter().map(|name| self.cell.log(name)).collect();
        let new = logs.iter().zip(since).flat_map(|(log, from)| log.get(*from..).unwrap_or_default().lines());
        let complaints: Vec<&str> =
            new.filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
        assert!(complaints.iter().any(|line| line.contains(what)), "{complaints:#?}");
        let most = COMPLAINTS_PER_SECOND * DISPATCHERS.len() * TROUBLE.as_secs() as usize;
        assert!(complaints.len() < most, "{} complaints", complaints.len());
    }

    fn log_lengths(&mut self) -> Vec<usize> {
        DISPATCHERS.iter().map(|name| self.cell.log(name).len()).collect()
    }

    /// Every second of every job has one run, which did its work once; nobody was given up.
    async fn assert_nothing_lost_or_doubled(mut self) {
        let until = self.cell.sql("SELECT date_trunc('second', esc_now())").await;
        let open = format!("SELECT count(*) FROM run WHERE scheduled_for <= '{until}' AND state = 'PLANNED'");
        wait_for(PATIENCE, "every run to end", async || (self.cell.count(&open).await == 0).then_some(()))
            .await;
        let until: DateTime<Utc> = format!("{}:00", until.replace(' ', "T")).parse().expect("an instant");
        for name in JOBS {
            let mut runs = self.cell.api.runs(name).await;
            runs.retain(|run| instant(run, "scheduledFor") <= until);
            runs.reverse();
            let first = instant(&runs[0], "scheduledFor");
            for (second, run) in (0..).zip(&runs) {
                let expected = first + TimeDelta::seconds(second);
                assert_eq!(instant(run, "scheduledFor"), expected, "{name} lost or doubled a second");
                let skips = name == "alone" && run["state"] == "SKIPPED";
                assert!(skips || run["state"] == "SUCCEEDED", "{run}");
            }
        }
        let text = std::fs::read_to_string(&self.effects).expect("effects");
        let mut effects: BTreeMap<&str, usize> = BTreeMap::new();
        text.lines().for_each(|line| *effects.entry(line).or_default() += 1);
        assert!(effects.iter().all(|(key, times)| *times == 1 && key.ends_with(" 1")), "{effects:?}");
        let lost = "SELECT count(*) FROM run_outcome WHERE state = 'LOST'";
        assert_eq!(self.cell.count(lost).await, 0, "nobody was given up");
        self.cell.stop().await;
    }
}

async fn lasts(time: Duration) {
    let began = Instant::now();
    wait_for(PATIENCE, "the trouble to last", async || (began.elapsed() >= time).then_some(())).await;
}

#[tokio::test]
async fn a_database_that_crashes_again_and_again_under_load_loses_and_doubles_nothing() {
    let mut load = Load::start().await;
    for _ in 0..3 {
        load.cell.stack.postgres().restart(Stop::Immediate).await.expect("it starts again");
        load.goes_on().await;
    }
    load.assert_nothing_lost_or_doubled().await;
}

/// As behind a disk that does not answer: what serves the dispatchers, and what writes, stops in the middle of whatever it does.
#[tokio::test]
async fn a_database_that_stands_still_for_a_while_loses_and_doubles_nothing() {
    let mut load = Load::start().await;
    let since = load.log_lengths();
    let backends = load.backends().await;
    assert!(backends.len() > 4, "{backends:?}");
    signal("-STOP", &backends);
    lasts(TROUBLE).await;
    signal("-CONT", &backends);
    load.goes_on().await;
    load.assert_said(&since, "Could not renew the dispatcher's row");
    load.assert_nothing_lost_or_doubled().await;
}

#[tokio::test]
async fn locks_that_somebody_holds_for_longer_than_any_statement_waits_lose_and_double_nothing() {
    let mut load = Load::start().await;
    let since = load.log_lengths();
    let seconds = TROUBLE.as_secs();
    load.cell
        .sql(&format!("LOCK TABLE run_lease IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep({seconds})"))
        .await;
    load.goes_on().await;
    load.assert_said(&since, "lock timeout");
    load.assert_nothing_lost_or_doubled().await;
}

/// Each statement takes a second and more.
#[tokio::test]
async fn a_slow_way_to_the_database_loses_and_doubles_nothing() {
    let mut load = Load::start().await;
    let until = Instant::now() + 2 * TROUBLE;
    while Instant::now() < until {
        for held in [true, false] {
            for name in DISPATCHERS {
                let link = load.cell.stack.links().database(name).expect("linked");
                if held { link.hold(Direction::ToClient) } else { link.release(Direction::ToClient) }
            }
            lasts(if held { Duration::from_millis(1_200) } else { Duration::from_millis(100) }).await;
        }
    }
    load.goes_on().await;
    load.assert_nothing_lost_or_doubled().await;
}

fn signal(which: &str, processes: &[u32]) {
    let status = Command::new("kill").arg(which).args(processes.iter().map(u32::to_string)).status();
    assert!(status.expect("kill runs").success());
}
