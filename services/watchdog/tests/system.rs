//! The watch over the system itself, by a real watchdog on real PostgreSQL and etcd: each trouble and its end are told once,
//! jobs that one trouble makes late are told as one, and the heartbeat beats only while checks run.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod support;

use axum::Router;
use axum::routing::get;
use serde_json::Value;
use stack::etcd::{self, Etcd};
use stack::process::{ManagedChild, Spec};
use stack::testkit::TempFolder;
use stack::wait::wait_for;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{Cell, Receiver, rows};

const LIMIT: Duration = Duration::from_secs(150);

const TENANT: &str = "00000000-0000-4000-8000-000000000001";

/// A cell in the present, a watchdog of its own, and an etcd of its own.
struct Watched {
    cell: Cell,
    watchdog: ManagedChild,
    etcd: Etcd,
    _folder: TempFolder,
}

impl Watched {
    async fn start(settings: &[(&str, &str)]) -> Self {
        let folder = TempFolder::create("system").expect("a folder");
        let etcd = Etcd::start(&folder.path().join("etcd"), etcd::Options::for_tests()).await.expect("etcd");
        let cell = Cell::create().await;
        store::clock::shift(&cell.store, 0).await.expect("the real time");
        rows!(cell, "SELECT esc_make_partitions(current_date - 1, current_date + 3)");
        let program = env!("CARGO_BIN_EXE_escapement-watchdog");
        let mut spec = Spec::new("watchdog", program, folder.path().join("watchdog.log"))
            .clear_env()
            .arg(format!("--endpoints-file={}", folder.path().join("watchdog.json").display()))
            .env("ESCAPEMENT_DATABASE_URL", &cell.url)
            .env("ESCAPEMENT_ETCD_ENDPOINTS", etcd.endpoints().join(","))
            .env("ESCAPEMENT_WEBHOOK_ALLOW_LOOPBACK", "true")
            .env("ESCAPEMENT_DELIVERY_BACKOFF_MS", "50")
            .env("ESCAPEMENT_DELIVERY_BACKOFF_MAX_MS", "100")
            .env("ESCAPEMENT_SYSTEM_LOOK_EVERY_MS", "200");
        for (name, value) in settings {
            spec = spec.env(*name, *value);
        }
        let watchdog = ManagedChild::spawn(&spec).expect("spawned");
        Self { cell, watchdog, etcd, _folder: folder }
    }

    async fn sql(&self, statement: &str) {
        rows!(self.cell, statement);
    }

    async fn stop(&mut self) {
        let exit = self.watchdog.terminate(Duration::from_secs(10)).await.expect("it ends");
        assert!(exit.success(), "{exit}: {}", self.watchdog.log_tail());
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.watchdog.log_tail());
        }
    }
}

/// What a receiver was told of a kind, as events in order.
fn told(receiver: &Receiver, kind: &str) -> Vec<Value> {
    let received = receiver.received().into_iter().map(|received| received.json());
    received.filter(|message| message["data"]["kind"] == kind).collect()
}

async fn wait_for_told(receiver: &Receiver, kind: &str, event: &str) -> Value {
    wait_for(LIMIT, &format!("{event} of {kind}"), async || {
        told(receiver, kind).into_iter().find(|message| message["type"] == event)
    })
    .await
}

/// A kind, what makes it true, what ends it, and what the page must say.
type Case = (&'static str, &'static str, &'static str, &'static str);

