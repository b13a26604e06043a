//! Channels of every kind over the API: what goes in, what comes out, what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use model::ids::TenantId;
use serde_json::{Value, json};
use store::api_token::Role;
use support::{Registry, job, with, wrong_fields};

const KEY: &str = "a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4";

/// A channel of each kind but webhooks, with a secret that must not come out.
fn kinds() -> Vec<Value> {
    let email = json!({
        "host": "mail.example", "username": "u", "password": "hunter2", "from": "a@example.com", "to": ["b@example.com"],
    });
    vec![
        json!({ "name": "am", "alertmanager": { "url": "http://am.example:9093", "username": "u", "secret": "hunter2" } }),
        json!({ "name": "mail", "email": email }),
        json!({ "name": "pager", "pagerduty": { "routingKey": KEY }, "match": { "severities": ["CRITICAL"] } }),
        json!({ "name": "slack", "slack": { "url": "https://hooks.example/hunter2" }, "system": false }),
    ]
}

#[tokio::test]
async fn every_kind_is_stored_listed_by_pages_and_never_shows_its_secret() {
    let registry = Registry::start().await;
    for channel in kinds() {
        let (status, created) = registry.admin("POST", "/v1/channels", Some(&channel)).await;
        assert_eq!(status, 200, "{created}");
        let name = channel["name"].as_str().unwrap();
        assert_eq!(registry.admin("GET", &format!("/v1/channels/{name}"), None).await.1, created);
    }
    let (_, first) = registry.admin("GET", "/v1/channels?pageSize=3", None).await;
    let token = first["nextPageToken"].as_str().expect("more");
    let (_, rest) = registry.admin("GET", &format!("/v1/channels?pageToken={token}"), None).await;
    assert!(rest["nextPageToken"].as_str().unwrap_or_default().is_empty(), "{rest}");
    let listed: Vec<_> =
        [&first, &rest].into_iter().flat_map(|page| page["channels"].as_array().unwrap()).cloned().collect();
    let names: Vec<_> = listed.iter().map(|channel| channel["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["am", "mail", "pager", "slack"]);
    let text = Value::from(listed.clone()).to_string();
    assert!(!text.contains("hunter2") && !text.contains(KEY), "{text}");
    assert_eq!(listed[2]["pagerduty"]["url"], "https://events.pagerduty.com/v2/enqueue");
    assert_eq!(listed[1]["email"]["port"], 587);
    let trail = registry.sql("SELECT string_agg(detail::text, ' ') FROM audit_event").await;
    assert!(!trail.contains("hunter2") && !trail.contains(KEY), "{trail}");

    // What was read is written back, and the secrets stay as they are.
    let secrets = "SELECT string_agg(coalesce(secret, '-'), ' ' ORDER BY name) FROM alert_channel";
    let before = registry.sql(secrets).await;
    let (status, answer) = registry.admin("POST", "/v1/apply", Some(&json!({ "channels": listed }))).await;
    assert_eq!(status, 200, "{answer}");
    let unchanged = |result: &Value| result["change"] == "UNCHANGED";
    assert!(answer["results"].as_array().unwrap().iter().all(unchanged), "{answer}");
    assert_eq!(registry.sql(secrets).await, before);
    // Another kind has another secret: the old one is not given to it.
    let changed = json!({ "channels": [{ "name": "slack", "pagerduty": {} }] });
    let (status, problem) = registry.admin("POST", "/v1/apply", Some(&changed)).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["channels[0].pagerduty.routingKey".to_owned()]));
}

