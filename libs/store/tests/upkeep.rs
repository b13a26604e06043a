//! What leaves by age leaves whole, and what is open or in use stays; nobody who writes waits for it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use chrono::{DateTime, NaiveDate, Utc};
use stack::wait::wait_for;
use std::time::{Duration, Instant};
use store::fence::{self, Term};
use store::partition::{self, Dropped, Partition};
use store::retention::{self, Table};
use store::{Store, StoreError, ledger_floor};
use support::Cell;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

const LIMIT: Duration = Duration::from_secs(20);

/// As the ticker waits.
const PATIENCE: Duration = Duration::from_millis(100);

const TENANT: &str = "'00000000-0000-4000-8000-000000000001'";
const JOB: &str = "'00000000-0000-0000-0000-000000000007'";

fn day(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn runs_of(text: &str) -> Partition {
    Partition { base: "run".to_owned(), day: day(text) }
}

/// A cell with the days 2026-01-01 to 2026-01-05, and a run that ended at noon of each of the first two.
async fn filled() -> (Cell, Client) {
    let cell = Cell::create().await;
    let sql = cell.connect().await;
    sql.batch_execute(&format!(
        "SELECT esc_make_partitions('2026-01-01', '2026-01-05');
         INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin, state, reason, finished_at)
         SELECT {JOB}, {TENANT}, at, at, 1, 1, 'SCHEDULE', 'SKIPPED', 'MISSED', at
         FROM unnest('{{2026-01-01T12:00:00Z, 2026-01-02T12:00:00Z}}'::timestamptz[]) at"
    ))
    .await
    .unwrap();
    (cell, sql)
}

async fn drop_closed(store: &Store, of: &Partition, patience: Duration) -> Result<Dropped, StoreError> {
    let mut client = store.client("drop").await.unwrap();
    let tx = client.begin("drop").await.unwrap();
    let dropped = partition::drop_closed(&tx, of, patience).await?;
    tx.commit().await.unwrap();
    Ok(dropped)
}

async fn there(sql: &Client, table: &str) -> bool {
    sql.query_one("SELECT to_regclass($1) IS NOT NULL", &[&table]).await.unwrap().get(0)
}

#[tokio::test]
async fn days_below_the_floor_are_found_the_oldest_first_and_go() {
    let (cell, sql) = filled().await;
    let mut client = cell.store.client("look").await.unwrap();
    let tx = client.begin("look").await.unwrap();
    let expired = partition::expired(&tx, at("2026-01-03T00:00:00Z")).await.unwrap();
    drop(tx);
    let expected = ["2026-01-01", "2026-01-02"].map(|of| {
        ["run", "run_outcome", "run_output"].map(|base| Partition { base: base.to_owned(), day: day(of) })
    });
    assert_eq!(expired, expected.concat());
    for partition in &expired {
        assert_eq!(drop_closed(&cell.store, partition, LIMIT).await.unwrap(), Dropped::Gone);
    }
    assert!(!there(&sql, "run_20260102").await && there(&sql, "run_20260103").await);
    let again = drop_closed(&cell.store, &expired[0], LIMIT).await.unwrap();
    assert_eq!(again, Dropped::Gone, "what is gone stays gone");
}

#[tokio::test]
async fn no_other_tables_name_is_read_as_a_day_however_the_catalogue_is_joined() {
    let (_cell, sql) = filled().await;
    sql.batch_execute("SET enable_nestloop = off; SET enable_mergejoin = off").await.unwrap();
    let expired = include_str!("../sql/partition/expired.sql");
    assert_eq!(sql.query(expired, &[&at("2026-01-03T00:00:00Z")]).await.unwrap().len(), 6);
}

