//! Misfires: after an outage every occurrence is a run or counted as missed, exactly once, and runs as its policy says.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use chrono::TimeDelta;
use model::ids::JobId;
use model::policy::{MisfirePolicy, OverlapPolicy};
use support::{Cell, each_second};

const HOUR: i64 = 3_600;

/// How many runs wait that were missed, and how many of them are queued now. What is in time has a start_by.
async fn backlog(cell: &Cell, job: JobId) -> (i64, i64) {
    let open = format!(
        "SELECT count(*) FROM run r WHERE job_id = '{job}' AND state = 'PLANNED' AND NOT EXISTS (SELECT FROM run_queue q \
           WHERE q.job_id = r.job_id AND q.scheduled_for = r.scheduled_for AND q.start_by IS NOT NULL)"
    );
    let queued = format!("SELECT count(*) FROM run_queue WHERE job_id = '{job}' AND origin = 'CATCH_UP'");
    (cell.count(&open).await, cell.count(&queued).await)
}

#[tokio::test]
async fn an_hour_without_a_ticker_is_accounted_for_under_every_policy() {
    let cell = Cell::create().await;
    let first = cell.ticker(1).await;
    let mut jobs = Vec::new();
    for policy in MisfirePolicy::ALL.iter().copied() {
        for overlap in [OverlapPolicy::Forbid, OverlapPolicy::Allow] {
            let name = format!("{policy}-{overlap}").to_lowercase().replace('_', "-");
            jobs.push((policy, overlap, cell.create_job(&name, &each_second(policy, overlap)).await));
        }
    }
    let created = cell.now().await;
    first.plan().await;
    first.mark().await;
    cell.pass(HOUR).await;
    let second = cell.ticker(2).await;
    let back = cell.now().await;
    second.plan().await;

    let through = back + TimeDelta::seconds(119);
    for (policy, overlap, job) in jobs {
        let what = format!("{policy} {overlap}");
        assert_eq!(cell.unaccounted(job, created, through).await, 0, "{what}");
        let (open, queued) = backlog(&cell, job).await;
        let expected = match (policy, overlap) {
            (MisfirePolicy::Skip, _) => (0, 0),
            (MisfirePolicy::Once, _) => (1, 0),
            (MisfirePolicy::CatchUp, OverlapPolicy::Allow) => (30, 30),
            (MisfirePolicy::CatchUp, _) => (30, 1),
        };
        assert_eq!((open, queued), expected, "{what}");
        let late =
            cell.count(&format!("SELECT count(*) FROM run_queue WHERE job_id = '{job}' AND late")).await;
        assert_eq!(late, i64::from(policy == MisfirePolicy::Once), "{what}");
        // What was planned and not handed out ended by the same rule.
        let reason = if policy == MisfirePolicy::Once { "SUPERSEDED" } else { "MISSED" };
        let ended =
            format!("SELECT DISTINCT reason::text FROM run WHERE job_id = '{job}' AND state = 'SKIPPED'");
        assert_eq!(cell.texts(&ended).await, reason, "{what}");
    }
    assert_eq!(cell.texts("SELECT DISTINCT cause::text FROM misfire").await, "NO_TICKER");
    // A second that passed while planning makes one more miss, and so one more than the newest thirty.
    let causes = cell.texts("SELECT DISTINCT cause::text FROM run_outcome ORDER BY 1").await;
    assert!(["NO_DISPATCHER", "LIMIT NO_DISPATCHER"].contains(&causes.as_str()), "{causes}");
    let orphans = "SELECT count(*) FROM run r WHERE state = 'PLANNED' \
                     AND NOT EXISTS (SELECT FROM run_queue q WHERE q.job_id = r.job_id AND q.scheduled_for = r.scheduled_for) \
                     AND NOT EXISTS (SELECT FROM catch_up c WHERE c.job_id = r.job_id AND r.scheduled_for BETWEEN c.next_at AND c.through)";
    assert_eq!(cell.count(orphans).await, 0);
}

