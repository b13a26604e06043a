//! What a claim takes, and what it must not.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod handing;
mod support;

use handing::Floor;
use model::ids::{Generation, RunKey};
use model::policy::OverlapPolicy;
use model::release::{Release, Way, release};
use model::run::{Origin, Reason, State};
use std::collections::BTreeSet;
use tokio_postgres::types::ToSql;

/// Later than anything here is due.
const HORIZON: std::time::Duration = std::time::Duration::from_secs(3_600);

#[tokio::test]
async fn a_due_run_is_taken_once_and_its_lease_has_a_token() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    let key = floor.due(job, 1, true).await;
    let taken = floor.claim_one(worker).await;
    assert_eq!((taken.lease.key, taken.lease.attempt, taken.lease.token.epoch()), (key, 1, 1));
    assert!(floor.claim(worker, 1).await.assignments.is_empty());
    assert_eq!(floor.one::<i64>("SELECT count(*) FROM run_queue").await, 0);
}

#[tokio::test]
async fn what_comes_due_is_seen_ahead_once_with_the_definition_that_it_executes() {
    let floor = Floor::create().await;
    let (soon, later) = (floor.job().await, floor.job().await);
    floor.due(soon, -3, true).await;
    floor.due(later, -60, true).await;
    let queues = floor.request(floor.worker().await, 1).queues;
    let coming = async |since, ahead, limit| {
        let ahead = std::time::Duration::from_secs(ahead);
        store::run_queue::coming(&floor.cell.store, &queues, None, since, ahead, limit).await.unwrap()
    };
    let seen = coming(None, 30, 10).await;
    assert_eq!(seen.keys, [(soon, Generation::FIRST)]);
    let specs = store::job_revision::specs(&floor.cell.store, &seen.keys).await.unwrap();
    assert_eq!((specs.len(), specs[0].1.definition.schedule.as_str()), (1, "* * * * *"));
    let next = coming(Some(seen.through), 90, 10).await;
    assert_eq!(next.keys, [(later, Generation::FIRST)], "what was seen is not seen again");
    assert_eq!(coming(None, 90, 1).await.keys.len(), 1, "no more than asked for");
    let others = [model::ids::TenantId::random()];
    let ahead = std::time::Duration::from_secs(90);
    let none = store::run_queue::coming(&floor.cell.store, &queues, Some(&others), None, ahead, 9).await;
    assert_eq!(none.unwrap().keys, [], "of other tenants");
}

#[tokio::test]
async fn two_claimers_never_take_one_row() {
    let floor = Floor::create().await;
    let (one, other) = (floor.worker().await, floor.worker().await);
    let mut due = BTreeSet::new();
    for _ in 0..200 {
        due.insert(floor.due(floor.job().await, 1, true).await);
    }
    let keys = |claimed: store::run_queue::Claimed| -> Vec<RunKey> {
        claimed.assignments.iter().map(|assignment| assignment.lease.key).collect()
    };
    let mut taken = Vec::new();
    for _ in 0..4 {
        let (first, second) = tokio::join!(floor.claim(one, 50), floor.claim(other, 50));
        taken.extend(keys(first));
        taken.extend(keys(second));
    }
    assert_eq!(taken.len(), 200);
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), due);
}

#[tokio::test]
async fn an_occurrence_that_meets_an_open_run_of_its_job_is_skipped_and_says_so() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due(job, 3, true).await;
    floor.due(job, 2, true).await;
    let claimed = floor.claim(worker, 10).await;
    assert_eq!((claimed.assignments.len(), claimed.skipped), (1, 1));
    floor.due(job, 1, true).await;
    assert_eq!(floor.claim(worker, 10).await.skipped, 1);
    let ended = "SELECT count(*) FROM run r JOIN run_outcome o USING (job_id, scheduled_for) \
        WHERE r.state = 'SKIPPED' AND o.reason = 'OVERLAP' AND o.final AND r.finished_at IS NOT NULL";
    assert_eq!(floor.one::<i64>(ended).await, 2);
}

