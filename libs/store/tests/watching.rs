//! What the watchdog's statements rely on: the fence, the locks, and the indexes that keep them short on full tables.
#![allow(clippy::expect_used, reason = "helpers of tests")]

mod support;

use model::ids::{HolderId, JobId};
use std::time::Duration;
use store::fence::{self, Raised, Role, Term};
use store::{StoreError, watch_cursor};
use support::Cell;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

fn term(revision: i64) -> Term {
    Term { role: Role::Watchdog, revision, holder: HolderId::random() }
}

/// A successor waits for what its predecessor is writing; from then on the predecessor writes nothing.
#[tokio::test]
async fn raising_the_fence_waits_for_whoever_holds_it_and_refuses_it_afterwards() {
    let cell = Cell::create().await;
    let (old, new) = (term(1), term(2));
    assert_eq!(fence::raise(&cell.store, old).await.expect("raised"), Raised::Held);

    let mut client = cell.store.client("old").await.expect("connected");
    let tx = client.begin("old").await.expect("begun");
    fence::hold(&tx, old).await.expect("it leads");
    let store = cell.store.clone();
    let raising = tokio::spawn(async move { fence::raise(&store, new).await });
    let observer = cell.connect().await;
    stack::wait::wait_for(Duration::from_secs(10), "the successor to wait for the lock", async || {
        let waiting = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) \
                       WHERE NOT l.granted AND a.datname = current_database()";
        let waiting: i64 = observer.query_one(waiting, &[]).await.expect("locks").get(0);
        (waiting > 0).then_some(())
    })
    .await;
    assert!(!raising.is_finished());
    tx.commit().await.expect("committed");
    assert_eq!(raising.await.expect("no panic").expect("raised"), Raised::Held);

    let tx = client.begin("old").await.expect("begun");
    let refused = fence::hold(&tx, old).await;
    assert!(matches!(refused, Err(StoreError::Fenced { role: "watchdog", revision: 1 })), "{refused:?}");
}

/// A job that the registry is changing is judged after the change, by what it then reads.
#[tokio::test]
async fn a_cursor_that_is_being_changed_is_left_for_the_next_batch() {
    let cell = Cell::create().await;
    let observer = cell.connect().await;
    fill(&observer, 2).await;
    observer.batch_execute("UPDATE watch_cursor SET judge_at = esc_now()").await.expect("due");
    let job: Uuid =
        observer.query_one("SELECT min(id::text)::uuid FROM job", &[]).await.expect("a job").get(0);

    let mut registry = cell.store.client("change").await.expect("connected");
    let change = registry.begin("change").await.expect("begun");
    store::job_change::lock(&change, &[JobId(job)]).await.expect("locked");

    let mut watchdog = cell.store.client("judge").await.expect("connected");
    let judging = watchdog.begin("judge").await.expect("begun");
    let locked = watch_cursor::lock_due(&judging, 10).await.expect("no waiting");
    let due = watch_cursor::read(&judging, &locked).await.expect("read");
    assert_eq!(due.cursors.len(), 1);
    assert_ne!(due.cursors[0].job_id, JobId(job));
    drop(judging);
    change.commit().await.expect("committed");

    let judging = watchdog.begin("judge").await.expect("begun");
    assert_eq!(watch_cursor::lock_due(&judging, 10).await.expect("locked").len(), 2);
}

#[tokio::test]
async fn the_statements_use_their_indexes_on_full_tables() {
    let cell = Cell::create().await;
    let client = cell.connect().await;
    fill(&client, 20_000).await;
    let jobs: Vec<Uuid> = vec![Uuid::from_u128(1), Uuid::from_u128(2)];
    let now = chrono::Utc::now();
    let instants = vec![now, now];
    let none: Vec<Uuid> = Vec::new();
    let kinds = vec!["NO_SUCCESS", "FAILED"];
    let statements: [(&str, Vec<&(dyn ToSql + Sync)>, &[&str]); 6] = [
        ("watch_cursor/lock_due", vec![&500_i64], &["watch_cursor_due"]),
        ("watch_rest/lock_due", vec![&500_i64], &["watch_rest_due"]),
        (
            "watch_cursor/read",
            vec![&jobs, &jobs, &instants],
            &["watch_cursor_pkey", "job_pkey", "job_revision_pkey"],
        ),
        ("verdict/evidence", vec![&jobs, &instants, &now, &now], &["run_lease_pkey", "run_outcome"]),
        ("alert/recovered", vec![&500_i64, &kinds], &["alert_one_open"]),
        (
            "alert_delivery/claim",
            vec![&32_i64, &4_i64, &none, &30_000_i64, &none, &16_i64],
            &["alert_delivery_due"],
        ),
    ];
    for (name, params, indexes) in statements {
        uses(&client, name, &params, indexes).await;
    }
}

