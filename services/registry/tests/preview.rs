//! What a schedule means, asked of the API.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use serde_json::{Value, json};
use store::api_token::Role;
use support::{Registry, job, with, wrong_fields};

const PREVIEW: &str = "/v1/schedule:preview";

fn times(answer: &Value) -> Vec<&str> {
    let occurrences = answer["occurrences"].as_array().expect("occurrences");
    occurrences.iter().map(|occurrence| occurrence["time"].as_str().expect("a time")).collect()
}

#[tokio::test]
async fn a_schedule_is_previewed_in_both_ways() {
    let registry = Registry::start().await;
    let mut asked = json!({
        "schedule": "0 9 * * 1-5", "timezone": "Europe/Berlin", "from": "2026-11-27T08:00:00Z", "count": 2,
        "direction": "NEXT",
    });
    let (status, answer) = registry.admin("POST", PREVIEW, Some(&asked)).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(times(&answer), ["2026-11-30T08:00:00Z", "2026-12-01T08:00:00Z"], "strictly after");
    assert_eq!(answer["occurrences"][0]["local"], "2026-11-30T09:00:00+01:00");
    assert_ne!(answer["exhausted"], json!(true));
    assert!(answer["description"].as_str().unwrap().contains("Europe/Berlin"), "{answer}");
    assert!(answer["tzdata"].as_str().unwrap().starts_with("20"), "{answer}");
    asked["direction"] = json!("PREVIOUS");
    let (_, answer) = registry.admin("POST", PREVIEW, Some(&asked)).await;
    assert_eq!(times(&answer), ["2026-11-27T08:00:00Z", "2026-11-26T08:00:00Z"], "at or before");
    let (status, answer) = registry.admin("POST", PREVIEW, Some(&json!({ "schedule": "@daily" }))).await;
    assert_eq!((status, times(&answer).len()), (200, 10), "from now on, ten, in UTC");
}

#[tokio::test]
async fn what_rules_do_is_marked() {
    let registry = Registry::start().await;
    let asked = |fields: Value| {
        with(
            json!({ "schedule": "30 2 * * *", "timezone": "Europe/Berlin", "from": "2026-03-28T12:00:00Z", "count": 1 }),
            fields,
        )
    };
    let (_, moved) = registry.admin("POST", PREVIEW, Some(&asked(json!({})))).await;
    assert!(
        moved["occurrences"][0]["note"].as_str().unwrap().contains("moved to the first instant after"),
        "{moved}"
    );
    let (_, dropped) = registry.admin("POST", PREVIEW, Some(&asked(json!({ "dstGap": "SKIP" })))).await;
    assert_eq!(dropped["occurrences"][0]["dropped"], json!(true), "{dropped}");
    assert_eq!(times(&dropped)[1], "2026-03-30T00:30:00Z");

    let holidays = json!({ "name": "holidays", "dates": ["2026-03-29"] });
    registry.admin("POST", "/v1/calendars", Some(&holidays)).await;
    let closed = json!({ "calendars": { "exclude": ["holidays"], "rule": "NEXT_DAY" } });
    let (status, answer) = registry.admin("POST", PREVIEW, Some(&asked(closed))).await;
    assert_eq!((status, times(&answer)), (200, vec!["2026-03-30T00:30:00Z"]), "{answer}");
    assert!(answer["occurrences"][0]["note"].as_str().unwrap().contains("holidays"), "{answer}");
}

