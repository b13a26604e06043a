//! What a million jobs cost the watchdog, measured: `docs/benchmarks.md` has the figures.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod support;

use std::time::Duration;
use support::{Cell, rows};
use watchdog::check::Limits;

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
    let mut took: Vec<_> = Vec::new();
    for _ in 0..21 {
        let began = std::time::Instant::now();
        let summary = watchdog::check::run_once(
            &cell.store,
            term,
            support::LIMITS,
            &mut watchdog::Dates::default(),
            || true,
            &|| None,
        )
        .await
        .expect("a cycle");
        store::system::observe(&cell.store).await.expect("looked");
        store::system::unserved(&cell.store, Duration::from_secs(30), Duration::from_secs(15))
            .await
            .expect("looked");
        took.push(began.elapsed());
        assert_eq!(summary.judged, 0);
    }
    took.sort();
    let began = std::time::Instant::now();
    let (soon, _) = store::system::deadlines(&cell.store).await.expect("counted");
    println!(
        "a cycle: median {:?}, slowest {:?}; counting {soon} deadlines: {:?}",
        took[10],
        took[20],
        began.elapsed()
    );
    let began = std::time::Instant::now();
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    store::system::soon(&tx).await.expect("looked");
    println!("who waits for them: {:?}", began.elapsed());
    assert!(took[20] < Duration::from_secs(1), "{took:?}");
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
    let (mut dates, mut judged, mut slowest) = (watchdog::Dates::default(), 0, Duration::ZERO);
    let began = std::time::Instant::now();
    while judged < 1_000_000 {
        let cycle = std::time::Instant::now();
        let summary =
            watchdog::check::run_once(&cell.store, term, limits, &mut dates, || true, &|| None).await;
        let summary = summary.expect("a cycle");
        assert_eq!(summary.missed, 0);
        assert!(summary.judged > 0, "all are due");
        judged += summary.judged;
        slowest = slowest.max(cycle.elapsed());
    }
    println!("judged {judged} in {:?}; a cycle took {slowest:?} at most", began.elapsed());
    assert!(slowest < Duration::from_secs(30), "{slowest:?}");
}
