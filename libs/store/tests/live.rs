//! What running attempts show: who may show it, what replaces what, and when it is forgotten.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod handing;
mod support;

use chrono::TimeDelta;
use handing::Floor;
use model::ids::{SessionId, TenantId};
use model::token::Token;
use store::run_lease::assignment::Assignment;
use store::run_live::{self, Showing, Shown};

fn showing(taken: &Assignment, offset: i64, tail: &str) -> Showing {
    let lease = &taken.lease;
    Showing {
        key: lease.key,
        attempt: lease.attempt,
        token: lease.token,
        session: lease.session.expect("a worker has it"),
        shown: Shown {
            offset,
            tail: tail.as_bytes().to_vec(),
            fraction: Some(0.5),
            note: "at it".to_owned(),
        },
    }
}

/// The offset and the tail that are shown, of whose attempt.
async fn read(floor: &Floor, taken: &Assignment) -> Option<(i32, i64, String)> {
    let key = taken.lease.key;
    let read = run_live::read(&floor.cell.store, TenantId::DEFAULT, key.job_id, key.scheduled_for).await;
    read.expect("asked")
        .map(|(attempt, shown)| (attempt, shown.offset, String::from_utf8(shown.tail).expect("text")))
}

#[tokio::test]
async fn only_the_attempt_whose_run_it_is_shows_anything() {
    let floor = Floor::create().await;
    let (worker, store) = (floor.worker().await, &floor.cell.store);
    floor.due(floor.job().await, 1, true).await;
    let taken = floor.claim_one(worker).await;
    let right = showing(&taken, 0, "one");
    let token = Token::from_i64(right.token.as_i64() + 1).expect("positive");
    for wrong in [
        Showing { attempt: 2, ..right.clone() },
        Showing { token, ..right.clone() },
        Showing { session: SessionId::random(), ..right.clone() },
    ] {
        assert_eq!(run_live::show(store, std::slice::from_ref(&wrong)).await.expect("asked"), 0, "{wrong:?}");
    }
    assert_eq!(run_live::show(store, &[]).await.expect("asked"), 0);
    // A stranger's word in the same group takes nothing from the right one's.
    let forged = Showing { session: SessionId::random(), ..showing(&taken, 0, "forged") };
    assert_eq!(run_live::show(store, &[forged, right.clone(), right.clone()]).await.expect("shown"), 1);
    assert_eq!(read(&floor, &taken).await, Some((1, 0, "one".to_owned())));
    let of = |tenant| run_live::read(store, tenant, taken.lease.key.job_id, taken.lease.key.scheduled_for);
    assert_eq!(
        of(TenantId(uuid::Uuid::from_u128(7))).await.expect("asked"),
        None,
        "another tenant sees nothing"
    );

    // Its last words come after its end; what they were before replaces nothing.
    floor.succeed(&taken).await;
    assert_eq!(run_live::show(store, &[showing(&taken, 2, "e two")]).await.expect("shown"), 1);
    assert_eq!(run_live::show(store, &[right]).await.expect("asked"), 0);
    assert_eq!(read(&floor, &taken).await, Some((1, 2, "e two".to_owned())));
}

#[tokio::test]
async fn a_later_attempt_takes_the_place_of_an_earlier_one() {
    let floor = Floor::create().await;
    let (worker, store) = (floor.worker().await, &floor.cell.store);
    floor.due(floor.job().await, 1, true).await;
    let first = floor.claim_one(worker).await;
    assert_eq!(run_live::show(store, &[showing(&first, 9_000, "far")]).await.expect("shown"), 1);
    floor.fail(&first, std::time::Duration::ZERO).await;
    let second = floor.claim_one(worker).await;
    assert_eq!(run_live::show(store, &[showing(&first, 9_999, "late")]).await.expect("asked"), 0);
    assert_eq!(run_live::show(store, &[showing(&second, 0, "again")]).await.expect("shown"), 1);
    assert_eq!(read(&floor, &second).await, Some((2, 0, "again".to_owned())));
}

#[tokio::test]
async fn what_was_shown_is_forgotten_some_time_after_the_end_and_not_before() {
    let floor = Floor::create().await;
    let (worker, store) = (floor.worker().await, &floor.cell.store);
    let (quiet, over) = (floor.job().await, floor.job().await);
    floor.due(quiet, 1, true).await;
    let quiet = floor.claim_one(worker).await;
    floor.due(over, 1, true).await;
    let over = floor.claim_one(worker).await;
    let both = [showing(&quiet, 0, "one"), showing(&over, 0, "two")];
    assert_eq!(run_live::show(store, &both).await.expect("shown"), 2);
    floor.succeed(&over).await;
    assert_eq!(run_live::expire(store).await.expect("asked"), 0, "it may be looked at for a while");
    store::clock::shift(store, TimeDelta::minutes(11).num_milliseconds()).await.expect("shifted");
    assert_eq!(run_live::expire(store).await.expect("forgotten"), 1);
    assert!(read(&floor, &quiet).await.is_some(), "it runs still");
    assert_eq!(read(&floor, &over).await, None);
}

