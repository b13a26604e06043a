//! Tenants' shares and limits, as claims apply them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod handing;
mod support;

use futures_util::future::join_all;
use handing::Floor;
use model::ids::{JobId, RunKey, SessionId, TenantId};
use model::run::{Reason, State};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use store::run_end::End;
use store::run_lease::assignment::Assignment;
use store::run_queue::{Claimed, Request, Tenants, claim};
use store::tenant::Limits;
use uuid::Uuid;

/// A tenant with these limits.
async fn tenant(floor: &Floor, name: &str, limits: &Limits) -> TenantId {
    let tenant = TenantId(Uuid::new_v4());
    let sql = "INSERT INTO tenant (id, name) VALUES ($1, $2)";
    floor.side.execute(sql, &[&tenant.0, &name]).await.unwrap();
    limit(floor, tenant, limits).await;
    tenant
}

async fn limit(floor: &Floor, tenant: TenantId, limits: &Limits) {
    let mut client = floor.cell.store.client("set limits").await.unwrap();
    let tx = client.begin("set limits").await.unwrap();
    assert!(store::tenant::set(&tx, tenant, limits).await.unwrap());
    assert_eq!(store::tenant::read(&tx, tenant).await.unwrap().as_ref(), Some(limits));
    tx.commit().await.unwrap();
}

/// So many due runs of a tenant, each of a job of its own, in queue `queue` with this priority.
async fn herd(floor: &Floor, tenant: TenantId, runs: i64, queue: &str, priority: i16) {
    let model = floor.job().await;
    let sql = "WITH new AS MATERIALIZED (SELECT gen_random_uuid() AS id, $1::uuid AS tenant_id FROM generate_series(1, $2::bigint)),
        jobs AS (INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
            SELECT n.id, n.tenant_id, 1, esc_now(), esc_now(), left(n.id::text, 36), j.definition FROM new n, job j WHERE j.id = $3),
        revisions AS (INSERT INTO job_revision (job_id, generation, in_force_from, action, author, definition)
            SELECT n.id, 1, esc_now(), 'CREATED', 'test', j.definition FROM new n, job j WHERE j.id = $3),
        runs AS (INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
            SELECT id, tenant_id, $4, $4, 1, 1, 'SCHEDULE' FROM new)
        INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
            SELECT id, tenant_id, $4, $4, 1, $6, 'SCHEDULE', true, $5 FROM new";
    let due = floor.start - chrono::Duration::seconds(5);
    let written =
        floor.side.execute(sql, &[&tenant.0, &runs, &model.0, &due, &queue, &priority]).await.unwrap();
    assert_eq!(written, u64::try_from(runs).unwrap());
}

fn only(queues: &[&str]) -> Vec<String> {
    queues.iter().map(ToString::to_string).collect()
}

/// Claims as a dispatcher does: each goes on where the last one ran out of slots.
struct Claimer<'a> {
    floor: &'a Floor,
    session: SessionId,
    next: Tenants,
}

impl<'a> Claimer<'a> {
    async fn new(floor: &'a Floor) -> Self {
        Self { floor, session: floor.worker().await, next: Tenants::After(TenantId(Uuid::nil())) }
    }

    async fn claim(&mut self, slots: usize) -> Claimed {
        let request = Request { tenants: self.next, ..self.floor.request(self.session, slots) };
        let claimed = claim(&self.floor.cell.store, &request).await.unwrap();
        self.next = claimed.next().unwrap_or(self.next);
        claimed
    }
}

