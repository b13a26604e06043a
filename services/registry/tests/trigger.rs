//! Running jobs now, running ended runs again, cancelling, and repeating such a call.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use model::ids::TenantId;
use rpc::v1;
use rpc::v1::job_service_client::JobServiceClient;
use rpc::v1::run_service_client::RunServiceClient;
use serde_json::{Value, json};
use store::api_token::Role;
use support::{Registry, job, with, wrong_fields};

const TRIGGER: &str = "/v1/jobs/invoices:trigger";

/// A registry with a job, and its id.
async fn with_job(definition: Value) -> (Registry, String) {
    let registry = Registry::start().await;
    let (status, created) = registry.admin("POST", "/v1/jobs", Some(&definition)).await;
    assert_eq!(status, 200, "{created}");
    let id = created["id"].as_str().unwrap().to_owned();
    (registry, id)
}

fn detail(problem: &Value) -> &str {
    problem["detail"].as_str().unwrap()
}

#[tokio::test]
async fn a_trigger_is_a_run_of_its_own_beside_the_schedule() {
    let (registry, id) = with_job(job("invoices")).await;
    let (status, run) = registry.admin("POST", TRIGGER, Some(&json!({}))).await;
    assert_eq!(status, 200, "{run}");
    assert_eq!((&run["origin"], &run["state"]), (&json!("MANUAL"), &json!("WAITING")));
    assert_eq!((&run["generation"], &run["term"]), (&json!("1"), &json!("0")));
    let at = run["scheduledFor"].as_str().unwrap();
    assert!(at.contains('.'), "never of a whole second: {at}");
    assert_eq!(run["idempotencyKey"], json!(format!("{id}@{at}")));
    let (_, read) = registry.admin("GET", &format!("/v1/jobs/invoices/runs/{at}"), None).await;
    assert_eq!(read["name"], run["name"]);
    let stored = "SELECT overlap || ' ' || exclusive || ' ' || coalesce(start_by::text, '-') || ' ' || (due_at <= esc_now())
                  FROM run_queue";
    assert_eq!(registry.sql(stored).await, "FORBID true - true");
    let trail = "SELECT string_agg(action || ' ' || object, ',' ORDER BY id) FROM audit_event";
    assert_eq!(registry.sql(trail).await, "job.create job/invoices,job.trigger job/invoices");

    let mut client = JobServiceClient::connect(registry.grpc.clone()).await.unwrap();
    let request = v1::TriggerJobRequest { job: id, wait: false };
    let second = client.trigger_job(registry.request(request)).await.unwrap().into_inner();
    assert_eq!(second.state(), v1::job_run::State::Waiting);
    assert_eq!(registry.sql("SELECT count(*) FROM run").await, "2");
}

#[tokio::test]
async fn a_day_without_a_place_in_the_ledger_is_named() {
    let (registry, _) = with_job(job("invoices")).await;
    registry.sql("UPDATE clock_shift SET shift = interval '9 days'").await;
    let (status, problem) = registry.admin("POST", TRIGGER, Some(&json!({}))).await;
    assert_eq!(status, 409);
    assert!(detail(&problem).contains("a ticker makes it"), "{problem}");
}

#[tokio::test]
async fn a_trigger_carries_its_callers_trace() {
    let (registry, _) = with_job(job("invoices")).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = [("traceparent", trace)];
    let called = registry.call_with(&registry.admin, "POST", TRIGGER, Some(&json!({})), &headers).await;
    assert_eq!(called.unwrap().0, 200);
    let stored = registry.sql("SELECT convert_from(traceparent, 'UTF8') FROM run").await;
    assert!(stored.starts_with(&trace[..36]), "{stored}");
}

#[tokio::test]
async fn an_open_run_is_named_unless_the_trigger_waits_for_it() {
    let (registry, id) = with_job(job("invoices")).await;
    let open = registry.opened(&id, 20).await;
    let (status, problem) = registry.admin("POST", TRIGGER, Some(&json!({}))).await;
    assert_eq!(status, 409);
    assert!(detail(&problem).contains(&format!("invoices@{open}")), "{problem}");
    assert_eq!(registry.admin("POST", TRIGGER, Some(&json!({ "wait": true }))).await.0, 200);

    let allowing = with(job("reports"), json!({ "overlap": "ALLOW" }));
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&allowing)).await;
    registry.opened(created["id"].as_str().unwrap(), 20).await;
    assert_eq!(registry.admin("POST", "/v1/jobs/reports:trigger", Some(&json!({}))).await.0, 200);
}