#[tokio::test]
async fn what_may_not_be_skipped_is_put_off_and_hides_nothing() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due(job, 9, true).await;
    floor.claim_one(worker).await;
    floor.queued(job, 8, true, "CATCH_UP", false).await;
    floor.queued(job, 7, true, "SCHEDULE", true).await;
    let free = floor.due(floor.job().await, 1, true).await;
    let claimed = floor.claim(worker, 2).await;
    assert_eq!((claimed.assignments.len(), claimed.postponed), (0, 2));
    assert_eq!(floor.claim_one(worker).await.lease.key, free);
    let put_off = "SELECT count(*) FROM run_queue WHERE due_at > esc_now()";
    assert_eq!(floor.one::<i64>(put_off).await, 2);
}

#[tokio::test]
async fn runs_that_do_not_exclude_each_other_start_side_by_side() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due(job, 3, false).await;
    floor.due(job, 2, false).await;
    assert_eq!(floor.claim(worker, 10).await.assignments.len(), 2);
    // The job's policy has changed since: an exclusive run waits for the others too.
    floor.due(job, 1, true).await;
    assert_eq!(floor.claim(worker, 10).await.skipped, 1);
}

/// The claim decides in SQL, while it holds the rows, what `model::release` decides as a value; what is to be parked is
/// looked at again by who parks it.
#[tokio::test]
async fn the_claim_and_the_model_decide_alike() {
    let floor = Floor::create().await;
    for overlap in OverlapPolicy::ALL {
        for origin in Origin::ALL {
            for way in [Way::Free, Way::Blocked, Way::Draining] {
                let did = released(&floor, *overlap, *origin, way).await;
                assert_eq!(did, release(*overlap, *origin, way), "{overlap} {origin}, {way:?}");
                let emptied = "TRUNCATE run_queue, run_lease, run_parked, catch_up";
                floor.side.batch_execute(emptied).await.expect("emptied");
            }
        }
    }
}

async fn released(floor: &Floor, overlap: OverlapPolicy, origin: Origin, way: Way) -> Release {
    let (job, worker) = (floor.job().await, floor.worker().await);
    if way == Way::Draining {
        floor.backlog(job).await;
    }
    if way != Way::Free {
        floor.due_with(job, 5, overlap).await;
        floor.claim_one(worker).await;
    }
    let key = floor.queued_with(job, 1, overlap, origin.as_str(), false).await;
    let claimed = floor.claim(worker, 10).await;
    let counts = (claimed.assignments.len(), claimed.skipped, claimed.postponed);
    match (counts, claimed.parking.as_slice()) {
        ((1, 0, 0), []) => Release::Start,
        ((0, 1, 0), []) => Release::End(State::Skipped, Reason::Overlap),
        ((0, 0, 1), []) => Release::Wait,
        ((0, 0, 1), [parking]) if *parking == key => {
            let parked = floor.park(&claimed.parking).await;
            assert_eq!(parked.parked, BTreeSet::from([key]));
            if parked.replacing.is_empty() { Release::Park } else { Release::Replace }
        }
        other => panic!("{other:?} for {overlap} {origin}, {way:?}"),
    }
}

/// Two that came due while a backlog drained come in one claim once it has: the first one's lease skips the other only
/// if nothing but the schedule put it there.
#[tokio::test]
async fn what_came_due_while_a_backlog_drained_is_not_skipped_after_it_either() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.backlog(job).await;
    floor.queued(job, 9, true, "CATCH_UP", false).await;
    let last = floor.claim_one(worker).await;
    let (first, second) = (floor.due(job, 3, true).await, floor.due(job, 2, true).await);
    assert_eq!(floor.claim(worker, 10).await.postponed, 2);
    floor.succeed(&last).await;
    assert_eq!(floor.one::<i64>("SELECT count(*) FROM catch_up").await, 0, "the backlog is empty");
    floor.put_off_is_over().await;
    let claimed = floor.claim(worker, 10).await;
    assert_eq!((claimed.assignments.len(), claimed.skipped, claimed.postponed), (1, 0, 1));
    assert_eq!(claimed.assignments[0].lease.key, first);
    floor.succeed(&claimed.assignments[0]).await;
    floor.put_off_is_over().await;
    assert_eq!(floor.claim_one(worker).await.lease.key, second);
}