#[tokio::test]
async fn deadlines_move_with_a_jump_of_the_clock_for_what_was_accepted_before_it() {
    let floor = Floor::create().await;
    let (worker, store) = (floor.worker().await, &floor.cell.store);
    floor.due(floor.job().await, 1, true).await;
    floor.claim_one(worker).await;
    floor
        .side
        .execute(
            "UPDATE run_lease SET accepted_at = esc_now(), deadline = esc_now() + interval '1 minute'",
            &[],
        )
        .await
        .expect("accepted");
    let now = store::clock::now(store).await.expect("a clock");
    let moved = async |before| {
        let by = TimeDelta::hours(1);
        store::run_lease::shift_deadlines(store, floor.dispatcher, by, before).await.expect("moved")
    };
    assert_eq!(moved(now - TimeDelta::minutes(1)).await, 0, "accepted after the jump");
    assert_eq!(moved(now + TimeDelta::minutes(1)).await, 1);
    let left: f64 =
        floor.one("SELECT extract(epoch FROM deadline - accepted_at)::float8 FROM run_lease").await;
    assert_eq!(left.round(), 3_660.0);
}

#[tokio::test]
async fn its_statements_use_their_indexes_on_full_tables() {
    let floor = Floor::create().await;
    let fill = "
        CREATE TEMP TABLE n AS SELECT i, ('00000000-0000-4000-9000-' || lpad(to_hex(i), 12, '0'))::uuid AS id,
            date_trunc('second', esc_now()) AS at, '00000000-0000-4000-8000-000000000001'::uuid AS tenant
        FROM generate_series(1, 20000) i;
        INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
            SELECT id, tenant, at, at, 1, 1, 'SCHEDULE' FROM n;
        INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
                undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
            SELECT id, tenant, id, id, at, at, 1, i, 0, 0, 0, 0, 1, 1, 'SCHEDULE', true, 'queue-1' FROM n;
        INSERT INTO run_live (job_id, scheduled_for, at, \"offset\", attempt, tail) SELECT id, at, at, 0, 1, '' FROM n;
        INSERT INTO worker_session (id, dispatcher_id, connected_at, ended_at, slots, name, version, queues)
            SELECT id, gen_random_uuid(), at, CASE WHEN i > 100 THEN at END, 1, 'w', '1', '{default}' FROM n;
        INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
            SELECT id, tenant, 1, at, at, id::text, '{}' FROM n;
        ANALYZE;";
    floor.side.batch_execute(fill).await.expect("filled");
    let id = uuid::Uuid::from_u128(0x0000_0000_0000_4000_9000_0000_0000_0007);
    let tenant = TenantId::DEFAULT.0;
    let (ids, instants, numbers, longs) = (vec![id; 3], vec![floor.start; 3], vec![1_i32; 3], vec![7_i64; 3]);
    let (fractions, tails, notes) = (vec![None::<f64>; 3], vec![b"x".to_vec(); 3], vec![String::new(); 3]);
    let (number, long) = (1_i32, 10_i64);
    type Case<'a> = (&'a str, Vec<&'a (dyn tokio_postgres::types::ToSql + Sync)>, &'a str);
    let cases: [Case<'_>; 5] = [
        (
            "run_live/show",
            vec![
                &ids,
                &instants,
                &numbers,
                &longs,
                &ids,
                &longs,
                &fractions,
                &tails,
                &notes,
                &floor.start,
                &floor.start,
            ],
            "run_lease_",
        ),
        ("run_live/read", vec![&tenant, &id, &floor.start], "run_live_pkey"),
        ("run_live/expire", vec![&long], "run_live_by_age"),
        ("run_lease/shift_deadlines", vec![&floor.dispatcher.0, &long, &floor.start], "worker_session_open"),
        ("worker_session/heard", vec![&id, &number], "worker_session_pkey"),
    ];
    for (name, params, index) in cases {
        let path = format!("{}/sql/{name}.sql", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("a statement");
        let rows = floor.side.query(&format!("EXPLAIN {text}"), &params).await.expect(name);
        let plan = rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n");
        assert!(plan.contains(index), "{name} does not use {index}:\n{plan}");
        for hot in ["run_lease", "run_live", "worker_session", "run_2"] {
            assert!(!plan.contains(&format!("Seq Scan on {hot}")), "{name} reads all of {hot}:\n{plan}");
        }
    }
}