const CASES: &[Case] = &[
    (
        "NO_TICKER",
        "INSERT INTO term (role, revision, holder, began_at, last_cycle_at, pid, name, http) \
         VALUES ('ticker', 1, gen_random_uuid(), esc_now() - interval '1 hour', esc_now() - interval '16 s', 1, 't', '')",
        "UPDATE term SET last_cycle_at = esc_now() + interval '1 hour' WHERE role = 'ticker'",
        "deadline within the next hour",
    ),
    (
        "NO_WORKER",
        "INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue) \
         SELECT gen_random_uuid(), '00000000-0000-4000-8000-000000000001', esc_now(), esc_now() - n * interval '1 s', 1, 0, \
                'MANUAL', true, 'reports' FROM generate_series(29, 40) n",
        "INSERT INTO dispatcher (id, started_at, renewed_at, pid, name, address, http) \
         VALUES ('00000000-0000-0000-0000-00000000000d', esc_now(), esc_now() + interval '1 hour', 1, 'd', '', '') ;; \
         INSERT INTO worker_session (id, dispatcher_id, tenant_id, connected_at, slots, name, version, queues) \
         VALUES (gen_random_uuid(), '00000000-0000-0000-0000-00000000000d', NULL, esc_now(), 1, 'w', '', '{reports}')",
        "wait in the queue reports",
    ),
    (
        "NO_DISPATCHER",
        "UPDATE dispatcher SET renewed_at = esc_now() - interval '16 s'",
        "UPDATE dispatcher SET renewed_at = esc_now() + interval '1 hour'",
        "no run is handed out",
    ),
    (
        "PARTITION_MISSING",
        "DO $$ BEGIN EXECUTE format('ALTER TABLE run_%s RENAME TO run_hidden', to_char(current_date + 1, 'YYYYMMDD')); END $$",
        "DO $$ BEGIN EXECUTE format('ALTER TABLE run_hidden RENAME TO run_%s', to_char(current_date + 1, 'YYYYMMDD')); END $$",
        "has no partition",
    ),
    (
        "JOB_BROKEN",
        "INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition, broken) \
         VALUES ('00000000-0000-0000-0000-0000000000b0', '00000000-0000-4000-8000-000000000001', 1, esc_now(), esc_now(), \
                 'invoices', '{\"alert\": {\"channels\": [\"oncall\"]}}', 'the calendar is gone') ;; \
         INSERT INTO job_cursor (job_id, generation, broken) VALUES ('00000000-0000-0000-0000-0000000000b0', 1, true)",
        "UPDATE job_cursor SET broken = false",
        "the calendar is gone",
    ),
    (
        "TZDATA_DIFFERS",
        "INSERT INTO tzdata (version, changed_at) VALUES ('2099z', esc_now())",
        "DELETE FROM tzdata",
        "2099z",
    ),
    (
        "API_TOKEN_EXPIRES",
        "INSERT INTO api_token (id, tenant_id, name, role, prefix, hash, created_at, expires_at) \
         VALUES (gen_random_uuid(), NULL, 'agents', 'WORKER', 'esc_', sha256('t'), esc_now() - interval '30 days', \
                 esc_now() + interval '3 days')",
        "UPDATE api_token SET revoked_at = esc_now()",
        "The API token agents expires",
    ),
    (
        "FENCING_TOKENS_RUN_OUT",
        "INSERT INTO epoch (epoch, timeline, system_identifier, changed_at) VALUES (500000, 1, 1, esc_now())",
        "UPDATE epoch SET epoch = 1",
        "epoch 500000",
    ),
    (
        "CLOCK_JUMPED",
        "UPDATE clock_shift SET shift = interval '1 minute'",
        "SELECT 1",
        "until it has been steady for 10 seconds",
    ),
];

#[tokio::test]
async fn each_trouble_is_told_once_and_its_end_once() {
    let mut watched =
        Watched::start(&[("ESCAPEMENT_RUNBOOKS_URL", "https://docs.example.test/runbooks")]).await;
    let oncall = Receiver::start(&[]).await;
    watched.cell.channel("oncall", &oncall.url, None).await;
    for (kind, wrong, right, says) in CASES {
        for statement in wrong.split(" ;; ") {
            watched.sql(statement).await;
        }
        let opened = wait_for_told(&oncall, kind, "alert.opened").await;
        let text = opened.to_string();
        assert!(text.contains(says), "{kind}: {text}");
        assert_eq!(opened["data"]["subject"]["type"], "SYSTEM", "{kind}");
        let link = format!("https://docs.example.test/runbooks#{}", kind.to_lowercase());
        assert_eq!(opened["data"]["link"], link, "{kind}");
        for statement in right.split(" ;; ") {
            watched.sql(statement).await;
        }
        let resolved = wait_for_told(&oncall, kind, "alert.resolved").await;
        assert_eq!(resolved["data"]["alertId"], opened["data"]["alertId"], "{kind}");
        assert_eq!(told(&oncall, kind).len(), 2, "{kind}");
    }
    assert_eq!(oncall.received().len(), 2 * CASES.len(), "{:?}", oncall.received());
    let open = "SELECT count(*) FROM alert WHERE resolved_at IS NULL";
    assert_eq!(watched.cell.number(open).await, 0);
    watched.stop().await;
}

