//! Filling ranges of the past.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use chrono::{DateTime, TimeDelta, Timelike, Utc};
use rpc::v1;
use rpc::v1::job_service_client::JobServiceClient;
use serde_json::{Value, json};
use support::{Registry, job, with, wrong_fields};

const BACKFILL: &str = "/v1/jobs/invoices:backfill";

/// A registry with an hourly job, its id, and the last full hour.
async fn hourly(fields: Value) -> (Registry, String, DateTime<Utc>) {
    let registry = Registry::start().await;
    let hourly = with(job("invoices"), json!({ "schedule": "0 * * * *", "timezone": "UTC" }));
    let (status, created) = registry.admin("POST", "/v1/jobs", Some(&with(hourly, fields))).await;
    assert_eq!(status, 200, "{created}");
    let now: DateTime<Utc> = created["createTime"].as_str().unwrap().parse().unwrap();
    let hour = now.with_minute(0).and_then(|at| at.with_second(0)).and_then(|at| at.with_nanosecond(0));
    let id = created["id"].as_str().unwrap().to_owned();
    (registry, id, hour.unwrap())
}

/// The range of the `hours` last full hours.
fn last(hour: DateTime<Utc>, hours: i64) -> Value {
    json!({ "from": hour - TimeDelta::hours(hours - 1), "to": hour })
}

fn counts(answer: &Value) -> (i64, i64) {
    let count = |field: &str| answer[field].as_str().map_or(0, |text| text.parse().unwrap());
    (count("added"), count("existing"))
}

#[tokio::test]
async fn a_range_is_filled_once_and_oldest_first() {
    let (registry, id, hour) = hourly(json!({})).await;
    // One of them ran.
    let ran = hour - TimeDelta::hours(2);
    registry
        .sql(&format!(
            "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin, state, attempt, token, finished_at)
             SELECT '{id}', tenant_id, '{ran}', '{ran}', 1, 7, 'SCHEDULE', 'SUCCEEDED', 1, 5, esc_now() FROM job"
        ))
        .await;
    let dry = with(last(hour, 5), json!({ "dryRun": true }));
    let (status, answer) = registry.admin("POST", BACKFILL, Some(&dry)).await;
    assert_eq!((status, counts(&answer)), (200, (4, 1)), "{answer}");
    assert_eq!(registry.sql("SELECT count(*) FROM run").await, "1", "nothing changed");

    let (status, answer) = registry.admin("POST", BACKFILL, Some(&last(hour, 5))).await;
    assert_eq!((status, counts(&answer)), (200, (4, 1)), "{answer}");
    assert_eq!(answer["first"], json!(hour - TimeDelta::hours(4)).as_str().unwrap());
    // They exclude each other: one is queued, the others wait in the backlog.
    let queued =
        "SELECT count(*) || ' ' || min(scheduled_for)::text || ' ' || min(origin::text) FROM run_queue";
    let oldest = (hour - TimeDelta::hours(4)).format("%Y-%m-%d %H:%M:%S+00");
    assert_eq!(registry.sql(queued).await, format!("1 {oldest} BACKFILL"));
    assert_eq!(registry.sql("SELECT remaining || ' ' || interval_ms FROM catch_up").await, "3 100");
    let kept = format!("SELECT state || ' ' || origin FROM run WHERE scheduled_for = '{ran}'");
    assert_eq!(registry.sql(&kept).await, "SUCCEEDED SCHEDULE");

    let (status, again) = registry.admin("POST", BACKFILL, Some(&last(hour, 5))).await;
    assert_eq!((status, counts(&again)), (200, (0, 5)), "{again}");
    assert_eq!(registry.sql("SELECT count(*) FROM run").await, "5");
    let trail = "SELECT string_agg(detail ->> 'added', ',' ORDER BY id) FROM audit_event WHERE action = 'job.backfill'";
    assert_eq!(registry.sql(trail).await, "4,0");
}

#[tokio::test]
async fn runs_beside_each_other_are_queued_at_the_pace() {
    let (registry, _, hour) = hourly(json!({ "overlap": "ALLOW" })).await;
    let paced = with(last(hour, 3), json!({ "pace": "2s" }));
    let (status, answer) = registry.admin("POST", BACKFILL, Some(&paced)).await;
    assert_eq!((status, counts(&answer)), (200, (3, 0)), "{answer}");
    let steps = "SELECT string_agg(step::text, ',') FROM (SELECT due_at - lag(due_at) OVER (ORDER BY scheduled_for) AS step FROM run_queue) s";
    assert_eq!(registry.sql(steps).await, "00:00:02,00:00:02");
    // More of it comes after those.
    let (_, answer) =
        registry.admin("POST", BACKFILL, Some(&with(last(hour, 5), json!({ "pace": "2s" })))).await;
    assert_eq!(counts(&answer), (2, 3));
    let span = "SELECT max(due_at) - min(due_at) FROM run_queue";
    assert_eq!(registry.sql(span).await, "00:00:08");
    assert_eq!(registry.sql("SELECT count(*) FROM catch_up").await, "0");
}