#[tokio::test]
async fn who_only_reads_sees_where_a_channel_leads_and_its_editors_the_whole_address() {
    let registry = Registry::start().await;
    let token = async |role| registry.token(Some(TenantId::DEFAULT), role).await;
    let (viewer, editor) = (token(Role::Viewer).await, token(Role::Editor).await);
    let url = "https://hooks.example/planted?key=planted";
    let channel = json!({ "name": "oncall", "webhook": { "url": url } });
    assert_eq!(
        registry.call(&editor, "POST", "/v1/channels", Some(&channel)).await.expect("an answer").0,
        200
    );
    let read = async |token: &str, path: &str| {
        let (status, answer) = registry.call(token, "GET", path, None).await.expect("an answer");
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let listed = read(&viewer, "/v1/channels").await;
    assert_eq!(listed["channels"][0]["webhook"]["url"], "https://hooks.example/…");
    assert!(!read(&viewer, "/v1/channels/oncall").await.to_string().contains("planted"));
    let whole = read(&editor, "/v1/channels").await;
    assert_eq!(whole["channels"][0]["webhook"]["url"], url);
    assert_eq!(read(&editor, "/v1/channels/oncall").await["webhook"]["url"], url);
    // What an editor has read changes nothing; what a viewer has read leads nowhere.
    let apply = async |channels: &Value| {
        let set = json!({ "channels": channels["channels"] });
        registry.call(&editor, "POST", "/v1/apply", Some(&set)).await.expect("an answer")
    };
    let (status, same) = apply(&whole).await;
    assert_eq!((status, &same["results"][0]["change"]), (200, &json!("UNCHANGED")), "{same}");
    let (status, problem) = apply(&listed).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["channels[0].webhook.url".to_owned()]));
}

#[tokio::test]
async fn what_leads_nowhere_is_refused_by_name() {
    let registry = Registry::start().await;
    for (channel, field) in [
        (json!({ "webhook": { "url": "http://h:99999/" } }), "webhook.url"),
        (json!({ "webhook": { "url": "http://[::1" } }), "webhook.url"),
        (json!({ "alertmanager": { "url": "am:9093" } }), "alertmanager.url"),
        (json!({ "alertmanager": { "url": "http://am:9093", "username": "u" } }), "alertmanager.secret"),
        (json!({ "pagerduty": {} }), "pagerduty.routingKey"),
        (json!({ "slack": {} }), "slack.url"),
        (json!({ "email": { "host": "m", "from": "a@b.c", "to": ["nobody"] } }), "email.to[0]"),
        (json!({ "email": { "host": "m", "from": "a@b.c", "to": ["a@b.c"], "tls": "NONE" } }), "email.tls"),
        (
            json!({ "webhook": { "url": "http://h/" }, "match": { "severities": ["LOUD"] } }),
            "match.severities[0]",
        ),
        (json!({}), "webhook"),
    ] {
        let mut channel = channel;
        channel["name"] = json!("oncall");
        let (status, problem) = registry.admin("POST", "/v1/channels", Some(&channel)).await;
        assert_eq!((status, wrong_fields(&problem)), (400, vec![field.to_owned()]), "{channel}: {problem}");
    }
    assert_eq!(registry.sql("SELECT count(*) FROM alert_channel").await, "0");
}