#[tokio::test]
async fn what_can_not_be_used_is_refused_as_a_creation_would_be() {
    let registry = Registry::start().await;
    let fields = json!({
        "schedule": "61 * * * *", "timezone": "Europe/Atlantis", "calendars": { "exclude": ["nobody"] },
        "startsAt": "2026-01-02T00:00:00Z", "endsAt": "2026-01-01T00:00:00Z",
    });
    let (status, previewed) = registry.admin("POST", PREVIEW, Some(&fields)).await;
    assert_eq!(status, 400);
    let (status, created) = registry.admin("POST", "/v1/jobs", Some(&with(job("a"), fields))).await;
    assert_eq!(status, 400);
    assert_eq!(previewed["errors"], created["errors"]);
    let mut wrong = wrong_fields(&previewed);
    wrong.sort_unstable();
    assert_eq!(wrong, ["calendars.exclude[0]", "endsAt", "schedule", "timezone"]);

    let (_, problem) = registry.admin("POST", PREVIEW, Some(&json!({ "count": 1001 }))).await;
    let mut wrong = wrong_fields(&problem);
    wrong.sort_unstable();
    assert_eq!(wrong, ["count", "schedule"], "all at once");
    let both = json!({ "job": "a", "schedule": "@daily", "count": -1 });
    let (_, problem) = registry.admin("POST", PREVIEW, Some(&both)).await;
    assert_eq!(wrong_fields(&problem), ["schedule", "count"]);
    assert_eq!(registry.admin("POST", PREVIEW, Some(&json!({ "job": "nobody" }))).await.0, 404);
}

#[tokio::test]
async fn a_job_is_previewed_in_its_own_place() {
    let registry = Registry::start().await;
    let (_, created) = registry
        .admin("POST", "/v1/jobs", Some(&with(job("spread"), json!({ "schedule": "H H * * *" }))))
        .await;
    for name in ["spread", created["id"].as_str().unwrap()] {
        let (status, answer) =
            registry.admin("POST", PREVIEW, Some(&json!({ "job": name, "count": 1 }))).await;
        assert_eq!(
            (status, times(&answer)),
            (200, vec![created["nextFireTime"].as_str().unwrap()]),
            "{answer}"
        );
        assert!(!answer["description"].as_str().unwrap().contains("another value"), "{answer}");
    }
    let (_, answer) = registry.admin("POST", PREVIEW, Some(&json!({ "schedule": "H H * * *" }))).await;
    assert!(
        answer["description"].as_str().unwrap().ends_with("H stands for another value in each job"),
        "{answer}"
    );
}

const HERD: &str = "/v1/schedule:herd";