#[tokio::test]
async fn a_day_with_an_open_run_stays_wherever_the_run_waits() {
    let (cell, sql) = filled().await;
    let noon = "'2026-01-01T12:00:00Z'";
    let open = [
        (
            "run_queue",
            format!(
                "INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
                 VALUES ({JOB}, {TENANT}, {noon}, {noon}, 1, 5, 'SCHEDULE', true, 'default')"
            ),
        ),
        (
            "run_parked",
            format!(
                "INSERT INTO run_parked (job_id, tenant_id, scheduled_for, parked_at, generation, priority, origin, overlap, queue)
                 VALUES ({JOB}, {TENANT}, {noon}, {noon}, 1, 5, 'SCHEDULE', 'QUEUE', 'default')"
            ),
        ),
        (
            "run_lease",
            format!(
                "INSERT INTO run_lease (job_id, tenant_id, claim_id, scheduled_for, claimed_at, generation, token, priority, undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
                 VALUES ({JOB}, {TENANT}, gen_random_uuid(), {noon}, {noon}, 1, 1, 5, 0, 0, 0, 1, 1, 'SCHEDULE', true, 'default')"
            ),
        ),
        (
            "catch_up",
            format!(
                "INSERT INTO catch_up (job_id, next_at, through, remaining) VALUES ({JOB}, '2025-12-31T00:00:00Z', '2026-01-03T00:00:00Z', 1)"
            ),
        ),
    ];
    for (table, insert) in open {
        sql.batch_execute(&insert).await.unwrap();
        let dropped = drop_closed(&cell.store, &runs_of("2026-01-01"), LIMIT).await.unwrap();
        assert_eq!(dropped, Dropped::Open, "{table}");
        assert!(there(&sql, "run_20260101").await, "{table}");
        sql.batch_execute(&format!("DELETE FROM {table}")).await.unwrap();
    }
    let dropped = drop_closed(&cell.store, &runs_of("2026-01-01"), LIMIT).await.unwrap();
    assert_eq!(dropped, Dropped::Gone);
}

/// Somebody runs a run of the day again, and commits while the drop waits for the day.
#[tokio::test]
async fn a_run_that_is_opened_while_the_drop_waits_is_seen() {
    let (cell, mut sql) = filled().await;
    let tx = sql.transaction().await.unwrap();
    tx.batch_execute(&format!(
        "UPDATE run SET state = 'PLANNED', reason = NULL, finished_at = NULL WHERE job_id = {JOB} AND scheduled_for = '2026-01-01T12:00:00Z';
         INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
         VALUES ({JOB}, {TENANT}, '2026-01-01T12:00:00Z', esc_now(), 1, 5, 'SCHEDULE', true, 'default')"
    ))
    .await
    .unwrap();
    let store = cell.store.clone();
    let dropping = tokio::spawn(async move { drop_closed(&store, &runs_of("2026-01-01"), LIMIT).await });
    until_waiting(&cell, "run_20260101").await;
    tx.commit().await.unwrap();
    assert_eq!(dropping.await.unwrap().unwrap(), Dropped::Open);
}

async fn until_waiting(cell: &Cell, table: &str) {
    let eye = cell.connect().await;
    let statement = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = to_regclass($1))";
    wait_for(LIMIT, "a lock that is waited for", async || {
        eye.query_one(statement, &[&table]).await.unwrap().get::<_, bool>(0).then_some(())
    })
    .await;
}

/// Whoever reads the whole history for long keeps a day from going; an insert waits for neither.
#[tokio::test]
async fn no_insert_waits_behind_a_drop_that_waits_for_a_reader_of_the_history() {
    let (cell, mut sql) = filled().await;
    let reader = sql.transaction().await.unwrap();
    reader.query("SELECT count(*) FROM run", &[]).await.unwrap();

    let store = cell.store.clone();
    let drops = tokio::spawn(async move {
        for _ in 0..5 {
            let refused = drop_closed(&store, &runs_of("2026-01-01"), PATIENCE).await;
            assert!(refused.unwrap_err().is_busy(), "the reader is still there");
        }
    });
    let writer = cell.connect().await;
    let mut slowest = Duration::ZERO;
    let mut inserted = 0;
    while !drops.is_finished() {
        let began = Instant::now();
        let insert = format!(
            "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
             VALUES (gen_random_uuid(), {TENANT}, '2026-01-05T00:00:00Z', '2026-01-05T00:00:00Z', 1, 1, 'SCHEDULE')"
        );
        writer.batch_execute(&insert).await.unwrap();
        slowest = slowest.max(began.elapsed());
        inserted += 1;
    }
    drops.await.unwrap();
    assert!(inserted > 0 && slowest < PATIENCE * 4, "{inserted} inserts, the slowest took {slowest:?}");

    reader.commit().await.unwrap();
    let dropped = drop_closed(&cell.store, &runs_of("2026-01-01"), LIMIT).await.unwrap();
    assert_eq!(dropped, Dropped::Gone);
}

