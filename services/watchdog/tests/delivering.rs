//! How alerts reach receivers: in order, at least once, one channel's trouble its own.

mod support;

use chrono::Duration;
use stack::wait::wait_for;
use std::collections::BTreeSet;
use std::time::Duration as Time;
use store::alert_delivery;
use store::fence::Term;
use store::retention::{self, Table};
use support::{Cell, IMPATIENT, Receiver, definition, noon, rows};

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const LIMIT: Time = Time::from_secs(20);

/// A cell with one alert open, to be told to the channel `oncall`.
async fn with_open_alert(url: &str, secret: Option<&str>) -> (Cell, Term, model::ids::JobId) {
    let cell = Cell::create().await;
    cell.channel("oncall", url, secret).await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 10)).await;
    assert_eq!(cell.check(term, 74).await.deliveries, 1);
    (cell, term, job)
}

async fn until(cell: &Cell, what: &str, question: &str) {
    wait_for(LIMIT, what, async || (cell.number(question).await > 0).then_some(())).await;
}

#[tokio::test]
async fn an_alert_is_posted_once_and_once_more_when_it_is_resolved() {
    let receiver = Receiver::start(&[]).await;
    let (cell, term, job) = with_open_alert(&receiver.url, Some(SECRET)).await;
    let delivering = cell.deliver(IMPATIENT);
    let opened = receiver.wait_for(1).await.remove(0);
    assert_eq!(opened.event(), "alert.opened");
    assert_eq!(opened.json()["data"]["job"]["name"], "invoices");
    assert_eq!(opened.json()["data"]["cause"], "NEVER_PLANNED");
    let oracle = standardwebhooks::Webhook::new(SECRET).expect("a secret");
    // The cell's clock is not the oracle's: what it would sign is compared.
    let timestamp = opened.header("webhook-timestamp").parse().expect("seconds");
    assert!((74..80).contains(&(timestamp - noon(0).timestamp())), "{timestamp}");
    let expected = oracle.sign(&opened.id, timestamp, opened.body.as_bytes()).expect("signed");
    assert_eq!(opened.header("webhook-signature"), expected);

    cell.success(job, 120, 125).await;
    assert_eq!(cell.check(term, 126).await.resolved, 1);
    let both = receiver.wait_for(2).await;
    assert_eq!(both[1].event(), "alert.resolved");
    assert_eq!(both[1].json()["data"]["alertId"], opened.json()["data"]["alertId"]);
    assert_ne!(both[1].id, opened.id);
    until(&cell, "the record", "SELECT (count(delivered_at) = 2)::int::bigint FROM alert_delivery").await;
    delivering.stop().await;
    assert_eq!(receiver.received().len(), 2);
}

#[tokio::test]
async fn a_receiver_that_fails_gets_the_same_message_again() {
    let receiver = Receiver::start(&[500, 503]).await;
    let (cell, ..) = with_open_alert(&receiver.url, None).await;
    let delivering = cell.deliver(IMPATIENT);
    let tries = receiver.wait_for(3).await;
    until(&cell, "the record", "SELECT count(delivered_at) FROM alert_delivery").await;
    delivering.stop().await;
    let distinct: BTreeSet<_> = tries.iter().map(|received| (&received.id, &received.body)).collect();
    assert_eq!((tries.len(), distinct.len()), (3, 1));
    assert_eq!(receiver.received().len(), 3);
}

#[tokio::test]
async fn each_try_is_kept_with_its_status_and_forgotten_with_age() {
    let receiver = Receiver::start(&[500, 503]).await;
    let (cell, ..) = with_open_alert(&receiver.url, None).await;
    let delivering = cell.deliver(IMPATIENT);
    until(&cell, "the record", "SELECT count(delivered_at) FROM alert_delivery").await;
    delivering.stop().await;
    let channel = rows!(cell, "SELECT id FROM alert_channel")[0].get(0);
    let told = alert_delivery::page(&cell.store, channel, None, 10).await.expect("listed").remove(0);
    let tries: Vec<_> = told.newest.iter().map(|one| (one.number, one.status, one.error.is_some())).collect();
    assert_eq!(tries, [(3, Some(200), false), (2, Some(503), true), (1, Some(500), true)]);
    assert!(told.newest.is_sorted_by_key(|one| std::cmp::Reverse(one.at)), "{:?}", told.newest);

    let forget = async |before| {
        let mut client = cell.store.client("test").await.expect("connected");
        let tx = client.begin("test").await.expect("begun");
        retention::expire(&tx, Table::Alert, before, 1_000).await.expect("expired");
        tx.commit().await.expect("committed");
        cell.number("SELECT count(*) FROM delivery_try").await
    };
    assert_eq!(forget(noon(0)).await, 3, "all are younger");
    assert_eq!(forget(noon(3_600)).await, 0, "though the alert is open, and stays");
    assert_eq!(cell.number("SELECT count(*) FROM alert_delivery").await, 1);
}

#[tokio::test]
async fn a_resolution_waits_for_its_opening() {
    let receiver = Receiver::start(&[500, 500, 500]).await;
    let (cell, term, job) = with_open_alert(&receiver.url, None).await;
    cell.success(job, 120, 125).await;
    assert_eq!(cell.check(term, 126).await.resolved, 1);
    let delivering = cell.deliver(IMPATIENT);
    let received = receiver.wait_for(5).await;
    delivering.stop().await;
    let events: Vec<_> = received.iter().map(|received| received.event()).collect();
    assert_eq!(events, ["alert.opened", "alert.opened", "alert.opened", "alert.opened", "alert.resolved"]);
}

