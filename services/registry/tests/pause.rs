//! Pausing and resuming jobs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use rpc::v1;
use rpc::v1::job_service_client::JobServiceClient;
use serde_json::json;
use support::{Registry, job, with, wrong_fields};

#[tokio::test]
async fn a_job_is_paused_shown_changed_and_resumed() {
    let registry = Registry::start().await;
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let id = created["id"].as_str().unwrap();
    registry.plan(id, 40).await;
    let waiting = registry.plan(id, -5).await;

    let reason = json!({ "reason": "the month is being closed" });
    let (status, paused) = registry.admin("POST", "/v1/jobs/invoices:pause", Some(&reason)).await;
    assert_eq!(status, 200, "{paused}");
    assert_eq!((&paused["paused"], &paused["pauseReason"]), (&json!(true), &reason["reason"]));
    assert!(paused["pauseTime"].is_string() && paused["nextFireTime"].is_null(), "{paused}");
    assert_eq!(paused["generation"], "2");
    let queue =
        "SELECT string_agg(to_char(scheduled_for, 'HH24:MI:SS') || ' ' || due_at, ',') FROM run_queue";
    let held = registry.sql(queue).await;
    assert_eq!(held, format!("{} infinity", &waiting[11..19]));
    let (_, read) = registry.admin("GET", "/v1/jobs/invoices", None).await;
    assert_eq!((&read["paused"], &read["pauseTime"]), (&json!(true), &paused["pauseTime"]));

    // Again: nothing to write, and the first reason stays.
    let (status, again) = registry.admin("POST", "/v1/jobs/invoices:pause", Some(&json!({}))).await;
    assert_eq!((status, &again["pauseReason"], &again["generation"]), (200, &reason["reason"], &json!("2")));
    // A change of a paused job leaves it paused.
    let changed = with(job("invoices"), json!({ "schedule": "0 10 * * *" }));
    let (_, changed) = registry.admin("PUT", "/v1/jobs/invoices", Some(&changed)).await;
    assert_eq!((&changed["paused"], &changed["generation"]), (&json!(true), &json!("3")));
    let applied = json!({ "jobs": [job("invoices")] });
    assert_eq!(registry.admin("POST", "/v1/apply", Some(&applied)).await.0, 200);
    assert_eq!(registry.admin("GET", "/v1/jobs/invoices", None).await.1["paused"], json!(true));

    let (status, resumed) = registry.admin("POST", "/v1/jobs/invoices:resume", Some(&json!({}))).await;
    assert_eq!((status, &resumed["generation"]), (200, &json!("5")), "{resumed}");
    assert!(resumed["nextFireTime"].is_string() && resumed["pauseTime"].is_null(), "{resumed}");
    assert_ne!(resumed["paused"], json!(true));
    let (_, again) = registry.admin("POST", "/v1/jobs/invoices:resume", Some(&json!({}))).await;
    assert_eq!(again["generation"], "5");
    let (_, run) = registry.admin("GET", &format!("/v1/jobs/invoices/runs/{waiting}"), None).await;
    assert_eq!((&run["state"], &run["reason"]), (&json!("CANCELLED"), &json!("PAUSED")));

    let revisions = "SELECT string_agg(action || ' ' || paused, ',' ORDER BY generation) FROM job_revision";
    let expected = "CREATED false,PAUSED true,CHANGED true,CHANGED true,RESUMED false";
    assert_eq!(registry.sql(revisions).await, expected);
    let trail = "SELECT string_agg(action, ',' ORDER BY id) FROM audit_event";
    assert_eq!(registry.sql(trail).await, "job.create,job.pause,job.update,job.update,job.resume");
}

#[tokio::test]
async fn a_resumption_over_grpc_gives_the_pause_back_to_the_planner() {
    let registry = Registry::start().await;
    registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let mut client = JobServiceClient::connect(registry.grpc.clone()).await.unwrap();
    let pause = v1::PauseJobRequest { job: "invoices".to_owned(), reason: String::new() };
    let paused = client.pause_job(registry.request(pause)).await.unwrap().into_inner();
    assert!(paused.paused && paused.pause_time.is_some());
    let resume = v1::ResumeJobRequest { job: "invoices".to_owned(), catch_up: true };
    assert!(!client.resume_job(registry.request(resume)).await.unwrap().into_inner().paused);
    let given_back = "SELECT next_fire_at - (SELECT in_force_from FROM job_revision WHERE action = 'PAUSED')
                          || (SELECT ' ' || catches_up FROM job_revision WHERE action = 'RESUMED') FROM job_cursor";
    assert_eq!(registry.sql(given_back).await, "00:00:00.000001 true");
}

#[tokio::test]
async fn a_pause_needs_a_job_and_a_short_reason() {
    let registry = Registry::start().await;
    registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let long = json!({ "reason": "x".repeat(257) });
    let (status, problem) = registry.admin("POST", "/v1/jobs/invoices:pause", Some(&long)).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["reason".to_owned()]), "{problem}");
    for path in ["/v1/jobs/nothing:pause", "/v1/jobs/nothing:resume"] {
        assert_eq!(registry.admin("POST", path, Some(&json!({}))).await.0, 404);
    }
    registry.admin("DELETE", "/v1/jobs/invoices", None).await;
    assert_eq!(registry.admin("POST", "/v1/jobs/invoices:pause", Some(&json!({}))).await.0, 404);
}
