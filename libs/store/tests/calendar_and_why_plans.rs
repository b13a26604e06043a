//! What calendars and `why` ask uses the indexes that it should, on filled tables.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use chrono::{DateTime, Utc};
use model::ids::TenantId;
use serde_json::json;
use support::Cell;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

/// 20,000 jobs, each with a run that waits, of which 100 name one of 2,000 calendars; ten definitions and misfires of each
/// of 2,000 jobs.
const FILL: &str = "
    SELECT esc_make_partitions(current_date - 1, current_date + 1);
    INSERT INTO calendar (tenant_id, version, created_at, updated_at, name)
    SELECT '00000000-0000-4000-8000-000000000001', 1, esc_now(), esc_now(), 'calendar-' || n FROM generate_series(1, 2000) n;
    INSERT INTO calendar_version (tenant_id, version, created_at, name, author, dates)
    SELECT tenant_id, 1, created_at, name, 'test', ARRAY[date '2026-12-25'] FROM calendar;
    INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
    SELECT md5(n::text)::uuid, '00000000-0000-4000-8000-000000000001', 1, esc_now(), esc_now(), 'job-' || n,
           jsonb_build_object('calendars', CASE WHEN n % 200 = 0
               THEN jsonb_build_object('exclude', jsonb_build_array(jsonb_build_object('name', 'calendar-' || n / 200, 'version', 1)))
               ELSE '{}' END)
    FROM generate_series(1, 20000) n;
    INSERT INTO job_revision (job_id, generation, in_force_from, action, author, definition)
    SELECT md5(n::text)::uuid, g, esc_now() - g * interval '1 hour', 'CHANGED', 'test', '{}'
    FROM generate_series(1, 2000) n, generate_series(1, 10) g;
    INSERT INTO misfire (job_id, first, last, recorded_at, count, term, cause, policy, outcome)
    SELECT md5(n::text)::uuid, at, at, at, 1, 1, 'NO_TICKER', 'SKIP', 'SKIPPED'
    FROM generate_series(1, 2000) n, generate_series(1, 10) g, LATERAL (SELECT esc_now() - g * interval '1 hour' AS at) a;
    INSERT INTO run_outcome (job_id, tenant_id, scheduled_for, at, attempt, state, reason, final)
    SELECT md5(n::text)::uuid, '00000000-0000-4000-8000-000000000001', at, at, 0, 'SKIPPED', 'MISSED', true
    FROM generate_series(1, 20000) n, LATERAL (SELECT date_trunc('second', esc_now()) AS at) a;
    INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
    SELECT md5(n::text)::uuid, '00000000-0000-4000-8000-000000000001', at, at, 1, 0, 'SCHEDULE', true, 'default'
    FROM generate_series(1, 20000) n, LATERAL (SELECT date_trunc('second', esc_now()) AS at) a;";

async fn plan(sql: &Client, query: &str, params: &[&(dyn ToSql + Sync)]) -> String {
    let rows = sql.query(&format!("EXPLAIN {query}"), params).await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn each_look_uses_its_index() {
    let cell = Cell::create().await;
    let sql = cell.connect().await;
    sql.batch_execute(FILL).await.unwrap();
    sql.batch_execute("VACUUM ANALYZE").await.unwrap();
    let (tenant, job) = (TenantId::DEFAULT.0, uuid::Uuid::from_u128(7));
    let now: DateTime<Utc> = Utc::now();
    let uses = |plan: &str, index: &str| assert!(plan.contains(index), "{index} in {plan}");

    let patterns: Vec<_> =
        ["exclude", "only"].map(|list| json!({ list: [{ "name": "calendar-7" }] })).to_vec();
    let users =
        plan(&sql, include_str!("../sql/calendar/used_by.sql"), &[&tenant, &patterns, &i64::MAX]).await;
    uses(&users, "job_by_calendar");
    let names = vec!["calendar-7"];
    for statement in [
        include_str!("../sql/calendar/find.sql"),
        include_str!("../sql/calendar/hold.sql"),
        include_str!("../sql/calendar/lock.sql"),
    ] {
        uses(&plan(&sql, statement, &[&tenant, &names]).await, "calendar_pkey");
    }
    let page = include_str!("../sql/calendar/page.sql");
    let page = plan(&sql, page, &[&tenant, &"calendar-5", &101_i64, &50_000_i64]).await;
    uses(&page, "calendar_pkey");
    let dates = include_str!("../sql/calendar/dates.sql");
    uses(&plan(&sql, dates, &[&vec![tenant], &names, &vec![1_i64]]).await, "calendar_version_pkey");

    let revisions = include_str!("../sql/why/revisions.sql");
    let revisions = plan(&sql, revisions, &[&job, &now, &Some(1_i64)]).await;
    uses(&revisions, "job_revision_pkey");
    assert!(!revisions.contains("Seq Scan on job_revision"), "{revisions}");
    uses(&plan(&sql, include_str!("../sql/why/missed.sql"), &[&job, &now]).await, "misfire_pkey");
    let background = plan(&sql, include_str!("../sql/why/background.sql"), &[&job, &now, &1_i64]).await;
    assert!(
        background.contains("_pkey") && !background.contains("Seq Scan on run_outcome_2"),
        "{background}"
    );
    let unserved = include_str!("../sql/why/unserved.sql");
    uses(&plan(&sql, unserved, &[&job, &now, &15_000_i64]).await, "run_queue_pkey");
    uses(&plan(&sql, include_str!("../sql/why/moment.sql"), &[&job]).await, "job_cursor");
}

#[tokio::test]
async fn a_question_sees_one_moment_and_changes_nothing() {
    let cell = Cell::create().await;
    let sql = cell.connect().await;
    sql.batch_execute("BEGIN").await.unwrap();
    sql.execute(include_str!("../sql/why/snapshot.sql"), &[]).await.unwrap();
    let before: i64 = sql.query_one("SELECT count(*) FROM tenant", &[]).await.unwrap().get(0);
    let other = cell.connect().await;
    other.execute("INSERT INTO tenant (id, name) VALUES (gen_random_uuid(), 'new')", &[]).await.unwrap();
    let after: i64 = sql.query_one("SELECT count(*) FROM tenant", &[]).await.unwrap().get(0);
    assert_eq!(before, after);
    assert!(sql.execute("UPDATE tenant SET name = 'changed' WHERE name = 'new'", &[]).await.is_err());
}