#[tokio::test]
async fn what_was_told_is_listed_the_newest_first() {
    let registry = Registry::start().await;
    let channel = json!({ "name": "oncall", "webhook": { "url": "http://127.0.0.1:1/" } });
    registry.admin("POST", "/v1/channels", Some(&channel)).await;
    registry
        .sql(
            "WITH a AS (INSERT INTO alert (id, tenant_id, job_id, opened_at, kind, cause) \
                        SELECT gen_random_uuid(), tenant_id, gen_random_uuid(), esc_now(), 'NO_SUCCESS', 'WAITING' \
                        FROM alert_channel RETURNING id), \
                  d AS (INSERT INTO alert_delivery (id, alert_id, channel_id, created_at, next_try_at, given_up_at, tries, \
                                                    last_status, last_error, event, body) \
                        SELECT gen_random_uuid(), a.id, c.id, esc_now(), esc_now(), \
                               CASE WHEN event = 'OPENED' THEN esc_now() END, 3, 503, 'answered 503', event, '' \
                        FROM a, alert_channel c, unnest(ARRAY['OPENED', 'RESOLVED']) event \
                        RETURNING id, alert_id, channel_id, event), \
                  t AS (INSERT INTO delivery_try (alert_id, channel_id, delivery_id, at, try, status, error) \
                        SELECT alert_id, channel_id, id, esc_now(), n, nullif(500 + n, 501), \
                               'answered ' || 500 + n FROM d, generate_series(1, 30) n WHERE event = 'OPENED' RETURNING 1) \
             SELECT count(*) FROM t",
        )
        .await;
    let (status, page) = registry.admin("GET", "/v1/channels/oncall/deliveries?pageSize=1", None).await;
    assert_eq!(status, 200, "{page}");
    let told = &page["deliveries"][0];
    assert_eq!((&told["event"], &told["state"]), (&json!("RESOLVED"), &json!("PENDING")));
    assert!(told["nextTryTime"].is_string(), "{told}");
    let token = page["nextPageToken"].as_str().expect("more");
    let path = format!("/v1/channels/oncall/deliveries?pageToken={token}");
    let (_, page) = registry.admin("GET", &path, None).await;
    let told = &page["deliveries"][0];
    assert_eq!((&told["event"], &told["state"]), (&json!("OPENED"), &json!("GIVEN_UP")));
    assert_eq!(
        (&told["status"], &told["tries"], &told["error"]),
        (&json!(503), &json!(3), &json!("answered 503"))
    );
    let tries = told["newestTries"].as_array().expect("its tries");
    assert_eq!(tries.len(), 20, "the newest of 30");
    assert_eq!((&tries[0]["number"], &tries[0]["status"]), (&json!(30), &json!(530)), "{told}");
    assert_eq!(tries[19]["error"], "answered 511");
    assert!(tries[0]["time"].is_string(), "{told}");
    assert_eq!(registry.admin("GET", "/v1/channels/nobody/deliveries", None).await.0, 404);
    assert_eq!(registry.admin("GET", "/v1/channels/oncall/deliveries?pageToken=eA", None).await.0, 400);
    assert_eq!(registry.admin("POST", "/v1/channels/nobody:test", Some(&json!({}))).await.0, 404);
}

#[tokio::test]
async fn a_test_that_no_watchdog_sends_is_said_to_be_so() {
    let registry = Registry::start().await;
    let channel = json!({ "name": "oncall", "webhook": { "url": "http://127.0.0.1:1/" } });
    registry.admin("POST", "/v1/channels", Some(&channel)).await;
    let (status, problem) = registry.admin("POST", "/v1/channels/oncall:test", Some(&json!({}))).await;
    assert_eq!(status, 503, "{problem}");
    assert!(problem["detail"].as_str().unwrap_or_default().contains("watchdog"), "{problem}");
}

#[tokio::test]
async fn a_channel_that_is_named_is_not_deleted_and_those_who_name_it_are() {
    let registry = Registry::start().await;
    let channel = json!({ "name": "oncall", "webhook": { "url": "http://127.0.0.1:1/" } });
    registry.admin("POST", "/v1/channels", Some(&channel)).await;
    let job = with(job("invoices"), json!({ "alert": { "channels": ["oncall"] } }));
    let mut users = vec![("/v1/jobs".to_owned(), job)];
    for number in 0..6 {
        let name = format!("backup-{number}");
        let check_in = json!({ "name": name, "period": "3600s", "channels": ["oncall"] });
        users.push(("/v1/check-ins".to_owned(), check_in));
    }
    for (path, user) in &users {
        let (status, answer) = registry.admin("POST", path, Some(user)).await;
        assert_eq!(status, 200, "{answer}");
    }
    let (status, problem) = registry.admin("DELETE", "/v1/channels/oncall", None).await;
    let named = r#"channel "oncall" is named by job "invoices", check-in "backup-0", check-in "backup-1", check-in "backup-2", check-in "backup-3" and more: remove it from their channels first"#;
    assert_eq!((status, problem["detail"].as_str()), (409, Some(named)), "{problem}");

    registry.admin("DELETE", "/v1/jobs/invoices", None).await;
    for number in 0..5 {
        registry.admin("DELETE", &format!("/v1/check-ins/backup-{number}"), None).await;
    }
    let (status, problem) = registry.admin("DELETE", "/v1/channels/oncall", None).await;
    let named = r#"channel "oncall" is named by check-in "backup-5": remove it from their channels first"#;
    assert_eq!((status, problem["detail"].as_str()), (409, Some(named)), "{problem}");
    registry.admin("DELETE", "/v1/check-ins/backup-5", None).await;
    assert_eq!(registry.admin("DELETE", "/v1/channels/oncall", None).await.0, 200);
}