/// Looking after alerts, asking for ends of runs and judging check-ins cost what is found, not what there is.
#[tokio::test]
async fn the_statements_of_alerts_and_check_ins_use_their_indexes_on_full_tables() {
    let cell = Cell::create().await;
    let client = cell.connect().await;
    fill(&client, 20_000).await;
    fill_check_ins(&client, 20_000).await;
    let ids: Vec<Uuid> = vec![Uuid::from_u128(1), Uuid::from_u128(2)];
    let (now, tenant) = (chrono::Utc::now(), model::ids::TenantId::DEFAULT.0);
    let (later, yesterday) = (now + chrono::Duration::minutes(1), now - chrono::Duration::days(1));
    let (instants, overs) = (vec![now, now], vec![1_000_i64, 1_000]);
    let any: Option<Uuid> = None;
    let (none, open): (Vec<&str>, Vec<&str>) = (Vec::new(), vec!["OPEN"]);
    let (hash, names) = (vec![7_u8; 32], vec!["check-in-7"]);
    let (seen, snapshot) = ("19900:19900:", "20000:20000:");
    let statements: [(&str, Vec<&(dyn ToSql + Sync)>, &[&str]); 21] = [
        (
            "verdict/late_ends",
            vec![&now, &seen, &snapshot, &yesterday, &5_000_i64],
            &["job_alert_on", "run_event_by_xid"],
        ),
        ("verdict/ends", vec![&now, &later, &yesterday, &5_000_i64], &["job_alert_on", "run_outcome"]),
        ("verdict/slow_jobs", vec![&ids[0], &5_000_i64], &["job_alert_on"]),
        (
            "verdict/slow",
            vec![&ids, &overs, &now, &yesterday, &5_000_i64],
            &["run_lease_", "run_", "verdict_pkey"],
        ),
        ("verdict/streak", vec![&ids, &instants, &yesterday], &["run_"]),
        ("verdict/told", vec![&ids, &instants], &["verdict_pkey"]),
        ("verdict/owners", vec![&ids], &["job_pkey"]),
        ("alert/lock_open", vec![&ids], &["alert_one_open"]),
        ("alert/lock_to_tell", vec![&500_i64], &["alert_to_tell", "alert_repeat"]),
        ("alert/lives", vec![&ids], &["alert_pkey", "job_pkey", "check_in_pkey"]),
        ("alert/owed", vec![&ids], &["alert_pkey", "job_pkey", "verdict_pkey"]),
        (
            "alert/page",
            vec![&tenant, &now, &ids[0], &any, &any, &none, &none, &100_i64],
            &["alert_of_tenant", "job_pkey"],
        ),
        (
            "alert/page_unresolved",
            vec![&tenant, &now, &ids[0], &any, &any, &none, &open, &100_i64],
            &["alert_open_of_tenant"],
        ),
        ("alert/recovered_check_ins", vec![&500_i64], &["alert_one_open_check_in", "check_in_pkey"]),
        ("alert_delivery/openings", vec![&ids], &["alert_delivery_"]),
        ("check_in/lock_due", vec![&500_i64], &["check_in_due"]),
        ("check_in/has_token", vec![&hash], &["check_in_token_hash_key"]),
        ("check_in/lock_token", vec![&hash], &["check_in_token_hash_key"]),
        ("check_in_report/since", vec![&ids, &instants], &["check_in_report_pkey"]),
        ("tenant_limit/check_ins", vec![&ids[0], &10_001_i64], &["check_in_by_name"]),
        ("tenant_limit/there", vec![&tenant, &names, &names], &["check_in_by_name"]),
    ];
    for (name, params, indexes) in statements {
        uses(&client, name, &params, indexes).await;
    }
}

