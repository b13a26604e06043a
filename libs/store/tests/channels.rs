//! Channels that others look for, change and delete at the same time, and what is asked of their outbox when it is full.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use model::channel::{Accepts, Target};
use model::ids::TenantId;
use stack::wait::wait_for;
use std::time::Duration;
use store::alert_channel;
use support::Cell;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

const SOON: Duration = Duration::from_secs(20);

fn insert(name: &str) -> String {
    format!(
        "INSERT INTO alert_channel (id, tenant_id, created_at, name, kind, url)
         VALUES (gen_random_uuid(), '{}', esc_now(), '{name}', 'WEBHOOK', 'http://127.0.0.1:1/')",
        TenantId::DEFAULT
    )
}

#[tokio::test]
async fn a_channel_that_nothing_keeps_is_not_said_to_be_there() {
    let cell = Cell::create().await;
    let (side, look) = (cell.connect().await, cell.connect().await);
    side.batch_execute(&insert("early")).await.unwrap();
    side.batch_execute("BEGIN; SELECT 1 FROM alert_channel FOR UPDATE").await.unwrap();
    let mut client = cell.store.client("hold channels").await.unwrap();
    let tx = client.begin("hold channels").await.unwrap();
    let names = ["early", "late"];
    let hold = alert_channel::hold(&tx, TenantId::DEFAULT, &names);
    // "late" is stored while the lock of "early" is waited for, so it is not among those that are locked.
    let meanwhile = async {
        let waits =
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting = async || (!look.query(waits, &[]).await.unwrap().is_empty()).then_some(());
        wait_for(SOON, "the wait for the lock", waiting).await;
        side.batch_execute(&format!("{}; COMMIT", insert("late"))).await.unwrap();
    };
    let (held, ()) = tokio::join!(hold, meanwhile);
    let held: Vec<_> = held.unwrap().into_iter().map(|channel| channel.name).collect();
    assert_eq!(held, ["early"]);
}

/// Fifty channels, two of which fail, twenty thousand alerts that were told to one of them each, a tenth of which are to be told
/// again, and a hundred tests.
const FILL: &str = "
    INSERT INTO alert_channel (id, tenant_id, created_at, name, kind, url)
        SELECT ('00000000-0000-4000-9000-' || lpad(to_hex(i), 12, '0'))::uuid, '00000000-0000-4000-8000-000000000001', now(),
               'channel-' || i, 'WEBHOOK', 'http://127.0.0.1:1/' FROM generate_series(1, 50) i;
    INSERT INTO alert (id, tenant_id, job_id, opened_at, resolved_at, kind, cause)
        SELECT ('00000000-0000-4000-a000-' || lpad(to_hex(i), 12, '0'))::uuid, '00000000-0000-4000-8000-000000000001',
               gen_random_uuid(), now(), CASE WHEN i % 10 > 0 THEN now() END, 'NO_SUCCESS', 'WAITING'
        FROM generate_series(1, 20000) i;
    INSERT INTO alert_delivery (id, alert_id, channel_id, created_at, next_try_at, delivered_at, refresh_at, event, body)
        SELECT gen_random_uuid(), ('00000000-0000-4000-a000-' || lpad(to_hex(i), 12, '0'))::uuid,
               ('00000000-0000-4000-9000-' || lpad(to_hex(i % 50 + 1), 12, '0'))::uuid, now(), now(),
               CASE WHEN i % 20 > 0 THEN now() END, CASE WHEN i % 10 = 0 THEN now() END, 'OPENED', '{}'
        FROM generate_series(1, 20000) i;
    INSERT INTO delivery_try (alert_id, channel_id, delivery_id, at, try)
        SELECT alert_id, channel_id, id, now(), 1 FROM alert_delivery;
    INSERT INTO channel_failure (channel_id, failing_since, next_try_at, failures)
        SELECT id, now(), now(), 1 FROM alert_channel LIMIT 2;
    INSERT INTO channel_test (id, channel_id, created_at, taken_at)
        SELECT gen_random_uuid(), id, now() - i * interval '1 second', now()
        FROM alert_channel, generate_series(1, 100) i;
    ANALYZE";

#[tokio::test]
async fn the_outbox_is_asked_by_its_indexes() {
    let cell = Cell::create().await;
    let client = cell.connect().await;
    client.batch_execute(FILL).await.unwrap();
    let one = vec![Uuid::from_u128(1)];
    let (channel, none, statuses) = (Uuid::from_u128(1), Vec::<Uuid>::new(), (200_i32, 503_i32));
    let statements: [(&str, Vec<&(dyn ToSql + Sync)>, &[&str]); 8] = [
        (
            "alert_delivery/claim",
            vec![&32_i64, &4_i64, &none, &30_000_i64, &none, &16_i64],
            &["alert_delivery_due", "alert_delivery_pkey", "alert_delivery_alert_id_channel_id_event_key"],
        ),
        // As many as are few among this many: of more, all is read.
        ("alert_delivery/refresh", vec![&10_i64, &60_000_i64], &["alert_delivery_refresh", "alert_pkey"]),
        ("alert_delivery/page", vec![&channel, &None::<i64>, &101_i64], &["alert_delivery_of_channel"]),
        (
            "alert_delivery/delivered",
            vec![&channel, &statuses.0, &None::<i64>, &1_i32],
            &["alert_delivery_pkey"],
        ),
        (
            "alert_delivery/failed",
            vec![&channel, &1_i32, &statuses.1, &"no", &5_000_i64, &5_000_i64],
            &["alert_delivery_pkey"],
        ),
        ("delivery_try/newest", vec![&one, &one, &20_i64], &["delivery_try_pkey"]),
        ("channel_test/claim", vec![&8_i64, &4_i64], &["channel_test_waiting", "channel_test_by_age"]),
        ("channel_test/find", vec![&channel], &["channel_test_pkey"]),
    ];
    for (name, params, indexes) in statements {
        let path = format!("{}/sql/{name}.sql", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("a statement");
        let rows = client.query(&format!("EXPLAIN {text}"), &params).await.expect(name);
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        for index in indexes {
            assert!(plan.contains(index), "{name} does not use {index}:\n{plan}");
        }
        assert!(!plan.contains("Seq Scan on alert_delivery"), "{name} reads the whole outbox:\n{plan}");
    }
}

/// What a release that knew only webhooks writes and reads is still there for it.
#[tokio::test]
async fn rows_of_the_release_before_are_webhooks_that_want_everything() {
    let cell = Cell::create().await;
    let side = cell.connect().await;
    side.batch_execute(&insert("old")).await.unwrap();
    let found = alert_channel::find(&cell.store, TenantId::DEFAULT, "old").await.unwrap().expect("it");
    assert_eq!(found.target, Target::Webhook { url: "http://127.0.0.1:1/".to_owned() });
    assert_eq!((found.accepts, found.system), (Accepts::default(), None));
}