/// One that reads the old day alone: the drop gives up before it stands in anybody's way.
#[tokio::test]
async fn a_drop_that_can_not_have_its_day_does_not_touch_the_whole_table() {
    let (cell, mut sql) = filled().await;
    let reader = sql.transaction().await.unwrap();
    reader.query("SELECT count(*) FROM run_20260101", &[]).await.unwrap();
    let store = cell.store.clone();
    let dropping = tokio::spawn(async move { drop_closed(&store, &runs_of("2026-01-01"), LIMIT).await });
    until_waiting(&cell, "run_20260101").await;
    let writer = cell.connect().await;
    writer.batch_execute("SET lock_timeout = 1").await.unwrap();
    let insert = format!(
        "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
         VALUES (gen_random_uuid(), {TENANT}, '2026-01-05T00:00:00Z', '2026-01-05T00:00:00Z', 1, 1, 'SCHEDULE')"
    );
    writer.batch_execute(&insert).await.expect("no wait at all");
    reader.commit().await.unwrap();
    assert_eq!(dropping.await.unwrap().unwrap(), Dropped::Gone);
}

#[tokio::test]
async fn the_floor_only_rises_and_waits_for_those_that_hold_it() {
    let (cell, mut sql) = filled().await;
    let holder = sql.transaction().await.unwrap();
    holder.query("SELECT floor FROM ledger_floor FOR SHARE", &[]).await.unwrap();
    let store = cell.store.clone();
    let raising = tokio::spawn(async move { raise(&store, "2026-01-03T00:00:00Z").await });
    let eye = cell.connect().await;
    wait_for(LIMIT, "the raise to wait", async || {
        let waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)";
        eye.query_one(waiting, &[]).await.unwrap().get::<_, bool>(0).then_some(())
    })
    .await;
    holder.commit().await.unwrap();
    assert!(raising.await.unwrap());
    assert!(!raise(&cell.store, "2026-01-02T00:00:00Z").await, "it does not fall");
}

async fn raise(store: &Store, to: &str) -> bool {
    let mut client = store.client("raise").await.unwrap();
    let tx = client.begin("raise").await.unwrap();
    let nobody =
        Term { role: fence::Role::Ticker, revision: 0, holder: model::ids::HolderId(uuid::Uuid::nil()) };
    fence::hold(&tx, nobody).await.unwrap();
    let raised = ledger_floor::raise(&tx, at(to)).await.unwrap();
    tx.commit().await.unwrap();
    raised
}