/// Fails when a statement uses none of these indexes, or reads a large table whole.
async fn uses(client: &tokio_postgres::Client, name: &str, params: &[&(dyn ToSql + Sync)], indexes: &[&str]) {
    let path = format!("{}/sql/{name}.sql", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("a statement");
    // The header's lines are comments, which EXPLAIN may stand before.
    let rows = client.query(&format!("EXPLAIN {text}"), params).await.expect(name);
    let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");
    for index in indexes {
        assert!(plan.contains(index), "{name} does not use {index}:\n{plan}");
    }
    let small = ["alert_channel", "channel_failure", "dispatcher", "due", "now", "tenant"];
    let read_whole = plan.split("Seq Scan on ").skip(1).filter_map(|rest| rest.split_whitespace().next());
    let read_whole: Vec<_> = read_whole.filter(|table| !small.contains(table)).collect();
    assert!(read_whole.is_empty(), "{name} reads all of {read_whole:?}:\n{plan}");
}

const DEFINITION: &str = r#"{"schedule": "* * * * *", "timezone": "UTC", "dst_gap": "RUN_AFTER", "dst_fold": "FIRST",
    "misfire": {"policy": "ONCE", "grace": 60000, "catch_up_limit": 1000, "catch_up_window": 604800000},
    "overlap": "FORBID", "max_runtime": 3600000, "jitter": 0, "queue": "default", "priority": 0, "labels": {},
    "retry": {"max_attempts": 1, "backoff": 10000, "backoff_max": 600000, "max_lost": 3},
    "alert": {"success_within": null, "channels": [], "disabled": false},
    "run": {"handler": {"name": "invoice", "payload": ""}}}"#;

/// So many jobs with a cursor, a revision, three runs of three days, and for each tenth a resolved and each hundredth an
/// open alert with its delivery.
async fn fill(client: &tokio_postgres::Client, jobs: i32) {
    let script = format!(
        "SELECT esc_make_partitions(current_date - 1, current_date + 1);
         CREATE TEMP TABLE n AS SELECT i, ('00000000-0000-4000-9000-' || lpad(to_hex(i), 12, '0'))::uuid AS id,
                '00000000-0000-4000-8000-000000000001'::uuid AS tenant FROM generate_series(1, {jobs}) i;
         INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
             SELECT id, tenant, 1, now(), now(), 'job-' || i, '{DEFINITION}' FROM n;
         INSERT INTO job_revision (job_id, generation, in_force_from, action, author, definition)
             SELECT id, 1, now(), 'CREATED', 'test', '{DEFINITION}' FROM n;
         INSERT INTO job_cursor (job_id, next_fire_at, generation) SELECT id, now(), 1 FROM n;
         INSERT INTO watch_cursor (job_id, next_at, judge_at) SELECT id, now(), now() + i * interval '1 second' FROM n;
         INSERT INTO watch_rest (job_id, through, judged_through, judge_at)
             SELECT id, now(), now(), now() + i * interval '1 second' FROM n;
         INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
             SELECT id, tenant, at, at, 1, 1, 'SCHEDULE'
             FROM n, generate_series(date_trunc('day', now()) - interval '1 day', now() + interval '1 day', '1 day') at;
         INSERT INTO run_lease (job_id, tenant_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
                                undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
             SELECT id, tenant, id, date_trunc('day', now()), now(), 1, i, 0, 0, 0, 0, 1, 1, 'SCHEDULE', true, 'default' FROM n;
         INSERT INTO run_output (job_id, scheduled_for, attempt, tail) SELECT id, date_trunc('day', now()), 1, '' FROM n;
         INSERT INTO run_outcome (job_id, tenant_id, scheduled_for, at, attempt, state, reason, final)
             SELECT id, tenant, at, now(), 1, 'FAILED', 'WORK_FAILED', true
             FROM n, generate_series(date_trunc('day', now()) - interval '1 day', now() + interval '1 day', '1 day') at;
         INSERT INTO verdict (job_id, occurrence, judged_at, deadline, kind, cause)
             SELECT id, date_trunc('day', now()), now(), now(), 'NO_SUCCESS', 'WAITING' FROM n;
         INSERT INTO alert_channel (id, tenant_id, created_at, name, kind, url)
             SELECT id, tenant, now(), 'channel-' || i, 'WEBHOOK', 'http://127.0.0.1:1/' FROM n WHERE i <= 10;
         INSERT INTO alert (id, tenant_id, job_id, first_occurrence, last_occurrence, opened_at, resolved_at, kind, cause)
             SELECT id, tenant, id, date_trunc('day', now()), date_trunc('day', now()), now(),
                    CASE WHEN i % 100 > 0 THEN now() END, 'NO_SUCCESS', 'WAITING' FROM n WHERE i % 10 = 0;
         INSERT INTO alert_delivery (id, alert_id, channel_id, created_at, next_try_at, delivered_at, event, body)
             SELECT gen_random_uuid(), a.id, c.id, now(), now(), a.resolved_at, 'OPENED', '{{}}' FROM alert a, alert_channel c;
         ANALYZE"
    );
    client.batch_execute(&script).await.expect("filled");
}

/// So many check-ins with a report each, and alerts of each tenth; each hundredth alert has something to tell. And an event of
/// each job's run, each of a transaction of its own.
async fn fill_check_ins(client: &tokio_postgres::Client, check_ins: i32) {
    let script = format!(
        "INSERT INTO check_in (id, tenant_id, created_at, updated_at, judged_through, looked_through, judge_at, token_hash, name,
                               definition)
             SELECT id, tenant, now(), now(), now(), now(), now() + i * interval '1 second', sha256(i::text::bytea),
                    'check-in-' || i, '{{}}' FROM n WHERE i <= {check_ins};
         INSERT INTO check_in_report (check_in_id, at, kind) SELECT id, created_at, 'SUCCESS' FROM check_in;
         INSERT INTO alert (id, tenant_id, check_in_id, subject, opened_at, resolved_at, kind, cause, next_repeat_at, to_tell)
             SELECT gen_random_uuid(), tenant, id, 'CHECK_IN', now(), CASE WHEN i % 100 > 0 THEN now() END, 'CHECK_IN',
                    'NO_CHECK_IN', now() + i * interval '1 second', CASE WHEN i % 1000 = 0 THEN 'ACKNOWLEDGED' END
             FROM n WHERE i % 10 = 0;
         INSERT INTO run_event (tenant_id, at, xid, phase, job_id, scheduled_for, attempt)
             SELECT tenant, now(), i::text::xid8, 'FAILED', ARRAY[id], ARRAY[date_trunc('day', now())], '{{1}}' FROM n;
         ANALYZE"
    );
    client.batch_execute(&script).await.expect("filled");
}

