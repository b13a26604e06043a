//! The system itself is watched: each part is stopped for real, or never started, too small or off, and is one page for whoever
//! runs it, however much it makes late; also when PostgreSQL or etcd, on which the watchdog stands, is what is gone.

use harness::receiver::{Received, Receiver};
use harness::{Cell, PATIENCE, job, names, noop, shell};
use serde_json::json;
use stack::dev::Role;
use stack::postgres::Stop;
use stack::testkit::TempFolder;
use stack::wait::wait_for;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Leases, silences and holds add up.
const LIMIT: Duration = PATIENCE.saturating_mul(2);

const SETTINGS: &str = "dispatcher_silence_max_ms = 5000\nworker_wait_max_ms = 2000\n\
                        silence_max_ms = 5000\ngroup_wait_ms = 3000\ndelivery_backoff_ms = 200\n";

async fn channel(cell: &Cell, name: &str, receiver: &Receiver, system: bool) {
    let channel = json!({"name": name, "system": system, "webhook": {"url": receiver.url}});
    cell.api.post("/v1/channels", channel).await.expect("stored");
}

/// What was told of a kind, in order.
fn told(receiver: &Receiver, kind: &str, event: &str) -> Vec<Received> {
    let is_it = |received: &Received| {
        let message = received.json();
        message["data"]["kind"] == kind && message["type"] == event
    };
    receiver.received().into_iter().filter(is_it).collect()
}

async fn wait_for_told(receiver: &Receiver, kind: &str, event: &str, count: usize) -> Vec<Received> {
    let told = async || {
        let told = told(receiver, kind, event);
        (told.len() >= count).then_some(told)
    };
    wait_for(LIMIT, &format!("{count} times {event} of {kind}"), told).await
}

fn kill_all(cell: &mut Cell, role: Role) -> Vec<String> {
    let names = names(&cell.stack, role);
    for name in &names {
        cell.stack.service(name).expect("a service").process().kill().expect("killed");
    }
    names
}

async fn restart(cell: &mut Cell, names: &[String]) {
    for name in names {
        cell.stack.restart(name).await.expect("it starts again");
    }
}

#[tokio::test]
async fn a_part_that_dies_is_one_page_and_its_end_another() {
    let mut cell = Cell::start_with(|options| options.setting(Role::Watchdog, SETTINGS)).await;
    let (oncall, team) = (Receiver::start().await, Receiver::start().await);
    channel(&cell, "oncall", &oncall, true).await;
    channel(&cell, "team", &team, false).await;

    // No worker: the runs of a queue wait.
    let agents = kill_all(&mut cell, Role::Agent);
    cell.api.create(job("by-hand", "0 0 1 1 *", noop())).await;
    wait_for(PATIENCE, "a place for today's runs, which the first leader makes", async || {
        cell.api.post("/v1/jobs/by-hand:trigger", json!({})).await.ok()
    })
    .await;
    let page = wait_for_told(&oncall, "NO_WORKER", "alert.opened", 1).await;
    assert_eq!(page[0].json()["data"]["subject"]["name"], "queue/default/default");
    restart(&mut cell, &agents).await;
    wait_for_told(&oncall, "NO_WORKER", "alert.resolved", 1).await;

    // No dispatcher.
    let dispatchers = kill_all(&mut cell, Role::Dispatcher);
    wait_for_told(&oncall, "NO_DISPATCHER", "alert.opened", 1).await;
    restart(&mut cell, &dispatchers).await;
    wait_for_told(&oncall, "NO_DISPATCHER", "alert.resolved", 1).await;

    // No ticker: what it makes late is told once to whoever does not know, and not at all to whoever does.
    let tickers = kill_all(&mut cell, Role::Ticker);
    let page = wait_for_told(&oncall, "NO_TICKER", "alert.opened", 1).await;
    assert!(
        page[0].json()["data"]["whatToDo"].as_str().is_some_and(|text| text.contains("escapement status"))
    );
    for number in 0..7 {
        let mut late = job(&format!("late-{number}"), "*/5 * * * * *", shell("true"));
        late["alert"] = json!({"successWithin": "4s", "channels": ["oncall", "team"]});
        cell.api.create(late).await;
    }
    let group = wait_for_told(&team, "NO_TICKER", "alert.opened", 1).await[0].json();
    assert_eq!(
        (&group["data"]["count"], &group["data"]["cause"]),
        (&json!(7), &json!("NO_TICKER")),
        "{group}"
    );
    assert_eq!(group["data"]["examples"].as_array().map(Vec::len), Some(5), "{group}");
    let open = "SELECT count(*) FROM alert WHERE subject = 'JOB' AND resolved_at IS NULL";
    assert_eq!(cell.count(open).await, 7, "each has its history");
    restart(&mut cell, &tickers).await;
    wait_for_told(&oncall, "NO_TICKER", "alert.resolved", 1).await;
    wait_for_told(&team, "NO_TICKER", "alert.resolved", 1).await;

    let events = |receiver: &Receiver| -> Vec<String> {
        let told = receiver.received();
        told.iter()
            .map(|told| {
                let (event, data) = (told.json()["type"].clone(), told.json()["data"].clone());
                format!("{event} {} {} {}", data["kind"], data["cause"], data["summary"])
            })
            .collect()
    };
    assert_eq!(events(&oncall).len(), 6, "{:?}", events(&oncall));
    assert_eq!(events(&team).len(), 2, "{:?}", events(&team));
    cell.stop().await;
}

