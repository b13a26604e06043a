//! Tenants: made and limited by operators; limits that are exact, whoever is how fast.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use serde_json::{Value, json};
use std::sync::Arc;
use store::api_token::Role;
use support::{Registry, job, with, wrong_fields};

async fn limited(registry: &Registry, limits: Value) -> Value {
    let (status, tenant) =
        registry.admin("PUT", "/v1/tenants/default", Some(&json!({ "limits": limits }))).await;
    assert_eq!(status, 200, "{tenant}");
    tenant
}

fn limits() -> Value {
    json!({
        "weight": 3, "maxRunning": 10, "maxStartsPerSecond": 5, "maxRunningByQueue": { "mail": 2 },
        "maxJobs": 1000, "minInterval": "60s", "maxPayloadBytes": 1024, "historyDays": 30,
    })
}

#[tokio::test]
async fn a_tenant_is_made_limited_and_listed_by_operators() {
    let registry = Registry::start().await;
    let (status, created) =
        registry.admin("POST", "/v1/tenants", Some(&json!({ "name": "acme", "limits": limits() }))).await;
    assert_eq!((status, &created["limits"]), (200, &limits()), "{created}");
    assert_eq!(registry.admin("POST", "/v1/tenants", Some(&json!({ "name": "acme" }))).await.0, 409);
    let stored = registry
        .sql("SELECT weight, max_running, max_starts_per_second FROM tenant WHERE name = 'acme'; SELECT queue, max_running FROM queue_limit")
        .await;
    assert_eq!(stored, "3|10|5\nmail|2");
    let (_, listed) = registry.admin("GET", "/v1/tenants", None).await;
    let names: Vec<_> =
        listed["tenants"].as_array().unwrap().iter().map(|tenant| tenant["name"].clone()).collect();
    assert_eq!(names, ["acme", "default"]);

    // Whoever changed it meanwhile is not overwritten.
    let change = |generation: &Value| json!({ "generation": generation, "limits": { "maxJobs": 1 } });
    let (status, changed) =
        registry.admin("PUT", "/v1/tenants/acme", Some(&change(&created["generation"]))).await;
    assert_eq!((status, &changed["limits"]["maxJobs"]), (200, &json!(1)));
    assert_eq!(changed["limits"].get("maxRunning"), None, "what is not given is not limited: {changed}");
    let (status, problem) =
        registry.admin("PUT", "/v1/tenants/acme", Some(&change(&created["generation"]))).await;
    assert_eq!(status, 409, "{problem}");
    let audited = "SELECT DISTINCT detail->'before'->>'maxJobs', detail->'after'->>'maxJobs' FROM audit_event WHERE action = 'tenant.update'";
    assert_eq!(registry.sql(audited).await, "1000|1");
}

#[tokio::test]
async fn every_wrong_limit_is_named() {
    let registry = Registry::start().await;
    let wrong = json!({ "name": "Acme", "limits": { "weight": 101, "maxJobs": -1, "minInterval": "0.5s" } });
    let (status, problem) = registry.admin("POST", "/v1/tenants", Some(&wrong)).await;
    let mut fields = wrong_fields(&problem);
    fields.sort_unstable();
    assert_eq!(
        (status, fields.join(" ")),
        (400, "limits.maxJobs limits.minInterval limits.weight name".to_owned())
    );
    let (status, problem) =
        registry.admin("PUT", "/v1/tenants/default", Some(&json!({ "name": "other" }))).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["name".to_owned()]));
    assert_eq!(registry.admin("PUT", "/v1/tenants/nowhere", Some(&json!({}))).await.0, 404);
}

#[tokio::test]
async fn a_tenant_sees_itself_and_no_other() {
    let registry = Registry::start().await;
    let other = registry.token(Some(registry.other_tenant().await), Role::Viewer).await;
    let seen =
        async |name: &str| registry.call(&other, "GET", &format!("/v1/tenants/{name}"), None).await.unwrap();
    for own in ["-", "other"] {
        let (status, tenant) = seen(own).await;
        assert_eq!((status, &tenant["name"]), (200, &json!("other")), "{tenant}");
    }
    let (there, absent) = (seen("default").await, seen("nowhere").await);
    assert_eq!(there.0, 404);
    assert_eq!(there.1.to_string().replace("default", "?"), absent.1.to_string().replace("nowhere", "?"));
}

