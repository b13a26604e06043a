//! What became of runs reaches whoever watches once, in whatever order it was committed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use chrono::{DateTime, TimeDelta, Utc};
use model::ids::{JobId, RunKey, TenantId};
use model::run::{Phase, Reason, State};
use std::collections::BTreeSet;
use store::run_end::{self, End};
use store::run_event::{self, Lost, Position};
use store::{Store, Transaction};
use support::Cell;
use tokio_postgres::Client;

const TENANT: TenantId = TenantId::DEFAULT;

fn job(number: u128) -> JobId {
    JobId(uuid::Uuid::from_u128(number))
}

/// A minute ago, and so many seconds.
fn at(second: i64) -> DateTime<Utc> {
    let now = DateTime::from_timestamp(Utc::now().timestamp() / 60 * 60, 0).unwrap();
    now - TimeDelta::minutes(1) + TimeDelta::seconds(second)
}

/// Jobs 1 to 3 with twenty planned runs each, none of them queued; a fourth of another tenant.
async fn filled() -> (Cell, Client) {
    let cell = Cell::create().await;
    let sql = cell.connect().await;
    sql.batch_execute("SELECT esc_make_partitions(current_date - 2, current_date + 2)").await.unwrap();
    let other = uuid::Uuid::from_u128(99);
    sql.execute("INSERT INTO tenant (id, name) VALUES ($1, 'other')", &[&other]).await.unwrap();
    for number in 1..=4_u128 {
        let tenant = if number == 4 { other } else { TENANT.0 };
        let name = format!("job-{number}");
        sql.execute(
            "INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
             VALUES ($1, $2, 1, esc_now(), esc_now(), $3, '{}')",
            &[&job(number).0, &tenant, &name],
        )
        .await
        .unwrap();
        for second in 0..20 {
            sql.execute(
                "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
                 VALUES ($1, $2, $3, $3, 1, 1, 'SCHEDULE')",
                &[&job(number).0, &tenant, &at(second)],
            )
            .await
            .unwrap();
        }
    }
    (cell, sql)
}

fn skipped(number: u128, second: i64) -> End {
    End {
        key: RunKey::new(job(number), at(second)),
        attempt: None,
        state: State::Skipped,
        reason: Some(Reason::Missed),
        output: None,
    }
}

async fn end(tx: &Transaction<'_>, ends: &[End]) {
    assert_eq!(run_end::end(tx, ends).await.unwrap().len(), ends.len());
}

async fn end_now(store: &Store, ends: &[End]) {
    let mut client = store.client("end").await.unwrap();
    let tx = client.begin("end").await.unwrap();
    end(&tx, ends).await;
    tx.commit().await.unwrap();
}

async fn begin(store: &Store) -> Position {
    run_event::read(store, TENANT, None, None).await.unwrap().unwrap().position
}

/// Everything there is to read on from `position`, with the position after it.
async fn rest(store: &Store, job: Option<JobId>, mut position: Position) -> (Vec<String>, Position) {
    let mut told = Vec::new();
    loop {
        let found = run_event::read(store, TENANT, job, Some(&position)).await.unwrap().unwrap();
        told.extend(found.events.iter().map(|event| {
            format!(
                "{}+{} {}",
                event.job_name,
                (event.run.scheduled_for - at(0)).num_seconds(),
                event.run.phase.as_str()
            )
        }));
        position = found.position;
        if !found.more {
            return (told, position);
        }
    }
}

#[tokio::test]
async fn what_commits_in_another_order_than_it_was_written_is_told_once() {
    let (cell, _sql) = filled().await;
    let start = begin(&cell.store).await;
    let mut early = cell.store.client("early").await.unwrap();
    let early = early.begin("early").await.unwrap();
    end(&early, &[skipped(1, 0)]).await;
    end_now(&cell.store, &[skipped(2, 0)]).await;
    let (told, middle) = rest(&cell.store, None, start.clone()).await;
    assert_eq!(told, ["job-2+0 SKIPPED"]);
    // Of the earlier transaction, which has the lower number and the earlier time, nothing was seen yet.
    early.commit().await.unwrap();
    let (told, end) = rest(&cell.store, None, middle).await;
    assert_eq!(told, ["job-1+0 SKIPPED"]);
    assert_eq!(rest(&cell.store, None, end).await.0, [""; 0]);
    assert_eq!(rest(&cell.store, None, start).await.0, ["job-1+0 SKIPPED", "job-2+0 SKIPPED"]);
}