/// Of each table an old row that goes, an old one that is in use, and a young one.
const ROWS: &str = "
    INSERT INTO misfire (job_id, first, last, recorded_at, count, term, cause, policy, outcome)
    SELECT gen_random_uuid(), first::timestamptz, last::timestamptz, '2026-01-01Z', 1, 1, 'NO_TICKER', 'SKIP', 'SKIPPED'
    FROM (VALUES ('2025-01-01Z', '2025-01-02Z'), ('2025-01-01Z', '2026-02-01Z')) m(first, last);
    INSERT INTO verdict (job_id, occurrence, judged_at, deadline, kind, cause)
    SELECT gen_random_uuid(), at, at, at, 'NO_SUCCESS', 'x' FROM unnest('{2025-01-01Z, 2026-02-01Z}'::timestamptz[]) at;
    INSERT INTO alert_channel (id, tenant_id, created_at, name, kind, url)
    VALUES (gen_random_uuid(), '00000000-0000-4000-8000-000000000001', '2025-01-01Z', 'page', 'WEBHOOK', 'https://example.com');
    INSERT INTO alert (id, tenant_id, job_id, opened_at, resolved_at, kind, cause)
    SELECT gen_random_uuid(), '00000000-0000-4000-8000-000000000001', gen_random_uuid(), '2025-01-01Z', at, 'NO_SUCCESS', 'x'
    FROM unnest('{2025-01-01Z, NULL, 2026-02-01Z}'::timestamptz[]) at;
    INSERT INTO alert_delivery (id, alert_id, channel_id, created_at, next_try_at, event, body)
    SELECT gen_random_uuid(), a.id, c.id, a.opened_at, a.opened_at, 'OPENED', '' FROM alert a, alert_channel c;
    INSERT INTO term (role, revision, holder, began_at, ended_at, pid, name, http)
    SELECT role, n, gen_random_uuid(), '2025-01-01Z'::timestamptz + n * interval '1 day', '2025-01-02Z'::timestamptz + n * interval '1 day', 1, 'x', 'x'
    FROM (VALUES ('ticker', 1), ('ticker', 2), ('watchdog', 1)) t(role, n);
    INSERT INTO worker_session (id, dispatcher_id, connected_at, ended_at, slots, name, version, queues)
    SELECT ('00000000-0000-0000-0000-00000000000' || n)::uuid, gen_random_uuid(), '2025-01-01Z', ended::timestamptz, 1, 'x', '', '{default}'
    FROM (VALUES (1, '2025-01-02Z'), (2, NULL), (3, '2026-02-01Z'), (4, '2025-01-02Z')) s(n, ended);
    INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority, undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
    VALUES (gen_random_uuid(), gen_random_uuid(), '00000000-0000-0000-0000-000000000004', gen_random_uuid(), '2025-01-01Z', '2025-01-01Z', 1, 1, 5, 0, 0, 0, 1, 1, 'SCHEDULE', true, 'default');
    INSERT INTO audit_event (at, tenant_id, actor, action, object)
    SELECT at, '00000000-0000-4000-8000-000000000001', 'x', 'x', 'x' FROM unnest('{2025-01-01Z, 2026-02-01Z}'::timestamptz[]) at;
    INSERT INTO idempotency_key (tenant_id, created_at, caller, route, key, body_hash, answer)
    SELECT '00000000-0000-4000-8000-000000000001', at, 'x', 'x', at::text, sha256(''), ''
    FROM unnest('{2025-01-01Z, 2026-02-01Z}'::timestamptz[]) at;
    INSERT INTO run_event (tenant_id, at, phase, job_id, scheduled_for, attempt)
    SELECT gen_random_uuid(), at, 'SUCCEEDED', '{}', '{}', '{}' FROM unnest('{2025-01-01Z, 2026-02-01Z}'::timestamptz[]) at";

#[tokio::test]
async fn old_rows_go_and_those_in_use_stay() {
    let cell = Cell::create().await;
    let sql = cell.connect().await;
    sql.batch_execute(ROWS).await.unwrap();
    let mut client = cell.store.client("expire").await.unwrap();
    for (table, left) in [
        (Table::Misfire, 1),
        (Table::Verdict, 1),
        (Table::Alert, 2),
        (Table::Term, 2),
        (Table::WorkerSession, 3),
        (Table::AuditEvent, 1),
        (Table::IdempotencyKey, 1),
        (Table::RunEvent, 1),
    ] {
        for expected in [1, 0] {
            let tx = client.begin("expire").await.unwrap();
            let gone = retention::expire(&tx, table, at("2026-01-01T00:00:00Z"), 1_000).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(gone, expected, "{}", table.as_str());
        }
        let count = format!("SELECT count(*) FROM {}", table.as_str());
        let found: i64 = sql.query_one(&count, &[]).await.unwrap().get(0);
        assert_eq!(found, left, "{}", table.as_str());
    }
    let deliveries: i64 = sql.query_one("SELECT count(*) FROM alert_delivery", &[]).await.unwrap().get(0);
    assert_eq!(deliveries, 2, "those of the alerts that stay");
}

#[tokio::test]
async fn a_step_deletes_no_more_than_it_may() {
    let cell = Cell::create().await;
    let sql = cell.connect().await;
    let many = format!(
        "INSERT INTO audit_event (at, tenant_id, actor, action, object)
         SELECT '2025-01-01Z', {TENANT}, 'x', 'x', n::text FROM generate_series(1, 25) n"
    );
    sql.batch_execute(&many).await.unwrap();
    let mut client = cell.store.client("expire").await.unwrap();
    for expected in [10, 10, 5, 0] {
        let tx = client.begin("expire").await.unwrap();
        let gone = retention::expire(&tx, Table::AuditEvent, at("2026-01-01T00:00:00Z"), 10).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(gone, expected);
    }
}