/// Twenty create at once where five have room.
#[tokio::test]
async fn as_many_jobs_are_created_at_once_as_there_are_places() {
    let registry = Arc::new(Registry::start().await);
    limited(&registry, json!({ "maxJobs": 5 })).await;
    let mut creators = tokio::task::JoinSet::new();
    for number in 0..20 {
        let registry = registry.clone();
        creators.spawn(async move {
            registry.admin("POST", "/v1/jobs", Some(&job(&format!("job-{number}")))).await
        });
    }
    let answers = creators.join_all().await;
    let created = answers.iter().filter(|(status, _)| *status == 200).count();
    let refused: Vec<_> = answers.iter().filter(|(status, _)| *status == 429).collect();
    assert_eq!((created, refused.len()), (5, 15), "{answers:?}");
    let detail = refused[0].1["detail"].as_str().unwrap();
    assert!(detail.starts_with("tenant \"default\" has 5 of 5 jobs"), "{detail}");
    assert_eq!(registry.sql("SELECT count(*) FROM job").await, "5");

    // A set that changes what is there fits; one more does not, and nothing of it is stored.
    let names: Vec<String> = registry.sql("SELECT name FROM job").await.lines().map(str::to_owned).collect();
    let changed: Vec<_> = names.iter().map(|name| with(job(name), json!({ "priority": 1 }))).collect();
    assert_eq!(registry.admin("POST", "/v1/apply", Some(&json!({ "jobs": changed }))).await.0, 200);
    let more: Vec<_> =
        names.iter().map(|name| with(job(name), json!({ "priority": 2 }))).chain([job("one-more")]).collect();
    let (status, problem) = registry.admin("POST", "/v1/apply", Some(&json!({ "jobs": more }))).await;
    assert_eq!(status, 429, "{problem}");
    assert_eq!(registry.sql("SELECT DISTINCT definition->>'priority' FROM job").await, "1");
    // A deleted one makes room, and others' jobs take none.
    assert_eq!(registry.admin("DELETE", &format!("/v1/jobs/{}", names[0]), None).await.0, 200);
    assert_eq!(registry.admin("POST", "/v1/jobs", Some(&job("one-more"))).await.0, 200);
    let other = registry.token(Some(registry.other_tenant().await), Role::Admin).await;
    assert_eq!(registry.call(&other, "POST", "/v1/jobs", Some(&job("theirs"))).await.unwrap().0, 200);
}