#[tokio::test]
async fn runs_that_nobody_hands_out_follow_the_policy_while_the_ticker_goes_on() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    let mut jobs = Vec::new();
    for policy in MisfirePolicy::ALL.iter().copied() {
        for overlap in [OverlapPolicy::Forbid, OverlapPolicy::Allow] {
            let name = format!("{policy}-{overlap}").to_lowercase().replace('_', "-");
            jobs.push((policy, overlap, cell.create_job(&name, &each_second(policy, overlap)).await));
        }
    }
    let created = cell.now().await;
    for _ in 0..20 {
        ticker.plan().await;
        ticker.mark().await;
        cell.pass(7).await;
    }
    ticker.plan().await;
    let now = cell.now().await;
    for (policy, overlap, job) in jobs {
        let what = format!("{policy} {overlap}");
        assert_eq!(cell.missed(job).await, 0, "{what}: each has a row");
        assert_eq!(cell.unaccounted(job, created, now + TimeDelta::seconds(60)).await, 0, "{what}");
        let (open, queued) = backlog(&cell, job).await;
        let expected = match (policy, overlap) {
            (MisfirePolicy::Skip, _) => (0, 0),
            (MisfirePolicy::Once, _) => (1, 0),
            (MisfirePolicy::CatchUp, OverlapPolicy::Allow) => (30, 30),
            (MisfirePolicy::CatchUp, _) => (30, 1),
        };
        assert_eq!((open, queued), expected, "{what}");
        let late =
            cell.count(&format!("SELECT count(*) FROM run_queue WHERE job_id = '{job}' AND late")).await;
        assert_eq!(late, i64::from(policy == MisfirePolicy::Once), "{what}");
    }
    let causes = "SELECT DISTINCT cause::text FROM run_outcome ORDER BY 1";
    assert_eq!(cell.texts(causes).await, "LIMIT NO_DISPATCHER");
}

#[tokio::test]
async fn the_cause_is_what_the_evidence_shows() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    cell.create_job("job", &each_second(MisfirePolicy::Skip, OverlapPolicy::Forbid)).await;
    let causes = "SELECT DISTINCT cause::text FROM run_outcome ORDER BY 1";
    let dispatcher = "INSERT INTO dispatcher (id, started_at, renewed_at, pid, name, address, http) \
                      VALUES (gen_random_uuid(), esc_now() - interval '1 hour', esc_now() + interval '1 hour', 1, 'd', 'a', 'h')";
    let worker = "INSERT INTO worker_session (id, dispatcher_id, connected_at, slots, name, version, queues) \
                  VALUES (gen_random_uuid(), gen_random_uuid(), esc_now() - interval '1 hour', 1, 'w', '1', '{default}')";
    ticker.plan().await;
    for (evidence, expected) in [
        (None, "NO_DISPATCHER"),
        (Some(dispatcher), "NO_DISPATCHER NO_WORKER"),
        (Some(worker), "NO_DISPATCHER NO_WORKER UNKNOWN"),
    ] {
        if let Some(statement) = evidence {
            cell.execute(statement).await;
        }
        cell.pass(30).await;
        ticker.plan().await;
        assert_eq!(cell.texts(causes).await, expected);
    }
}

#[tokio::test]
async fn a_late_run_that_nobody_took_gives_way_to_the_next_outages() {
    let cell = Cell::create().await;
    let job = {
        let ticker = cell.ticker(1).await;
        let job = cell.create_job("job", &each_second(MisfirePolicy::Once, OverlapPolicy::Forbid)).await;
        ticker.plan().await;
        job
    };
    let created = cell.now().await;
    for revision in 2..5 {
        cell.pass(HOUR).await;
        cell.ticker(revision).await.plan().await;
        let late = "SELECT count(*) FROM run_queue WHERE late AND scheduled_for < esc_now() - interval '9 seconds' \
                      AND scheduled_for > esc_now() - interval '15 seconds'";
        assert_eq!(cell.count(late).await, 1, "the newest missed one");
    }
    assert_eq!(cell.unaccounted(job, created, cell.now().await + TimeDelta::seconds(119)).await, 0);
}