#[tokio::test]
async fn paused_and_deleted_jobs_are_not_run() {
    let (registry, _) = with_job(job("invoices")).await;
    registry.admin("POST", "/v1/jobs/invoices:pause", Some(&json!({}))).await;
    let range = json!({ "from": "2026-11-01T00:00:00Z", "to": "2026-11-01T00:00:00Z" });
    let rerun = "/v1/jobs/invoices/runs/2026-11-29T09:00:00Z:rerun";
    for (path, body) in [(TRIGGER, json!({})), ("/v1/jobs/invoices:backfill", range), (rerun, json!({}))] {
        let (status, problem) = registry.admin("POST", path, Some(&body)).await;
        assert_eq!((status, detail(&problem)), (409, "the job is paused: resume it first"), "{path}");
    }
    registry.admin("DELETE", "/v1/jobs/invoices", None).await;
    assert_eq!(registry.admin("POST", TRIGGER, Some(&json!({}))).await.0, 404);
}

#[tokio::test]
async fn a_repeated_call_answers_with_the_same_run() {
    let (registry, id) = with_job(job("invoices")).await;
    let (status, first) = registry.keyed(TRIGGER, &json!({}), "order-66").await;
    assert_eq!(status, 200, "{first}");
    // Also by another name of the job, and after it was paused: the answer is what it was.
    registry.admin("POST", "/v1/jobs/invoices:pause", Some(&json!({}))).await;
    for path in [TRIGGER.to_owned(), format!("/v1/jobs/{id}:trigger")] {
        assert_eq!(registry.keyed(&path, &json!({}), "order-66").await, (200, first.clone()));
    }
    registry.admin("POST", "/v1/jobs/invoices:resume", Some(&json!({}))).await;
    let (status, problem) = registry.keyed(TRIGGER, &json!({ "wait": true }), "order-66").await;
    assert_eq!(status, 409);
    assert!(detail(&problem).contains("\"order-66\""), "{problem}");
    assert_eq!(registry.sql("SELECT count(*) FROM run").await, "1");
    assert_ne!(registry.keyed(TRIGGER, &json!({}), "order-67").await.1, first);

    // A key means nothing for another caller, tenant or job.
    let headers = [("idempotency-key", "order-66")];
    let editor = registry.token(Some(TenantId::DEFAULT), Role::Editor).await;
    let (status, by_editor) =
        registry.call_with(&editor, "POST", TRIGGER, Some(&json!({})), &headers).await.unwrap();
    assert_eq!(status, 200);
    assert_ne!(by_editor, first);
    let stranger = registry.token(Some(registry.other_tenant().await), Role::Admin).await;
    registry.call(&stranger, "POST", "/v1/jobs", Some(&job("invoices"))).await.unwrap();
    let (status, of_stranger) =
        registry.call_with(&stranger, "POST", TRIGGER, Some(&json!({})), &headers).await.unwrap();
    assert_eq!((status, of_stranger["jobId"] == first["jobId"]), (200, false));
    registry.admin("POST", "/v1/jobs", Some(&job("reports"))).await;
    assert_eq!(registry.keyed("/v1/jobs/reports:trigger", &json!({}), "order-66").await.0, 200);

    // After a day the key is free.
    registry.sql("UPDATE idempotency_key SET created_at = created_at - interval '25 h'").await;
    assert_ne!(registry.keyed(TRIGGER, &json!({}), "order-66").await.1, first);
    assert_eq!(
        registry.sql("SELECT count(*) FROM idempotency_key").await,
        "1",
        "old ones are forgotten in passing"
    );
}

#[tokio::test]
async fn of_calls_with_one_key_at_once_one_runs() {
    let (registry, _) = with_job(with(job("invoices"), json!({ "overlap": "ALLOW" }))).await;
    for round in 0..5 {
        let (key, body) = (format!("key-{round}"), json!({}));
        let call = || registry.keyed(TRIGGER, &body, &key);
        let (one, two, three) = tokio::join!(call(), call(), call());
        assert_eq!(one.0, 200, "{one:?}");
        assert_eq!((&one, &one), (&two, &three));
    }
    assert_eq!(registry.sql("SELECT count(*) FROM run").await, "5");
}

#[tokio::test]
async fn a_refused_call_leaves_its_key_free() {
    let (registry, id) = with_job(job("invoices")).await;
    let open = registry.opened(&id, 20).await;
    assert_eq!(registry.keyed(TRIGGER, &json!({}), "k").await.0, 409);
    registry.sql(&format!("DELETE FROM run_lease; DELETE FROM run WHERE scheduled_for = '{open}'")).await;
    assert_eq!(registry.keyed(TRIGGER, &json!({}), "k").await.0, 200);
}

