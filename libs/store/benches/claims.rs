//! What slows a claim: waiting rows of another queue, parked runs, a transaction that stays open for minutes, a limit.
//!
//! Each case has a database of its own on one PostgreSQL, and they take turns, so that the ratio to an empty database
//! holds on a busy machine too. Prints a line for each figure, for `cargo xtask bench claims`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark fails by a panic that names the cause"
)]

#[path = "../tests/handing/mod.rs"]
mod handing;
#[path = "../tests/support/mod.rs"]
mod support;

use handing::Floor;
use model::ids::{SessionId, TenantId};
use std::time::{Duration, Instant};
use store::run_queue::Request;

/// Claims of each case that count, and those before that warm it up.
const CLAIMS: usize = 101;
const WARM: usize = 10;
/// Runs a claim.
const BATCH: i64 = 50;
/// How much longer than on an empty database a claim may take. Not so when a limited tenant's runs have come and gone under
/// an old snapshot: what counts against the limit is looked for among them.
const RATIO_MAX: f64 = 2.0;

/// A database, and what makes it harder than an empty one.
struct Case {
    name: &'static str,
    floor: Floor,
    worker: SessionId,
    /// Keeps its snapshot.
    open: Option<tokio_postgres::Client>,
    claims: Vec<Duration>,
    looks: Vec<Duration>,
}

impl Case {
    async fn new(name: &'static str) -> Self {
        let floor = Floor::create().await;
        let jobs = format!(
            "CREATE TABLE bench_job AS SELECT gen_random_uuid() AS id FROM generate_series(1, {BATCH});
             CREATE SEQUENCE bench_second"
        );
        floor.side.batch_execute(&jobs).await.unwrap();
        let model = floor.job().await;
        let define = "WITH made AS (INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
                SELECT b.id, j.tenant_id, 1, j.created_at, j.updated_at, left(b.id::text, 36), j.definition
                FROM bench_job b, job j WHERE j.id = $1 RETURNING id)
            INSERT INTO job_revision (job_id, generation, in_force_from, action, author, definition)
            SELECT m.id, 1, v.in_force_from, v.action, v.author, v.definition FROM made m, job_revision v WHERE v.job_id = $1";
        floor.side.execute(define, &[&model.0]).await.unwrap();
        floor.side.batch_execute("ANALYZE").await.unwrap();
        let worker = floor.worker().await;
        Self { name, floor, worker, open: None, claims: Vec::new(), looks: Vec::new() }
    }

    async fn with(name: &'static str, sql: &str) -> Self {
        let case = Self::new(name).await;
        case.floor.side.batch_execute(sql).await.unwrap();
        case.floor.side.batch_execute("ANALYZE").await.unwrap();
        case
    }

    /// Two minutes of 500 runs a second of the same worker have come and gone since a snapshot was taken.
    async fn with_snapshot(name: &'static str, limits: &str) -> Self {
        let mut case = Self::with(name, limits).await;
        let open = case.floor.cell.connect().await;
        open.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM run").await.unwrap();
        case.open = Some(open);
        let churn = "CREATE TEMP TABLE gone AS SELECT gen_random_uuid() AS id, esc_now() - n * interval '2 milliseconds' AS at
                FROM generate_series(1, 60000) n";
        case.floor.side.batch_execute(churn).await.unwrap();
        let queue = "INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
            SELECT id, $1, at, at, 1, 0, 'SCHEDULE', false, 'default' FROM gone";
        case.floor.side.execute(queue, &[&TenantId::DEFAULT.0]).await.unwrap();
        let lease = "INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token,
                priority, undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
            SELECT id, $1, $2, gen_random_uuid(), at, at, 1, 1, 0, 0, 0, 0, 1, 1, 'SCHEDULE', false, 'default' FROM gone";
        case.floor.side.execute(lease, &[&TenantId::DEFAULT.0, &case.worker.0]).await.unwrap();
        case.floor.side.batch_execute("DELETE FROM run_queue; DELETE FROM run_lease").await.unwrap();
        case
    }

    /// One claim of a full batch, timed, after a look for it; what it took is gone afterwards.
    async fn claim(&mut self, counts: bool) {
        let fill = "WITH due AS MATERIALIZED (
                SELECT b.id, date_trunc('second', esc_now()) - interval '12 hours' + s.n * interval '1 second' AS at
                FROM bench_job b, (SELECT nextval('bench_second') AS n) s), run AS (
            INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
                SELECT id, $1, at, esc_now(), 1, 1, 'SCHEDULE' FROM due)
            INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
                SELECT id, $1, at, esc_now(), 1, 0, 'SCHEDULE', false, 'default' FROM due";
        self.floor.side.execute(fill, &[&TenantId::DEFAULT.0]).await.unwrap();
        // As a dispatcher's: raised five seconds ago, when it was ten seconds behind.
        let floor = self.floor.one("SELECT esc_now() - interval '15 seconds'").await;
        let slots = usize::try_from(BATCH).unwrap();
        let request = Request { floor, ..self.floor.request(self.worker, slots) };
        let store = &self.floor.cell.store;
        let began = Instant::now();
        let due = store::run_queue::next_due(store, &request.queues, None, floor, Duration::from_secs(1))
            .await
            .unwrap();
        let looked = began.elapsed();
        let claimed = store::run_queue::claim(store, &request).await.unwrap();
        let took = began.elapsed() - looked;
        assert!(due.overdue && claimed.assignments.len() == slots, "{}: {claimed:?}", self.name);
        if counts {
            self.claims.push(took);
            self.looks.push(looked);
        }
        let gone = "DELETE FROM run_lease WHERE session_id = $1";
        self.floor.side.execute(gone, &[&self.worker.0]).await.unwrap();
    }
}

