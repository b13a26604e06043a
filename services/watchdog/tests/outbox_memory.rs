//! What the outbox keeps in memory; alone in its process, because the memory of that is measured.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;
mod telling;

use model::channel::Target;
use stack::wait::wait_for;
use std::time::Duration as Time;
use support::{Cell, IMPATIENT, Receiver, rows};
use watchdog::deliver::Patience;

const LIMIT: Time = Time::from_secs(60);

/// Kilobytes of this process in memory.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

#[tokio::test]
async fn ten_thousand_deliveries_to_slow_receivers_take_no_memory() {
    let slow = Receiver::start(&[]).await;
    let gate = slow.hold();
    let cell = Cell::create().await;
    let target = Target::Webhook { url: slow.url.clone() };
    for name in 0..5 {
        telling::channel(&cell, &format!("slow-{name}"), target.clone(), None).await;
    }
    // 300 MB of messages.
    rows!(
        cell,
        "WITH a AS (INSERT INTO alert (id, tenant_id, job_id, opened_at, kind, cause) \
                    SELECT gen_random_uuid(), '00000000-0000-4000-8000-000000000001', gen_random_uuid(), esc_now(), \
                           'NO_SUCCESS', 'WAITING' FROM generate_series(1, 2000) RETURNING id) \
         INSERT INTO alert_delivery (id, alert_id, channel_id, created_at, next_try_at, event, body) \
         SELECT gen_random_uuid(), a.id, c.id, esc_now(), esc_now(), 'OPENED', repeat('x', 30000) \
         FROM a, alert_channel c"
    );
    let before = resident_kb();
    let delivering = cell.deliver(Patience { timeout: LIMIT, ..IMPATIENT });
    let got = async |count: usize| {
        wait_for(LIMIT, "webhooks", async || (slow.count() >= count).then_some(())).await;
    };
    got(4).await;
    // Looks on while it could take more, then lets some through: as many follow as have ended.
    gate.add_permits(400);
    got(404).await;
    let taken = cell.number("SELECT count(*) FROM alert_delivery WHERE tries > 0").await;
    let grown = resident_kb().saturating_sub(before);
    delivering.kill();
    assert!(taken <= 404, "{taken} were taken, though only 4 of a tenant may be in hand");
    // What the receiver keeps of 404 is 12 MB.
    assert!(grown < 60_000, "{grown} kB for messages of 300 MB");
}