fn distinct(received: &[Received], header: &str) -> usize {
    received.iter().map(|received| received.header(header).to_owned()).collect::<BTreeSet<_>>().len()
}

#[tokio::test]
async fn without_postgresql_or_etcd_those_concerned_are_told_once() {
    let change = |options: stack::dev::Options| {
        stack::dev::Options { watchdogs: 2, ..options }.setting(Role::Watchdog, SETTINGS)
    };
    let mut cell = Cell::start_with(change).await;
    let oncall = Receiver::start().await;
    channel(&cell, "oncall", &oncall, true).await;
    let mut soon = job("soon", "*/10 * * * *", noop());
    soon["alert"] = json!({"successWithin": "1200s", "channels": ["oncall"]});
    cell.api.create(soon).await;
    for name in names(&cell.stack, Role::Watchdog) {
        // They learn whom to tell when they start, and each minute.
        cell.stack.service(&name).expect("a watchdog").process().kill().expect("killed");
        cell.stack.restart(&name).await.expect("it starts again");
    }

    for name in names(&cell.stack, Role::Watchdog) {
        wait_for(PATIENCE, "a watchdog to know whom to tell", async || {
            (cell.metric(&name, "watchdog_known_channels").await == 1.0).then_some(())
        })
        .await;
    }

    // A restart is nobody's business; an outage is told by each watchdog that sees it, as one.
    cell.stack.postgres().restart(Stop::Fast).await.expect("restarted");
    let kind = "POSTGRESQL_UNREACHABLE";
    for outage in 1..=2 {
        cell.stack.postgres().stop(Stop::Fast).await.expect("stopped");
        let gone = wait_for_told(&oncall, kind, "alert.opened", 2 * outage).await;
        assert_eq!(distinct(&gone, "webhook-id"), outage, "{gone:?}");
        let page = gone[0].json();
        let summary = page["data"]["summary"].as_str().expect("a summary");
        assert!(summary.contains("1 job has a deadline within the next hour"), "{summary}");
        cell.stack.postgres().start_again().await.expect("back");
        let back = wait_for_told(&oncall, kind, "alert.resolved", 2 * outage).await;
        assert_eq!(distinct(&back, "webhook-id"), outage, "{back:?}");
        assert_eq!(back[0].json()["data"]["dedupKey"], page["data"]["dedupKey"]);
        let kept = format!("SELECT count(*) FROM alert WHERE kind = '{kind}' AND resolved_at IS NOT NULL");
        wait_for(PATIENCE, "the outage to be kept", async || {
            (cell.count(&kept).await == outage as i64).then_some(())
        })
        .await;
    }

    // etcd is silent: whoever writes it first, it is one page.
    cell.stack.etcd().freeze().expect("frozen");
    wait_for_told(&oncall, "ETCD_UNREACHABLE", "alert.opened", 1).await;
    cell.stack.etcd().thaw().expect("thawed");
    wait_for_told(&oncall, "ETCD_UNREACHABLE", "alert.resolved", 1).await;

    // etcd is rebuilt: nobody can lead, and that is told all the same.
    cell.sql("UPDATE fence SET revision = 1000000000").await;
    cell.stack.etcd().rebuild().await.expect("rebuilt");
    let refused = wait_for_told(&oncall, "FENCE_REFUSED", "alert.opened", 2).await;
    assert!(refused[0].json()["data"]["whatToDo"].as_str().is_some_and(|text| text.contains("fence reset")));
    cell.sql("UPDATE fence SET revision = 0, holder = gen_random_uuid()").await;
    wait_for_told(&oncall, "FENCE_REFUSED", "alert.resolved", 2).await;
    wait_for(LIMIT, "both to lead again", async || {
        (cell.count("SELECT count(*) FROM fence WHERE revision > 0").await == 2).then_some(())
    })
    .await;

    let all = oncall.received();
    let kinds: Vec<_> = all.iter().map(|told| told.json()["data"]["kind"].clone()).collect();
    assert_eq!(all.len(), 8 + 2 + 4, "nothing but the causes is told: {kinds:?}");
    cell.stop().await;
}

#[tokio::test]
async fn tickers_that_never_led_are_missed_too() {
    let mut cell = Cell::start_with(|options| stack::dev::Options { tickers: 0, ..options }).await;
    let oncall = Receiver::start().await;
    channel(&cell, "oncall", &oncall, true).await;
    let page = wait_for_told(&oncall, "NO_TICKER", "alert.opened", 1).await[0].json();
    let summary = page["data"]["summary"].as_str().expect("a summary");
    assert!(summary.contains("No ticker has ever led"), "{summary}");
    cell.stack.add(Role::Ticker).await.expect("it starts");
    wait_for_told(&oncall, "NO_TICKER", "alert.resolved", 1).await;
    cell.stop().await;
}