fn by_tenant(assignments: &[Assignment]) -> BTreeMap<TenantId, usize> {
    let mut counts = BTreeMap::new();
    for assignment in assignments {
        *counts.entry(assignment.tenant).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn a_herd_of_ten_thousand_leaves_room_for_the_one_run_of_another_tenant() {
    let floor = Floor::create().await;
    let (large, small) = (TenantId::DEFAULT, tenant(&floor, "small", &Limits::default()).await);
    herd(&floor, large, 10_000, "default", 0).await;
    herd(&floor, small, 1, "default", 9).await;
    // Slots by the hundred, or one at a time: it is served in the first or the second claim.
    let mut claimer = Claimer::new(&floor).await;
    let first = by_tenant(&claimer.claim(100).await.assignments);
    assert_eq!(first.get(&small), Some(&1), "{first:?}");
    assert!(first[&large] >= 50, "{first:?}");
    herd(&floor, small, 1, "default", 9).await;
    let mut served = Vec::new();
    for _ in 0..2 {
        served.extend(claimer.claim(1).await.assignments.iter().map(|assignment| assignment.tenant));
    }
    assert!(served.contains(&small), "{served:?}");
}

/// By weight, whether slots become free one at a time or by the dozen.
#[tokio::test]
async fn tenants_share_the_slots_by_weight() {
    let floor = Floor::create().await;
    let heavy = tenant(&floor, "heavy", &Limits { weight: 3, ..Limits::default() }).await;
    let light = tenant(&floor, "light", &Limits::default()).await;
    for slots in [1, 2, 7, 24] {
        herd(&floor, heavy, 300, "default", 0).await;
        herd(&floor, light, 300, "default", 0).await;
        let (mut claimer, mut got) = (Claimer::new(&floor).await, BTreeMap::new());
        while got.values().sum::<usize>() < 120 {
            let claimed = claimer.claim(slots).await;
            assert!(!claimed.assignments.is_empty(), "there is work for everybody");
            for (tenant, count) in by_tenant(&claimed.assignments) {
                *got.entry(tenant).or_default() += count;
            }
        }
        let total: usize = got.values().sum();
        assert!((got[&heavy] * 4).abs_diff(total * 3) <= 4 * slots.min(8), "{slots} slots: {got:?}");
    }
}

/// More tenants than one claim serves, most of them at a limit: the claims come to each in its turn.
#[tokio::test]
async fn tenants_that_may_start_nothing_do_not_hide_the_others() {
    let floor = Floor::create().await;
    for number in 0..150 {
        let nothing = Limits { max_running: Some(0), ..Limits::default() };
        let tenant = tenant(&floor, &format!("full-{number}"), &nothing).await;
        herd(&floor, tenant, 1, "default", 0).await;
    }
    let free = tenant(&floor, "free", &Limits::default()).await;
    herd(&floor, free, 1, "default", 0).await;
    let mut claimer = Claimer::new(&floor).await;
    let mut claims = 0;
    loop {
        let claimed = claimer.claim(10).await;
        claims += 1;
        if claimed.moved() {
            assert_eq!(by_tenant(&claimed.assignments), BTreeMap::from([(free, 1)]));
            break;
        }
        assert!(claimed.held > 0 && claimed.tenants == store::run_queue::TENANTS_MAX, "{claimed:?}");
        assert!(claims < 3, "151 tenants are three claims");
    }
}

/// Four claimers at once and finishers behind them: never more than the limit, and never fewer than could be for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_tenant_never_has_more_runs_than_its_limit_however_many_claim() {
    const LIMIT: i64 = 3;
    const RUNS: i64 = 2_000;
    let floor = Floor::create().await;
    let limits = Limits { max_running: Some(3), ..Limits::default() };
    let limited = tenant(&floor, "limited", &limits).await;
    herd(&floor, limited, RUNS, "default", 0).await;
    // What the ledger's own order of commits says: a lease that comes counts those there are.
    floor
        .side
        .batch_execute(
            "CREATE TABLE seen (running bigint);
             CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO seen SELECT count(*) FROM run_lease WHERE session_id IS NOT NULL; RETURN NULL; END $$;
             CREATE TRIGGER look AFTER INSERT ON run_lease FOR EACH STATEMENT EXECUTE FUNCTION look()",
        )
        .await
        .unwrap();
    let ended = AtomicI64::new(0);
    let (floor, ended) = (&floor, &ended);
    let claimers = (0..4).map(|_| async move {
        let mut claimer = Claimer::new(floor).await;
        while ended.load(Ordering::Relaxed) < RUNS {
            let claimed = claimer.claim(5).await;
            assert!(claimed.assignments.len() <= 3, "{claimed:?}");
            let running = running(floor).await;
            assert!(running <= LIMIT, "{running} at a time");
            for assignment in &claimed.assignments {
                floor.succeed(assignment).await;
                ended.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    join_all(claimers).await;
    assert_eq!(floor.one::<i64>("SELECT count(*) FROM run_lease").await, 0);
    assert_eq!(floor.one::<i64>("SELECT max(running) FROM seen").await, LIMIT);
}

async fn running(floor: &Floor) -> i64 {
    let client = floor.cell.store.client("count").await.unwrap();
    let sql = "SELECT count(*) FROM run_lease WHERE session_id IS NOT NULL";
    client.query("count", sql, &[]).await.unwrap()[0].get(0)
}

/// Another claim's transaction has started the last run that the limit allows, and has not committed.
#[tokio::test]
async fn a_claim_leaves_out_a_tenant_that_another_one_holds_and_takes_the_others() {
    let floor = Floor::create().await;
    let limited = tenant(&floor, "limited", &Limits { max_running: Some(1), ..Limits::default() }).await;
    herd(&floor, limited, 2, "default", 0).await;
    let other = floor.cell.connect().await;
    other.batch_execute("BEGIN").await.unwrap();
    let lock = "SELECT id FROM tenant WHERE id = $1 FOR NO KEY UPDATE";
    other.query_one(lock, &[&limited.0]).await.unwrap();
    herd(&floor, TenantId::DEFAULT, 1, "default", 0).await;
    let mut claimer = Claimer::new(&floor).await;
    let claimed = claimer.claim(10).await;
    assert_eq!(by_tenant(&claimed.assignments), BTreeMap::from([(TenantId::DEFAULT, 1)]));
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(by_tenant(&claimer.claim(10).await.assignments), BTreeMap::from([(limited, 1)]));
    // Who defines a job holds the tenant's key: that keeps nobody from claiming.
    floor.side.execute("DELETE FROM run_lease", &[]).await.unwrap();
    other.batch_execute("BEGIN").await.unwrap();
    other.query_one("SELECT id FROM tenant WHERE id = $1 FOR KEY SHARE", &[&limited.0]).await.unwrap();
    assert_eq!(by_tenant(&claimer.claim(10).await.assignments), BTreeMap::from([(limited, 1)]));
}

#[tokio::test]
async fn a_run_that_waits_for_its_retry_takes_no_place_and_needs_one_to_go_on() {
    let floor = Floor::create().await;
    let limited = tenant(&floor, "limited", &Limits { max_running: Some(1), ..Limits::default() }).await;
    herd(&floor, limited, 2, "default", 0).await;
    let mut claimer = Claimer::new(&floor).await;
    let first = claimer.claim(5).await.assignments;
    assert_eq!(first.len(), 1);
    floor.fail(&first[0], std::time::Duration::ZERO).await;
    let taken = claimer.claim(5).await.assignments;
    assert_eq!(taken.len(), 1, "one of the two, not both");
    assert!(!claimer.claim(5).await.moved());
    floor.succeed(&taken[0]).await;
    assert_eq!(claimer.claim(5).await.assignments.len(), 1);
}

#[tokio::test]
async fn a_queue_has_its_own_limit_beside_its_tenants() {
    let floor = Floor::create().await;
    let queues = BTreeMap::from([("narrow".to_owned(), 2)]);
    let limits = Limits { max_running: Some(5), queues, ..Limits::default() };
    let limited = tenant(&floor, "limited", &limits).await;
    for queue in ["narrow", "wide"] {
        herd(&floor, limited, 10, queue, 0).await;
    }
    let worker = floor.worker().await;
    let take = async |queues: &[&str]| {
        let request = Request { queues: only(queues), ..floor.request(worker, 10) };
        claim(&floor.cell.store, &request).await.unwrap().assignments.len()
    };
    assert_eq!(take(&["narrow"]).await, 2);
    assert_eq!(take(&["narrow"]).await, 0);
    assert_eq!(take(&["narrow", "wide"]).await, 3, "five of the tenant's, two of them in the narrow queue");
    assert_eq!(take(&["wide"]).await, 0);
    let held = "SELECT count(*) FROM queue_limit WHERE held_through >= held_from";
    assert_eq!(floor.one::<i64>(held).await, 1, "it says that it held something back");
    limit(&floor, limited, &Limits::default()).await;
    assert_eq!(take(&["narrow"]).await, 8);
}

#[tokio::test]
async fn starts_keep_to_their_rate() {
    let floor = Floor::create().await;
    let limits = Limits { max_starts_per_second: Some(50), ..Limits::default() };
    let limited = tenant(&floor, "limited", &limits).await;
    herd(&floor, limited, 500, "default", 0).await;
    let mut claimer = Claimer::new(&floor).await;
    let began = std::time::Instant::now();
    let mut started = claimer.claim(100).await.assignments.len();
    assert_eq!(started, 6, "a tenth of a second's, and one");
    // The cell's clock goes on by a tenth of a second each time, and by what the machine takes.
    let steps = 20;
    for _ in 0..steps {
        let on = "UPDATE clock_shift SET shift = shift + interval '100 milliseconds'";
        floor.side.batch_execute(on).await.unwrap();
        started += claimer.claim(100).await.assignments.len();
    }
    let passed = f64::from(steps) * 0.1 + began.elapsed().as_secs_f64();
    let (least, most) = (f64::from(steps) * 5.0, 6.0 + passed * 50.0);
    assert!((least..=most).contains(&(started as f64)), "{started} of {least} to {most}");
    // A clock that was set back does not close the bucket for ever.
    let sql = "UPDATE tenant SET starts_through = esc_now() + interval '1 hour' WHERE id = $1";
    floor.side.execute(sql, &[&limited.0]).await.unwrap();
    claimer.claim(100).await;
    let later = "UPDATE clock_shift SET shift = shift + interval '3601 seconds'";
    floor.side.batch_execute(later).await.unwrap();
    assert_eq!(claimer.claim(100).await.assignments.len(), 6);
}

/// Strict within a queue: the lower number first, however many there are.
#[tokio::test]
async fn the_first_priority_of_a_queue_goes_first_and_queues_take_turns() {
    let floor = Floor::create().await;
    let tenant = TenantId::DEFAULT;
    herd(&floor, tenant, 40, "default", 5).await;
    herd(&floor, tenant, 40, "default", 1).await;
    let worker = floor.worker().await;
    let taken = floor.claim(worker, 30).await.assignments;
    assert_eq!(taken.len(), 30);
    let left = "SELECT count(*) FROM run_queue WHERE priority = 1";
    assert_eq!(floor.one::<i64>(left).await, 10);
    herd(&floor, tenant, 40, "other", 9).await;
    let mut queues = BTreeSet::new();
    for _ in 0..30 {
        let request = Request { queues: only(&["default", "other"]), ..floor.request(worker, 1) };
        let claimed = claim(&floor.cell.store, &request).await.unwrap();
        queues.extend(claimed.assignments.into_iter().map(|assignment| assignment.queue));
    }
    assert_eq!(queues.len(), 2, "one slot at a time, and neither queue keeps the other waiting: {queues:?}");
}

/// A limit that the open run itself fills does not keep its job from being skipped or replaced.
#[tokio::test]
async fn what_meets_an_open_run_is_decided_though_its_tenant_is_at_the_limit() {
    let floor = Floor::create().await;
    let limits = Limits { max_running: Some(2), ..Limits::default() };
    limit(&floor, TenantId::DEFAULT, &limits).await;
    let (forbids, replaces, free) = (floor.job().await, floor.job().await, floor.job().await);
    floor.due(forbids, 9, true).await;
    floor.due_with(replaces, 9, model::policy::OverlapPolicy::Replace).await;
    let worker = floor.worker().await;
    assert_eq!(floor.claim(worker, 10).await.assignments.len(), 2);
    let skipped = floor.due(forbids, 3, true).await;
    let newer = floor.due_with(replaces, 3, model::policy::OverlapPolicy::Replace).await;
    floor.due(free, 3, true).await;
    let claimed = floor.claim(worker, 10).await;
    assert_eq!((claimed.assignments.len(), claimed.skipped, claimed.parking), (0, 1, vec![newer]));
    assert_eq!(floor.state(skipped).await, "SKIPPED(OVERLAP)");
}

/// A worker of one tenant never gets another one's run, whatever it is asked for.
#[tokio::test]
async fn a_session_takes_the_runs_of_its_own_tenant_only() {
    let floor = Floor::create().await;
    let mine = tenant(&floor, "mine", &Limits::default()).await;
    herd(&floor, TenantId::DEFAULT, 5, "default", 0).await;
    herd(&floor, mine, 1, "default", 0).await;
    let worker = floor.worker().await;
    let bound = "UPDATE worker_session SET tenant_id = $2 WHERE id = $1";
    floor.side.execute(bound, &[&worker.0, &mine.0]).await.unwrap();
    let claimed = floor.claim(worker, 6).await;
    assert!(by_tenant(&claimed.assignments).keys().all(|tenant| *tenant == mine), "{claimed:?}");
    let request = Request { tenants: Tenants::Only(mine), ..floor.request(worker, 6) };
    let own = claim(&floor.cell.store, &request).await.unwrap();
    assert_eq!(claimed.assignments.len() + own.assignments.len(), 1);
    assert_eq!(floor.one::<i64>("SELECT count(*) FROM run_queue").await, 5);
}

/// What the planner is told of a run that a limit kept waiting until it was too late.
#[tokio::test]
async fn a_limit_that_held_runs_back_is_known_as_the_cause() {
    let floor = Floor::create().await;
    let nothing = Limits { max_running: Some(0), ..Limits::default() };
    let limited = tenant(&floor, "limited", &nothing).await;
    herd(&floor, limited, 1, "default", 0).await;
    herd(&floor, TenantId::DEFAULT, 1, "default", 0).await;
    floor.claim(floor.worker().await, 10).await;
    let waiting = |tenant, queue: &str, due: i64| store::misfire::Waiting {
        key: RunKey::new(JobId::random(), floor.start),
        tenant_id: tenant,
        generation: model::ids::Generation(1),
        due_at: floor.start + chrono::Duration::seconds(due),
        start_by: Some(floor.start + chrono::Duration::seconds(due + 60)),
        late: false,
        exclusive: true,
        queue: queue.to_owned(),
    };
    let runs = [
        waiting(limited, "default", -30),
        waiting(TenantId::DEFAULT, "default", -30),
        waiting(limited, "default", -300),
        waiting(limited, "default", 30),
    ];
    let mut client = floor.cell.store.client("look").await.unwrap();
    let tx = client.begin("look").await.unwrap();
    let hands = store::misfire::hands(&tx, &runs.iter().collect::<Vec<_>>()).await.unwrap();
    let held: Vec<bool> = hands.iter().map(|hands| hands.held).collect();
    assert_eq!(held, [true, false, false, false]);
}

/// A run that ends makes room, and its end waits for nobody who claims.
#[tokio::test]
async fn a_run_ends_while_a_claim_holds_its_tenant() {
    let floor = Floor::create().await;
    let limits = Limits { max_running: Some(1), ..Limits::default() };
    limit(&floor, TenantId::DEFAULT, &limits).await;
    floor.due(floor.job().await, 5, true).await;
    let taken = floor.claim_one(floor.worker().await).await;
    let other = floor.cell.connect().await;
    other.batch_execute("BEGIN; SELECT id FROM tenant FOR UPDATE").await.unwrap();
    let end = End {
        key: taken.lease.key,
        attempt: Some(handing::attempt(&taken)),
        state: State::Failed,
        reason: Some(Reason::WorkFailed),
        output: None,
    };
    assert_eq!(floor.end(end).await, 1);
}
