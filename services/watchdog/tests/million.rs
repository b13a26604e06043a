//! What a million jobs cost the watchdog, measured: `docs/benchmarks.md` has the figures.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod support;

use std::time::{Duration, Instant};
use store::fence::Term;
use support::{Cell, rows};
use watchdog::check::{Limits, Memory, Summary};

const TENANT: &str = "00000000-0000-4000-8000-000000000001";

/// A million jobs, each with a deadline within two hours, none of which is late.
const MILLION: &str = "
    WITH new AS (
        INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
        SELECT md5(n::text)::uuid, $1::text::uuid, 1, esc_now(), esc_now(), 'job-' || n, '{}'
        FROM generate_series($2::bigint, $3::bigint) n
        RETURNING id
    )
    INSERT INTO watch_cursor (job_id, next_at, judge_at, judged_through)
    SELECT id, esc_now() + w, esc_now() + w, esc_now()
    FROM (SELECT id, interval '1 minute' + random() * interval '2 hours' AS w FROM new) n
    RETURNING 1";

#[tokio::test]
#[ignore = "stores a million jobs, which takes minutes; docs/benchmarks.md has the figures"]
async fn a_cycle_over_a_million_jobs_takes_less_than_a_second_when_nothing_is_late() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    for part in 0..50_i64 {
        rows!(cell, MILLION, TENANT, part * 20_000 + 1, (part + 1) * 20_000);
    }
    rows!(cell, "ANALYZE");
    let took = cycles(&cell, term).await;
    let began = Instant::now();
    let (soon, _) = store::system::deadlines(&cell.store).await.expect("counted");
    println!("counting {soon} deadlines: {:?}", began.elapsed());
    let began = Instant::now();
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    store::system::soon(&tx).await.expect("looked");
    println!("who waits for them: {:?}", began.elapsed());
    assert!(took[20] < Duration::from_secs(1), "{took:?}");
}

/// How long 21 cycles take in which nothing is late, the quickest first.
async fn cycles(cell: &Cell, term: Term) -> Vec<Duration> {
    let (mut took, mut memory) = (Vec::new(), Memory::default());
    for _ in 0..21 {
        let began = Instant::now();
        let summary =
            watchdog::check::run_once(&cell.store, term, support::LIMITS, &mut memory, || true, &|| None)
                .await;
        assert_eq!(summary.expect("a cycle"), Summary::default());
        store::system::observe(&cell.store).await.expect("looked");
        let (waiting, alive) = (Duration::from_secs(30), Duration::from_secs(15));
        store::system::unserved(&cell.store, waiting, alive).await.expect("looked");
        took.push(began.elapsed());
    }
    took.sort();
    println!("a cycle: median {:?}, slowest {:?}", took[10], took[20]);
    took
}

/// Jobs whose last occurrence, $5, has succeeded, and is to be judged now.
const DONE: &str = "
    WITH new AS (
        INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
        SELECT md5(n::text)::uuid, $1::text::uuid, 1, now() - interval '1 day', now(), 'job-' || n, $4::text::jsonb
        FROM generate_series($2::bigint, $3::bigint) n
        RETURNING id, definition
    ), last AS (
        SELECT $5::timestamptz AS at
    ), revision AS (
        INSERT INTO job_revision (job_id, generation, in_force_from, action, author, definition)
        SELECT id, 1, now() - interval '1 day', 'CREATED', 'test', definition FROM new
    ), run AS (
        INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, token, attempt, origin, state, finished_at)
        SELECT id, $1::text::uuid, at, at, 1, 1, 1, 1, 'SCHEDULE', 'SUCCEEDED', at + interval '1 s' FROM new, last
    )
    INSERT INTO watch_cursor (job_id, next_at, judge_at, judged_through)
    SELECT id, at, now(), at - interval '1 s' FROM new, last
    RETURNING 1";

