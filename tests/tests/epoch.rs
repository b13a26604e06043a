//! Fencing tokens rise, whatever the database or etcd forgets: a failover to a replica that lags, a dump restored in place,
//! a backup of the data folder, a rebuilt etcd, and an operator's hand.
//!
//! The judge is a file outside of everything, to which each run of a job whose runs exclude each other appends its token:
//! what a downstream that checks tokens sees.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use harness::{Cell, PATIENCE, job, names, noop, shell};
use serde_json::{Value, json};
use stack::dev::Role;
use stack::postgres::Stop;
use stack::wait::wait_for;
use std::path::PathBuf;

/// An epoch is the upper part of a token.
const SEQUENCE_BITS: u32 = 44;

/// Recovery of a crashed server continues a sequence up to so many values later, whatever was drawn; more hides nothing.
const BURNT: i64 = 500;

/// Services that use the database.
const USERS: [Role; 4] = [Role::Registry, Role::Ticker, Role::Dispatcher, Role::Watchdog];

/// A cell whose job appends each token to a file.
struct Downstream {
    cell: Cell,
    file: PathBuf,
}

impl Downstream {
    async fn start() -> Self {
        let cell = Cell::start().await;
        let file = cell.folder().join("tokens");
        // What follows the token is still at work when a copy of the database is taken just then: the copy has its lease.
        let line = format!("echo $ESCAPEMENT_FENCING_TOKEN >> {}; sleep 0.5", file.display());
        let mut each_second = job("each-second", "* * * * * *", shell(&line));
        each_second["alert"] = json!({"disabled": true});
        cell.api.create(each_second).await;
        let downstream = Self { cell, file };
        downstream.see_more(3).await;
        downstream
    }

    /// The tokens in the order in which they came.
    fn tokens(&self) -> Vec<i64> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("token {line:?}"))).collect()
    }

    fn epoch(&self) -> i64 {
        self.tokens().last().expect("a token") >> SEQUENCE_BITS
    }

    /// Waits for so many more runs; all tokens so far rise.
    async fn see_more(&self, count: usize) {
        let before = self.tokens().len();
        let more = async || (self.tokens().len() >= before + count).then_some(());
        wait_for(PATIENCE, "more tokens downstream", more).await;
        let tokens = self.tokens();
        let fallen: Vec<_> = tokens.windows(2).filter(|pair| pair[0] >= pair[1]).collect();
        assert!(fallen.is_empty(), "tokens fell: {fallen:?} among {tokens:?}");
    }

    /// Waits for runs with tokens of a higher epoch than `epoch`.
    async fn see_higher_epoch(&self, epoch: i64) {
        let higher = async || (self.epoch() > epoch).then_some(());
        wait_for(PATIENCE, &format!("a token of a higher epoch than {epoch}"), higher).await;
        self.see_more(3).await;
    }

    /// Draws tokens as if so many runs had been claimed, and waits until etcd has noted them.
    async fn burn_and_note(&mut self) {
        let drawn = format!("SELECT max(nextval('token_seq')) FROM generate_series(1, {BURNT})");
        let drawn = self.cell.count(&drawn).await;
        wait_for(PATIENCE, "the mark", async || {
            let noted = self.mark().await?;
            let low = (1 << SEQUENCE_BITS) - 1;
            (noted & low >= drawn).then_some(())
        })
        .await;
    }

    /// The highest token that etcd knows of.
    async fn mark(&mut self) -> Option<i64> {
        let found = self.etcd("range", json!({"key": BASE64.encode("/escapement/main/epoch")})).await;
        let value = BASE64.decode(found["kvs"][0]["value"].as_str()?).expect("base64");
        let mark: Value = serde_json::from_slice(&value).expect("JSON");
        mark["highest_token"].as_str()?.parse().ok()
    }

    /// Asks etcd's own gateway.
    async fn etcd(&mut self, call: &str, body: Value) -> Value {
        let url = format!("{}/v3/kv/{call}", self.cell.stack.etcd().endpoints()[0]);
        let answer = reqwest::Client::new().post(url).json(&body).send().await.expect("an answer");
        answer.json().await.expect("JSON")
    }

    fn users(&self) -> Vec<String> {
        USERS.iter().flat_map(|role| names(&self.cell.stack, *role)).collect()
    }

    fn kill_users(&mut self) {
        for name in self.users() {
            self.cell.stack.service(&name).expect("a service").process().kill().expect("killed");
        }
    }

    async fn restart_users(&mut self) {
        for name in self.users() {
            self.cell.stack.restart(&name).await.expect("it starts again");
        }
    }

    /// What `escapement fence` prints.
    fn fence(&self, action: &[&str]) -> Value {
        let database = self.cell.stack.endpoints().postgres;
        let arguments = [&["--output", "json", "fence", "--database-url", &database], action].concat();
        let printed = self.cell.prints(&arguments);
        serde_json::from_str(&printed).unwrap_or(Value::String(printed))
    }
}

#[tokio::test]
async fn a_failover_to_a_replica_that_lags_gets_a_higher_epoch() {
    let mut downstream = Downstream::start().await;
    let (folder, epoch) = (downstream.cell.folder().join("standby"), downstream.epoch());
    let mut standby = downstream.cell.stack.postgres().standby(&folder).await.expect("a standby");
    // From here on it replays nothing: what comes now is lost in the failover.
    standby.stop(Stop::Fast).await.expect("stopped");
    downstream.see_more(3).await;
    downstream.burn_and_note().await;
    let lost = downstream.cell.count("SELECT last_value FROM token_seq").await;

    let first = downstream.cell.stack.postgres();
    standby.take_over(first).await.expect("promoted");
    std::mem::swap(first, &mut standby);
    let kept = downstream.cell.count("SELECT last_value FROM token_seq").await;
    assert!(kept < lost, "the replica lagged: {kept} of {lost} values");
    downstream.see_higher_epoch(epoch).await;
    let tokens = downstream.fence(&["show"])["tokens"].clone();
    assert_eq!((&tokens["timeline"], &tokens["inUse"]), (&json!(2), &json!(true)), "{tokens}");
    downstream.cell.stop().await;
}

