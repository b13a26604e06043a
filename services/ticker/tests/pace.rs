//! The pace of backlogs: neither a job's rate nor its tenant's is exceeded, and no other tenant waits for it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use model::ids::{JobId, TenantId};
use model::job::Definition;
use model::policy::{MisfirePolicy, OverlapPolicy};
use support::{Cell, each_second};

/// The most runs of backlogs of `tenant` that become due in any window of a second.
async fn peak(cell: &Cell, tenant: TenantId) -> i64 {
    let statement = format!(
        "SELECT coalesce(max(n), 0)::bigint FROM (SELECT count(*) OVER (ORDER BY due_at RANGE BETWEEN CURRENT ROW AND \
           interval '999.999 milliseconds' FOLLOWING) AS n FROM run_queue \
         WHERE tenant_id = '{tenant}' AND origin = 'CATCH_UP') w"
    );
    cell.count(&statement).await
}

async fn queued(cell: &Cell, job: JobId) -> i64 {
    cell.count(&format!("SELECT count(*) FROM run_queue WHERE job_id = '{job}' AND origin = 'CATCH_UP'"))
        .await
}

/// How many seconds after now the last run of a tenant's backlogs becomes due.
async fn last_due(cell: &Cell, tenant: TenantId) -> i64 {
    let last = format!(
        "SELECT extract(epoch FROM max(due_at) - esc_now())::bigint FROM run_queue \
         WHERE tenant_id = '{tenant}' AND origin = 'CATCH_UP'"
    );
    cell.count(&last).await
}

fn backlog_of_200(overlap: OverlapPolicy) -> Definition {
    let mut definition = each_second(MisfirePolicy::CatchUp, overlap);
    (definition.misfire.catch_up_limit, definition.misfire.catch_up_per_second) = (200, 1_000);
    definition
}

async fn tenant(cell: &Cell, name: &str, per_second: i32) -> TenantId {
    let id = uuid::Uuid::new_v4();
    cell.execute(&format!(
        "INSERT INTO tenant (id, name, catch_up_per_second) VALUES ('{id}', '{name}', {per_second})"
    ))
    .await;
    TenantId(id)
}

#[tokio::test]
async fn the_backlogs_of_two_jobs_share_their_tenants_pace() {
    let cell = Cell::create().await;
    let (one, other) = (tenant(&cell, "one", 20).await, tenant(&cell, "other", 1_000).await);
    let ticker = cell.ticker(1).await;
    let definition = backlog_of_200(OverlapPolicy::Allow);
    let first = cell.create_job_of(one, "first", &definition).await;
    let second = cell.create_job_of(one, "second", &definition).await;
    let unaffected = cell.create_job_of(other, "unaffected", &definition).await;
    ticker.plan().await;
    cell.pass(600).await;
    cell.ticker(2).await.plan().await;
    for job in [first, second, unaffected] {
        assert_eq!(queued(&cell, job).await, 200);
    }
    let peak_of_one = peak(&cell, one).await;
    assert!((15..=21).contains(&peak_of_one), "{peak_of_one} in a second");
    assert!((18..=21).contains(&last_due(&cell, one).await), "400 runs at 20 a second");
    assert!(last_due(&cell, other).await <= 1, "another tenant does not wait");
}

#[tokio::test]
async fn runs_that_were_planned_and_not_handed_out_keep_the_pace_batch_by_batch() {
    let cell = Cell::create().await;
    let one = tenant(&cell, "one", 20).await;
    let ticker = cell.ticker(1).await;
    let definition = backlog_of_200(OverlapPolicy::Allow);
    for name in ["first", "second"] {
        cell.create_job_of(one, name, &definition).await;
    }
    // A ticker plans all the time; nobody hands out. What is missed is put into the backlog a few runs at a time.
    for _ in 0..16 {
        ticker.plan().await;
        cell.pass(7).await;
    }
    ticker.plan().await;
    let backlog = format!("SELECT count(*) FROM run_queue WHERE tenant_id = '{one}' AND origin = 'CATCH_UP'");
    assert!(cell.count(&backlog).await > 150);
    let peak = peak(&cell, one).await;
    assert!(peak <= 21, "{peak} in a second");
}

#[tokio::test]
async fn backlogs_that_are_worked_off_one_by_one_keep_their_pace_too() {
    let cell = Cell::create().await;
    let one = tenant(&cell, "one", 2).await;
    let ticker = cell.ticker(1).await;
    let mut definition = backlog_of_200(OverlapPolicy::Forbid);
    let fast = cell.create_job_of(one, "fast", &definition).await;
    let also = cell.create_job_of(one, "also", &definition).await;
    definition.misfire.catch_up_per_second = 1;
    let slow = cell.create_job("slow", &definition).await;
    ticker.plan().await;
    cell.pass(100).await;
    ticker.plan().await;
    let due = |job: JobId| {
        format!(
            "SELECT (extract(epoch FROM due_at) * 1000)::bigint FROM run_queue WHERE job_id = '{job}' AND origin = 'CATCH_UP'"
        )
    };
    // Both jobs of the tenant take turns at two a second; the slow one keeps its own second.
    let mut of_tenant = Vec::new();
    let mut of_slow = Vec::new();
    for _ in 0..5 {
        for job in [fast, also] {
            of_tenant.push(cell.count(&due(job)).await);
            cell.work_off(job).await;
        }
        of_slow.push(cell.count(&due(slow)).await);
        cell.work_off(slow).await;
    }
    of_tenant.sort_unstable();
    assert!(of_tenant.windows(2).all(|pair| pair[1] - pair[0] >= 499), "{of_tenant:?}");
    assert!(of_slow.windows(2).all(|pair| pair[1] - pair[0] >= 999), "{of_slow:?}");
}

#[tokio::test]
async fn the_backlog_of_a_paused_job_rests() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    let job = cell.create_job("job", &backlog_of_200(OverlapPolicy::Forbid)).await;
    ticker.plan().await;
    cell.pass(60).await;
    ticker.plan().await;
    assert_eq!(queued(&cell, job).await, 1);
    cell.pause_job(job).await;
    cell.execute(&format!("DELETE FROM run_queue WHERE job_id = '{job}'")).await; // as if it had ended
    let released = store::catch_up::release_idle(&cell.store).await.expect("looked");
    assert_eq!(released, []);
    cell.resume_job(job, false).await;
    assert_eq!(queued(&cell, job).await, 1);
}
