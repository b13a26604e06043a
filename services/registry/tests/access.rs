//! Who may do what: tokens, roles, tenants.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod matrix;
mod support;

use model::ids::TenantId;
use serde_json::{Value, json};
use stack::wait::wait_for;
use store::api_token::Role;
use support::{Registry, SOON, job};

/// Every method of ours, with the roles that it answers.
fn methods() -> Vec<(&'static str, &'static str, Option<Value>, &'static [Role])> {
    const READ: &[Role] = &[Role::Admin, Role::Editor, Role::Viewer];
    const WRITE: &[Role] = &[Role::Admin, Role::Editor];
    let channel = json!({ "name": "oncall", "webhook": { "url": "http://127.0.0.1:1/" } });
    vec![
        ("GET", "/v1/jobs", None, READ),
        ("GET", "/v1/jobs/invoices", None, READ),
        ("GET", "/v1/jobs/invoices/runs", None, READ),
        ("GET", "/v1/jobs/invoices/runs/2026-11-29T09:00:00Z", None, READ),
        ("GET", "/v1/channels", None, READ),
        ("GET", "/v1/channels/oncall", None, READ),
        ("GET", "/v1/channels/oncall/deliveries", None, READ),
        ("POST", "/v1/channels/oncall:test", Some(json!({})), WRITE),
        ("GET", "/v1/status", None, READ),
        ("GET", "/v1/calendars", None, READ),
        ("GET", "/v1/calendars/holidays", None, READ),
        ("GET", "/v1/jobs/invoices:why?time=2026-11-29T09:00:00Z", None, READ),
        ("POST", "/v1/schedule:preview", Some(json!({ "schedule": "@daily" })), READ),
        ("POST", "/v1/calendars", Some(json!({ "name": "holidays" })), WRITE),
        ("PUT", "/v1/calendars/holidays", Some(json!({ "name": "holidays" })), WRITE),
        ("DELETE", "/v1/calendars/holidays", None, WRITE),
        ("POST", "/v1/jobs", Some(job("invoices")), WRITE),
        ("PUT", "/v1/jobs/invoices", Some(job("invoices")), WRITE),
        ("POST", "/v1/apply", Some(json!({ "jobs": [job("invoices")] })), WRITE),
        ("POST", "/v1/channels", Some(channel), WRITE),
        ("DELETE", "/v1/channels/oncall", None, WRITE),
        ("POST", "/v1/jobs/invoices:pause", Some(json!({})), WRITE),
        ("POST", "/v1/jobs/invoices:resume", Some(json!({})), WRITE),
        ("POST", "/v1/jobs/invoices:trigger", Some(json!({})), WRITE),
        ("POST", "/v1/jobs/invoices:backfill", Some(json!({})), WRITE),
        ("POST", "/v1/jobs/invoices/runs/2026-11-29T09:00:00Z:cancel", Some(json!({})), WRITE),
        ("POST", "/v1/jobs/invoices/runs/2026-11-29T09:00:00Z:rerun", Some(json!({})), WRITE),
        ("DELETE", "/v1/jobs/invoices", None, WRITE),
    ]
}

#[tokio::test]
async fn roles_reach_exactly_their_methods() {
    let registry = Registry::start().await;
    for role in [Role::Admin, Role::Editor, Role::Viewer, Role::Worker] {
        let token = registry.token(Some(TenantId::DEFAULT), role).await;
        for (method, path, body, allowed) in methods() {
            let (status, _) = registry.call(&token, method, path, body.as_ref()).await.unwrap();
            assert_eq!(status != 403, allowed.contains(&role), "{method} {path} as {role:?}: {status}");
            assert_ne!(status, 401, "{method} {path} as {role:?}");
        }
    }
}

