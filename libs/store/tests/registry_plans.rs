//! What the registry asks uses the indexes that it should, on filled tables.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use chrono::{DateTime, Utc};
use model::ids::TenantId;
use support::Cell;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

/// 20,000 jobs; two days of runs, those of one job each second; 20,000 that wait.
const FILL: &str = "
    SELECT esc_make_partitions(current_date - 3, current_date + 3);
    INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
    SELECT md5(n::text)::uuid, '00000000-0000-4000-8000-000000000001', 1, esc_now(), esc_now(), 'job-' || n, '{}'
    FROM generate_series(1, 20000) n;
    INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
    SELECT md5((n % 4000)::text)::uuid, '00000000-0000-4000-8000-000000000001', at, at, 1, 1, 'SCHEDULE'
    FROM generate_series(1, 400000) n,
         LATERAL (SELECT date_trunc('second', esc_now() - n * interval '0.4 s') AS at) a
    ON CONFLICT DO NOTHING;
    INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
    SELECT '00000000-0000-0000-0000-000000000007', '00000000-0000-4000-8000-000000000001', at, at, 1, 1, 'SCHEDULE'
    FROM generate_series(1, 100000) n,
         LATERAL (SELECT date_trunc('second', esc_now() - n * interval '1 s') AS at) a
    ON CONFLICT DO NOTHING;
    INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
    SELECT md5(n::text)::uuid, '00000000-0000-4000-8000-000000000001', at, at, 1, 0, 'SCHEDULE', true, 'default'
    FROM generate_series(1, 20000) n, LATERAL (SELECT date_trunc('second', esc_now()) + n * interval '1 s' AS at) a;
    INSERT INTO api_token (id, tenant_id, name, role, prefix, hash)
    SELECT gen_random_uuid(), '00000000-0000-4000-8000-000000000001', 't', 'VIEWER', 'esc_', sha256(n::text::bytea)
    FROM generate_series(1, 20000) n;";

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
    let (now, none): (DateTime<Utc>, Vec<String>) = (Utc::now(), Vec::new());
    let jobs = vec![job];
    let hash = [7_u8; 32].as_slice();

    let found = plan(&sql, include_str!("../sql/job/find.sql"), &[&tenant, &Some(job), &"job-7"]).await;
    assert!(found.contains("job_pkey") && found.contains("job_by_name"), "{found}");
    let page = plan(&sql, include_str!("../sql/job/page.sql"), &[&tenant, &"job-5", &100_i64]).await;
    assert!(page.contains("job_by_name") && !page.contains("Sort"), "{page}");
    let token = plan(&sql, include_str!("../sql/api_token/find.sql"), &[&hash]).await;
    assert!(token.contains("api_token_hash_key"), "{token}");
    let runs =
        plan(&sql, include_str!("../sql/history/page.sql"), &[&tenant, &job, &now, &none, &100_i64]).await;
    // A long history is walked from its end, not read whole and sorted.
    assert!(
        runs.contains("Index Scan Backward using run_") && !runs.contains("Key: r.scheduled_for"),
        "{runs}"
    );
    let run = plan(&sql, include_str!("../sql/history/get.sql"), &[&tenant, &job, &now]).await;
    assert!(run.contains("_pkey") && !run.contains("Seq Scan on run_2"), "{run}");
    let unqueue = plan(&sql, include_str!("../sql/job_change/unqueue_planned.sql"), &[&jobs, &now]).await;
    assert!(unqueue.contains("run_queue_pkey"), "{unqueue}");
    let remove =
        plan(&sql, include_str!("../sql/job_change/remove_planned.sql"), &[&jobs, &vec![now], &now, &now])
            .await;
    assert!(remove.contains("_pkey") && !remove.contains("Seq Scan on run_2"), "{remove}");
    let late = plan(&sql, include_str!("../sql/status/lateness.sql"), &[]).await;
    assert!(late.contains("Bitmap Index Scan on run_") && late.contains("scheduled_for_idx"), "{late}");
}