/// Rows of one job that are put off keep their order, though they become due together.
#[tokio::test]
async fn what_is_put_off_keeps_its_order() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due(job, 60, true).await;
    floor.claim_one(worker).await;
    for ago in [2, 7, 3, 9, 5] {
        floor.queued(job, ago, true, "BACKFILL", false).await;
    }
    assert_eq!(floor.claim(worker, 10).await.postponed, 5);
    let ordered = "SELECT count(DISTINCT due_at) = 5
        AND array_agg(scheduled_for ORDER BY due_at) = array_agg(scheduled_for ORDER BY scheduled_for) FROM run_queue";
    assert!(floor.one::<bool>(ordered).await);
}

/// One slot for two jobs that are due together each time: neither keeps the other from running, however long it goes on.
#[tokio::test]
async fn two_jobs_that_share_one_slot_take_turns() {
    let floor = Floor::create().await;
    let (one, other, worker) = (floor.job().await, floor.job().await, floor.worker().await);
    for ago in [9, 8, 7, 6] {
        floor.due(one, ago, true).await;
        floor.due(other, ago, true).await;
    }
    for ago in [9, 8, 7, 6] {
        let mut served = BTreeSet::new();
        for _ in 0..2 {
            let taken = floor.claim_one(worker).await;
            assert_eq!(taken.lease.key.scheduled_for, floor.start - chrono::Duration::seconds(ago));
            served.insert(taken.lease.key.job_id);
            floor.succeed(&taken).await;
        }
        assert_eq!(served, BTreeSet::from([one, other]));
    }
}

/// What a pause holds is due at infinity: nobody claims it, and it is not the next that is due.
#[tokio::test]
async fn what_is_held_is_neither_taken_nor_waited_for() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    floor.due(floor.job().await, 1, true).await;
    floor.side.execute("UPDATE run_queue SET due_at = 'infinity'", &[]).await.expect("held");
    let claimed = floor.claim(worker, 10).await;
    assert!(!claimed.moved(), "{claimed:?}");
    let queues = ["default".to_owned()];
    let due =
        store::run_queue::next_due(&floor.cell.store, &queues, None, chrono::DateTime::UNIX_EPOCH, HORIZON)
            .await;
    assert_eq!(due.expect("looked"), store::run_queue::Due::default());
    store::run_queue::floor(&floor.cell.store, &queues, chrono::DateTime::UNIX_EPOCH).await.expect("a floor");
    let status = include_str!("../sql/status/queue.sql");
    let held = floor.side.query_one(status, &[&model::ids::TenantId::DEFAULT.0]).await.expect("a queue");
    assert_eq!((held.get::<_, i64>("planned"), held.get::<_, i64>("waiting")), (0, 1));
}

/// A failed-over or restored database: the epoch in it was made for another one.
#[tokio::test]
async fn a_database_that_is_not_the_epochs_own_gives_nothing_out() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    floor.due(floor.job().await, 1, true).await;
    for other in
        ["timeline = timeline + 1", "timeline = timeline - 1, system_identifier = system_identifier + 1"]
    {
        floor.side.execute(&format!("UPDATE epoch SET {other}"), &[]).await.expect("another database");
        let claimed = floor.claim(worker, 1).await;
        assert!(!claimed.identified && claimed.assignments.is_empty(), "{claimed:?}");
    }
    floor
        .side
        .execute("UPDATE epoch SET system_identifier = system_identifier - 1", &[])
        .await
        .expect("the same again");
    floor.claim_one(worker).await;
}

