//! Each field of a job, wrong: 400 names it, says what is wrong and what would be right, and nothing is stored.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use serde_json::{Value, json};
use support::{Registry, job, with, wrong_fields};

/// A value that is wrong, the field that is to be named, and a word of what would be right.
fn cases() -> Vec<(Value, &'static str, &'static str)> {
    vec![
        (json!({ "name": "" }), "name", "use"),
        (json!({ "name": "In Voices" }), "name", "a-z"),
        (json!({ "name": "00000000-0000-4000-8000-000000000001" }), "name", "id"),
        (json!({ "schedule": "" }), "schedule", ""),
        (json!({ "schedule": "61 * * * *" }), "schedule", "0-59"),
        (json!({ "schedule": "* * *" }), "schedule", "field"),
        (json!({ "schedule": "0 0 30 2 *" }), "schedule", ""),
        (json!({ "schedule": "TZ=Europe/Rome" }), "schedule", "timezone field"),
        (json!({ "timezone": "Europe/Atlantis" }), "timezone", ""),
        (json!({ "dstGap": "SOMETIMES" }), "dstGap", "RUN_AFTER"),
        (json!({ "misfire": { "policy": "NEVER" } }), "misfire.policy", "ONCE"),
        (json!({ "misfire": { "grace": "1s" } }), "misfire.grace", "at least"),
        (json!({ "misfire": { "catchUpLimit": -1 } }), "misfire.catchUpLimit", ""),
        (json!({ "misfire": { "catchUpWindow": "9999999s" } }), "misfire.catchUpWindow", "30 days"),
        (json!({ "overlap": "SOMETIMES" }), "overlap", "REPLACE"),
        (json!({ "maxRuntime": "0.5s" }), "maxRuntime", "at least"),
        (json!({ "maxRuntime": "soon" }), "maxRuntime", ""),
        (json!({ "retry": { "maxAttempts": 101 } }), "retry.maxAttempts", "1 to 100"),
        (json!({ "retry": { "backoff": "60s", "backoffMax": "10s" } }), "retry.backoff", "backoffMax"),
        (json!({ "retry": { "maxLost": -3 } }), "retry.maxLost", ""),
        (json!({ "retry": { "jitterPercent": 101 } }), "retry.jitterPercent", "0 (none) to 100"),
        (json!({ "retry": { "outcomes": ["SOMETIMES"] } }), "retry.outcomes[0]", "NOT_STARTED"),
        (json!({ "retry": { "finalStatuses": [600] } }), "retry.finalStatuses", "100 to 599"),
        (json!({ "jitter": "-1s" }), "jitter", ""),
        (json!({ "queue": "Büro" }), "queue", "a-z"),
        (json!({ "priority": 10 }), "priority", "0 (first) to 9 (last)"),
        (json!({ "labels": { "Team": "x" } }), "labels.Team", "a-z"),
        (json!({ "alert": { "successWithin": "0.1s" } }), "alert.successWithin", "at least"),
        (json!({ "alert": { "channels": ["nobody"] } }), "alert.channels[0]", "create it first"),
        (json!({ "alert": { "channels": ["No Body"] } }), "alert.channels[0]", "a-z"),
        (json!({ "alert": { "repeat": "59s" } }), "alert.repeat", "at least"),
        (json!({ "alert": { "repeat": "-1s" } }), "alert.repeat", ""),
        (json!({ "alert": { "severity": "GRAVE" } }), "alert.severity", "WARNING"),
        (
            json!({ "alert": { "on": { "failuresInRow": 1 } } }),
            "alert.on.failuresInRow",
            "alert.on.failed for each",
        ),
        (json!({ "alert": { "on": { "failuresInRow": 101 } } }), "alert.on.failuresInRow", "use 2 to 100"),
        (json!({ "alert": { "on": { "failuresInRow": -2 } } }), "alert.on.failuresInRow", ""),
        (json!({ "alert": { "on": { "runtimeOver": "0.2s" } } }), "alert.on.runtimeOver", "at least"),
        (
            json!({ "maxRuntime": "60s", "alert": { "on": { "runtimeOver": "60s" } } }),
            "alert.on.runtimeOver",
            "60 s: use less than maxRuntime, 60 s",
        ),
        (json!({ "alert": { "on": { "succeeded": true } } }), "alert.on.succeeded", ""),
        (json!({ "run": {} }), "run", "exec, http and handler"),
        (json!({ "run": { "exec": {} } }), "run.exec.argv", "program"),
        (json!({ "run": { "exec": { "argv": ["a"], "shell": "b" } } }), "run.exec.shell", "not both"),
        (json!({ "run": { "http": { "url": "ftp://x" } } }), "run.http.url", "http://"),
        (json!({ "run": { "http": { "url": "http://x", "method": "BREW" } } }), "run.http.method", "GET"),
        (json!({ "run": { "http": { "url": "http://x", "body": "\u{0}" } } }), "run.http.body", "NUL"),
        (json!({ "run": { "handler": { "name": "" } } }), "run.handler.name", "use"),
        (json!({ "shedule": "* * * * *" }), "shedule", ""),
    ]
}

