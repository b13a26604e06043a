//! Every statement by which dispatchers work uses its index on full tables.

mod handing;
mod support;

use chrono::{DateTime, Utc};
use handing::Floor;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// Fifty thousand queued rows, leases and ended runs, twenty thousand sessions of which few are open.
const FILL: &str = "
    CREATE TEMP TABLE n AS SELECT i, ('00000000-0000-4000-9000-' || lpad(to_hex(i), 12, '0'))::uuid AS id,
        date_trunc('second', esc_now()) AS at, '00000000-0000-4000-8000-000000000001'::uuid AS tenant
    FROM generate_series(1, 50000) i;
    INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
        SELECT id, tenant, at, at, 1, 1, 'SCHEDULE' FROM n;
    INSERT INTO run_outcome (job_id, tenant_id, scheduled_for, at, token, attempt, state, reason, final)
        SELECT id, tenant, at, at, i, 1, 'FAILED', 'WORK_FAILED', false FROM n;
    INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
        SELECT id, tenant, at, at + (i % 120 - 60) * interval '1 second', 1, 0, 'SCHEDULE', true, 'queue-' || i % 3 FROM n;
    INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
            undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
        SELECT id, tenant, ('00000000-0000-4000-a000-' || lpad(to_hex(i / 10), 12, '0'))::uuid, id, at, at, 1, i, 0, 0, 0, 0, 1, 1,
            'SCHEDULE', true, 'queue-1' FROM n;
    INSERT INTO run_parked (job_id, tenant_id, scheduled_for, parked_at, generation, priority, origin, overlap, queue)
        SELECT id, tenant, at, at, 1, 0, 'SCHEDULE', 'QUEUE', 'queue-1' FROM n;
    INSERT INTO worker_session (id, dispatcher_id, connected_at, ended_at, slots, name, version, queues)
        SELECT ('00000000-0000-4000-a000-' || lpad(to_hex(i), 12, '0'))::uuid, gen_random_uuid(), at,
            CASE WHEN i > 100 THEN at END, 1, 'w', '1', '{default}' FROM n WHERE i <= 20000;
    INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
        SELECT id, tenant, 1, at, at, id::text, '{}' FROM n;
    INSERT INTO job_revision (job_id, generation, in_force_from, action, author, definition)
        SELECT id, 1, at, 'CREATED', 'test', '{}' FROM n;
    ANALYZE;";

#[tokio::test]
async fn dispatchers_statements_use_their_indexes_on_full_tables() {
    let floor = Floor::create().await;
    floor.side.batch_execute(FILL).await.expect("filled");
    let (jobs, instants) =
        (vec![Uuid::from_u128(0x0000_0000_0000_4000_9000_0000_0000_0007); 3], vec![floor.start; 3]);
    let (numbers, tokens) = (vec![1_i32; 3], vec![7_i64; 3]);
    let sessions = vec![Uuid::from_u128(0x0000_0000_0000_4000_a000_0000_0000_0007)];
    let (queues, tenants) = (vec!["queue-1".to_owned()], None::<Vec<Uuid>>);
    let (session, grace, none): (Uuid, i64, Option<DateTime<Utc>>) = (sessions[0], 1_000, None);
    let some_claim = Uuid::new_v4();
    let (limits, generations, dispatchers) = (vec![1_000_i64; 3], vec![1_i64; 3], vec![floor.dispatcher.0]);
    let (since, connections): (DateTime<Utc>, _) = (DateTime::UNIX_EPOCH, vec![1_i32]);
    let holders = vec![session; 3];
    let reason = "REPLACED";
    type Case<'a> = (&'a str, Vec<&'a (dyn ToSql + Sync)>, &'a [&'a str]);
    let statements: [Case<'_>; 26] = [
        ("run_queue/next_due", vec![&queues, &tenants, &since, &grace], &["run_queue_due"]),
        ("run_queue/floor", vec![&queues, &since], &["run_queue_due"]),
        ("run_queue/held", vec![], &["run_queue_"]),
        ("run_queue/coming", vec![&queues, &tenants, &none, &grace, &grace], &["run_queue_due"]),
        ("run_lease/draw_tokens", vec![&some_claim, &sessions], &["run_lease_session", "pkey on run_"]),
        ("run_lease/assignments", vec![&sessions], &["run_lease_session", "pkey on run_"]),
        ("run_lease/of_sessions", vec![&sessions, &grace], &["run_lease_session"]),
        ("run_lease/lock_of_sessions", vec![&sessions], &["run_lease_session"]),
        ("run_lease/read", vec![&jobs, &instants, &grace], &["run_lease_pkey"]),
        (
            "run_lease/accept",
            vec![&jobs, &instants, &numbers, &tokens, &holders, &limits, &limits],
            &["run_lease_pkey"],
        ),
        (
            "run_outcome/recorded",
            vec![&jobs, &instants, &numbers, &tokens, &floor.start, &floor.start],
            &["pkey on run_"],
        ),
        ("run_parked/lock", vec![&jobs], &["run_parked_pkey"]),
        ("run_parked/lock_queue", vec![&jobs, &instants], &["run_queue_pkey"]),
        ("run_parked/lock_leases", vec![&jobs], &["run_lease_"]),
        ("run_parked/park", vec![&jobs, &instants], &["run_queue_pkey"]),
        ("run_parked/unblock", vec![&jobs, &instants], &["run_queue_pkey"]),
        (
            "run_parked/wake",
            vec![&jobs, &floor.start, &floor.start],
            &["run_parked_pkey", "run_lease_", "pkey on run_"],
        ),
        ("run_parked/idle", vec![], &["run_parked_pkey", "run_lease_"]),
        ("run_cancel/request", vec![&jobs, &instants, &reason], &["run_lease_pkey"]),
        ("run_cancel/pending", vec![&floor.dispatcher.0], &["run_lease_cancel"]),
        ("run_rerun/lock", vec![&jobs[0], &floor.start], &["pkey"]),
        ("run_rerun/rerun", vec![&jobs[0], &floor.start, &floor.start], &["pkey"]),
        ("worker_session/hold", vec![&sessions], &["worker_session_pkey"]),
        ("worker_session/end", vec![&sessions, &dispatchers, &connections], &["worker_session"]),
        ("worker_session/of_dispatcher", vec![&floor.dispatcher.0], &["worker_session_open"]),
        ("job_revision/specs", vec![&jobs, &generations], &["job_revision_pkey", "job_pkey"]),
    ];
    for (name, params, indexes) in statements {
        let path = format!("{}/sql/{name}.sql", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("a statement");
        let rows = floor.side.query(&format!("EXPLAIN {text}"), &params).await.expect(name);
        let plan = rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n");
        for index in indexes {
            assert!(plan.contains(index), "{name} does not use {index}:\n{plan}");
        }
        // The other days' partitions are empty.
        let today = floor.start.format("run_%Y%m%d").to_string();
        for hot in ["run_queue", "run_lease", "run_parked", "worker_session", "job_revision", &today] {
            assert!(!plan.contains(&format!("Seq Scan on {hot}")), "{name} reads all of {hot}:\n{plan}");
        }
    }
}