#[tokio::test]
async fn a_cell_with_too_few_places_for_its_runs_is_told_that_they_start_late() {
    let settings = "lateness_runs_min = 5\nsystem_look_every_ms = 1000\n";
    let change = |options: stack::dev::Options| {
        stack::dev::Options { agent_slots: 1, ..options }.setting(Role::Watchdog, settings)
    };
    let cell = Cell::start_with(change).await;
    let oncall = Receiver::start().await;
    channel(&cell, "oncall", &oncall, true).await;
    for number in 0..5 {
        let mut crowding = job(&format!("crowding-{number}"), "*/2 * * * * *", shell("sleep 1"));
        crowding["overlap"] = json!("ALLOW");
        cell.api.create(crowding).await;
    }
    let page = wait_for_told(&oncall, "RUNS_START_LATE", "alert.opened", 1).await[0].json();
    let summary = page["data"]["summary"].as_str().expect("a summary");
    assert!(summary.contains("the objective is 2000 ms"), "{summary}");
    assert_eq!(page["data"]["severity"], "WARNING");
    assert_eq!(told(&oncall, "NO_WORKER", "alert.opened").len(), 0, "there is a worker, and it is late");
    cell.stop().await;
}

/// The services' binaries, of which watchdogs run with the clock that the file `offset` names, in seconds.
fn binaries_with_a_clock_that_is_off(folder: &Path, real: &Path, offset: &Path) -> PathBuf {
    let binaries = folder.join("binaries");
    std::fs::create_dir_all(&binaries).expect("a folder");
    for entry in std::fs::read_dir(real).expect("the binaries").flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("escapement") && name != "escapement-watchdog" {
            std::os::unix::fs::symlink(entry.path(), binaries.join(name)).expect("linked");
        }
    }
    let script = format!(
        "#!/bin/sh\nexport LD_PRELOAD=\"$(echo /usr/lib/*/faketime/libfaketime.so.1)\"\n\
         export FAKETIME_TIMESTAMP_FILE={} FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1\n\
         exec {}/escapement-watchdog \"$@\"\n",
        offset.display(),
        real.display()
    );
    let program = binaries.join("escapement-watchdog");
    std::fs::write(&program, script).expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
    binaries
}

#[tokio::test]
async fn a_watchdog_whose_clock_is_off_says_so_and_judges_as_before() {
    let folder = TempFolder::create("clock").expect("a folder");
    let offset = folder.path().join("offset");
    std::fs::write(&offset, "-5").expect("written");
    let change = |options: stack::dev::Options| {
        let binaries = binaries_with_a_clock_that_is_off(folder.path(), &options.binaries, &offset);
        stack::dev::Options { binaries, ..options }
    };
    let mut cell = Cell::start_with(change).await;
    let oncall = Receiver::start().await;
    channel(&cell, "oncall", &oncall, true).await;
    let mut on_time = job("on-time", "* * * * * *", shell("true"));
    on_time["alert"] = json!({"successWithin": "20s", "channels": ["oncall"]});
    cell.api.create(on_time).await;
    let page = wait_for_told(&oncall, "CLOCK_OFFSET", "alert.opened", 1).await[0].json();
    let summary = page["data"]["summary"].as_str().expect("a summary");
    assert!(summary.contains("ms ahead of the watchdog's"), "{summary}");
    std::fs::write(&offset, "+0").expect("written");
    wait_for_told(&oncall, "CLOCK_OFFSET", "alert.resolved", 1).await;
    let judged = "SELECT count(*) FROM watch_cursor w JOIN job j ON j.id = w.job_id WHERE w.judged_through > j.created_at";
    assert_eq!(cell.count(judged).await, 1, "its deadlines were looked at");
    assert_eq!(oncall.received().len(), 2, "by the database's clock, which the watchdog's does not concern");
    cell.stop().await;
}

#[tokio::test]
async fn a_channel_whose_receiver_is_gone_is_told_over_another() {
    let settings = "delivery_backoff_ms = 100\ndelivery_backoff_max_ms = 200\nsystem_look_every_ms = 1000\n";
    let cell = Cell::start_with(|options| options.setting(Role::Watchdog, settings)).await;
    let oncall = Receiver::start().await;
    channel(&cell, "oncall", &oncall, true).await;
    // Whoever has a port bound, and does not listen, refuses connections for as long as the test lasts.
    let gone = tokio::net::TcpSocket::new_v4().expect("a socket");
    gone.bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let url = format!("http://{}", gone.local_addr().expect("bound"));
    let channel = json!({"name": "gone", "system": false, "webhook": {"url": url}});
    cell.api.post("/v1/channels", channel).await.expect("stored");
    let mut failing = job("failing", "* * * * * *", shell("false"));
    failing["alert"] = json!({"successWithin": "2s", "channels": ["gone"]});
    cell.api.create(failing).await;
    let page = wait_for_told(&oncall, "CHANNEL_FAILS", "alert.opened", 1).await[0].json();
    let summary = page["data"]["summary"].as_str().expect("a summary");
    assert!(summary.contains("The channel gone has received nothing"), "{summary}");
    cell.stop().await;
}