#[tokio::test]
async fn each_wrong_field_is_named_with_what_would_be_right() {
    let registry = Registry::start().await;
    for (fields, field, right) in cases() {
        let (status, problem) =
            registry.admin("POST", "/v1/jobs", Some(&with(job("invoices"), fields.clone()))).await;
        assert_eq!(status, 400, "{fields}: {problem}");
        let found = wrong_fields(&problem);
        assert!(found.iter().any(|found| found == field), "{fields}: {problem}");
        assert!(problem.to_string().contains(right), "{fields}: {right:?} in {problem}");
    }
    assert_eq!(registry.sql("SELECT count(*) FROM job").await, "0");
    assert_eq!(registry.sql("SELECT count(*) FROM audit_event").await, "0");
}

#[tokio::test]
async fn all_wrong_fields_are_named_at_once() {
    let registry = Registry::start().await;
    let wrong = json!({
        "name": "X", "schedule": "61 * * * *", "timezone": "Nowhere", "priority": 77,
        "misfire": { "grace": "1s" }, "alert": { "channels": ["nobody"] },
    });
    let (status, problem) = registry.admin("POST", "/v1/jobs", Some(&with(job("a"), wrong))).await;
    assert_eq!(status, 400);
    let mut found = wrong_fields(&problem);
    found.sort_unstable();
    let expected = ["alert.channels[0]", "misfire.grace", "name", "priority", "schedule", "timezone"];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn fields_that_can_not_be_read_hide_no_others() {
    let registry = Registry::start().await;
    let wrong = json!({
        "name": "X", "schedule": "61 * * * *", "timezone": 7, "maxRuntime": "soon",
        "alert": { "channels": [5, "No Body"], "repeat": "1s" },
    });
    let (status, problem) = registry.admin("POST", "/v1/jobs", Some(&with(job("a"), wrong))).await;
    let mut found = wrong_fields(&problem);
    found.sort_unstable();
    let expected = [
        "alert.channels[0]",
        "alert.channels[1]",
        "alert.repeat",
        "maxRuntime",
        "name",
        "schedule",
        "timezone",
    ];
    assert_eq!((status, &found[..]), (400, &expected.map(str::to_owned)[..]), "{problem}");

    let set = json!({
        "jobs": [with(job("a"), json!({ "jitter": "soon" })), with(job("b"), json!({ "priority": 10 }))],
        "checkIns": [{ "name": "c", "period": "1s", "grace": [] }, { "name": "d", "period": 7 }],
        "calendars": [{ "name": "e", "dates": [7, "2026-13-01"] }],
        "channels": [{ "name": "F", "webhook": 1 }],
    });
    let (status, problem) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    let mut found = wrong_fields(&problem);
    found.sort_unstable();
    let expected = [
        "calendars[0].dates[0]",
        "calendars[0].dates[1]",
        "channels[0].name",
        "channels[0].webhook",
        "checkIns[0].grace",
        "checkIns[0].period",
        "checkIns[1].period",
        "jobs[0].jitter",
        "jobs[1].priority",
    ];
    assert_eq!((status, &found[..]), (400, &expected.map(str::to_owned)[..]), "{problem}");
    assert_eq!(registry.sql("SELECT count(*) FROM job").await, "0");
}

#[tokio::test]
async fn a_misspelt_field_is_told_once_and_ever_so_many_are_counted() {
    let registry = Registry::start().await;
    let mut misspelt = job("a");
    let fields = misspelt.as_object_mut().unwrap();
    let schedule = fields.remove("schedule").unwrap();
    fields.insert("shedule".to_owned(), schedule);
    let (status, problem) = registry.admin("POST", "/v1/jobs", Some(&misspelt)).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["shedule".to_owned()]), "{problem}");
    let set = json!({ "jobs": [misspelt, job("b")] });
    let (status, problem) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["jobs[0].shedule".to_owned()]), "{problem}");

    let many = json!({ "name": "a", "alert": { "channels": vec![7; 100_000] } });
    let (status, problem) = registry.admin("POST", "/v1/jobs", Some(&many)).await;
    let errors = problem["errors"].as_array().unwrap();
    let named = errors.len() - 1;
    let more = format!("{} more fields are wrong", 100_000 - named);
    assert_eq!(status, 400);
    assert!(errors[named]["message"].as_str().unwrap().starts_with(&more), "{problem}");
}

