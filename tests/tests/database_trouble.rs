//! A database in trouble under load: it crashes, dies for good and is followed by its replica, stands still, is locked or
//! slow. Errors say what failed and for what, tries are few, and afterwards the ledger has every second once.

use chrono::{DateTime, TimeDelta, Utc};
use harness::{Cell, PATIENCE, instant, job, shell, token};
use serde_json::json;
use stack::dev::Options;
use stack::postgres::{Postgres, Stop};
use stack::proxy::Direction;
use stack::wait::wait_for;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const JOBS: [&str; 3] = ["alone", "beside", "beside-too"];
const DISPATCHERS: [&str; 2] = ["dispatcher-1", "dispatcher-2"];
/// How long a trouble lasts: longer than any statement waits for a lock.
const TROUBLE: Duration = Duration::from_secs(6);
/// Of one dispatcher, all its loops together.
const COMPLAINTS_PER_SECOND: usize = 10;
/// Between a primary's death and the promotion of its replica: longer than the lease of a worker, which is 15 s.
const UNTIL_PROMOTED: Duration = Duration::from_secs(17);
/// An epoch is the upper part of a token.
const SEQUENCE_BITS: u32 = 44;

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
        let line = format!(
            "echo \"$ESCAPEMENT_IDEMPOTENCY_KEY $ESCAPEMENT_ATTEMPT $ESCAPEMENT_FENCING_TOKEN\" >> {}",
            effects.display()
        );
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

    /// What each run did, by its idempotency key: attempts and tokens, in the order in which they came.
    fn effects(&self) -> BTreeMap<String, Vec<(i64, i64)>> {
        let text = std::fs::read_to_string(&self.effects).expect("effects");
        let mut effects: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for line in text.lines() {
            let [key, attempt, token] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
            let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{line:?}"));
            effects.entry(key.to_owned()).or_default().push((number(attempt), number(token)));
        }
        effects
    }

    /// A replica that streams what the database writes.
    async fn replica(&mut self) -> Postgres {
        let folder = self.cell.folder().join("replica");
        let replica = self.cell.stack.postgres().standby(&folder).await.expect("a replica");
        self.goes_on().await;
        replica
    }

    /// Kills the primary for good under the load, and later promotes its replica, which from then on is at the primary's
    /// address. What runs meanwhile goes on. Returns when it was killed.
    async fn fail_over(&mut self, replica: &mut Postgres) -> DateTime<Utc> {
        let marks = self.start_long_runs().await;
        let here = self.cell.sql("SELECT pg_current_wal_lsn()").await;
        let there = format!("SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= '{here}'");
        wait_for(PATIENCE, "the replica to know of them", async || {
            (self.cell.count(&there).await == 1).then_some(())
        })
        .await;
        let epoch = self.newest_token() >> SEQUENCE_BITS;
        let killed = Utc::now();
        let primary = self.cell.stack.postgres();
        primary.kill().expect("killed");
        lasts(UNTIL_PROMOTED).await;
        let primary = self.cell.stack.postgres();
        replica.take_over(primary).await.expect("promoted");
        std::mem::swap(primary, replica);

        self.goes_on().await;
        assert!(self.newest_token() >> SEQUENCE_BITS > epoch, "the replica has an epoch of its own");
        for mark in &marks {
            assert_eq!(said(mark), "started", "nothing was stopped, and nothing was started again");
            std::fs::write(mark.with_extension("go"), "").expect("written");
        }
        for mark in &marks {
            wait_for(PATIENCE, "the end of a long run", async || {
                (said(mark) == "started ended").then_some(())
            })
            .await;
        }
        let succeeded = self.cell.api.wait_for_runs("long", "SUCCEEDED", marks.len()).await;
        assert!(succeeded.iter().all(|run| run["attempt"] == 1), "{succeeded:?}");
        killed
    }

    /// Runs that go on until a file is there, and say what happens to them.
    async fn start_long_runs(&mut self) -> Vec<PathBuf> {
        let folder = self.cell.folder().to_owned();
        let line = format!(
            "m={}/$ESCAPEMENT_FENCING_TOKEN; trap 'echo stopped >> $m; exit 1' TERM; echo started >> $m; \
             while [ ! -e $m.go ]; do sleep 0.1; done; echo ended >> $m",
            folder.display()
        );
        let mut long = job("long", "0 0 0 1 1 *", shell(&line));
        long["overlap"] = json!("ALLOW");
        long["maxRuntime"] = json!("600s");
        self.cell.api.create(long).await;
        for _ in 0..4 {
            self.cell.api.post("/v1/jobs/long:trigger", json!({})).await.expect("triggered");
        }
        let running = self.cell.api.wait_for_runs("long", "RUNNING", 4).await;
        let marks: Vec<PathBuf> = running.iter().map(|run| folder.join(token(run).to_string())).collect();
        for mark in &marks {
            wait_for(PATIENCE, "a long run", async || (said(mark) == "started").then_some(())).await;
        }
        marks
    }

    /// The token of what was done last.
    fn newest_token(&self) -> i64 {
        self.effects().into_values().flatten().map(|(_, token)| token).max().expect("a token")
    }

    /// Tokens of a job whose runs exclude each other never fall.
    async fn assert_tokens_rise(&self) {
        let alone = self.cell.api.get("/v1/jobs/alone").await.expect("the job");
        let text = std::fs::read_to_string(&self.effects).expect("effects");
        let of_it = text.lines().filter(|line| line.starts_with(alone["id"].as_str().expect("an id")));
        let tokens: Vec<i64> = of_it.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
        assert!(tokens.len() > 3 && tokens.is_sorted(), "{tokens:?}");
    }

    fn log_lengths(&mut self) -> Vec<usize> {
        DISPATCHERS.iter().map(|name| self.cell.log(name).len()).collect()
    }

    /// Every second of every job has one run, which did its work once; nobody was given up.
    async fn assert_nothing_lost_or_doubled(self) {
        self.assert_nothing_lost_or_doubled_but_since(None).await;
    }

    /// The same, but a run whose end was recorded after `forgot` may have done its work once before it, too: the database forgot
    /// the last of what it had acknowledged until then.
    async fn assert_nothing_lost_or_doubled_but_since(mut self, forgot: Option<DateTime<Utc>>) {
        let until = self.cell.sql("SELECT date_trunc('second', esc_now())").await;
        let open = format!("SELECT count(*) FROM run WHERE scheduled_for <= '{until}' AND state = 'PLANNED'");
        wait_for(PATIENCE, "every run to end", async || (self.cell.count(&open).await == 0).then_some(()))
            .await;
        let until: DateTime<Utc> = format!("{}:00", until.replace(' ', "T")).parse().expect("an instant");
        let effects = self.effects();
        for name in JOBS {
            let mut runs = self.cell.api.runs(name).await;
            runs.retain(|run| instant(run, "scheduledFor") <= until);
            runs.reverse();
            let first = instant(&runs[0], "scheduledFor");
            for (second, run) in (0..).zip(&runs) {
                let expected = first + TimeDelta::seconds(second);
                assert_eq!(instant(run, "scheduledFor"), expected, "{name} lost or doubled a second");
                if name == "alone" && run["state"] == "SKIPPED" {
                    continue;
                }
                assert_eq!(run["state"], "SUCCEEDED", "{run}");
                let done = &effects[run["idempotencyKey"].as_str().expect("a key")];
                assert_eq!(done.last(), Some(&(1, token(run))), "{run}");
                let most =
                    if forgot.is_some_and(|forgot| instant(run, "finishTime") > forgot) { 2 } else { 1 };
                assert!(done.len() <= most, "{run} did its work {} times: {done:?}", done.len());
            }
        }
        let lost = "SELECT count(*) FROM run_outcome WHERE state = 'LOST'";
        assert_eq!(self.cell.count(lost).await, 0, "nobody was given up");
        self.cell.stop().await;
    }
}

