//! What a schedule means, asked of the API.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use serde_json::{Value, json};
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