#[tokio::test]
async fn days_without_a_place_get_one_and_the_planners_instants_stay_its_own() {
    let (registry, _, hour) = hourly(json!({})).await;
    let from = hour - TimeDelta::days(40);
    let range = json!({ "from": from, "to": from + TimeDelta::hours(2) });
    let (status, answer) = registry.admin("POST", BACKFILL, Some(&range)).await;
    assert_eq!((status, counts(&answer)), (200, (3, 0)), "before the job was there, too: {answer}");
    let there = format!("SELECT to_regclass('run_{}') IS NOT NULL", from.format("%Y%m%d"));
    assert_eq!(registry.sql(&there).await, "t");

    let undecided = hour - TimeDelta::hours(3);
    registry.sql(&format!("UPDATE job_cursor SET next_fire_at = '{undecided}'")).await;
    let (_, answer) = registry.admin("POST", BACKFILL, Some(&last(hour, 6))).await;
    assert_eq!(counts(&answer), (2, 0), "{answer}");
}

#[tokio::test]
async fn ranges_that_can_not_be_filled_are_refused_with_the_reason() {
    let (registry, _, hour) = hourly(json!({})).await;
    registry.sql(&format!("UPDATE ledger_floor SET floor = '{}'", hour - TimeDelta::days(30))).await;
    let tomorrow = hour + TimeDelta::days(1);
    for (body, field) in [
        (json!({}), "from"),
        (json!({ "from": hour, "to": hour - TimeDelta::hours(1) }), "to"),
        (json!({ "from": hour, "to": tomorrow }), "to"),
        (json!({ "from": hour - TimeDelta::days(31), "to": hour }), "from"),
        (with(last(hour, 2), json!({ "pace": "0s" })), "pace"),
    ] {
        let (status, problem) = registry.admin("POST", BACKFILL, Some(&body)).await;
        assert_eq!(status, 400, "{body}");
        assert!(wrong_fields(&problem).contains(&field.to_owned()), "{body}: {problem}");
    }
    let each_second = with(job("ticks"), json!({ "schedule": "* * * * * *" }));
    registry.admin("POST", "/v1/jobs", Some(&each_second)).await;
    let day = json!({ "from": hour - TimeDelta::days(1), "to": hour });
    let (status, problem) = registry.admin("POST", "/v1/jobs/ticks:backfill", Some(&day)).await;
    assert_eq!(status, 400);
    assert!(problem["detail"].as_str().unwrap().contains("more than 10000 occurrences"), "{problem}");
    assert_eq!(registry.sql("SELECT count(*) FROM run").await, "0");
}

#[tokio::test]
async fn a_backfill_over_grpc_is_repeated_with_its_key() {
    let (registry, id, hour) = hourly(json!({})).await;
    let mut client = JobServiceClient::connect(registry.grpc.clone()).await.unwrap();
    let at = |at: DateTime<Utc>| Some(prost_types::Timestamp { seconds: at.timestamp(), nanos: 0 });
    let ask = |hours: i64| {
        let (from, to) = (at(hour - TimeDelta::hours(hours)), at(hour));
        let mut request = registry.request(v1::BackfillJobRequest {
            job: id.clone(),
            from,
            to,
            ..v1::BackfillJobRequest::default()
        });
        request.metadata_mut().insert("idempotency-key", "november".parse().unwrap());
        request
    };
    let first = client.backfill_job(ask(3)).await.unwrap().into_inner();
    assert_eq!((first.added, first.existing), (4, 0));
    assert_eq!(client.backfill_job(ask(3)).await.unwrap().into_inner(), first, "not (0, 4)");
    let other = client.backfill_job(ask(4)).await.expect_err("another range");
    assert_eq!(other.code(), tonic::Code::FailedPrecondition);
    // The answer stays what it was when the same call would be refused by now.
    let (status, paused) = registry.admin("POST", "/v1/jobs/invoices:pause", Some(&json!({}))).await;
    assert_eq!(status, 200, "{paused}");
    assert_eq!(client.backfill_job(ask(3)).await.unwrap().into_inner(), first, "the job is paused by now");
}
