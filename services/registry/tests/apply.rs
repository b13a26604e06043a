//! A set of definitions: all or nothing, and a second time nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::{Registry, job, with, wrong_fields};

fn channel(name: &str) -> Value {
    json!({ "name": name, "webhook": { "url": "http://127.0.0.1:1/hook" } })
}

fn changes(answer: &Value) -> Vec<String> {
    let results = answer["results"].as_array().expect("results");
    let of = |result: &Value, field: &str| result[field].as_str().unwrap().to_owned();
    results
        .iter()
        .map(|result| format!("{} {} {}", of(result, "kind"), of(result, "name"), of(result, "change")))
        .collect()
}

#[tokio::test]
async fn a_second_apply_changes_nothing_and_says_so() {
    let registry = Registry::start().await;
    let told = with(job("b"), json!({ "alert": { "channels": ["oncall"] } }));
    let mut set = json!({ "channels": [channel("oncall")], "jobs": [told, job("a")] });
    let (status, answer) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(changes(&answer), ["Channel oncall CREATED", "Job b CREATED", "Job a CREATED"]);

    let before =
        registry.sql("SELECT count(*) FROM job_revision UNION ALL SELECT count(*) FROM audit_event").await;
    let (_, answer) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    assert_eq!(changes(&answer), ["Channel oncall UNCHANGED", "Job b UNCHANGED", "Job a UNCHANGED"]);
    let after =
        registry.sql("SELECT count(*) FROM job_revision UNION ALL SELECT count(*) FROM audit_event").await;
    assert_eq!(before, after);

    set["jobs"][1]["schedule"] = json!("0 10 * * *");
    set["channels"][0]["webhook"]["url"] = json!("http://127.0.0.1:2/hook");
    let (_, answer) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    assert_eq!(changes(&answer), ["Channel oncall CHANGED", "Job b UNCHANGED", "Job a CHANGED"]);
}

#[tokio::test]
async fn one_wrong_definition_keeps_the_whole_set_out() {
    let registry = Registry::start().await;
    let unknown = with(job("b"), json!({ "alert": { "channels": ["oncall", "nobody"] } }));
    let wrong = with(job("c"), json!({ "schedule": "61 * * * *" }));
    let set = json!({ "channels": [channel("oncall")], "jobs": [job("a"), unknown, wrong, job("a")] });
    let (status, problem) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    assert_eq!(status, 400);
    let mut found = wrong_fields(&problem);
    found.sort_unstable();
    assert_eq!(found, ["jobs[1].alert.channels[1]", "jobs[2].schedule", "jobs[3].name"]);
    assert_eq!(
        registry.sql("SELECT (SELECT count(*) FROM job) + (SELECT count(*) FROM alert_channel)").await,
        "0"
    );
}

#[tokio::test]
async fn a_thousand_jobs_are_applied_quickly() {
    let registry = Registry::start().await;
    let jobs: Vec<_> = (0..1_000).map(|number| job(&format!("job-{number:04}"))).collect();
    let set = json!({ "jobs": jobs });
    for expected in ["CREATED", "UNCHANGED"] {
        let began = Instant::now();
        let (status, answer) = registry.admin("POST", "/v1/apply", Some(&set)).await;
        let took = began.elapsed();
        assert_eq!(status, 200, "{answer}");
        assert!(changes(&answer).iter().all(|change| change.ends_with(expected)));
        // Unoptimised and on a busy machine; without batches it would be a thousand round trips of several statements.
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}

#[tokio::test]
async fn the_largest_set_is_applied_over_rest() {
    let registry = Registry::start().await;
    // Nothing is further away than a leap day: the search for the first instant is as long as it gets.
    let sparse = json!({ "schedule": "0 0 29 2 *" });
    let jobs: Vec<_> =
        (0..10_000).map(|number| with(job(&format!("job-{number:04}")), sparse.clone())).collect();
    let (status, answer) = registry.admin("POST", "/v1/apply", Some(&json!({ "jobs": jobs }))).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(registry.sql("SELECT count(*) FROM watch_cursor WHERE judge_at IS NOT NULL").await, "10000");
}

#[tokio::test]
async fn concurrent_applies_of_one_set_agree() {
    let registry = Registry::start().await;
    let forward: Vec<_> = (0..20).map(|number| job(&format!("job-{number}"))).collect();
    let backward: Vec<_> = forward.iter().rev().cloned().collect();
    for round in 0..3 {
        let of = |jobs: &[Value]| -> Value {
            let schedule = json!({ "schedule": format!("{round} * * * *") });
            json!({ "jobs": jobs.iter().map(|job| with(job.clone(), schedule.clone())).collect::<Vec<_>>() })
        };
        let (one, two) = (of(&forward), of(&backward));
        let (one, two) = tokio::join!(
            registry.admin("POST", "/v1/apply", Some(&one)),
            registry.admin("POST", "/v1/apply", Some(&two)),
        );
        assert_eq!((one.0, two.0), (200, 200), "{} {}", one.1, two.1);
    }
    assert_eq!(registry.sql("SELECT DISTINCT generation FROM job").await, "3");
}

#[tokio::test]
async fn a_channel_that_a_job_names_stays() {
    let registry = Registry::start().await;
    let (status, created) = registry.admin("POST", "/v1/channels", Some(&channel("oncall"))).await;
    assert_eq!(status, 200, "{created}");
    assert_eq!(registry.admin("POST", "/v1/channels", Some(&channel("oncall"))).await.0, 409);
    let told = with(job("a"), json!({ "alert": { "channels": ["oncall"] } }));
    assert_eq!(registry.admin("POST", "/v1/jobs", Some(&told)).await.0, 200);
    let (status, problem) = registry.admin("DELETE", "/v1/channels/oncall", None).await;
    assert_eq!(status, 409);
    assert!(problem["detail"].as_str().unwrap().contains("\"a\""), "{problem}");
    registry.admin("DELETE", "/v1/jobs/a", None).await;
    assert_eq!(registry.admin("DELETE", "/v1/channels/oncall", None).await.0, 200);
    assert_eq!(registry.admin("GET", "/v1/channels/oncall", None).await.0, 404);
}

#[tokio::test]
async fn a_channels_secret_never_comes_out() {
    let registry = Registry::start().await;
    let secret = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0";
    let signed =
        json!({ "name": "oncall", "webhook": { "url": "http://127.0.0.1:1/hook", "secret": secret } });
    let (_, created) = registry.admin("POST", "/v1/channels", Some(&signed)).await;
    let (_, listed) = registry.admin("GET", "/v1/channels", None).await;
    assert!(!created.to_string().contains(secret) && !listed.to_string().contains(secret));
    assert!(!registry.sql("SELECT detail FROM audit_event").await.contains(secret));
    assert_eq!(registry.sql("SELECT secret FROM alert_channel").await, secret);
    // What was read can be applied again without losing it.
    registry.admin("POST", "/v1/apply", Some(&json!({ "channels": listed["channels"] }))).await;
    assert_eq!(registry.sql("SELECT secret FROM alert_channel").await, secret);
}