const OTHER_QUEUE: &str = "INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
    SELECT gen_random_uuid(), '00000000-0000-4000-8000-000000000001', date_trunc('second', esc_now()),
           esc_now() - n * interval '1 millisecond', 1, n % 3, 'SCHEDULE', true, 'another' FROM generate_series(1, 100000) n";
const PARKED: &str = "CREATE TEMP TABLE blocked AS SELECT gen_random_uuid() AS id, gen_random_uuid() AS session FROM generate_series(1, 3600);
    INSERT INTO run_parked (job_id, tenant_id, scheduled_for, parked_at, generation, priority, origin, overlap, queue)
    SELECT id, '00000000-0000-4000-8000-000000000001', date_trunc('second', esc_now()), esc_now(), 1, 0, 'SCHEDULE', 'QUEUE', 'default'
    FROM blocked;
    INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
            undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
    SELECT id, '00000000-0000-4000-8000-000000000001', session, id, date_trunc('second', esc_now()), esc_now(), 1, 1, 0, 0, 0, 0, 1, 1,
           'SCHEDULE', true, 'default' FROM blocked";
const LIMIT_AND_SNAPSHOT: &str = "a limit, a snapshot of two minutes";
const LIMITS: &str = "UPDATE tenant SET max_running = 1000";
const TENANTS: &str = "INSERT INTO tenant (id, name) SELECT gen_random_uuid(), 'tenant-' || n FROM generate_series(1, 1000) n;
    INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
    SELECT gen_random_uuid(), id, date_trunc('second', esc_now()), esc_now() + interval '1 hour', 1, 0, 'SCHEDULE', true, 'default'
    FROM tenant";

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1_000.0
}

#[tokio::main]
async fn main() {
    let mut cases = [
        Case::new("empty").await,
        Case::with("100,000 waiting rows of another queue", OTHER_QUEUE).await,
        Case::with("3,600 parked runs", PARKED).await,
        Case::with_snapshot("a snapshot of two minutes", "SELECT").await,
        Case::with("a limit", LIMITS).await,
        Case::with_snapshot(LIMIT_AND_SNAPSHOT, LIMITS).await,
        Case::with("1,000 tenants with planned runs", TENANTS).await,
    ];
    for round in 0..WARM + CLAIMS {
        for case in &mut cases {
            case.claim(round >= WARM).await;
        }
    }
    let mut empty = 0.0;
    for case in &mut cases {
        let (claim, look) = (median(&mut case.claims), median(&mut case.looks));
        let name = case.name;
        println!("FIGURE\tclaim of {BATCH}: {name}\t{claim:.3}\tms\tinf");
        println!("FIGURE\tlook before it: {name}\t{look:.3}\tms\tinf");
        if empty == 0.0 {
            empty = claim;
        } else {
            let target = if name == LIMIT_AND_SNAPSHOT { f64::INFINITY } else { RATIO_MAX };
            println!("FIGURE\tratio to empty: {name}\t{:.3}\t×\t{target}", claim / empty);
        }
    }
}