#[tokio::test]
async fn whoever_stops_after_any_event_reads_on_with_the_next() {
    let (cell, _sql) = filled().await;
    let start = begin(&cell.store).await;
    for second in 0..20 {
        end_now(&cell.store, &[skipped(1, second), skipped(2, second), skipped(3, second)]).await;
    }
    let (whole, _) = rest(&cell.store, None, start.clone()).await;
    assert_eq!(whole.len(), 60);
    let first = run_event::read(&cell.store, TENANT, None, Some(&start)).await.unwrap().unwrap();
    assert!(first.more && first.events.len() < 60, "more than a look reads");
    // One that is more than a look away, too: read on from there.
    for (read, event) in first.events.iter().enumerate() {
        let (left, _) = rest(&cell.store, None, event.position.clone()).await;
        assert_eq!(left, whole[read + 1..], "after {} events", read + 1);
    }
    let (of_two, _) = rest(&cell.store, Some(job(2)), start).await;
    assert_eq!(of_two, (0..20).map(|second| format!("job-2+{second} SKIPPED")).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_one_transaction_did_is_read_in_parts_when_it_is_much() {
    let (cell, sql) = filled().await;
    let start = begin(&cell.store).await;
    sql.execute(
        "WITH cancelled AS (
             INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
             SELECT $2, $1, $3::timestamptz - n * interval '1 s', $3, 1, 1, 'SCHEDULE' FROM generate_series(1, 2500) n
             RETURNING job_id, scheduled_for
         )
         INSERT INTO run_event (tenant_id, at, phase, job_id, scheduled_for, attempt)
         SELECT $1, esc_now(), 'CANCELLED', array_agg(job_id), array_agg(scheduled_for), array_agg(0) FROM cancelled",
        &[&TENANT.0, &job(1).0, &at(0)],
    )
    .await
    .unwrap();
    end_now(&cell.store, &[skipped(2, 0)]).await;
    let first = run_event::read(&cell.store, TENANT, None, Some(&start)).await.unwrap().unwrap();
    assert!(first.more && first.events.len() == 1_000, "a look reads so many events at most");
    let (whole, _) = rest(&cell.store, None, start.clone()).await;
    assert_eq!((whole.len(), whole.iter().collect::<BTreeSet<_>>().len()), (2_501, 2_501));
    assert_eq!(whole[2_500], "job-2+0 SKIPPED");
    let (left, _) = rest(&cell.store, None, first.events[998].position.clone()).await;
    assert_eq!(left, whole[999..]);
    assert_eq!(rest(&cell.store, Some(job(2)), start).await.0, ["job-2+0 SKIPPED"]);
}

#[tokio::test]
async fn another_tenants_runs_are_not_seen_and_what_was_rolled_back_never_happened() {
    let (cell, _sql) = filled().await;
    let start = begin(&cell.store).await;
    end_now(&cell.store, &[skipped(4, 0)]).await;
    let mut undone = cell.store.client("undo").await.unwrap();
    let undone_tx = undone.begin("undo").await.unwrap();
    end(&undone_tx, &[skipped(1, 0)]).await;
    drop(undone_tx);
    assert_eq!(rest(&cell.store, None, start).await.0, [""; 0]);
}

#[tokio::test]
async fn whoever_was_away_for_too_long_is_told_and_one_of_another_server_too() {
    let (cell, sql) = filled().await;
    let start = begin(&cell.store).await;
    end_now(&cell.store, &[skipped(1, 0)]).await;
    let (_, read) = rest(&cell.store, None, start.clone()).await;
    sql.execute("UPDATE run_event SET at = at - interval '2 days'", &[]).await.unwrap();
    let mut client = cell.store.client("expire").await.unwrap();
    let tx = client.begin("expire").await.unwrap();
    let yesterday = Utc::now() - TimeDelta::days(1);
    let table = store::retention::Table::RunEvent;
    assert_eq!(store::retention::expire(&tx, table, yesterday, 10).await.unwrap(), 1);
    tx.commit().await.unwrap();
    let lost = run_event::read(&cell.store, TENANT, None, Some(&start)).await.unwrap();
    assert_eq!(lost, Err(Lost::Forgotten));
    assert_eq!(rest(&cell.store, None, read.clone()).await.0, [""; 0], "it had seen what was forgotten");
    let elsewhere = Position { server: read.server + 1, ..read.clone() };
    let lost = run_event::read(&cell.store, TENANT, None, Some(&elsewhere)).await.unwrap();
    assert_eq!(lost, Err(Lost::Foreign));
    let promoted = "BEGIN; CREATE OR REPLACE FUNCTION esc_timeline() RETURNS integer LANGUAGE sql VOLATILE AS 'SELECT 99'; COMMIT";
    let before: String =
        sql.query_one("SELECT pg_get_functiondef('esc_timeline'::regproc)", &[]).await.unwrap().get(0);
    sql.batch_execute(promoted).await.unwrap();
    let lost = run_event::read(&cell.store, TENANT, None, Some(&read)).await.unwrap();
    assert_eq!(
        lost,
        Err(Lost::Foreign),
        "a promoted replica begins transactions anew that were seen elsewhere"
    );
    sql.batch_execute(&before).await.unwrap();
    // A server that was restored to an earlier moment has yet to begin what this one has seen.
    let later = Position { seen: "4000000000000:4000000000000:".to_owned(), ..read };
    let lost = run_event::read(&cell.store, TENANT, None, Some(&later)).await.unwrap();
    assert_eq!(lost, Err(Lost::Foreign));
}

#[tokio::test]
async fn an_event_shows_the_run_as_it_was_then() {
    let (cell, sql) = filled().await;
    let start = begin(&cell.store).await;
    sql.execute(
        "INSERT INTO run_event (tenant_id, at, phase, job_id, scheduled_for, attempt)
         VALUES ($1, esc_now(), 'RUNNING', ARRAY[$2::uuid], ARRAY[$3::timestamptz], '{1}')",
        &[&TENANT.0, &job(1).0, &at(0)],
    )
    .await
    .unwrap();
    end_now(&cell.store, &[skipped(1, 0)]).await;
    let found = run_event::read(&cell.store, TENANT, None, Some(&start)).await.unwrap().unwrap();
    let [running, ended] = found.events.as_slice() else { panic!("two events: {found:?}") };
    assert_eq!((running.run.phase, running.run.attempt, running.run.finished_at), (Phase::Running, 1, None));
    assert_eq!((ended.run.phase, ended.run.reason.as_deref()), (Phase::Skipped, Some("MISSED")));
    assert!(ended.run.finished_at.is_some());
}

/// What telling costs those who end runs: microseconds a run with and without it, in batches of 500 and alone, printed.
#[tokio::test]
#[ignore = "a measurement, for a quiet machine"]
async fn telling_costs_next_to_nothing() {
    const TOLD: &str = include_str!("../sql/run/end.sql");
    let begins = TOLD.find("), told AS (").expect("the statement tells");
    let ends = begins + TOLD[begins..].find("\n)\nSELECT").expect("and answers");
    let untold = format!("{}{}", &TOLD[..begins], &TOLD[ends + 1..]);
    let cell = Cell::create().await;
    let mut sql = cell.connect().await;
    sql.batch_execute(&format!(
        "SELECT esc_make_partitions(current_date - 2, current_date + 2);
         INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
         SELECT md5(n::text)::uuid, '{TENANT}', 1, esc_now(), esc_now(), 'job-' || n, '{{}}' FROM generate_series(0, 39999) n;
         INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
         SELECT md5((n % 40000)::text)::uuid, '{TENANT}', at, at, 1, 1, 'SCHEDULE'
         FROM (SELECT date_trunc('second', esc_now()) AS base OFFSET 0) b, generate_series(1, 80000) n,
              LATERAL (SELECT base - (n / 40000) * interval '1 s' AS at) a"
    ))
    .await
    .unwrap();
    sql.batch_execute("VACUUM ANALYZE").await.unwrap();
    let rows = sql.query("SELECT job_id, scheduled_for FROM run", &[]).await.unwrap();
    let mut keys = rows.iter().map(|row| (row.get::<_, uuid::Uuid>(0), row.get::<_, DateTime<Utc>>(1)));
    let (told, untold) = (sql.prepare(TOLD).await.unwrap(), sql.prepare(&untold).await.unwrap());
    for (batch, rounds) in [(500_usize, 40), (1, 1_000)] {
        let mut took = [0.0_f64; 2];
        for round in 0..rounds * 2 {
            let (jobs, instants): (Vec<_>, Vec<_>) = keys.by_ref().take(batch).unzip();
            let statement = [&told, &untold][round % 2];
            let (zero, no_token) = (vec![0_i32; batch], vec![0_i64; batch]);
            let (session, state) = (vec![None::<uuid::Uuid>; batch], vec!["SKIPPED"; batch]);
            let (reason, exit) = (vec![Some("MISSED"); batch], vec![None::<i32>; batch]);
            let (tail, cut, error) = (vec![None::<&[u8]>; batch], vec![false; batch], vec![""; batch]);
            let begun = vec![None::<i64>; batch];
            let (first, last) = (*instants.iter().min().unwrap(), *instants.iter().max().unwrap());
            let began = std::time::Instant::now();
            let tx = sql.transaction().await.unwrap();
            let ended = tx
                .query(
                    statement,
                    &[
                        &jobs, &instants, &zero, &no_token, &session, &state, &reason, &exit, &tail, &cut,
                        &error, &first, &last, &begun,
                    ],
                )
                .await
                .unwrap();
            tx.commit().await.unwrap();
            took[round % 2] += began.elapsed().as_secs_f64() * 1e6;
            assert_eq!(ended.len(), batch);
        }
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        let each = took.map(|all| all / (batch * rounds) as f64);
        println!("batches of {batch}: {:.2} µs a run with events, {:.2} µs without", each[0], each[1]);
    }
}
