//! Why: what is recorded of an instant, and what is not.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use serde_json::{Value, json};
use support::{Registry, job, with};

/// A job of every second that was created long ago; its id.
async fn every_second(registry: &Registry) -> String {
    let every_second = with(job("beats"), json!({ "schedule": "* * * * * *" }));
    let (status, created) = registry.admin("POST", "/v1/jobs", Some(&every_second)).await;
    assert_eq!(status, 200, "{created}");
    let id = created["id"].as_str().unwrap().to_owned();
    registry
        .sql("UPDATE job_revision SET in_force_from = in_force_from - interval '1 hour'; UPDATE job SET created_at = created_at - interval '1 hour'")
        .await;
    id
}

/// The instant so many seconds from now.
async fn at(registry: &Registry, seconds: i64) -> String {
    let text = format!(
        "SELECT to_char(date_trunc('second', esc_now()) + interval '{seconds} s', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
    );
    registry.sql(&text).await
}

async fn why(registry: &Registry, job: &str, time: &str) -> Value {
    let (status, answer) = registry.admin("GET", &format!("/v1/jobs/{job}:why?time={time}"), None).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

fn says(answer: &Value, expected: &str) {
    let explanation = answer["explanation"].as_str().unwrap();
    assert!(explanation.contains(expected), "{expected:?} in {explanation}");
}

#[tokio::test]
async fn a_run_is_answered_with_its_attempts_and_its_definition() {
    let registry = Registry::start().await;
    let id = every_second(&registry).await;
    let run = registry.plan(&id, -30).await;
    let answer = why(&registry, "beats", &run).await;
    assert_eq!((&answer["answer"], &answer["run"]["state"]), (&json!("RUN"), &json!("WAITING")), "{answer}");
    assert_eq!(answer["generation"], "1");
    says(&answer, "waits to be handed out");
    says(&answer, "It executes generation 1");
    let at = &run;
    registry
        .sql(&format!(
            "DELETE FROM run_queue; UPDATE run SET state = 'FAILED', reason = 'WORK_FAILED', attempt = 2, token = 9,
                 claimed_at = due_at + interval '10 s', accepted_at = due_at + interval '10 s', finished_at = esc_now();
             INSERT INTO run_outcome (job_id, tenant_id, scheduled_for, at, attempt, token, state, reason, final)
                 SELECT job_id, tenant_id, scheduled_for, due_at + interval '1 s', 1, 8, 'FAILED', 'WORK_FAILED', false FROM run;
             INSERT INTO run_output (job_id, scheduled_for, attempt, exit_status, tail) VALUES ('{id}', '{at}', 2, 3, '')"
        ))
        .await;
    let answer = why(&registry, &id, &run).await;
    assert_eq!(answer["run"]["attempts"].as_array().unwrap().len(), 1);
    says(&answer, "It ended as failed");
    says(&answer, "with attempt 2: the work reported failure.");
    says(&answer, "Attempt 1 ended as failed");
    says(&answer, "status 3");
}

#[tokio::test]
async fn what_attempts_said_about_their_failure_is_told() {
    let registry = Registry::start().await;
    let id = every_second(&registry).await;
    let run = registry.plan(&id, -30).await;
    registry
        .sql(&format!(
            "DELETE FROM run_queue; UPDATE run SET state = 'FAILED', reason = 'WORK_FAILED', attempt = 2, token = 9,
                 claimed_at = due_at, accepted_at = due_at, finished_at = esc_now();
             INSERT INTO run_outcome (job_id, tenant_id, scheduled_for, at, attempt, token, state, reason, final)
                 SELECT job_id, tenant_id, scheduled_for, due_at + interval '1 s', 1, 8, 'FAILED', 'WORK_FAILED', false FROM run;
             INSERT INTO run_output (job_id, scheduled_for, attempt, exit_status, error, tail)
                 VALUES ('{id}', '{run}', 1, NULL, E'no answer:\n dns error', ''),
                        ('{id}', '{run}', 2, 500, 'the answer was 500 ' || repeat('x', 1000), '')"
        ))
        .await;
    let answer = why(&registry, "beats", &run).await;
    says(&answer, ": the work reported failure (no answer: dns error).");
    says(&answer, "Its last attempt left HTTP 500, and said: the answer was 500 xxx");
    says(&answer, "x…\n");
}

#[tokio::test]
async fn a_missed_one_names_cause_policy_and_who_recorded_it() {
    let registry = Registry::start().await;
    let id = every_second(&registry).await;
    let (first, here, last) =
        (at(&registry, -300).await, at(&registry, -200).await, at(&registry, -100).await);
    registry
        .sql(&format!(
            "INSERT INTO term (role, revision, holder, began_at, pid, name, http)
                 VALUES ('ticker', 77, gen_random_uuid(), esc_now(), 1, 'ticker-1', 'http://127.0.0.1:1');
             INSERT INTO misfire (job_id, first, last, recorded_at, count, term, cause, policy, outcome)
                 VALUES ('{id}', '{first}', '{last}', esc_now(), 201, 77, 'NO_TICKER', 'ONCE', 'SUPERSEDED')"
        ))
        .await;
    let answer = why(&registry, "beats", &here).await;
    assert_eq!(answer["answer"], "MISSED", "{answer}");
    let missed = &answer["missed"];
    for (field, expected) in [
        ("cause", "NO_TICKER"),
        ("policy", "ONCE"),
        ("outcome", "SUPERSEDED"),
        ("term", "77"),
        ("ticker", "ticker-1"),
        ("count", "201"),
        ("first", first.as_str()),
        ("last", last.as_str()),
    ] {
        assert_eq!(missed[field], expected, "{field} in {missed}");
    }
    says(&answer, "no ticker led in that time");
    says(&answer, "ticker-1 recorded it");
    says(&answer, "as one of 201");
}

#[tokio::test]
async fn what_is_to_come_what_is_none_and_what_was_before_the_job() {
    let registry = Registry::start().await;
    let invoices = with(job("invoices"), json!({ "jitter": "600s" }));
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&invoices)).await;
    let next = created["nextFireTime"].as_str().unwrap();
    let answer = why(&registry, "invoices", next).await;
    assert_eq!(answer["answer"], "TO_BE_PLANNED", "{answer}");
    assert!(answer["dueTime"].as_str().unwrap() > next, "jitter is included: {answer}");
    assert!(answer["localTime"].as_str().unwrap().contains("T09:00:00+0"), "{answer}");
    says(&answer, "in Europe/Berlin");

    // A Saturday.
    let answer = why(&registry, "invoices", "2027-05-01T09:30").await;
    assert_eq!(answer["answer"], "NOT_AN_OCCURRENCE", "{answer}");
    assert_eq!(answer["time"], "2027-05-01T07:30:00Z");
    assert_eq!(
        (&answer["previousTime"], &answer["nextTime"]),
        (&json!("2027-04-30T07:00:00Z"), &json!("2027-05-03T07:00:00Z"))
    );
    says(&answer, "was read as local time in Europe/Berlin");
    says(&answer, "minute is 30, the expression allows 0");
    says(&answer, "Saturday (6), the expression allows 1-5");
    says(&answer, "The occurrence after it is 2027-05-03T07:00:00Z");
    let fraction = why(&registry, "invoices", "2027-05-03T07:00:00.5Z").await;
    assert_eq!(fraction["answer"], "NOT_AN_OCCURRENCE", "{fraction}");
    says(&fraction, "whole second");

    let before = why(&registry, "invoices", "2020-01-01T08:00:00Z").await;
    assert_eq!((&before["answer"], &before["generation"]), (&json!("NO_JOB"), &json!("0")), "{before}");
    registry.admin("DELETE", "/v1/jobs/invoices", None).await;
    let id = created["id"].as_str().unwrap();
    let after = why(&registry, id, next).await;
    assert_eq!(after["answer"], "NO_JOB", "{after}");
    says(&after, "deleted before it, by admin");

    let (status, problem) = registry.admin("GET", &format!("/v1/jobs/{id}:why?time=tomorrow"), None).await;
    assert_eq!((status, support::wrong_fields(&problem)), (400, vec!["time".to_owned()]));
    assert_eq!(registry.admin("GET", "/v1/jobs/nobody:why?time=2026-01-01T00:00:00Z", None).await.0, 404);
}