fn said(mark: &Path) -> String {
    std::fs::read_to_string(mark).unwrap_or_default().replace('\n', " ").trim().to_owned()
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

/// Without waiting for the replica the primary acknowledges what the replica never gets: runs of the last moment may do their
/// work again. What the replica has is whole.
#[tokio::test]
async fn a_replica_that_is_promoted_under_load_kills_no_run_and_doubles_nothing_that_it_knows_of() {
    let mut load = Load::start().await;
    let mut replica = load.replica().await;
    let killed = load.fail_over(&mut replica).await;
    load.assert_tokens_rise().await;
    load.assert_nothing_lost_or_doubled_but_since(Some(killed)).await;
}

#[tokio::test]
async fn a_synchronous_replica_that_is_promoted_under_load_loses_and_doubles_nothing() {
    let mut load = Load::start().await;
    let mut replica = load.replica().await;
    let primary = load.cell.stack.postgres();
    primary.psql("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'").await.expect("set");
    primary.psql("postgres", "SELECT pg_reload_conf()").await.expect("read");
    let waits = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    wait_for(PATIENCE, "the replica to be waited for", async || {
        (load.cell.count(waits).await == 1).then_some(())
    })
    .await;
    load.fail_over(&mut replica).await;
    load.assert_tokens_rise().await;
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