#[tokio::test]
async fn no_method_answers_without_a_valid_token() {
    let registry = Registry::start().await;
    for (method, path, body, _) in methods() {
        for token in ["", "esc_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
            let (status, problem) = registry.call(token, method, path, body.as_ref()).await.unwrap();
            assert_eq!((status, &problem["status"]), (401, &json!(401)), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn another_tenants_job_is_as_absent_as_none() {
    let registry = Registry::start().await;
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let id = created["id"].as_str().unwrap().to_owned();
    let other = registry.token(Some(registry.other_tenant().await), Role::Admin).await;
    let nobody = uuid::Uuid::new_v4().to_string();
    let paths = |job: &str| {
        [
            ("GET", format!("/v1/jobs/{job}")),
            ("GET", format!("/v1/jobs/{job}/runs")),
            ("GET", format!("/v1/jobs/{job}:why?time=2026-11-29T09:00:00Z")),
            ("GET", format!("/v1/jobs/{job}/runs/2026-11-29T09:00:00Z")),
            ("PUT", format!("/v1/jobs/{job}")),
            ("DELETE", format!("/v1/jobs/{job}")),
            ("POST", format!("/v1/jobs/{job}:pause")),
            ("POST", format!("/v1/jobs/{job}:resume")),
            ("POST", format!("/v1/jobs/{job}:trigger")),
            ("POST", format!("/v1/jobs/{job}:backfill")),
            ("POST", format!("/v1/jobs/{job}/runs/2026-11-29T09:00:00Z:cancel")),
            ("POST", format!("/v1/jobs/{job}/runs/2026-11-29T09:00:00Z:rerun")),
        ]
    };
    for named in ["invoices", &id] {
        for ((method, path), (_, absent)) in paths(named).into_iter().zip(paths(&nobody)) {
            let body = match method {
                "PUT" => Some(job("invoices")),
                "POST" => Some(json!({})),
                _ => None,
            };
            let body = match path.ends_with(":backfill") {
                true => Some(json!({ "from": "2026-11-01T00:00:00Z", "to": "2026-11-02T00:00:00Z" })),
                false => body,
            };
            let (status, theirs) = registry.call(&other, method, &path, body.as_ref()).await.unwrap();
            let (_, none) = registry.call(&other, method, &absent, body.as_ref()).await.unwrap();
            assert_eq!(status, 404, "{method} {path}");
            // The same words, but for the name that was asked for.
            assert_eq!(theirs.to_string().replace(named, "?"), none.to_string().replace(&nobody, "?"));
        }
    }
    let (_, listed) = registry.call(&other, "GET", "/v1/jobs", None).await.unwrap();
    assert_eq!(listed["jobs"].as_array().map_or(0, Vec::len), 0);
    // The name is free in the other tenant.
    assert_eq!(registry.call(&other, "POST", "/v1/jobs", Some(&job("invoices"))).await.unwrap().0, 200);
}

#[tokio::test]
async fn the_status_shows_a_tenant_its_own_jobs_queues_and_workers() {
    let registry = Registry::start().await;
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let id = created["id"].as_str().unwrap();
    registry.plan(id, -10).await;
    let (tenant, session) = (TenantId::DEFAULT, uuid::Uuid::new_v4());
    registry
        .sql(&format!(
            "INSERT INTO worker_session (id, dispatcher_id, tenant_id, connected_at, slots, name, version, queues) VALUES
                 ('{session}', '{session}', '{tenant}', esc_now(), 4, 'payroll', '1', '{{default}}'),
                 (gen_random_uuid(), '{session}', NULL, esc_now(), 4, 'shared', '1', '{{default}}');
             INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
                                    undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
                 VALUES ('{id}', '{tenant}', '{session}', '{session}', date_trunc('second', esc_now()), esc_now(), 1, 5, 0, 0, 0, 0, 1,
                         1, 'SCHEDULE', true, 'default');
             INSERT INTO alert (id, tenant_id, job_id, opened_at, kind, cause)
                 VALUES ('{session}', '{tenant}', '{id}', esc_now(), 'NO_SUCCESS', 'FAILED')"
        ))
        .await;
    let other = registry.token(Some(registry.other_tenant().await), Role::Admin).await;
    let seen = |status: &Value| {
        let workers = status["workers"].as_array().cloned().unwrap_or_default();
        let workers: Vec<_> =
            workers.iter().map(|worker| worker["name"].as_str().unwrap().to_owned()).collect();
        (
            status["jobs"].clone(),
            status["openAlerts"].clone(),
            status["queue"].as_array().map_or(0, Vec::len),
            workers.join(" "),
        )
    };
    let (_, own) = registry.admin("GET", "/v1/status", None).await;
    assert_eq!(seen(&own), (json!("1"), json!("1"), 1, "payroll shared".to_owned()));
    let (_, theirs) = registry.call(&other, "GET", "/v1/status", None).await.unwrap();
    assert_eq!(seen(&theirs), (json!("0"), json!("0"), 0, "shared".to_owned()));
}

#[tokio::test]
async fn a_revoked_token_is_refused_within_a_second_or_so() {
    let registry = Registry::start().await;
    let token = registry.token(Some(TenantId::DEFAULT), Role::Viewer).await;
    assert_eq!(registry.call(&token, "GET", "/v1/jobs", None).await.unwrap().0, 200);
    registry.sql("UPDATE api_token SET revoked_at = esc_now() WHERE role = 'VIEWER'").await;
    let revoked = std::time::Instant::now();
    wait_for(SOON, "the token's refusal", async || {
        let (status, _) = registry.call(&token, "GET", "/v1/jobs", None).await.unwrap();
        (status == 401).then_some(())
    })
    .await;
    assert!(revoked.elapsed() < std::time::Duration::from_secs(3), "{:?}", revoked.elapsed());
}

#[tokio::test]
async fn an_expired_token_is_refused() {
    let registry = Registry::start().await;
    let token = registry.token(Some(TenantId::DEFAULT), Role::Viewer).await;
    registry.sql("UPDATE api_token SET expires_at = esc_now() - interval '1 s' WHERE role = 'VIEWER'").await;
    assert_eq!(registry.call(&token, "GET", "/v1/jobs", None).await.unwrap().0, 401);
}