#[tokio::test]
async fn runs_are_shown_as_far_back_as_the_tenant_may_see() {
    let registry = Registry::start().await;
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let id = created["id"].as_str().unwrap();
    let (old, new) = (registry.plan(id, -100_000).await, registry.plan(id, -60).await);
    let seen = async |path: &str| {
        let (status, page) = registry.admin("GET", path, None).await;
        assert_eq!(status, 200, "{page}");
        let runs = page["runs"].as_array().unwrap().iter();
        runs.map(|run| run["scheduledFor"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let one = async |at: &str| registry.admin("GET", &format!("/v1/jobs/invoices/runs/{at}"), None).await.0;
    for path in ["/v1/jobs/invoices/runs", "/v1/runs"] {
        assert_eq!(seen(path).await, [new.clone(), old.clone()], "{path}");
    }
    assert_eq!((one(&new).await, one(&old).await), (200, 200));
    limited(&registry, json!({ "historyDays": 1 })).await;
    for path in ["/v1/jobs/invoices/runs", "/v1/runs", "/v1/runs?from=2020-01-01T00:00:00Z"] {
        assert_eq!(seen(path).await, std::slice::from_ref(&new), "{path}");
    }
    assert_eq!((one(&new).await, one(&old).await), (200, 404));
    let output = format!("/v1/jobs/invoices/runs/{old}/output?once=true");
    assert_eq!(registry.admin("GET", &output, None).await.0, 404);
}

#[tokio::test]
async fn a_definition_over_a_limit_is_refused_where_it_is_over_and_what_was_there_stays() {
    let registry = Registry::start().await;
    let fast = with(job("fast"), json!({ "schedule": "*/30 * * * * *" }));
    assert_eq!(registry.admin("POST", "/v1/jobs", Some(&fast)).await.0, 200);
    limited(&registry, json!({ "minInterval": "60s", "maxPayloadBytes": 300 })).await;
    let body = json!({ "http": { "url": "http://127.0.0.1:1/", "body": "x".repeat(300) } });
    let both = with(job("second"), json!({ "schedule": "0,30 * * * * *", "run": body }));
    let (status, problem) = registry.admin("POST", "/v1/jobs", Some(&both)).await;
    assert_eq!((status, wrong_fields(&problem).join(" ")), (422, "run schedule".to_owned()), "{problem}");
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("30 s apart: tenant \"default\" may have them 60 s apart"),
        "{problem}"
    );
    let (status, problem) =
        registry.admin("POST", "/v1/apply", Some(&json!({ "jobs": [job("sound"), both] }))).await;
    assert_eq!(
        (status, wrong_fields(&problem).join(" ")),
        (422, "jobs[1].run jobs[1].schedule".to_owned()),
        "{problem}"
    );
    assert_eq!(registry.sql("SELECT string_agg(name, ' ') FROM job").await, "fast");
    // What is over the limit since before it was set may be changed elsewhere, and not made worse.
    assert_eq!(
        registry.admin("PUT", "/v1/jobs/fast", Some(&with(fast.clone(), json!({ "priority": 1 })))).await.0,
        200
    );
    let faster = with(fast, json!({ "schedule": "*/10 * * * * *" }));
    assert_eq!(registry.admin("PUT", "/v1/jobs/fast", Some(&faster)).await.0, 422);
}

/// Whoever waited for queued runs while it held them could wait for somebody who holds the limits.
#[tokio::test]
async fn a_set_that_prunes_and_creates_locks_the_tenants_limits_before_what_is_queued() {
    let registry = Arc::new(Registry::start().await);
    limited(&registry, json!({ "maxJobs": 5 })).await;
    let of_team = |name: &str| with(job(name), json!({ "labels": { "team": "billing" } }));
    let (_, old) = registry.admin("POST", "/v1/jobs", Some(&of_team("old"))).await;
    let id = old["id"].as_str().unwrap();
    registry.plan(id, 60).await;
    let queued = format!("SELECT FROM run_queue WHERE job_id = '{id}' FOR UPDATE");
    let mut applying = tokio::task::JoinSet::new();
    let waits = async {
        let (asked, set) =
            (registry.clone(), json!({ "jobs": [of_team("new")], "prune": { "labels": ["team=billing"] } }));
        applying.spawn(async move { asked.admin("POST", "/v1/apply", Some(&set)).await });
        registry.waiting(1).await;
        let free = "SELECT count(*) FROM (SELECT FROM tenant_limit FOR UPDATE SKIP LOCKED) l";
        assert_eq!(registry.sql(free).await, "0", "others can't lock the limits while it waits for the run");
    };
    registry.while_held(&queued, waits).await;
    let (status, answer) = applying.join_next().await.unwrap().unwrap();
    assert_eq!(status, 200, "{answer}");
    assert_eq!(registry.sql("SELECT name FROM job WHERE deleted_at IS NULL").await, "new");
}

/// Ten create at once where one has room.
async fn one_of_ten(registry: &Arc<Registry>, path: &'static str, written: Value) -> Value {
    let mut creators = tokio::task::JoinSet::new();
    for number in 0..10 {
        let (registry, written) =
            (registry.clone(), with(written.clone(), json!({ "name": format!("new-{number}") })));
        creators.spawn(async move { registry.admin("POST", path, Some(&written)).await });
    }
    let answers = creators.join_all().await;
    let of = |code: u16| answers.iter().filter(|(status, _)| *status == code).collect::<Vec<_>>();
    assert_eq!((of(200).len(), of(429).len()), (1, 9), "{answers:?}");
    of(429)[0].1.clone()
}

#[tokio::test]
async fn a_tenant_has_a_hundred_channels_and_ten_thousand_check_ins_and_no_more() {
    let registry = Arc::new(Registry::start().await);
    registry
        .sql(
            "INSERT INTO alert_channel (id, tenant_id, created_at, name, kind, url)
                 SELECT gen_random_uuid(), id, esc_now(), 'old-' || n, 'WEBHOOK', 'http://h/' FROM tenant, generate_series(1, 99) n;
             INSERT INTO check_in (id, tenant_id, created_at, updated_at, judged_through, looked_through, token_hash, name, definition)
                 SELECT gen_random_uuid(), id, esc_now(), esc_now(), esc_now(), esc_now(), sha256(n::text::bytea), 'old-' || n, '{}'
                 FROM tenant, generate_series(1, 9999) n",
        )
        .await;
    let channel = json!({ "webhook": { "url": "http://h/" } });
    let full = one_of_ten(&registry, "/v1/channels", channel.clone()).await;
    assert_eq!(full["detail"], "your tenant has 100 of 100 channels: delete one first");
    let full = one_of_ten(&registry, "/v1/check-ins", json!({ "period": "3600s" })).await;
    assert_eq!(full["detail"], "your tenant has 10,000 of 10,000 check-ins: delete one first");

    // What is there can be changed, and a set finds no more room than a call.
    let changed = with(channel.clone(), json!({ "name": "old-1", "match": { "severities": ["CRITICAL"] } }));
    let set = json!({ "channels": [changed] });
    assert_eq!(registry.admin("POST", "/v1/apply", Some(&set)).await.0, 200);
    for (set, more) in [
        (
            json!({ "channels": [with(channel.clone(), json!({ "name": "a" })), with(channel.clone(), json!({ "name": "b" }))] }),
            "channels: 2 more don't fit",
        ),
        (json!({ "checkIns": [{ "name": "a", "period": "60s" }] }), "check-ins: delete one first"),
    ] {
        let (status, problem) = registry.admin("POST", "/v1/apply", Some(&set)).await;
        assert!(status == 429 && problem["detail"].as_str().unwrap().contains(more), "{status} {problem}");
    }
    let other = registry.token(Some(registry.other_tenant().await), Role::Editor).await;
    let created = with(channel, json!({ "name": "first" }));
    assert_eq!(registry.call(&other, "POST", "/v1/channels", Some(&created)).await.unwrap().0, 200);
}