#[tokio::test]
async fn a_dump_that_is_restored_in_place_gets_a_higher_epoch() {
    let mut downstream = Downstream::start().await;
    let (script, epoch) = (downstream.cell.folder().join("dump.sql"), downstream.epoch());
    downstream.cell.stack.postgres().dump("postgres", "main", &script).await.expect("dumped");
    downstream.see_more(3).await;
    downstream.burn_and_note().await;

    downstream.kill_users();
    let postgres = downstream.cell.stack.postgres();
    postgres.psql("postgres", "DROP SCHEMA main CASCADE").await.expect("dropped");
    postgres.run_script("postgres", &script).await.expect("restored");
    downstream.restart_users().await;
    downstream.see_higher_epoch(epoch).await;
    downstream.cell.stop().await;
}

#[tokio::test]
async fn a_data_folder_from_a_backup_gets_a_higher_epoch() {
    let mut downstream = Downstream::start().await;
    let (copy, epoch) = (downstream.cell.folder().join("copy"), downstream.epoch());
    downstream.cell.stack.postgres().back_up(&copy).await.expect("a copy");
    downstream.see_more(3).await;
    downstream.burn_and_note().await;

    // Under the services' hands: same system identifier, same timeline, only the sequence tells.
    downstream.cell.stack.postgres().restore(&copy).await.expect("restored");
    downstream.see_higher_epoch(epoch).await;
    downstream.cell.stop().await;
}

#[tokio::test]
async fn a_rebuilt_etcd_gets_a_higher_epoch_and_leaders_after_a_reset() {
    let mut downstream = Downstream::start().await;
    let epoch = downstream.epoch();
    // So that the revisions of the new etcd are lower than the leaders' of the old one for as long as this takes.
    for n in 0..500 {
        downstream
            .etcd("put", json!({"key": BASE64.encode("/elsewhere"), "value": BASE64.encode(n.to_string())}))
            .await;
    }
    for role in [Role::Ticker, Role::Watchdog] {
        for name in names(&downstream.cell.stack, role) {
            downstream.cell.stack.service(&name).expect("a service").process().kill().expect("killed");
            downstream.cell.stack.restart(&name).await.expect("it starts again");
        }
    }
    let high = "SELECT count(*) FROM fence WHERE revision > 500";
    wait_for(PATIENCE, "leaders with high revisions", async || {
        (downstream.cell.count(high).await == 2).then_some(())
    })
    .await;
    downstream.see_more(3).await;

    downstream.cell.stack.etcd().rebuild().await.expect("a new etcd");
    for role in [Role::Ticker, Role::Watchdog] {
        let advice = format!("run `escapement fence reset {} --yes`", role.as_str());
        for name in names(&downstream.cell.stack, role) {
            let http = downstream
                .cell
                .stack
                .service(&name)
                .expect("a service")
                .endpoint("http")
                .expect("its address");
            wait_for(PATIENCE, &format!("{name} to say what to do"), async || {
                let answer = reqwest::get(format!("{http}/readyz")).await.ok()?;
                let refused = answer.status() == 503;
                (refused && answer.text().await.ok()?.contains(&advice)).then_some(())
            })
            .await;
        }
    }
    for role in ["ticker", "watchdog"] {
        downstream.fence(&["reset", role, "--yes"]);
    }
    downstream.cell.leader().await;
    downstream.see_higher_epoch(epoch).await;
    wait_for(PATIENCE, "the mark in the new etcd", async || downstream.mark().await).await;
    downstream.cell.stop().await;
}

#[tokio::test]
async fn an_operator_raises_the_epoch_and_refuses_nobody_but_the_past() {
    let downstream = Downstream::start().await;
    let epoch = downstream.epoch();
    let before = downstream.fence(&["show"]);
    assert_eq!(before["tokens"]["epoch"], epoch);
    let roles: Vec<_> =
        before["fences"].as_array().expect("fences").iter().map(|fence| &fence["role"]).collect();
    assert_eq!(roles, ["ticker", "watchdog"]);

    let raised = downstream.fence(&["raise"])["tokens"].clone();
    assert!(raised["epoch"].as_i64() > Some(epoch) && raised["inUse"] == true, "{raised}");
    downstream.see_higher_epoch(epoch).await;
    let highest =
        downstream.fence(&["show"])["tokens"]["highestToken"].as_str().expect("text").parse::<i64>();
    assert!(highest.expect("a number") >= *downstream.tokens().last().expect("a token"));

    let database = downstream.cell.stack.endpoints().postgres;
    let without = downstream.cell.escapement(&["fence", "--database-url", &database, "reset", "ticker"]);
    assert!(!without.status.success(), "a reset needs --yes");
    let status = downstream.cell.prints(&["status"]);
    assert!(status.contains("ledger ") && status.contains(" days, the oldest 2"), "{status}");
    downstream.cell.api.create(job("noop", "* * * * * *", noop())).await;
    downstream.cell.api.wait_for_runs("noop", "SUCCEEDED", 2).await;
    downstream.cell.stop().await;
}
