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
    FROM generate_series(1, 20000) n;
    INSERT INTO run_lease (job_id, tenant_id, claim_id, scheduled_for, claimed_at, generation, token, priority, undelivered, lost,
                           failed, attempt, connection, origin, exclusive, queue)
    SELECT md5(n::text)::uuid, '00000000-0000-4000-8000-000000000001', gen_random_uuid(), date_trunc('second', esc_now()),
           esc_now(), 1, n, 0, 0, 0, 0, 1, 1, 'SCHEDULE', true, 'default'
    FROM generate_series(1, 20000) n;
    INSERT INTO idempotency_key (tenant_id, created_at, caller, route, key, body_hash, answer)
    SELECT '00000000-0000-4000-8000-000000000001', esc_now() - n * interval '10 s', 'ci', 'r', n::text, sha256(''), ''
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
    let token = plan(&sql, include_str!("../sql/api_token/find.sql"), &[&hash]).await;
    assert!(token.contains("api_token_hash_key"), "{token}");
    let runs = plan(
        &sql,
        include_str!("../sql/history/page.sql"),
        &[&tenant, &job, &now, &none, &100_i64, &DateTime::UNIX_EPOCH, &none],
    )
    .await;
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

#[tokio::test]
async fn what_people_ask_for_uses_its_index() {
    let cell = Cell::create().await;
    let sql = cell.connect().await;
    sql.batch_execute(FILL).await.unwrap();
    sql.batch_execute("VACUUM ANALYZE").await.unwrap();
    let (tenant, job) = (TenantId::DEFAULT.0, uuid::Uuid::from_u128(7));
    let now: DateTime<Utc> = Utc::now();
    let from = now - chrono::TimeDelta::hours(1);
    let instants: Vec<DateTime<Utc>> = vec![from, now];
    let by_pkey =
        |plan: &str| assert!(plan.contains("_pkey") && !plan.contains("Seq Scan on run_2"), "{plan}");

    let hold = plan(&sql, include_str!("../sql/job_change/hold.sql"), &[&job]).await;
    assert!(hold.contains("run_queue_pkey"), "{hold}");
    let release = include_str!("../sql/job_change/release_held.sql");
    let (epoch, end) = (DateTime::UNIX_EPOCH, DateTime::from_timestamp(4_102_444_800, 0));
    let release = plan(&sql, release, &[&job, &now, &from, &epoch, &end, &100_i64]).await;
    assert!(release.contains("run_queue_pkey"), "{release}");
    assert!(release.contains("_pkey on run_2"), "{release}"); // empty partitions are read whole
    let open = plan(&sql, include_str!("../sql/manual/open_run.sql"), &[&job]).await;
    assert!(open.contains("Index"), "{open}");
    by_pkey(&plan(&sql, include_str!("../sql/backfill/existing.sql"), &[&job, &instants, &from, &now]).await);
    let insert = include_str!("../sql/backfill/insert.sql");
    let (trace, queue): (Option<&[u8]>, _) = (None, "default");
    let insert = plan(
        &sql,
        insert,
        &[&job, &tenant, &instants, &now, &1_i64, &trace, &true, &100_i64, &0_i16, &queue, &from, &now],
    )
    .await;
    by_pkey(&insert);
    let key: [&(dyn ToSql + Sync); 4] = [&tenant, &"ci", &"r", &"77"];
    let find = plan(&sql, include_str!("../sql/idempotency_key/find.sql"), &key).await;
    assert!(find.contains("idempotency_key_pkey"), "{find}");
    let forget = plan(&sql, include_str!("../sql/idempotency_key/forget.sql"), &[&24_i32, &100_i64]).await;
    assert!(
        forget.contains("idempotency_key_by_age") && !forget.contains("Seq Scan on idempotency_key"),
        "{forget}"
    );
}

#[tokio::test]
async fn tokens_limits_and_the_audit_trail_are_found_by_their_indexes() {
    let cell = Cell::create().await;
    let sql = cell.connect().await;
    sql.batch_execute(
        "INSERT INTO tenant (id, name) SELECT md5(n::text)::uuid, 'tenant-' || n FROM generate_series(1, 2000) n;
         INSERT INTO tenant_limit (tenant_id, max_jobs) SELECT id, 10 FROM tenant;
         INSERT INTO api_token (id, tenant_id, name, role, prefix, hash)
         SELECT gen_random_uuid(), md5((n % 2000 + 1)::text)::uuid, 'token-' || n, 'ADMIN', 'esc_', sha256(n::text::bytea)
         FROM generate_series(1, 20000) n;
         INSERT INTO audit_event (at, tenant_id, actor, action, object)
         SELECT esc_now() - n * interval '1 s', md5((n % 20 + 1)::text)::uuid, 'ci', 'job.update', 'job/' || n
         FROM generate_series(1, 50000) n;
         INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
         SELECT gen_random_uuid(), md5((n % 2000 + 1)::text)::uuid, 1, esc_now(), esc_now(), 'job-' || n, '{}'
         FROM generate_series(1, 20000) n;
         ANALYZE",
    )
    .await
    .unwrap();
    let tenant = sql.query_one("SELECT md5('7')::uuid", &[]).await.unwrap().get::<_, uuid::Uuid>(0);
    let (id, now, text) = (uuid::Uuid::from_u128(7), Utc::now(), None::<String>);
    let at = None::<DateTime<Utc>>;
    let ids = vec![id];
    let statements: [(&str, &[&(dyn ToSql + Sync)], &str); 12] = [
        (
            include_str!("../sql/api_token/page.sql"),
            &[&tenant, &false, &false, &"", &id, &100_i64],
            "api_token_by_name",
        ),
        (
            include_str!("../sql/api_token/named.sql"),
            &[&tenant, &true, &Some(id), &"token-7"],
            "api_token_by_name",
        ),
        (include_str!("../sql/api_token/lock.sql"), &[&tenant, &id], "api_token_by_name"),
        (include_str!("../sql/api_token/other_admins.sql"), &[&tenant, &id], "api_token_by_name"),
        (include_str!("../sql/api_token/revoke.sql"), &[&id], "api_token_pkey"),
        (include_str!("../sql/api_token/lost.sql"), &[&ids], "api_token_pkey"),
        (include_str!("../sql/api_token/note_use.sql"), &[&ids], "api_token_pkey"),
        (
            include_str!("../sql/audit_event/page.sql"),
            &[&tenant, &text, &text, &text, &at, &at, &now, &7_i64, &100_i64],
            "audit_event_by_time",
        ),
        (
            include_str!("../sql/tenant/find.sql"),
            &[&Some("tenant-7"), &None::<uuid::Uuid>],
            "tenant_name_key",
        ),
        (include_str!("../sql/tenant/page.sql"), &[&"tenant-7", &100_i64], "tenant_name_key"),
        (include_str!("../sql/tenant_limit/read.sql"), &[&tenant], "tenant_limit_pkey"),
        (include_str!("../sql/tenant_limit/jobs.sql"), &[&tenant, &11_i64], "job_by_"),
    ];
    for (statement, params, index) in statements {
        let plan = plan(&sql, statement, params).await;
        assert!(plan.contains(index) && !plan.contains("Seq Scan"), "{statement}\n{plan}");
    }
}
