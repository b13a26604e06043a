//! What the planner asks uses the indexes that it should, on filled tables.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use chrono::{DateTime, Utc};
use support::Cell;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// 20,000 jobs with two revisions each, planned up to an hour ahead; 100,000 runs that wait, a few of them overdue, one
/// late; a backlog with a long past.
const FILL: &str = "
    SELECT esc_make_partitions(current_date - 3, current_date + 3);
    INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
    SELECT md5(n::text)::uuid, '00000000-0000-4000-8000-000000000001', 2, esc_now(), esc_now(), 'job-' || n,
           jsonb_build_object('run', repeat('x', 600))
    FROM generate_series(1, 20000) n;
    INSERT INTO job_revision (job_id, generation, in_force_from, action, author, definition)
    SELECT id, g, esc_now() - interval '3 days' + g * interval '1 hour', CASE g WHEN 1 THEN 'CREATED' ELSE 'CHANGED' END, 'test', definition
    FROM job, generate_series(1, 2) g;
    INSERT INTO job_cursor (job_id, next_fire_at, generation)
    SELECT id, esc_now() + random() * interval '1 hour', 2 FROM job;
    INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, start_by, generation, priority, origin, exclusive, queue)
    SELECT md5((n % 20000)::text)::uuid, '00000000-0000-4000-8000-000000000001', at, at, at + interval '60 s', 1, 0, 'SCHEDULE', true, 'default'
    FROM generate_series(1, 100000) n, LATERAL (SELECT date_trunc('second', esc_now()) + (n - 80) * interval '1 s' AS at) a
    ON CONFLICT DO NOTHING;
    UPDATE run_queue SET late = true, start_by = NULL WHERE scheduled_for = (SELECT min(scheduled_for) FROM run_queue);
    INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
    SELECT '00000000-0000-0000-0000-000000000007', '00000000-0000-4000-8000-000000000001', at, at, 1, 1, 'CATCH_UP'
    FROM generate_series(1, 200000) n, LATERAL (SELECT date_trunc('second', esc_now()) - n * interval '1 s' AS at) a
    ON CONFLICT DO NOTHING;
    INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
    SELECT md5((n % 4000)::text)::uuid, '00000000-0000-4000-8000-000000000001', at, at, 1, 1, 'SCHEDULE'
    FROM generate_series(1, 200000) n, LATERAL (SELECT date_trunc('second', esc_now() - n * interval '0.8 s') AS at) a
    ON CONFLICT DO NOTHING;
    INSERT INTO run_outcome (job_id, tenant_id, scheduled_for, at, attempt, state, reason, final)
    SELECT job_id, tenant_id, scheduled_for, scheduled_for, 0, 'SKIPPED', 'MISSED', true FROM run;
    INSERT INTO catch_up (job_id, next_at, through, remaining)
    VALUES ('00000000-0000-0000-0000-000000000007', esc_now() - interval '2000 s', esc_now() - interval '1000 s', 1000);";

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
    let jobs: Vec<Uuid> = sql
        .query("SELECT job_id FROM job_cursor ORDER BY next_fire_at LIMIT 50", &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    let now: DateTime<Utc> = Utc::now();
    let instants = vec![now; jobs.len()];

    let due = plan(&sql, include_str!("../sql/job_cursor/lock_due.sql"), &[&60_000_i64, &500_i64]).await;
    assert!(due.contains("job_cursor_due") && !due.contains("Sort"), "{due}");
    let lock = plan(&sql, include_str!("../sql/job_cursor/lock.sql"), &[&jobs]).await;
    assert!(lock.contains("job_cursor_pkey"), "{lock}");
    let none: Vec<Option<i64>> = vec![None; jobs.len()];
    let read = plan(&sql, include_str!("../sql/job_cursor/read.sql"), &[&jobs, &none]).await;
    let whole = ["Seq Scan on job j", "Seq Scan on job_revision"];
    assert!(whole.iter().all(|scan| !read.contains(scan)), "{read}");
    let advance = plan(&sql, include_str!("../sql/job_cursor/advance.sql"), &[&jobs, &instants]).await;
    assert!(advance.contains("job_cursor_pkey"), "{advance}");

    let overdue = plan(&sql, include_str!("../sql/misfire/overdue_jobs.sql"), &[&500_i64]).await;
    assert!(overdue.contains("run_queue_start_by"), "{overdue}");
    for statement in
        [include_str!("../sql/misfire/lock_waiting.sql"), include_str!("../sql/misfire/waiting.sql")]
    {
        let waiting = plan(&sql, statement, &[&jobs, &now]).await;
        assert!(!waiting.contains("Seq Scan"), "{waiting}");
    }
    let causes: Vec<&str> = jobs.iter().map(|_| "UNKNOWN").collect();
    // A day that is full of runs, also in the first minutes after midnight.
    let past = now - chrono::TimeDelta::hours(30);
    let missed = vec![past; jobs.len()];
    let explain =
        plan(&sql, include_str!("../sql/misfire/explain.sql"), &[&jobs, &missed, &causes, &past, &past])
            .await;
    assert!(explain.contains("run_outcome_2") && explain.contains("_pkey"), "{explain}");

    let backlog = vec![Uuid::from_u128(7)];
    let (from, through) = (DateTime::UNIX_EPOCH, now + chrono::TimeDelta::days(365));
    let (keep, since) = (vec![30_i64], vec![now - chrono::TimeDelta::days(7)]);
    let overflow =
        plan(&sql, include_str!("../sql/catch_up/overflow.sql"), &[&backlog, &keep, &since, &from, &through])
            .await;
    let by_key = |plan: &str| plan.contains("_pkey on run_2") && !plan.contains("Seq Scan on run_queue");
    assert!(by_key(&overflow), "{overflow}");
    let next =
        plan(&sql, include_str!("../sql/catch_up/release_next.sql"), &[&backlog, &from, &through]).await;
    assert!(by_key(&next), "{next}");

    let next_jobs = plan(&sql, include_str!("../sql/tzdata/jobs.sql"), &[&Uuid::nil(), &200_i64]).await;
    assert!(next_jobs.contains("job_pkey") && !next_jobs.contains("Sort"), "{next_jobs}");
    let today = vec![now - chrono::TimeDelta::hours(12); jobs.len()];
    let ran = plan(&sql, include_str!("../sql/tzdata/ran.sql"), &[&jobs, &today, &now, &today[0]]).await;
    assert!(by_key(&ran), "{ran}");
}