#[tokio::test]
async fn pauses_changes_and_calendars_answer_for_their_time() {
    let registry = Registry::start().await;
    let id = every_second(&registry).await;
    registry.admin("POST", "/v1/jobs/beats:pause", Some(&json!({ "reason": "stocktaking" }))).await;
    let in_pause = at(&registry, 3_600).await;
    let answer = why(&registry, "beats", &in_pause).await;
    assert_eq!((&answer["answer"], &answer["generation"]), (&json!("PAUSED"), &json!("2")), "{answer}");
    says(&answer, "because \"stocktaking\"");
    says(&answer, "has not been resumed");
    // As if the pause had lasted from half an hour ago until a quarter of an hour ago.
    registry.admin("POST", "/v1/jobs/beats:resume", Some(&json!({}))).await;
    registry
        .sql(&format!(
            "UPDATE job_revision SET in_force_from = in_force_from - make_interval(mins => 45 - 15 * generation::int)
             WHERE job_id = '{id}' AND generation > 1;
             UPDATE job_cursor SET next_fire_at = date_trunc('second', esc_now())"
        ))
        .await;
    let was = at(&registry, -600).await;
    let answer = why(&registry, "beats", &was).await;
    assert_eq!(answer["answer"], "PAUSED", "{answer}");
    says(&answer, "until admin resumed it");

    let changed = with(job("beats"), json!({ "schedule": "30 * * * * *" }));
    registry.admin("PUT", "/v1/jobs/beats", Some(&changed)).await;
    let now = at(&registry, -2_000).await;
    let answer = why(&registry, "beats", &now).await;
    assert_eq!(
        (&answer["answer"], &answer["generation"]),
        (&json!("UNKNOWN"), &json!("1")),
        "nothing is made up: {answer}"
    );
    says(&answer, "This is by generation 1");
    says(&answer, "which was replaced at");

    registry
        .admin("POST", "/v1/calendars", Some(&json!({ "name": "holidays", "dates": ["2027-05-03"] })))
        .await;
    let closed = with(job("closed"), json!({ "calendars": { "exclude": ["holidays"], "rule": "NEXT_DAY" } }));
    registry.admin("POST", "/v1/jobs", Some(&closed)).await;
    let answer = why(&registry, "closed", "2027-05-03T09:00").await;
    assert_eq!(answer["answer"], "NOT_AN_OCCURRENCE", "{answer}");
    says(&answer, "2027-05-03 is a day of the calendar \"holidays\": moved to 2027-05-04");
}