#[tokio::test]
#[ignore = "stores a million jobs, which takes minutes; docs/benchmarks.md has the figures"]
async fn a_million_successes_of_one_second_are_judged_in_minutes_and_no_transaction_is_long() {
    let cell = Cell::create().await;
    store::clock::shift(&cell.store, 0).await.expect("the real time");
    rows!(cell, "SELECT esc_make_partitions(current_date - 1, current_date + 1)");
    rows!(cell, "UPDATE outcome_watch SET through = esc_now()");
    let term = cell.lead(1).await;
    let mut definition = support::definition("0 * * * *", 60);
    definition.alert.channels.clear();
    let hour = (chrono::Utc::now().timestamp() / 3_600 - 1) * 3_600;
    let last = chrono::DateTime::from_timestamp(hour, 0).expect("in range");
    definition.ends_at = Some(last + chrono::Duration::seconds(1));
    let definition = serde_json::to_string(&definition).expect("JSON");
    for part in 0..50_i64 {
        rows!(cell, DONE, TENANT, part * 20_000 + 1, (part + 1) * 20_000, definition, last);
    }
    rows!(cell, "ANALYZE");
    let limits = Limits { jobs: 500, occurrences: 10_000 };
    let (mut memory, mut judged, mut slowest) = (Memory::default(), 0, Duration::ZERO);
    let began = Instant::now();
    while judged < 1_000_000 {
        let cycle = Instant::now();
        let summary =
            watchdog::check::run_once(&cell.store, term, limits, &mut memory, || true, &|| None).await;
        let summary = summary.expect("a cycle");
        assert_eq!(summary.missed, 0);
        assert!(summary.judged > 0, "all are due");
        judged += summary.judged;
        slowest = slowest.max(cycle.elapsed());
    }
    println!("judged {judged} in {:?}; a cycle took {slowest:?} at most", began.elapsed());
    assert!(slowest < Duration::from_secs(30), "{slowest:?}");
}

/// Jobs $2 to $3 with the definition $4, each of which has run 20 times within the last day; one in twenty is at work.
const RUNNING: &str = "
    WITH new AS (
        INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
        SELECT md5(n::text)::uuid, $1::text::uuid, 1, now() - interval '1 day', now(), 'job-' || n, $4::text::jsonb
        FROM generate_series($2::bigint, $3::bigint) n
        RETURNING id
    ), run AS (
        INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, token, attempt, origin, state, accepted_at,
                         finished_at)
        SELECT id, $1::text::uuid, at, at, 1, 1, 1, 1, 'SCHEDULE', 'SUCCEEDED', at, at + interval '1 s'
        FROM new, LATERAL (SELECT date_trunc('minute', now()) - n * interval '1 hour' AS at FROM generate_series(1, 20) n) r
    )
    INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, accepted_at, generation, token,
                           priority, undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
    SELECT id, $1::text::uuid, id, id, date_trunc('minute', now()), now(), now(), 1, 1, 0, 0, 0, 0, 1, 1, 'SCHEDULE', true, 'q'
    FROM new WHERE random() < 0.05
    RETURNING 1";

#[tokio::test]
#[ignore = "stores two million runs, which takes minutes; docs/benchmarks.md has the figures"]
async fn a_hundred_thousand_jobs_with_an_expected_runtime_are_looked_at_in_turn_and_no_cycle_is_long() {
    let cell = Cell::create().await;
    store::clock::shift(&cell.store, 0).await.expect("the real time");
    rows!(cell, "SELECT esc_make_partitions(current_date - 2, current_date + 1)");
    rows!(cell, "UPDATE outcome_watch SET through = esc_now()");
    let term = cell.lead(1).await;
    println!("without any job:");
    cycles(&cell, term).await;
    let mut definition = support::definition("0 * * * *", 60);
    definition.alert.on.runtime_over = Some(Duration::from_secs(3_600));
    let definition = serde_json::to_string(&definition).expect("JSON");
    for part in 0..10_i64 {
        rows!(cell, RUNNING, TENANT, part * 10_000 + 1, (part + 1) * 10_000, definition);
    }
    rows!(cell, "ANALYZE");
    let took = cycles(&cell, term).await;
    assert!(took[20] < Duration::from_secs(5), "{took:?}");
}