/// The leader's own, which it looks at less often, and one that any watchdog tells; whatever other channels there are.
#[tokio::test]
async fn a_trouble_that_goes_on_is_told_anew_after_somebody_resolved_it() {
    let mut watched = Watched::start(&[]).await;
    let oncall = Receiver::start(&[]).await;
    watched.cell.channel("oncall", &oncall.url, None).await;
    watched.cell.channel_of_a_later_release("newer").await;
    watched.sql("INSERT INTO tzdata (version, changed_at) VALUES ('2099z', esc_now())").await;
    watched.sql("UPDATE fence SET revision = 1099511627776 WHERE role = 'ticker'").await;
    for kind in ["TZDATA_DIFFERS", "FENCE_REFUSED"] {
        let first = wait_for_told(&oncall, kind, "alert.opened").await;
        let by_hand = "UPDATE alert SET resolved_at = esc_now(), resolution = 'BY_HAND', next_repeat_at = NULL WHERE kind = $1";
        rows!(watched.cell, by_hand, kind);
        let anew = async || told(&oncall, kind).into_iter().find(|message| message["data"] != first["data"]);
        let anew = wait_for(LIMIT, "another page", anew).await;
        assert_eq!(anew["type"], "alert.opened", "{anew}");
        assert_ne!(anew["data"]["alertId"], first["data"]["alertId"]);
    }
    watched.stop().await;
}

#[tokio::test]
async fn a_ticker_that_stands_by_with_another_timezone_database_is_told_by_name() {
    let mut watched = Watched::start(&[]).await;
    let oncall = Receiver::start(&[]).await;
    watched.cell.channel("oncall", &oncall.url, None).await;
    let config = election::Config {
        endpoints: watched.etcd.endpoints(),
        cell: "main".to_owned(),
        lease_ttl: Duration::from_secs(5),
        credentials: None,
        tls: election::Tls::default(),
    };
    let client = election::Client::connect_within(&config, LIMIT).await.expect("connected");
    let ticker = election::Member {
        role: election::Role::Ticker,
        name: "ticker-of-yesterday".to_owned(),
        uuid: uuid::Uuid::new_v4(),
        pid: 1,
        http: String::new(),
        database: None,
        slots: None,
        tzdata: Some("1999a".to_owned()),
    };
    let member = election::register(&client, &ticker).expect("registered");
    let opened = wait_for_told(&oncall, "TZDATA_DIFFERS", "alert.opened").await.to_string();
    assert!(opened.contains("the ticker ticker-of-yesterday has 1999a"), "{opened}");
    member.leave().await;
    wait_for_told(&oncall, "TZDATA_DIFFERS", "alert.resolved").await;
    watched.stop().await;
}

#[tokio::test]
async fn a_channel_that_keeps_failing_is_told_over_the_others_and_an_old_transaction_too() {
    let mut watched = Watched::start(&[("ESCAPEMENT_TRANSACTION_MAX_MS", "1000")]).await;
    let (oncall, dead) = (Receiver::start(&[]).await, Receiver::start(&[500; 40]).await);
    watched.cell.channel("oncall", &oncall.url, None).await;
    let dead_id = watched.cell.channel("dead", &dead.url, None).await;

    let url = watched.cell.url.clone();
    let (mut settings, held) = (
        store::Settings::new(url.as_str(), "main", "a-forgotten-psql"),
        Arc::new(tokio::sync::Notify::new()),
    );
    settings.idle_in_transaction_timeout = Duration::ZERO; // none
    let release = held.clone();
    let holding = tokio::spawn(async move {
        let store = store::Store::new(settings).expect("sound settings");
        let mut client = store.client("hold").await.expect("connected");
        let tx = client.begin("hold").await.expect("begun");
        store::fence::hold(&tx, support::no_ticker()).await.expect_err("not the watchdog's leader");
        release.notified().await;
        drop(tx);
    });
    let old = wait_for_told(&oncall, "OLD_TRANSACTION", "alert.opened").await;
    assert!(old.to_string().contains("a-forgotten-psql"), "{old}");
    // The dead channel was to be told of that as well, and answers 500.
    let failing = wait_for_told(&oncall, "CHANNEL_FAILS", "alert.opened").await;
    let text = failing.to_string();
    assert!(
        text.contains("The channel dead has received nothing") && text.contains("answered 500"),
        "{text}"
    );
    assert_eq!(failing["data"]["subject"]["name"], format!("channel/{dead_id}"));
    assert!(told(&dead, "CHANNEL_FAILS").is_empty(), "not over itself");
    held.notify_one();
    holding.await.expect("ended");
    wait_for_told(&oncall, "OLD_TRANSACTION", "alert.resolved").await;
    wait_for_told(&oncall, "CHANNEL_FAILS", "alert.resolved").await;
    watched.stop().await;
}