#[tokio::test]
async fn an_update_is_checked_like_a_creation_and_changes_nothing_when_wrong() {
    let registry = Registry::start().await;
    registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let wrong = with(job("invoices"), json!({ "schedule": "61 * * * *", "timezone": "Nowhere" }));
    let (status, problem) = registry.admin("PUT", "/v1/jobs/invoices", Some(&wrong)).await;
    assert_eq!((status, wrong_fields(&problem).len()), (400, 2), "{problem}");
    assert_eq!(registry.sql("SELECT generation FROM job").await, "1");
}

#[tokio::test]
async fn texts_that_postgresql_refuses_name_nothing() {
    let registry = Registry::start().await;
    for path in ["/v1/jobs/a%00b", "/v1/jobs/a%00b/runs", "/v1/channels/a%00b"] {
        assert_eq!(registry.admin("GET", path, None).await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn alerts_are_those_of_the_check_in_that_is_named_and_one_that_is_not_there_is_told() {
    let registry = Registry::start().await;
    for name in ["backup", "mirror"] {
        let written = json!({ "name": name, "period": "3600s" });
        assert_eq!(registry.admin("POST", "/v1/check-ins", Some(&written)).await.0, 200);
    }
    registry
        .sql(
            "INSERT INTO alert (id, tenant_id, check_in_id, subject, first_occurrence, last_occurrence, opened_at, count,
                                kind, cause, detail, severity)
             SELECT gen_random_uuid(), tenant_id, id, 'CHECK_IN', esc_now(), esc_now(), esc_now(), 1,
                    'CHECK_IN', 'NO_CHECK_IN', '', 'CRITICAL'
             FROM check_in",
        )
        .await;
    let (status, found) = registry.admin("GET", "/v1/alerts?checkIn=backup", None).await;
    let names: Vec<_> = found["alerts"].as_array().unwrap().iter().map(|alert| &alert["name"]).collect();
    assert_eq!((status, names), (200, vec![&json!("backup")]));
    for query in ["checkIn=nosuch", "checkIn=NO%00SUCH", "job=nosuch"] {
        let (status, problem) = registry.admin("GET", &format!("/v1/alerts?{query}"), None).await;
        assert_eq!((status, &problem["type"]), (404, &json!("urn:escapement:problem:not-found")), "{query}");
    }
}

#[tokio::test]
async fn a_token_that_is_no_text_is_as_unknown_as_any() {
    let registry = Registry::start().await;
    let report = async |token: &str, and| {
        registry.admin("POST", &format!("/v1/checkins/{token}{and}"), Some(&json!({}))).await
    };
    for and in ["", "/start", "/fail"] {
        let unknown = report("nobody", and).await;
        assert_eq!((unknown.0, unknown.1["type"].is_string()), (404, true), "{}", unknown.1);
        assert_eq!(report("%ff", and).await, unknown);
    }
}