/// Looking at the system costs the same however many runs wait and jobs are watched.
#[tokio::test]
async fn the_looks_at_the_system_use_their_indexes_on_full_tables() {
    let cell = Cell::create().await;
    let client = cell.connect().await;
    fill(&client, 20_000).await;
    client
        .batch_execute(
            "INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
             SELECT gen_random_uuid(), '00000000-0000-4000-8000-000000000001', date_trunc('second', esc_now()),
                    esc_now() - n * interval '1 s', 1, 0, 'SCHEDULE', true, 'q' || n % 3
             FROM generate_series(1, 20000) n;
             INSERT INTO worker_session (id, dispatcher_id, connected_at, ended_at, slots, name, version, queues)
             SELECT gen_random_uuid(), gen_random_uuid(), esc_now(), esc_now(), 1, 'w', '1', '{q1}' FROM generate_series(1, 20000);
             INSERT INTO misfire (job_id, first, last, recorded_at, count, term, cause, policy, outcome)
             SELECT md5((n % 100)::text)::uuid, at, at, at, 1, 1, 'NO_TICKER', 'ONCE', 'SUPERSEDED'
             FROM generate_series(1, 20000) n, LATERAL (SELECT esc_now() - n * interval '1 minute' AS at) a;
             ANALYZE",
        )
        .await
        .expect("filled");
    let jobs: Vec<Uuid> = vec![Uuid::from_u128(1), Uuid::from_u128(2)];
    let now = chrono::Utc::now();
    let instants = vec![now, now];
    let statements: [(&str, Vec<&(dyn ToSql + Sync)>, &[&str]); 4] = [
        ("system/unserved", vec![&30_000_i64, &15_000_i64], &["run_queue_due", "worker_session_open"]),
        ("system/deadlines", vec![], &["watch_cursor_due"]),
        ("system/soon", vec![], &["watch_cursor_due"]),
        ("verdict/missed", vec![&jobs, &instants], &["misfire_pkey"]),
    ];
    for (name, params, indexes) in statements {
        uses(&client, name, &params, indexes).await;
    }
}