#[tokio::test]
async fn a_slot_whose_session_has_moved_on_or_ended_takes_nothing() {
    let floor = Floor::create().await;
    let (moved, ended, other) = (floor.worker().await, floor.worker().await, floor.worker().await);
    floor.due(floor.job().await, 1, true).await;
    let sql = "UPDATE worker_session SET connection = 2 WHERE id = $1";
    floor.side.execute(sql, &[&moved.0]).await.expect("moved");
    let sql = "UPDATE worker_session SET ended_at = esc_now() WHERE id = $1";
    floor.side.execute(sql, &[&ended.0]).await.expect("ended");
    let sql = "UPDATE worker_session SET dispatcher_id = gen_random_uuid() WHERE id = $1";
    floor.side.execute(sql, &[&other.0]).await.expect("elsewhere");
    for session in [moved, ended, other] {
        assert!(floor.claim(session, 1).await.assignments.is_empty());
    }
    floor.claim_one(floor.worker().await).await;
}

#[tokio::test]
async fn nothing_is_taken_before_it_is_due_nor_once_it_counts_as_missed() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    floor.due(floor.job().await, -60, true).await;
    let missed = floor.due(floor.job().await, 90, true).await;
    let sql = "UPDATE run_queue SET start_by = due_at + interval '60 seconds' WHERE job_id = $1";
    floor.side.execute(sql, &[&missed.job_id.0]).await.expect("missed");
    let claimed = floor.claim(worker, 10).await;
    assert!(!claimed.moved(), "{claimed:?}");
    let queues = ["default".to_owned()];
    let due =
        store::run_queue::next_due(&floor.cell.store, &queues, None, chrono::DateTime::UNIX_EPOCH, HORIZON)
            .await
            .expect("the next");
    assert!(due.overdue);
    let wait = due.wait.expect("one is to come").as_secs();
    assert!((50..=60).contains(&wait), "{wait}");
}

/// One tenant with a herd, another with a single run: each claim serves both, beginning with the next tenant.
#[tokio::test]
async fn a_tenants_herd_does_not_keep_another_tenant_waiting() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    let other = uuid::Uuid::from_u128(u128::MAX - 1);
    floor
        .side
        .execute("INSERT INTO tenant (id, name) VALUES ($1, 'other')", &[&other])
        .await
        .expect("a tenant");
    for _ in 0..20 {
        floor.due(floor.job().await, 5, true).await;
    }
    let single = floor.due(floor.job().await, 1, true).await;
    let sql = "UPDATE run_queue SET tenant_id = $1 WHERE job_id = $2";
    floor.side.execute(sql, &[&other, &single.job_id.0]).await.expect("the other's");
    let request = store::run_queue::Request { quantum: 4, ..floor.request(worker, 10) };
    let claimed = store::run_queue::claim(&floor.cell.store, &request).await.expect("a claim");
    assert_eq!((claimed.assignments.len(), claimed.lanes), (5, 2));
    assert_eq!(claimed.last_tenant, Some(model::ids::TenantId(other)));
    assert!(claimed.assignments.iter().any(|assignment| assignment.lease.key == single));
}

/// Between a dispatcher's look at the clock and its claim the clock may jump: what was to come is due then.
#[tokio::test]
async fn a_claim_whose_clock_shows_more_than_it_may_takes_nothing() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    floor.due(floor.job().await, -1_800, true).await;
    let latest = Some(chrono::Utc::now() + chrono::Duration::seconds(60));
    store::clock::shift(&floor.cell.store, 3_600_000).await.expect("shifted");
    let jumped = store::run_queue::Request { latest, ..floor.request(worker, 1) };
    let claimed = store::run_queue::claim(&floor.cell.store, &jumped).await.expect("a claim");
    assert!(claimed.identified && !claimed.believed && !claimed.moved(), "{claimed:?}");
    let later =
        store::run_queue::Request { latest: latest.map(|at| at + chrono::Duration::hours(1)), ..jumped };
    let claimed = store::run_queue::claim(&floor.cell.store, &later).await.expect("a claim");
    assert!(claimed.believed && claimed.assignments.len() == 1, "{claimed:?}");
}

