//! What people see of runs and of the clockwork.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use serde_json::{Value, json};
use support::{Registry, job};

/// A finished run of attempt 2, a minute ago, accepted 1.5 s after it was due, with what it left.
async fn finished(registry: &Registry, id: &str) -> String {
    let tenant = model::ids::TenantId::DEFAULT;
    let session = uuid::Uuid::new_v4();
    registry
        .sql(&format!(
            "CREATE TEMP TABLE at AS SELECT date_trunc('second', esc_now()) - interval '60 s' AS at;
             INSERT INTO worker_session (id, dispatcher_id, connected_at, ended_at, slots, name, version, queues)
                 SELECT '{session}', '{session}', at, at, 4, 'agent-1', '1', '{{default}}' FROM at;
             INSERT INTO run (job_id, tenant_id, worker, scheduled_for, due_at, claimed_at, accepted_at, finished_at, generation, term,
                              token, attempt, origin, state, reason)
                 SELECT '{id}', '{tenant}', '{session}', at, at, at, at + interval '1.5 s', at + interval '3 s', 1, 7,
                        20, 2, 'SCHEDULE', 'FAILED', 'WORK_FAILED' FROM at;
             INSERT INTO run_output (job_id, scheduled_for, attempt, exit_status, tail, error)
                 SELECT '{id}', at, attempt, attempt, 'out'::bytea || (attempt::text)::bytea, 'exit status ' || attempt
                 FROM at, generate_series(1, 2) attempt;
             INSERT INTO run_outcome (job_id, tenant_id, worker, scheduled_for, at, token, attempt, state, reason, final)
                 SELECT '{id}', '{tenant}', '{session}', at, at, 18 + attempt, attempt, 'FAILED', 'WORK_FAILED', attempt = 2
                 FROM at, generate_series(1, 2) attempt;
             SELECT to_char(at, 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') FROM at"
        ))
        .await
}

#[tokio::test]
async fn a_run_shows_its_end_its_output_and_its_earlier_attempts() {
    let registry = Registry::start().await;
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let id = created["id"].as_str().unwrap();
    let at = finished(&registry, id).await;

    let (status, run) = registry.admin("GET", &format!("/v1/jobs/invoices/runs/{at}"), None).await;
    assert_eq!(status, 200, "{run}");
    let shown = |field: &str| run[field].clone();
    assert_eq!(shown("name"), json!(format!("invoices@{at}")));
    assert_eq!(shown("state"), json!("FAILED"));
    assert_eq!(shown("reason"), json!("WORK_FAILED"));
    assert_eq!(shown("worker"), json!("agent-1"));
    assert_eq!(shown("token"), json!("20"));
    assert_eq!(
        shown("latenessMs"),
        json!(null),
        "a second attempt waited for the end of the first, not for us"
    );
    assert_eq!((shown("exitStatus"), shown("output")), (json!(2), json!("out2")));
    assert_eq!(shown("idempotencyKey"), json!(format!("{id}@{at}")));
    let attempts = run["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 1, "the last one is the run itself: {run}");
    assert_eq!((&attempts[0]["attempt"], &attempts[0]["error"]), (&json!(1), &json!("exit status 1")));
    let absent = "/v1/jobs/invoices/runs/2026-01-01T00:00:00Z";
    assert_eq!(registry.admin("GET", absent, None).await.0, 404);
    assert_eq!(registry.admin("GET", "/v1/jobs/invoices/runs/yesterday", None).await.0, 400);
}

#[tokio::test]
async fn runs_are_listed_latest_first_by_state_and_in_pages() {
    let registry = Registry::start().await;
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let id = created["id"].as_str().unwrap();
    let failed = finished(&registry, id).await;
    let planned = registry.plan(id, 40).await;
    let waiting = registry.plan(id, -10).await;
    let instants = |answer: &Value| -> Vec<String> {
        let runs = answer["runs"].as_array().cloned().unwrap_or_default();
        runs.iter().map(|run| run["scheduledFor"].as_str().unwrap().to_owned()).collect()
    };
    let (_, all) = registry.admin("GET", "/v1/jobs/invoices/runs", None).await;
    assert_eq!(instants(&all), [waiting.as_str(), &failed], "those not due yet would hide what happened");
    assert_eq!(all["runs"][0]["state"], "WAITING");

    let (_, first) = registry.admin("GET", "/v1/jobs/invoices/runs?pageSize=1", None).await;
    let token = first["nextPageToken"].as_str().unwrap();
    let next = format!("/v1/jobs/invoices/runs?pageSize=1&pageToken={token}");
    let (_, second) = registry.admin("GET", &next, None).await;
    assert_eq!(instants(&second), [failed.as_str()]);
    assert_eq!(second["nextPageToken"].as_str().unwrap_or_default(), "");

    let some = "/v1/jobs/invoices/runs?states=FAILED&states=PLANNED";
    assert_eq!(instants(&registry.admin("GET", some, None).await.1), [planned, failed]);
    assert_eq!(registry.admin("GET", "/v1/jobs/invoices/runs?states=ODD", None).await.0, 400);
}

#[tokio::test]
async fn status_tells_who_leads_who_works_and_how_late() {
    let registry = Registry::start().await;
    let (_, empty) = registry.admin("GET", "/v1/status", None).await;
    assert!(empty["ticker"]["leader"].is_null(), "{empty}");
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let id = created["id"].as_str().unwrap();
    registry.plan(id, 40).await;
    registry.plan(id, -10).await;
    let (dispatcher, session) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    let tenant = model::ids::TenantId::DEFAULT;
    registry
        .sql(&format!(
            "INSERT INTO term (role, revision, holder, began_at, last_cycle_at, planned_through, pid, name, http)
                 VALUES ('ticker', 42, '{dispatcher}', esc_now(), esc_now(), esc_now() + interval '60 s', 4711, 'ticker-1', '');
             INSERT INTO dispatcher (id, started_at, renewed_at, pid, name, address, http) VALUES
                 ('{dispatcher}', esc_now(), esc_now(), 4712, 'dispatcher-1', '', ''),
                 ('{session}', esc_now(), esc_now() - interval '16 s', 4713, 'dispatcher-2', '', '');
             INSERT INTO worker_session (id, dispatcher_id, connected_at, slots, name, version, queues)
                 VALUES ('{session}', '{dispatcher}', esc_now(), 4, 'agent-1', '1', '{{default}}');
             INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
                 SELECT '{id}', '{tenant}', at, at, 1, 7, 'SCHEDULE' FROM date_trunc('second', esc_now() - interval '20 s') at;
             INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, accepted_at, generation, token,
                                    priority, undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
                 SELECT '{id}', '{tenant}', '{session}', '{session}', at, at, at + interval '0.25 s', 1, 5, 0, 0, 0, 0, 1, 1,
                        'SCHEDULE', true, 'default'
                 FROM (SELECT scheduled_for AS at FROM run ORDER BY 1 LIMIT 1) first"
        ))
        .await;
    let (status, found) = registry.admin("GET", "/v1/status", None).await;
    assert_eq!(status, 200, "{found}");
    assert_eq!(found["cell"], "main");
    let leader = &found["ticker"]["leader"];
    assert_eq!(
        (&leader["name"], &leader["pid"], &leader["revision"]),
        (&json!("ticker-1"), &json!(4711), &json!("42"))
    );
    let alive: Vec<_> =
        found["dispatchers"].as_array().unwrap().iter().map(|one| one["alive"] == json!(true)).collect();
    assert_eq!(alive, [true, false]);
    assert_eq!(
        (&found["workers"][0]["name"], &found["workers"][0]["running"]),
        (&json!("agent-1"), &json!(1))
    );
    let queue = &found["queue"][0];
    assert_eq!(
        (&queue["planned"], &queue["waiting"], &queue["running"]),
        (&json!("1"), &json!("1"), &json!("1"))
    );
    assert_eq!((&found["lateness"]["runs"], &found["lateness"]["p50Ms"]), (&json!("1"), &json!(250.0)));
    assert_eq!(found["jobs"], "1");
    let ledger = &found["ledger"];
    assert!(ledger["bytes"].as_str().unwrap().parse::<u64>().unwrap() > 8_192, "{ledger}");
    assert!(ledger["days"].as_u64() >= Some(1), "{ledger}");
    assert!(ledger["oldestDay"].as_str().unwrap().ends_with("T00:00:00Z"), "{ledger}");
    assert_eq!(ledger["floor"], "1970-01-01T00:00:00Z");

    registry.sql("UPDATE term SET last_cycle_at = esc_now() - interval '16 s', began_at = esc_now() - interval '1 h'").await;
    let (_, silent) = registry.admin("GET", "/v1/status", None).await;
    assert!(silent["ticker"]["leader"].is_null(), "a leader that is silent does not count: {silent}");
    assert!(silent["ticker"]["lastCycleTime"].is_string());
}