#[tokio::test]
async fn how_far_back_the_jobs_reach_is_known() {
    let cell = Cell::create().await;
    assert_eq!(ledger_floor::needed(&cell.store).await.unwrap(), None);
    let sql = cell.connect().await;
    let jobs = format!(
        "INSERT INTO job (id, tenant_id, generation, created_at, updated_at, deleted_at, name, definition)
         SELECT gen_random_uuid(), {TENANT}, 1, esc_now(), esc_now(), deleted::timestamptz, name,
                jsonb_build_object('misfire', jsonb_build_object('policy', policy, 'catch_up_window', catch_up_ms), 'max_runtime', run_ms)
         FROM (VALUES ('catches-up', 'CATCH_UP', 5000, 20, NULL), ('runs-long', 'ONCE', 9000, 5010, NULL),
                      ('gone', 'CATCH_UP', 90000, 20, '2025-01-01Z')) j(name, policy, catch_up_ms, run_ms, deleted)"
    );
    sql.batch_execute(&jobs).await.unwrap();
    let needed = ledger_floor::needed(&cell.store).await.unwrap().unwrap();
    assert_eq!((needed.job.as_str(), needed.reach), ("catches-up", Duration::from_millis(5_020)));
}

/// 100,000 rows of each table, a few of which are old.
const MANY: &str = "
    INSERT INTO misfire (job_id, first, last, recorded_at, count, term, cause, policy, outcome)
    SELECT gen_random_uuid(), at, at, at, 1, 1, 'NO_TICKER', 'SKIP', 'SKIPPED'
    FROM generate_series(1, 100000) n, LATERAL (SELECT '2025-12-31Z'::timestamptz + n * interval '1 minute' AS at) a;
    INSERT INTO verdict (job_id, occurrence, judged_at, deadline, kind, cause)
    SELECT job_id, first, first, first, 'NO_SUCCESS', 'x' FROM misfire;
    INSERT INTO alert (id, tenant_id, job_id, opened_at, resolved_at, kind, cause)
    SELECT gen_random_uuid(), '00000000-0000-4000-8000-000000000001', job_id, first, first, 'NO_SUCCESS', 'x' FROM misfire;
    INSERT INTO worker_session (id, dispatcher_id, connected_at, ended_at, slots, name, version, queues)
    SELECT gen_random_uuid(), gen_random_uuid(), first, first, 1, 'x', '', '{default}' FROM misfire;
    INSERT INTO audit_event (at, tenant_id, actor, action, object)
    SELECT first, '00000000-0000-4000-8000-000000000001', 'x', 'x', 'x' FROM misfire;
    INSERT INTO idempotency_key (tenant_id, created_at, caller, route, key, body_hash, answer)
    SELECT '00000000-0000-4000-8000-000000000001', first, 'x', 'x', job_id::text, sha256(''), '' FROM misfire";

#[tokio::test]
async fn each_search_by_age_uses_its_index() {
    let cell = Cell::create().await;
    let sql = cell.connect().await;
    sql.batch_execute(MANY).await.unwrap();
    sql.batch_execute("VACUUM ANALYZE").await.unwrap();
    let before = at("2026-01-01T00:00:00Z");
    let params: [&(dyn ToSql + Sync); 2] = [&before, &1_000_i64];
    for (statement, index) in [
        (include_str!("../sql/misfire/expire.sql"), "misfire_by_age"),
        (include_str!("../sql/verdict/expire.sql"), "verdict_by_age"),
        (include_str!("../sql/alert/expire.sql"), "alert_resolved"),
        (include_str!("../sql/worker_session/expire.sql"), "worker_session_ended"),
        (include_str!("../sql/audit_event/expire.sql"), "audit_event_by_age"),
        (include_str!("../sql/idempotency_key/expire.sql"), "idempotency_key_by_age"),
    ] {
        let rows = sql.query(&format!("EXPLAIN {statement}"), &params).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains(index), "{plan}");
    }
}