#[tokio::test]
async fn a_viewer_may_ask_and_other_tenants_may_not() {
    let registry = Registry::start().await;
    let id = every_second(&registry).await;
    let path = format!("/v1/jobs/{id}:why?time=2027-01-01T00:00:00Z");
    let viewer = registry.token(Some(model::ids::TenantId::DEFAULT), store::api_token::Role::Viewer).await;
    assert_eq!(registry.call(&viewer, "GET", &path, None).await.unwrap().0, 200);
    let stranger = registry.token(Some(registry.other_tenant().await), store::api_token::Role::Admin).await;
    assert_eq!(registry.call(&stranger, "GET", &path, None).await.unwrap().0, 404);
}

#[tokio::test]
async fn what_became_of_runs_further_back_than_the_tenant_sees_is_not_told() {
    let registry = Registry::start().await;
    let id = every_second(&registry).await;
    registry
        .sql("UPDATE job_revision SET in_force_from = in_force_from - interval '3 days'; UPDATE job SET created_at = created_at - interval '3 days'")
        .await;
    let (old, new) = (registry.plan(&id, -100_000).await, registry.plan(&id, -60).await);
    let missed = at(&registry, -150_000).await;
    registry
        .sql(&format!(
            "INSERT INTO misfire (job_id, first, last, recorded_at, count, term, cause, policy, outcome)
                 VALUES ('{id}', '{missed}', '{missed}', esc_now(), 1, 77, 'NO_TICKER', 'ONCE', 'SUPERSEDED')"
        ))
        .await;
    let told = async |time: &str| why(&registry, "beats", time).await["answer"].clone();
    assert_eq!((told(&old).await, told(&missed).await), (json!("RUN"), json!("MISSED")));
    let limits = json!({ "limits": { "historyDays": 1 } });
    assert_eq!(registry.admin("PUT", "/v1/tenants/default", Some(&limits)).await.0, 200);
    assert_eq!(told(&new).await, "RUN");
    for time in [&old, &missed] {
        let answer = why(&registry, "beats", time).await;
        assert_eq!(answer["answer"], "UNKNOWN", "{answer}");
        assert!(answer["run"].is_null() && answer["missed"].is_null(), "{answer}");
        says(&answer, "further back than your tenant's history is shown");
    }
}

#[tokio::test]
async fn a_run_that_waits_for_a_worker_that_nobody_started_says_so() {
    let registry = Registry::start().await;
    let id = every_second(&registry).await;
    let run = registry.plan(&id, -30).await;
    says(
        &why(&registry, "beats", &run).await,
        "No worker that serves the queue \"default\" is connected (NO_WORKER)",
    );
    let told =
        async || why(&registry, "beats", &run).await["explanation"].as_str().unwrap().contains("NO_WORKER");
    // (minutes since its dispatcher was last renewed, the queue that it serves)
    for (minutes, queue, unserved) in [(0, "other", true), (1, "default", true), (0, "default", false)] {
        registry
            .sql(&format!(
                "WITH d AS (INSERT INTO dispatcher (id, started_at, renewed_at, pid, name, address, http)
                     VALUES (gen_random_uuid(), esc_now(), esc_now() - interval '{minutes} min', 1, 'd', '', '') RETURNING id)
                 INSERT INTO worker_session (id, dispatcher_id, connected_at, slots, name, version, queues)
                     SELECT gen_random_uuid(), id, esc_now(), 1, 'w', '1', '{{{queue}}}' FROM d"
            ))
            .await;
        assert_eq!(told().await, unserved, "{minutes} {queue}");
    }
}