/// Jobs of tenant $1 with the definition $2, so many as $3, of a minute ago and with a deadline that has passed; none of them
/// was ever planned.
const LATE_JOBS: &str = "
    WITH new AS (
        INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
        SELECT md5('late' || n)::uuid, $1::text::uuid, 1, esc_now() - interval '1 hour', esc_now(), 'late-' || n, $2::text::jsonb
        FROM generate_series(1, $3::text::integer) n
        RETURNING id, definition
    ), revision AS (
        INSERT INTO job_revision (job_id, generation, in_force_from, action, author, definition)
        SELECT id, 1, esc_now() - interval '1 hour', 'CREATED', 'test', definition FROM new
    )
    INSERT INTO watch_cursor (job_id, next_at, judge_at, judged_through)
    SELECT id, date_trunc('minute', esc_now()), esc_now(), date_trunc('minute', esc_now()) - interval '90 s' FROM new
    RETURNING job_id";

async fn late_jobs(watched: &Watched, count: u32) {
    let mut definition = support::definition("* * * * *", 1);
    definition.alert.channels = vec!["operator".to_owned(), "team".to_owned()];
    let definition = serde_json::to_string(&definition).expect("JSON");
    rows!(watched.cell, LATE_JOBS, TENANT, definition, count.to_string());
}

#[tokio::test]
async fn ten_thousand_jobs_late_by_one_dead_ticker_are_one_notification() {
    let mut watched = Watched::start(&[("ESCAPEMENT_GROUP_WAIT_MS", "3000")]).await;
    let (operator, team) = (Receiver::start(&[]).await, Receiver::start(&[]).await);
    watched.cell.channel("operator", &operator.url, None).await;
    watched.cell.channel("team", &team.url, None).await;
    watched.sql("UPDATE alert_channel SET system = false WHERE name = 'team'").await;
    watched.sql(CASES[0].1).await;
    wait_for_told(&operator, "NO_TICKER", "alert.opened").await;

    late_jobs(&watched, 10_000).await;
    let opened = "SELECT count(*) FROM alert WHERE subject = 'JOB' AND resolved_at IS NULL";
    wait_for(LIMIT, "all alerts to be opened, for the history", async || {
        (watched.cell.number(opened).await == 10_000).then_some(())
    })
    .await;
    let group = wait_for_told(&team, "NO_TICKER", "alert.opened").await;
    let data = &group["data"];
    assert_eq!(data["count"], 10_000, "{group}");
    assert_eq!(data["cause"], "NO_TICKER");
    assert_eq!(data["examples"].as_array().map(Vec::len), Some(5), "{group}");
    assert!(data["summary"].as_str().is_some_and(|text| text.contains("no ticker plans")), "{group}");

    // The ticker is back, and all jobs succeed: one end for each channel.
    watched
        .sql(
            "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, finished_at, generation, term, token, attempt, origin, \
                              state) \
             SELECT job_id, tenant_id, last_occurrence, last_occurrence, esc_now(), 1, 1, 1, 1, 'SCHEDULE', 'SUCCEEDED' \
             FROM alert WHERE subject = 'JOB'",
        )
        .await;
    watched.sql("UPDATE job SET paused_at = esc_now()").await;
    watched.sql(CASES[0].2).await;
    wait_for_told(&operator, "NO_TICKER", "alert.resolved").await;
    let end = wait_for_told(&team, "NO_TICKER", "alert.resolved").await;
    assert_eq!(end["data"]["alertId"], data["alertId"]);
    wait_for(LIMIT, "nothing to be left in the outbox", async || {
        let waiting = "SELECT count(*) FROM alert_delivery WHERE delivered_at IS NULL";
        (watched.cell.number(waiting).await == 0).then_some(())
    })
    .await;
    assert_eq!(operator.received().len(), 2, "the trouble and its end: {:?}", operator.received());
    assert_eq!(team.received().len(), 2, "the group and its end: {:?}", team.received());
    watched.stop().await;
}

