//! Outages: what was missed while nobody planned, handed out or worked is a run or a recorded misfire, exactly.

use harness::{Cell, PATIENCE, job, names, noop};
use serde_json::json;
use stack::dev::Role;
use stack::wait::wait_for;

const HOUR_MS: i64 = 3_600_000;

/// Jobs of all policies at 1 s, 1 min and 1 h, by name.
const POLICIES: [&str; 3] = ["SKIP", "ONCE", "CATCH_UP"];
const SCHEDULES: [(&str, &str); 3] =
    [("second", "* * * * * *"), ("minute", "* * * * *"), ("hour", "0 * * * *")];

async fn create_all(cell: &Cell) {
    for policy in POLICIES {
        for (unit, schedule) in SCHEDULES {
            let name = format!("{unit}-{}", policy.to_lowercase().replace('_', "-"));
            let mut job = job(&name, schedule, noop());
            job["misfire"] = json!({"policy": policy, "grace": "10s", "catchUpLimit": 30});
            job["overlap"] = json!("ALLOW");
            job["alert"] = json!({"disabled": true});
            cell.api.create(job).await;
        }
    }
}

/// Moves the cell's clock an hour ahead: for the database, an hour has passed in which nobody did anything.
async fn an_hour_passes(cell: &mut Cell) {
    let shift = format!("UPDATE clock_shift SET shift = shift + {HOUR_MS} * interval '1 millisecond'");
    cell.sql(&shift).await;
}

/// Every occurrence of the per-second jobs between `from` and `through` that is neither a run nor counted.
async fn unaccounted(cell: &mut Cell, from: &str, through: &str) -> i64 {
    let statement = format!(
        "WITH expected AS (SELECT j.id, generate_series(date_trunc('second', '{from}'::timestamptz) + interval '1 second', \
                             '{through}'::timestamptz, interval '1 second') AS at FROM job j WHERE j.name LIKE 'second-%') \
         SELECT count(*) FROM expected e \
         WHERE NOT EXISTS (SELECT 1 FROM run r WHERE r.job_id = e.id AND r.scheduled_for = e.at) \
           AND NOT EXISTS (SELECT 1 FROM misfire m WHERE m.job_id = e.id AND e.at BETWEEN m.first AND m.last)"
    );
    cell.count(&statement).await
}

#[tokio::test]
async fn an_hour_without_any_ticker_leaves_every_occurrence_accounted_for() {
    let mut cell = Cell::start_with(|options| options.setting(Role::Ticker, "clock_jump_guard_ms = 0")).await;
    cell.leader().await;
    create_all(&cell).await;
    let created = cell.sql("SELECT max(created_at) FROM job").await;
    cell.api.wait_for_runs("second-once", "SUCCEEDED", 3).await;
    for name in names(&cell.stack, Role::Ticker) {
        cell.stack.service(&name).expect("a ticker").process().kill().expect("killed");
    }
    an_hour_passes(&mut cell).await;
    for name in names(&cell.stack, Role::Ticker) {
        cell.stack.restart(&name).await.expect("it starts again");
    }
    let back = cell.sql("SELECT esc_now()").await;
    let handled = "SELECT count(*) FROM job_cursor WHERE next_fire_at <= esc_now()";
    wait_for(PATIENCE, "all cursors past now", async || (cell.count(handled).await == 0).then_some(())).await;
    wait_for(PATIENCE, "all missed rows judged", async || {
        let waiting = "SELECT count(*) FROM run_queue WHERE start_by < esc_now() - interval '5 seconds'";
        (cell.count(waiting).await == 0).then_some(())
    })
    .await;
    assert_eq!(unaccounted(&mut cell, &created, &back).await, 0);

    // The policies: SKIP runs none late, ONCE one, CATCH_UP the newest thirty.
    let late = |policy: &str| {
        format!(
            "SELECT count(*) FROM run r JOIN job j ON j.id = r.job_id WHERE j.name = 'second-{policy}' \
               AND r.scheduled_for BETWEEN '{back}'::timestamptz - interval '50 minutes' AND '{back}'::timestamptz - interval '15 seconds' \
               AND r.state IN ('PLANNED', 'SUCCEEDED')"
        )
    };
    assert_eq!(cell.count(&late("skip")).await, 0);
    assert!(cell.count(&late("once")).await <= 1);
    let caught_up = "SELECT count(*) FROM run r JOIN job j ON j.id = r.job_id WHERE j.name = 'second-catch-up' AND r.origin = 'CATCH_UP'";
    assert_eq!(cell.count(caught_up).await, 30);
    let causes = cell.sql("SELECT DISTINCT cause FROM misfire ORDER BY 1").await;
    assert_eq!(causes, "NO_TICKER");
    let doubled =
        "SELECT count(*) FROM (SELECT 1 FROM run GROUP BY job_id, scheduled_for HAVING count(*) > 1) d";
    assert_eq!(cell.count(doubled).await, 0);
    cell.stop().await;
}

#[tokio::test]
async fn runs_that_no_worker_took_follow_the_misfire_policy() {
    let mut cell = Cell::start_with(|options| stack::dev::Options { agents: 0, ..options }).await;
    cell.leader().await;
    create_all(&cell).await;
    let missed = "SELECT count(*) FROM run r JOIN job j ON j.id = r.job_id WHERE j.name = 'second-skip' AND r.state = 'SKIPPED' AND r.reason = 'MISSED'";
    wait_for(PATIENCE, "missed rows", async || (cell.count(missed).await >= 5).then_some(())).await;
    let late = "SELECT count(*) FROM run_queue q JOIN job j ON j.id = q.job_id WHERE j.name = 'second-once' AND q.late";
    wait_for(PATIENCE, "one late row", async || (cell.count(late).await == 1).then_some(())).await;
    let superseded = "SELECT count(*) FROM run r JOIN job j ON j.id = r.job_id WHERE j.name = 'second-once' AND r.reason = 'SUPERSEDED'";
    wait_for(PATIENCE, "superseded rows", async || (cell.count(superseded).await >= 3).then_some(())).await;
    cell.stack.add(Role::Agent).await.expect("an agent");
    let runs = cell.api.wait_for_runs("second-catch-up", "SUCCEEDED", 20).await;
    let lateness = |run: &serde_json::Value| run["latenessMs"].as_str().and_then(|ms| ms.parse::<i64>().ok());
    let waited = "SELECT count(*) FROM run r JOIN job j ON j.id = r.job_id WHERE j.name = 'second-catch-up' \
                  AND r.state = 'SUCCEEDED' AND r.accepted_at > r.scheduled_for + interval '10 seconds'";
    assert!(
        cell.count(waited).await > 0,
        "none of those that waited beyond their grace ran: {:?}",
        runs.iter().map(lateness).collect::<Vec<_>>()
    );
    cell.stop().await;
}
