//! The outbox under trouble: order, channels that are down, tens of thousands of messages, tests and history.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;
mod telling;

use model::channel::Target;
use stack::wait::wait_for;
use std::time::Duration as Time;
use store::channel_test::{self, Ended};
use store::{alert_delivery, clock};
use support::{Cell, IMPATIENT, Receiver, definition, rows};
use telling::{Alert, tell};
use uuid::Uuid;
use watchdog::deliver::Patience;
use watchdog::message::Event;

const LIMIT: Time = Time::from_secs(30);

fn webhook(url: &str) -> Target {
    Target::Webhook { url: url.to_owned() }
}

#[tokio::test]
async fn an_alert_that_names_nobody_is_told_to_whoever_wants_it() {
    let cell = Cell::create().await;
    for (name, wanted) in [
        ("all", "{}"),
        ("billing", r#"{"labels": {"team": "billing"}}"#),
        ("mild", r#"{"severities": ["INFO"]}"#),
    ] {
        let id = telling::channel(&cell, name, webhook("http://127.0.0.1:1/"), None).await;
        rows!(cell, "UPDATE alert_channel SET accepts = $2::text::jsonb WHERE id = $1", id, wanted);
    }
    let term = cell.lead(1).await;
    for (name, named, team) in
        [("a", &[] as &[&str], "billing"), ("b", &[], "ops"), ("c", &["mild"], "billing")]
    {
        let mut definition = definition("* * * * *", 10);
        definition.alert.channels = named.iter().map(|name| (*name).to_owned()).collect();
        definition.labels = [("team".to_owned(), team.to_owned())].into();
        cell.job(name, &definition).await;
    }
    cell.check(term, 74).await;
    let told = rows!(
        cell,
        "SELECT j.name || ' ' || string_agg(c.name, ' ' ORDER BY c.name) FROM alert_delivery d \
         JOIN alert a ON a.id = d.alert_id JOIN job j ON j.id = a.job_id JOIN alert_channel c ON c.id = d.channel_id \
         GROUP BY j.name ORDER BY j.name"
    );
    let told: Vec<String> = told.iter().map(|row| row.get(0)).collect();
    assert_eq!(told, ["a all billing", "b all", "c mild"]);
}

#[tokio::test]
async fn what_is_told_of_one_alert_comes_in_order_and_a_repetition_replaces_the_one_before() {
    let receiver = Receiver::start(&[500, 500]).await;
    let cell = Cell::create().await;
    let channel = telling::channel(&cell, "oncall", webhook(&receiver.url), None).await;
    let alert = Alert::open(&cell).await;
    tell(&cell, &alert, Event::Opened, channel).await;
    let first = tell(&cell, &alert, Event::Repeated, channel).await;
    tell(&cell, &alert, Event::Acknowledged, channel).await;
    let second = tell(&cell, &alert, Event::Repeated, channel).await;
    tell(&cell, &alert, Event::Resolved, channel).await;
    let delivering = cell.deliver(IMPATIENT);
    let received = receiver.wait_for(6).await;
    let all = "SELECT (count(delivered_at) = count(*))::int::bigint FROM alert_delivery";
    wait_for(LIMIT, "the records", async || (cell.number(all).await > 0).then_some(())).await;
    delivering.stop().await;
    let events: Vec<_> = received.iter().map(|received| received.event()).collect();
    let opened = "alert.opened";
    let expected = [opened, opened, opened, "alert.acknowledged", "alert.repeated", "alert.resolved"];
    assert_eq!(events, expected);
    assert_ne!(first, second);
    assert_eq!(received[4].id, second.to_string());

    let page = alert_delivery::page(&cell.store, channel, None, 2).await.expect("a page");
    let events: Vec<_> = page.iter().map(|told| told.event.as_str()).collect();
    assert_eq!(events, ["RESOLVED", "REPEATED"]);
    let rest = alert_delivery::page(&cell.store, channel, Some(page[1].sequence), 10).await.expect("a page");
    let told: Vec<_> = rest.iter().map(|told| (told.event.as_str(), told.tries, told.status)).collect();
    assert_eq!(told, [("ACKNOWLEDGED", 1, Some(200)), ("OPENED", 3, Some(200))]);
}

/// Receivers that take a connection and never answer would take every place, if each had more than one.
#[tokio::test]
async fn dead_channels_are_tried_once_at_a_time_and_take_no_places_from_others() {
    let (dead, alive) = (Receiver::start(&[]).await, Receiver::start(&[]).await);
    let gate = dead.hold();
    let cell = Cell::create().await;
    let mut channels = Vec::new();
    for name in 0..4 {
        channels.push(telling::channel(&cell, &format!("dead-{name}"), webhook(&dead.url), None).await);
    }
    let working = telling::channel(&cell, "works", webhook(&alive.url), None).await;
    for _ in 0..20 {
        let alert = Alert::open(&cell).await;
        for channel in channels.iter().chain([&working]) {
            tell(&cell, &alert, Event::Opened, *channel).await;
        }
    }
    // Four places for a tenant, two for each channel: the dead ones have them all until their first tries end.
    let delivering = cell.deliver(Patience { timeout: Time::from_millis(500), ..IMPATIENT });
    let failing = "SELECT (count(*) = 4)::int::bigint FROM channel_failure WHERE failures >= 3";
    wait_for(LIMIT, "failures", async || (cell.number(failing).await > 0).then_some(())).await;
    alive.wait_for(20).await;
    let most = "SELECT max(n) FROM (SELECT count(*) AS n FROM alert_delivery d JOIN channel_failure f USING (channel_id) \
                WHERE d.next_try_at > esc_now() + interval '10 seconds' GROUP BY channel_id) taken";
    let taken = &rows!(cell, most)[0];
    assert!(taken.get::<_, Option<i64>>(0).unwrap_or(0) <= 1, "one probe of a channel at a time");
    gate.add_permits(10_000);
    let all = "SELECT (count(delivered_at) = count(*))::int::bigint FROM alert_delivery";
    wait_for(LIMIT, "recovery", async || (cell.number(all).await > 0).then_some(())).await;
    delivering.stop().await;
    assert_eq!(cell.number("SELECT count(*) FROM channel_failure").await, 0);
}

/// Stores a channel of a tenant that is new.
async fn tenants_channel(cell: &Cell, tenant: &str, name: &str, url: &str) -> Uuid {
    let id = telling::channel(cell, name, webhook(url), None).await;
    rows!(
        cell,
        "WITH t AS (INSERT INTO tenant (id, name) VALUES (gen_random_uuid(), $2) \
                    ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id) \
         UPDATE alert_channel c SET tenant_id = t.id FROM t WHERE c.id = $1",
        id,
        tenant
    );
    id
}

/// Receivers that answer late, but do answer, rest never: what keeps their backlog from all places is whose they are.
#[tokio::test]
async fn tenants_with_slow_receivers_and_a_backlog_hold_up_no_other_tenant() {
    let (slow, quick) = (Receiver::start(&[]).await, Receiver::start(&[]).await);
    let gate = slow.hold();
    let cell = Cell::create().await;
    let told = async |channel| tell(&cell, &Alert::open(&cell).await, Event::Opened, channel).await;
    let late = async |tenant: &str| {
        for name in 0..6 {
            let channel = tenants_channel(&cell, tenant, &format!("{tenant}-{name}"), &slow.url).await;
            for _ in 0..5 {
                told(channel).await;
            }
        }
    };
    late("one").await;
    let other = tenants_channel(&cell, "other", "other", &quick.url).await;
    told(other).await;
    let delivering = cell.deliver(Patience { timeout: LIMIT * 4, ..IMPATIENT });
    quick.wait_for(1).await;
    slow.wait_for(4).await;
    assert_eq!(slow.count(), 4, "half of the places");

    // Two such tenants have all places. The first that is free goes to whoever has none.
    late("two").await;
    slow.wait_for(8).await;
    told(other).await;
    gate.add_permits(1);
    quick.wait_for(2).await;
    gate.add_permits(10_000);
    delivering.stop().await;
}

async fn ask_for_test(cell: &Cell, channel: Uuid) -> Uuid {
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    let id = channel_test::insert(&tx, channel).await.expect("stored");
    tx.commit().await.expect("committed");
    id
}

#[tokio::test]
async fn a_channel_is_tested_once_by_the_way_that_alerts_take() {
    let receiver = Receiver::start(&[204, 503]).await;
    let cell = Cell::create().await;
    clock::shift(&cell.store, 0).await.expect("shifted");
    let channel = telling::channel(&cell, "oncall", webhook(&receiver.url), None).await;
    let delivering = cell.deliver(IMPATIENT);
    let test = async || {
        let id = ask_for_test(&cell, channel).await;
        let ended = async || channel_test::find(&cell.store, id).await.expect("read");
        wait_for(LIMIT, "the test's end", ended).await
    };
    assert_eq!(test().await, Ended { received: true, status: Some(204), error: None });
    let error = Some("answered 503".to_owned());
    assert_eq!(test().await, Ended { received: false, status: Some(503), error });
    delivering.stop().await;
    let received = receiver.received();
    assert_eq!((received.len(), received[0].event().as_str()), (2, "channel.test"));
    assert_eq!(received[0].json()["data"]["subject"]["name"], "channel/oncall");
    assert_eq!(cell.number("SELECT count(*) FROM alert_delivery").await, 0);
}

/// A tenant whose receiver never answers, and who asks again and again, is no reason for another one to wait.
#[tokio::test]
async fn tests_of_a_channel_that_never_answers_hold_up_nobody_else() {
    let (dead, alive) = (Receiver::start(&[]).await, Receiver::start(&[]).await);
    let gate = dead.hold();
    let cell = Cell::create().await;
    clock::shift(&cell.store, 0).await.expect("shifted");
    let hanging = telling::channel(&cell, "hanging", webhook(&dead.url), None).await;
    let working = tenants_channel(&cell, "other", "works", &alive.url).await;
    for _ in 0..40 {
        ask_for_test(&cell, hanging).await;
    }
    let delivering = cell.deliver(Patience { timeout: LIMIT * 4, ..IMPATIENT });
    let first = ask_for_test(&cell, working).await;
    dead.wait_for(8).await;
    for test in [first, ask_for_test(&cell, working).await] {
        let ended = async || channel_test::find(&cell.store, test).await.expect("read");
        assert!(wait_for(LIMIT, "the other's test", ended).await.received);
    }
    assert_eq!(dead.count(), 8, "a part of the places, and no more");
    gate.add_permits(10_000);
    delivering.stop().await;
}