#[tokio::test]
async fn a_slow_receiver_holds_up_only_itself() {
    let (slow, quick) = (Receiver::start(&[]).await, Receiver::start(&[]).await);
    let gate = slow.hold();
    let cell = Cell::create().await;
    cell.channel("slow", &slow.url, None).await;
    cell.channel("quick", &quick.url, None).await;
    let term = cell.lead(1).await;
    for name in 0..20 {
        for channel in ["slow", "quick"] {
            let mut definition = definition("* * * * *", 10);
            definition.alert.channels = vec![channel.to_owned()];
            cell.job(&format!("{channel}-{name}"), &definition).await;
        }
    }
    assert_eq!(cell.check(term, 74).await.deliveries, 40);
    let delivering = cell.deliver(IMPATIENT);
    quick.wait_for(20).await;
    assert_eq!(slow.received().len(), 2, "no more than a channel's share is being sent");
    gate.add_permits(1_000);
    slow.wait_for(20).await;
    delivering.stop().await;
}

/// Crash windows "taken, not sent" and "sent, not recorded": the row is due again, with the same id, when its lease ends.
#[tokio::test]
async fn a_sender_that_dies_only_delays() {
    let receiver = Receiver::start(&[]).await;
    let gate = receiver.hold();
    let (cell, ..) = with_open_alert(&receiver.url, None).await;
    let dying = cell.deliver(IMPATIENT);
    let first = receiver.wait_for(1).await.remove(0);
    dying.kill();
    gate.add_permits(100);

    let delivering = cell.deliver(IMPATIENT);
    assert_eq!(cell.number("SELECT count(*) FROM alert_delivery WHERE next_try_at > esc_now()").await, 1);
    cell.clock_to(74 + 26).await;
    let second = receiver.wait_for(2).await.remove(1);
    delivering.stop().await;
    assert_eq!((first.id, first.body), (second.id, second.body));
}

#[tokio::test]
async fn two_watchdogs_send_nothing_twice() {
    let receiver = Receiver::start(&[]).await;
    let cell = Cell::create().await;
    cell.channel("oncall", &receiver.url, None).await;
    let term = cell.lead(1).await;
    for name in 0..40 {
        cell.job(&format!("job-{name}"), &definition("* * * * *", 10)).await;
    }
    let (one, other) = (cell.deliver(IMPATIENT), cell.deliver(IMPATIENT));
    assert_eq!(cell.check(term, 74).await.deliveries, 40);
    receiver.wait_for(40).await;
    until(&cell, "the records", "SELECT (count(delivered_at) = 40)::int::bigint FROM alert_delivery").await;
    one.stop().await;
    other.stop().await;
    let ids: BTreeSet<_> = receiver.received().into_iter().map(|received| received.id).collect();
    assert_eq!((receiver.received().len(), ids.len()), (40, 40));
}

#[tokio::test]
async fn a_receiver_that_is_gone_for_good_is_given_up_and_the_resolution_still_goes() {
    let receiver = Receiver::start(&[410]).await;
    let (cell, term, job) = with_open_alert(&receiver.url, None).await;
    let delivering = cell.deliver(IMPATIENT);
    until(&cell, "giving up", "SELECT count(given_up_at) FROM alert_delivery").await;
    cell.success(job, 120, 125).await;
    assert_eq!(cell.check(term, 126).await.resolved, 1);
    let received = receiver.wait_for(2).await;
    delivering.stop().await;
    assert_eq!(received[1].event(), "alert.resolved");
}

#[tokio::test]
async fn a_deleted_channel_is_told_nothing() {
    let receiver = Receiver::start(&[]).await;
    let (cell, ..) = with_open_alert(&receiver.url, None).await;
    rows!(cell, "UPDATE alert_channel SET deleted_at = esc_now()");
    let delivering = cell.deliver(IMPATIENT);
    until(&cell, "giving up", "SELECT count(given_up_at) FROM alert_delivery").await;
    delivering.stop().await;
    assert_eq!(receiver.received().len(), 0);
}

#[tokio::test]
async fn after_the_longest_patience_it_is_given_up() {
    let receiver = Receiver::start(&[500; 100]).await;
    let (cell, ..) = with_open_alert(&receiver.url, None).await;
    rows!(cell, "UPDATE alert_delivery SET created_at = $1", noon(74) - Duration::days(1));
    let delivering = cell.deliver(IMPATIENT);
    until(&cell, "giving up", "SELECT count(given_up_at) FROM alert_delivery").await;
    delivering.stop().await;
    assert_eq!(receiver.received().len(), 1);
    let row = &rows!(cell, "SELECT last_status, last_error FROM alert_delivery")[0];
    assert_eq!((row.get::<_, i32>(0), row.get::<_, &str>(1)), (500, "answered 500"));
}

#[tokio::test]
async fn a_webhook_does_not_reach_this_machine_unless_that_is_allowed() {
    let receiver = Receiver::start(&[]).await;
    let (cell, ..) = with_open_alert(&receiver.url.replace("127.0.0.1", "localhost"), None).await;
    let delivering = cell.deliver_with(IMPATIENT, service::egress::Policy::default());
    until(&cell, "the refusal", "SELECT count(last_error) FROM alert_delivery").await;
    delivering.stop().await;
    let row = &rows!(cell, "SELECT last_error FROM alert_delivery")[0];
    let error: &str = row.get(0);
    assert!(error.contains("allow_loopback"), "{error}");
    assert_eq!(receiver.received().len(), 0);
}