/// What can't be asked about runs keeps nobody from being told of what was judged.
#[tokio::test]
async fn a_group_is_told_though_ends_of_runs_can_not_be_looked_at() {
    let mut watched = Watched::start(&[("ESCAPEMENT_GROUP_WAIT_MS", "200")]).await;
    let (operator, team) = (Receiver::start(&[]).await, Receiver::start(&[]).await);
    watched.cell.channel("operator", &operator.url, None).await;
    watched.cell.channel("team", &team.url, None).await;
    watched.sql("UPDATE alert_channel SET system = false WHERE name = 'team'").await;
    watched.sql(CASES[0].1).await;
    wait_for_told(&operator, "NO_TICKER", "alert.opened").await;
    watched.sql("ALTER TABLE outcome_watch RENAME TO gone").await;
    late_jobs(&watched, 2).await;
    let group = wait_for_told(&team, "NO_TICKER", "alert.opened").await;
    assert_eq!(group["data"]["count"], 2, "{group}");
    watched.stop().await;
}

#[tokio::test]
async fn the_heartbeat_beats_only_while_checks_run() {
    let beats = Arc::new(AtomicUsize::new(0));
    let counted = beats.clone();
    let beat = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready("ok")
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/beat", listener.local_addr().expect("bound"));
    let router = Router::new().route("/beat", get(beat));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut watched = Watched::start(&[
        ("ESCAPEMENT_HEARTBEAT_URL", url.as_str()),
        ("ESCAPEMENT_HEARTBEAT_EVERY_MS", "1000"),
    ])
    .await;
    let more_than = async |count: usize| {
        wait_for(LIMIT, "a beat", async || (beats.load(Ordering::SeqCst) > count).then_some(())).await;
    };
    more_than(1).await;

    watched.sql("ALTER TABLE watch_cursor RENAME TO watch_cursor_away").await;
    let failures = || watched.watchdog.log_tail().matches("A check failed").count();
    wait_for(LIMIT, "a check to fail", async || (failures() > 0).then_some(())).await;
    let at_most = beats.load(Ordering::SeqCst) + 1; // one may have been on its way
    let before = failures();
    wait_for(LIMIT, "checks to go on failing", async || (failures() >= before + 4).then_some(())).await;
    assert!(beats.load(Ordering::SeqCst) <= at_most, "it beats although no check runs");
    watched.sql("ALTER TABLE watch_cursor_away RENAME TO watch_cursor").await;
    more_than(at_most).await;
    watched.stop().await;
}

#[tokio::test]
async fn an_occurrence_that_was_missed_without_a_run_says_why() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &support::definition("* * * * *", 10)).await;
    rows!(
        cell,
        "INSERT INTO misfire (job_id, first, last, recorded_at, count, term, cause, policy, outcome) \
         VALUES ($1, $2, $2, $2, 1, 1, 'NO_TICKER', 'ONCE', 'SUPERSEDED')",
        job.0,
        support::noon(60),
    );
    assert_eq!(cell.check(term, 75).await.missed, 1);
    let detail: String = rows!(cell, "SELECT detail FROM alert")[0].get(0);
    assert!(detail.contains("no ticker worked in that time"), "{detail}");
    // The next one is not recorded, and is told as before.
    assert_eq!(cell.check(term, 135).await.missed, 1);
    let detail: String = rows!(cell, "SELECT detail FROM alert")[0].get(0);
    assert!(detail.contains("the ledger does not know it"), "{detail}");
}