#[tokio::test]
async fn a_key_that_is_none_is_refused() {
    let (registry, _) = with_job(job("invoices")).await;
    let (status, problem) = registry.keyed(TRIGGER, &json!({}), &"k".repeat(256)).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["idempotency-key".to_owned()]), "{problem}");
}

#[tokio::test]
async fn a_run_that_waits_is_cancelled_at_once_and_one_that_runs_is_asked_to_stop() {
    let (registry, id) = with_job(job("invoices")).await;
    let waiting = registry.plan(&id, -5).await;
    let cancel = |at: &str| format!("/v1/jobs/invoices/runs/{at}:cancel");
    let (status, run) = registry.admin("POST", &cancel(&waiting), Some(&json!({}))).await;
    assert_eq!((status, &run["state"], &run["reason"]), (200, &json!("CANCELLED"), &json!("REQUESTED")));
    let (status, problem) = registry.admin("POST", &cancel(&waiting), Some(&json!({}))).await;
    assert_eq!(status, 409);
    assert!(detail(&problem).contains("has ended already: it is cancelled"), "{problem}");

    let open = registry.opened(&id, 20).await;
    let (status, run) = registry.admin("POST", &cancel(&open), Some(&json!({}))).await;
    assert_eq!((status, &run["state"]), (200, &json!("RUNNING")));
    let asked = "SELECT cancel_reason || ' ' || (cancel_requested IS NOT NULL) FROM run_lease";
    assert_eq!(registry.sql(asked).await, "REQUESTED true");

    for (path, expected) in [(cancel("2026-11-29T09:00:00Z"), 404), (cancel("yesterday"), 400)] {
        assert_eq!(registry.admin("POST", &path, Some(&json!({}))).await.0, expected, "{path}");
    }
    let trail = "SELECT string_agg(object, ',' ORDER BY id) FROM audit_event WHERE action = 'run.cancel'";
    assert_eq!(registry.sql(trail).await, format!("run/invoices@{waiting},run/invoices@{open}"));
}

#[tokio::test]
async fn an_ended_run_runs_again_as_the_next_attempt_of_the_same_row() {
    let (registry, id) = with_job(job("invoices")).await;
    let at = registry.plan(&id, -30).await;
    registry
        .sql(&format!(
            "DELETE FROM run_queue;
             UPDATE run SET state = 'SUCCEEDED', attempt = 1, token = 7, finished_at = esc_now() WHERE scheduled_for = '{at}'"
        ))
        .await;
    let path = format!("/v1/jobs/invoices/runs/{at}:rerun");
    let (status, run) = registry.keyed(&path, &json!({}), "again").await;
    assert_eq!(status, 200, "{run}");
    assert_eq!((&run["state"], &run["attempt"]), (&json!("RETRYING"), &json!(1)));
    assert_eq!(run["idempotencyKey"], json!(format!("{id}@{at}")));
    assert_eq!(
        registry.keyed(&path, &json!({}), "again").await,
        (200, run),
        "repeated, it is the same rerun"
    );
    assert_eq!(registry.sql("SELECT attempt || ' ' || (start_by IS NULL) FROM run_queue").await, "1 true");
    let (_, read) = registry.admin("GET", &format!("/v1/jobs/invoices/runs/{at}"), None).await;
    assert_eq!(read["attempts"][0]["state"], "SUCCEEDED", "how it ended before is kept: {read}");

    let (status, problem) = registry.admin("POST", &path, Some(&json!({}))).await;
    assert_eq!(status, 409);
    assert!(detail(&problem).contains("has not ended"), "{problem}");
    let other = registry.plan(&id, -60).await;
    registry
        .sql(&format!(
            "DELETE FROM run_queue WHERE scheduled_for = '{other}';
             UPDATE run SET state = 'SKIPPED', reason = 'OVERLAP', finished_at = esc_now() WHERE scheduled_for = '{other}'"
        ))
        .await;
    let mut client = RunServiceClient::connect(registry.grpc.clone()).await.unwrap();
    let request = v1::RerunRunRequest { job: id, scheduled_for: other };
    let refused = client.rerun_run(registry.request(request)).await.expect_err("a run is open");
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    assert!(refused.message().contains(&format!("invoices@{at} is open")), "{refused:?}");
    let absent = "/v1/jobs/invoices/runs/2026-11-29T09:00:00Z:rerun";
    assert_eq!(registry.admin("POST", absent, Some(&json!({}))).await.0, 404);
}
