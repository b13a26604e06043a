//! Tenants beside each other: whatever one has due, the other's run starts in time, and limits hold whoever claims.

use harness::{Cell, PATIENCE, job, noop, shell};
use serde_json::json;
use stack::wait::wait_for;
use std::time::Duration;

const OTHER: &str = "00000000-0000-4000-8000-0000000000ff";

/// Plans a run for `jobs` new jobs of a tenant, all due in `seconds`, each a copy of the job `of`.
async fn herd(cell: &mut Cell, tenant: &str, jobs: u32, seconds: u32, of: &str) {
    let statement = format!(
        "CREATE TEMP TABLE herd AS SELECT gen_random_uuid() AS id, j.definition, \
            date_trunc('second', esc_now()) + interval '{seconds} seconds' AS at \
         FROM job j, generate_series(1, {jobs}) WHERE j.name = '{of}'; \
         INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition) \
            SELECT id, '{tenant}', 1, esc_now(), esc_now(), id::text, definition FROM herd; \
         INSERT INTO job_revision (job_id, generation, in_force_from, action, author, definition) \
            SELECT id, 1, esc_now(), 'CREATED', 'test', definition FROM herd; \
         INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin) \
            SELECT id, '{tenant}', at, at, 1, 1, 'SCHEDULE' FROM herd; \
         INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue) \
            SELECT id, '{tenant}', at, at, 1, 0, 'SCHEDULE', true, 'default' FROM herd"
    );
    cell.sql(&statement).await;
}

/// How many runs of a tenant there are on this condition.
fn counted(tenant: &str, condition: &str) -> String {
    format!("SELECT count(*) FROM run WHERE tenant_id = '{tenant}' AND {condition}")
}

#[tokio::test]
async fn the_one_run_of_a_tenant_starts_within_a_second_beside_ten_thousand_of_another() {
    let mut cell = Cell::start().await;
    cell.leader().await;
    cell.api.create(job("model", "0 0 1 1 *", noop())).await;
    cell.sql(&format!("INSERT INTO tenant (id, name) VALUES ('{OTHER}', 'other')")).await;
    let default = cell.sql("SELECT id FROM tenant WHERE name = 'default'").await;
    herd(&mut cell, &default, 10_000, 8, "model").await;
    herd(&mut cell, OTHER, 1, 8, "model").await;
    let ended = counted(OTHER, "state = 'SUCCEEDED'");
    wait_for(PATIENCE, "the one run to end", async || (cell.count(&ended).await == 1).then_some(())).await;
    let waiting = cell.count("SELECT count(*) FROM run_queue WHERE due_at <= esc_now()").await;
    let late = format!(
        "SELECT ceil(extract(epoch FROM accepted_at - due_at) * 1000)::bigint FROM run WHERE tenant_id = '{OTHER}'"
    );
    let late = cell.count(&late).await;
    assert!(late <= 1_000, "it started {late} ms late");
    assert!(waiting > 1_000, "the herd was gone: {waiting} waiting");
}

/// Two dispatchers, more slots than the limit, jobs that take a moment: never more of the tenant's runs at a time.
#[tokio::test]
async fn a_tenants_limit_holds_over_all_dispatchers_and_is_the_cause_of_what_it_holds_back() {
    let mut cell = Cell::start_with(|options| stack::dev::Options { agents: 2, ..options }).await;
    cell.leader().await;
    cell.sql("UPDATE tenant SET max_running = 3").await;
    let seen = cell.folder().join("seen");
    std::fs::create_dir(&seen).expect("a folder");
    // Each says how many there are beside it.
    let line = format!("touch {0}/$$; ls {0} | wc -l >> {1}; sleep 0.2; rm {0}/$$", seen.display(), "counts");
    let line = line.replace("counts", &cell.folder().join("counts").display().to_string());
    cell.api.create(job("model", "0 0 1 1 *", shell(&line))).await;
    let default = cell.sql("SELECT id FROM tenant WHERE name = 'default'").await;
    herd(&mut cell, &default, 60, 3, "model").await;
    let ended = counted(&default, "state = 'SUCCEEDED'");
    wait_for(PATIENCE, "all to end", async || (cell.count(&ended).await == 60).then_some(())).await;
    let counts = std::fs::read_to_string(cell.folder().join("counts")).expect("counts");
    let most = counts.lines().filter_map(|line| line.trim().parse::<u32>().ok()).max();
    assert!(most.is_some_and(|most| (2..=3).contains(&most)), "{most:?} at a time");

    cell.sql("UPDATE tenant SET max_running = 0").await;
    let mut held = job("held", "* * * * * *", noop());
    held["misfire"] = json!({"policy": "SKIP", "grace": "10s"});
    cell.api.create(held).await;
    let missed = "SELECT count(*) FROM run_outcome WHERE reason = 'MISSED' AND cause = 'LIMIT'";
    wait_for(Duration::from_secs(60), "runs that a limit held back", async || {
        (cell.count(missed).await >= 3).then_some(())
    })
    .await;
    // What waits because of a limit is seen.
    let queue = cell.api.get("/v1/status").await.expect("status")["queue"][0].clone();
    let held: i64 = queue["held"].as_str().expect("a count").parse().expect("a number");
    assert!(held >= 3 && queue["heldSince"].is_string(), "{queue}");
    assert!(cell.prints(&["status"]).contains("HELD"));
    wait_for(PATIENCE, "the metric of it", async || {
        (cell.metric("dispatcher-1", "dispatcher_runs_held").await >= 3.0).then_some(())
    })
    .await;
    let otherwise = "SELECT count(*) FROM run_outcome WHERE reason = 'MISSED' AND cause <> 'LIMIT'";
    assert_eq!(cell.count(otherwise).await, 0);
    cell.sql("UPDATE tenant SET max_running = NULL").await;
    cell.api.wait_for_runs("held", "SUCCEEDED", 3).await;
    cell.stop().await;
}