/// Looks at a day that is far ahead.
async fn herd(registry: &Registry, fields: Value) -> Value {
    let asked = with(json!({ "from": "2090-01-01T12:00:00Z" }), fields);
    let (status, answer) = registry.admin("POST", HERD, Some(&asked)).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

#[tokio::test]
async fn a_herd_is_counted_and_its_peaks_are_told_with_what_would_spread_them() {
    let registry = Registry::start().await;
    let at_midnight = |name: &str, fields: Value| {
        with(with(job(name), json!({ "schedule": "@daily", "timezone": "UTC" })), fields)
    };
    let mut jobs: Vec<Value> =
        (0..40).map(|number| at_midnight(&format!("night-{number:02}"), json!({}))).collect();
    jobs.extend((0..3).map(|number| {
        at_midnight(
            &format!("hourly-{number}"),
            json!({ "schedule": "15 * * * *", "labels": { "team": "a" } }),
        )
    }));
    jobs.push(at_midnight("spread", json!({ "schedule": "30 0 * * *", "jitter": "600s", "queue": "other" })));
    jobs.push(at_midnight("closed", json!({ "calendars": { "exclude": ["holidays"] } })));
    jobs.extend(["paused", "deleted"].map(|name| at_midnight(name, json!({}))));
    let holidays = json!({ "name": "holidays", "dates": ["2090-01-02"] });
    let set = json!({ "jobs": jobs, "calendars": [holidays] });
    let (status, answer) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    assert_eq!(status, 200, "{answer}");
    registry.admin("POST", "/v1/jobs/paused:pause", Some(&json!({}))).await;
    registry.admin("DELETE", "/v1/jobs/deleted", None).await;

    let answer = herd(&registry, json!({ "buckets": 24 })).await;
    assert_eq!((&answer["jobs"], &answer["runs"]), (&json!(45), &json!("113")), "{answer}");
    assert_eq!((&answer["to"], &answer["bucket"]), (&json!("2090-01-02T12:00:00Z"), &json!("3600s")));
    let buckets = answer["buckets"].as_array().unwrap();
    let night = json!({ "time": "2090-01-02T00:00:00Z", "runs": "44", "peak": 40 });
    assert_eq!((buckets.len(), &buckets[12]), (24, &night));
    assert_eq!(answer["busiest"], json!({ "time": "2090-01-02T00:00:00Z", "runs": 40 }));
    let [night, hourly] = answer["peaks"].as_array().unwrap().as_slice() else { panic!("{answer}") };
    assert_eq!((&night["jobs"][9], &night["moreJobs"]), (&json!("night-09"), &json!(30)));
    assert_eq!(hourly["jobs"], json!(["hourly-0", "hourly-1", "hourly-2"]));
    assert_eq!((&hourly["runs"], &hourly["times"]), (&json!(3), &json!(24)));

    // What is suggested does what is said.
    let [jitter, schedule] = night["spreads"].as_array().unwrap().as_slice() else { panic!("{night}") };
    assert_eq!((&schedule["schedule"], &schedule["insteadOf"]), (&json!("H 0 * * *"), &json!("@daily")));
    for (spread, field) in [(jitter, "jitter"), (schedule, "schedule")] {
        assert_eq!(spread["jobs"], json!(40), "{spread}");
        let changed: Vec<Value> =
            jobs[..40].iter().map(|job| with(job.clone(), json!({ field: spread[field] }))).collect();
        registry.admin("POST", "/v1/apply", Some(&json!({ "jobs": changed }))).await;
        let then = herd(&registry, json!({ "span": "46800s" })).await;
        assert_eq!(
            then["busiest"]["runs"].as_i64().unwrap().max(3),
            spread["peak"].as_i64().unwrap().max(3),
            "{spread}"
        );
        registry.admin("POST", "/v1/apply", Some(&json!({ "jobs": jobs[..40] }))).await;
    }

    assert_eq!(herd(&registry, json!({ "labels": ["team=a"] })).await["runs"], json!("72"));
    assert_eq!(herd(&registry, json!({ "queue": "other" })).await["jobs"], json!(1));
    let other = registry.token(Some(registry.other_tenant().await), Role::Viewer).await;
    let (status, none) = registry.call(&other, "POST", HERD, Some(&json!({}))).await.unwrap();
    assert_eq!((status, none["jobs"].as_i64().unwrap_or(0)), (200, 0), "{none}");
}

#[tokio::test]
async fn ten_thousand_jobs_of_each_second_are_counted_and_one_that_can_not_be_used_is_left_out() {
    let registry = Registry::start().await;
    registry.admin("POST", "/v1/jobs", Some(&with(job("model"), json!({ "schedule": "* * * * * *" })))).await;
    registry
        .sql(
            "INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
                 SELECT gen_random_uuid(), tenant_id, 1, created_at, updated_at, 'copy-' || n, definition
                 FROM job, generate_series(1, 10000) n;
             UPDATE job SET definition = jsonb_set(definition, '{timezone}', '\"Europe/Atlantis\"') WHERE name = 'copy-7';
             UPDATE job SET definition = '{}' WHERE name = 'copy-8'",
        )
        .await;
    let answer = herd(&registry, json!({})).await;
    assert_eq!((&answer["jobs"], &answer["runs"]), (&json!(9_999), &json!("863913600")), "{answer}");
    assert_eq!(answer["leftOut"], json!(["copy-7", "copy-8"]));
    assert_ne!(answer["cut"], json!(true));
    assert_eq!(answer["peaks"].as_array().map_or(0, Vec::len), 0, "no second stands out");
}

#[tokio::test]
async fn what_a_herd_can_not_be_asked_for_is_refused() {
    let registry = Registry::start().await;
    let asked = json!({ "span": "604801s", "buckets": 9, "labels": ["=a"], "queue": "a".repeat(64) });
    let (status, problem) = registry.admin("POST", HERD, Some(&asked)).await;
    assert_eq!(status, 400);
    let mut wrong = wrong_fields(&problem);
    wrong.sort_unstable();
    assert_eq!(wrong, ["buckets", "labels[0]", "queue", "span"]);
}