#[tokio::test]
async fn the_floor_is_the_oldest_row_and_never_younger_than_ten_seconds() {
    let floor = Floor::create().await;
    let queues = ["default".to_owned()];
    let look = async || {
        store::run_queue::floor(&floor.cell.store, &queues, chrono::DateTime::UNIX_EPOCH)
            .await
            .expect("a floor")
    };
    assert!(look().await <= floor.start - chrono::Duration::seconds(5));
    floor.due(floor.job().await, 1, true).await;
    assert!(look().await <= floor.start - chrono::Duration::seconds(5), "a row may still be on its way");
    let old = floor.due(floor.job().await, 600, true).await;
    assert_eq!(look().await, old.scheduled_for);
}

/// A hundred thousand waiting rows, in lanes of ours and of others: the claim walks indexes only.
#[tokio::test]
async fn a_claim_uses_its_indexes_on_a_full_queue() {
    let floor = Floor::create().await;
    let fill = "INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
        SELECT gen_random_uuid(), '00000000-0000-4000-8000-000000000001', date_trunc('second', esc_now()),
               esc_now() + (n % 120 - 60) * interval '1 second', 1, n % 3, 'SCHEDULE', true, 'queue-' || n % 5
        FROM generate_series(1, 100000) n;
        INSERT INTO tenant (id, name, max_running) SELECT gen_random_uuid(), 'tenant-' || n, n FROM generate_series(1, 5000) n;
        INSERT INTO queue_limit (tenant_id, queue, max_running) SELECT id, 'queue-1', 1 FROM tenant;
        INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
                undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
            SELECT gen_random_uuid(), id, id, id, date_trunc('second', esc_now()), esc_now(), 1, 1, 0, 0, 0, 0, 1, 1, 'SCHEDULE',
                   true, 'queue-1' FROM tenant, generate_series(1, 4) n";
    floor.side.batch_execute(fill).await.expect("filled");
    floor.side.batch_execute("VACUUM ANALYZE run_queue").await.expect("analysed");
    floor.side.batch_execute("ANALYZE tenant, queue_limit, run_lease").await.expect("analysed");
    let worker = floor.worker().await;
    let (sessions, connections) = (vec![worker.0; 50], vec![1_i32; 50]);
    let (after, through) = (vec![uuid::Uuid::nil()], vec![uuid::Uuid::max()]);
    let (claim, queues) = (uuid::Uuid::new_v4(), vec!["queue-1".to_owned()]);
    let (resuming, credit) = (None::<uuid::Uuid>, None::<i64>);
    let floor_at = floor.start - chrono::Duration::seconds(120);
    let latest = None::<chrono::DateTime<chrono::Utc>>;
    let claim: [&(dyn ToSql + Sync); 10] = [
        &sessions,
        &connections,
        &floor.dispatcher.0,
        &claim,
        &queues,
        &floor_at,
        &50_i64,
        &resuming,
        &credit,
        &latest,
    ];
    let indexes = [
        "run_queue_claim",
        "run_queue_due",
        "run_queue_pkey",
        "run_lease_running",
        "tenant_pkey",
        "queue_limit_pkey",
    ];
    uses(&floor, include_str!("../sql/run_queue/claim.sql"), &claim, &indexes).await;
    let serve: [&(dyn ToSql + Sync); 4] = [&after, &through, &queues, &floor_at];
    let indexes = ["run_queue_due", "tenant_pkey", "queue_limit_pkey"];
    uses(&floor, include_str!("../sql/tenant/serve.sql"), &serve, &indexes).await;
}

async fn uses(floor: &Floor, statement: &str, params: &[&(dyn ToSql + Sync)], indexes: &[&str]) {
    let rows = floor.side.query(&format!("EXPLAIN {statement}"), params).await.expect("a plan");
    let plan = rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n");
    for index in indexes {
        assert!(plan.contains(index), "{index} is not used:\n{plan}");
    }
    for table in ["run_queue", "run_lease", "tenant", "queue_limit"] {
        assert!(!plan.contains(&format!("Seq Scan on {table}")), "all of {table} is read:\n{plan}");
    }
}
