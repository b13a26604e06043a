//! Lists of jobs, patches and revisions.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use serde_json::{Value, json};
use support::{Registry, job, with, wrong_fields};

/// The names of a list's jobs, over all of its pages of `size`.
async fn listed(registry: &Registry, query: &str, size: usize) -> Vec<String> {
    let (mut names, mut token) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/jobs?pageSize={size}&{query}&pageToken={token}");
        let (status, page) = registry.admin("GET", &path, None).await;
        assert_eq!(status, 200, "{page}");
        names.extend(
            page["jobs"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap().to_owned()),
        );
        token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            return names;
        }
    }
}

#[tokio::test]
async fn lists_are_filtered_and_ordered_and_a_token_is_of_its_list() {
    let registry = Registry::start().await;
    let of = |name: &str, hour: u8, queue: &str, labels: Value| {
        let schedule = format!("0 {hour} * * *");
        with(job(name), json!({ "schedule": schedule, "timezone": "UTC", "queue": queue, "labels": labels }))
    };
    let jobs = [
        of("bill-a", 3, "fast", json!({ "team": "billing", "tier": "1" })),
        of("bill-b", 1, "slow", json!({ "team": "billing" })),
        of("mail", 2, "fast", json!({ "team": "mail", "tier": "2" })),
    ];
    registry.admin("POST", "/v1/apply", Some(&json!({ "jobs": jobs }))).await;
    registry.admin("POST", "/v1/jobs/mail:pause", Some(&json!({}))).await;
    for (query, expected) in [
        ("", &["bill-a", "bill-b", "mail"][..]),
        ("labels=team%3Dbilling", &["bill-a", "bill-b"]),
        ("labels=team%3Dbilling&labels=tier", &["bill-a"]),
        ("labels=tier", &["bill-a", "mail"]),
        ("labels=team%3Dnobody", &[]),
        ("queue=fast", &["bill-a", "mail"]),
        ("queue=fast&paused=false", &["bill-a"]),
        ("paused=true", &["mail"]),
        ("namePrefix=bill", &["bill-a", "bill-b"]),
        ("namePrefix=bill-b&queue=fast", &[]),
        ("order=UPDATE_TIME", &["mail", "bill-b", "bill-a"]),
        ("order=NAME&paused=false", &["bill-a", "bill-b"]),
    ] {
        for size in [1, 100] {
            let mut found = listed(&registry, query, size).await;
            if query == "order=UPDATE_TIME" {
                found[1..].sort_by(|one, other| other.cmp(one)); // stored in one moment
            }
            assert_eq!(found, expected, "{query} in pages of {size}");
        }
    }
    let next = listed(&registry, "order=NEXT_FIRE_TIME", 1).await;
    assert_eq!(next.len(), 2, "a paused one is not due again: {next:?}");

    let (_, page) = registry.admin("GET", "/v1/jobs?pageSize=1&queue=fast", None).await;
    let token = page["nextPageToken"].as_str().unwrap();
    let other = format!("/v1/jobs?pageSize=1&queue=slow&pageToken={token}");
    let (status, problem) = registry.admin("GET", &other, None).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["pageToken".to_owned()]));
    let wrong = "/v1/jobs?order=COLOUR&labels=%3Dx&labels=a%3D1&labels=a%3D2";
    let (status, problem) = registry.admin("GET", wrong, None).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["order".to_owned()]));
    let (_, problem) = registry.admin("GET", &wrong.replace("order=COLOUR&", ""), None).await;
    assert_eq!(wrong_fields(&problem), ["labels[0]", "labels[2]"]);
    let other = registry.token(Some(registry.other_tenant().await), store::api_token::Role::Admin).await;
    let (_, page) = registry.call(&other, "GET", "/v1/jobs?queue=fast", None).await.unwrap();
    assert_eq!(page["jobs"], json!([]), "another tenant's jobs");
}

#[tokio::test]
async fn a_stored_definition_that_can_not_be_read_is_shown_as_broken_and_hides_no_other() {
    let registry = Registry::start().await;
    registry.admin("POST", "/v1/apply", Some(&json!({ "jobs": [job("a"), job("b")] }))).await;
    registry.sql("UPDATE job SET definition = definition - 'schedule' WHERE name = 'a'").await;
    let (status, page) = registry.admin("GET", "/v1/jobs", None).await;
    assert_eq!(status, 200, "{page}");
    assert!(page["jobs"][0]["broken"].as_str().unwrap().contains("schedule"), "{page}");
    assert_eq!((&page["jobs"][1]["name"], &page["jobs"][1]["broken"]), (&json!("b"), &json!("")));
    let (status, shown) = registry.admin("GET", "/v1/jobs/a", None).await;
    assert_eq!((status, &shown["name"]), (200, &json!("a")), "{shown}");
}

#[tokio::test]
async fn a_patch_changes_what_it_names_and_nothing_else() {
    let registry = Registry::start().await;
    let header =
        json!({ "http": { "url": "http://127.0.0.1:1/", "headers": { "authorization": "s3cret" } } });
    let first = json!({ "labels": { "team": "billing", "tier": "1" }, "priority": 4, "run": header });
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&with(job("invoices"), first))).await;
    let patch = async |query: &str, body: Value| {
        registry.admin("PATCH", &format!("/v1/jobs/invoices{query}"), Some(&body)).await
    };
    let (status, changed) =
        patch("", json!({ "schedule": "0 10 * * *", "labels": { "team": "mail" } })).await;
    assert_eq!((status, &changed["generation"]), (200, &json!("2")), "{changed}");
    assert_eq!(changed["labels"], json!({ "team": "mail", "tier": "1" }));
    for kept in ["timezone", "priority", "run", "misfire", "retry", "id"] {
        assert_eq!(changed[kept], created[kept], "{kept}");
    }
    let (_, cleared) =
        patch("?updateMask=priority&updateMask=labels.tier", json!({ "generation": "2" })).await;
    assert_eq!((&cleared["priority"], &cleared["labels"]), (&json!(0), &json!({ "team": "mail" })));
    // Somebody else changed it since generation 2.
    let (status, problem) = patch("", json!({ "priority": 1, "generation": "2" })).await;
    assert_eq!(status, 409);
    assert!(problem["detail"].as_str().unwrap().contains("generation 3"), "{problem}");
    let (status, same) = patch("", json!({ "schedule": "0 10 * * *" })).await;
    assert_eq!((status, &same["generation"]), (200, &json!("3")), "nothing to write");
    for (query, body, field) in [
        ("?updateMask=colour", json!({}), "updateMask"),
        ("?updateMask=generation", json!({}), "updateMask"),
        ("?updateMask=schedule", json!({}), "schedule"),
        ("", json!({ "schedule": "61 * * * *" }), "schedule"),
    ] {
        let (status, problem) = patch(query, body).await;
        assert_eq!((status, wrong_fields(&problem)), (400, vec![field.to_owned()]), "{query}");
    }
    assert_eq!(registry.admin("PATCH", "/v1/jobs/nobody", Some(&json!({ "priority": 1 }))).await.0, 404);
}

#[tokio::test]
async fn patches_of_different_fields_at_once_are_both_kept() {
    let registry = Registry::start().await;
    registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    for round in 1..=5 {
        let (priority, queue) = (json!({ "priority": round }), json!({ "queue": format!("q{round}") }));
        let (one, two) = tokio::join!(
            registry.admin("PATCH", "/v1/jobs/invoices", Some(&priority)),
            registry.admin("PATCH", "/v1/jobs/invoices", Some(&queue)),
        );
        assert_eq!((one.0, two.0), (200, 200));
        let (_, found) = registry.admin("GET", "/v1/jobs/invoices", None).await;
        assert_eq!((&found["priority"], &found["queue"]), (&json!(round), &json!(format!("q{round}"))));
    }
}

#[tokio::test]
async fn revisions_say_who_changed_what_and_two_can_be_compared() {
    let registry = Registry::start().await;
    let secret = json!({ "run": { "http": { "url": "http://127.0.0.1:1/", "headers": { "authorization": "old-s3cret" } } } });
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&with(job("invoices"), secret))).await;
    registry.admin("PATCH", "/v1/jobs/invoices", Some(&json!({ "schedule": "0 10 * * *" }))).await;
    registry.admin("POST", "/v1/jobs/invoices:pause", Some(&json!({ "reason": "audit" }))).await;
    let header =
        json!({ "run": { "http": { "headers": { "authorization": "new-s3cret" } } }, "priority": 2 });
    registry.admin("PATCH", "/v1/jobs/invoices", Some(&header)).await;
    let (status, found) = registry.admin("GET", "/v1/jobs/invoices/revisions", None).await;
    assert_eq!(status, 200, "{found}");
    let revisions = found["revisions"].as_array().unwrap();
    let shown: Vec<_> = revisions
        .iter()
        .map(|revision| {
            let fields: Vec<_> = revision["changes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|change| change["field"].as_str().unwrap())
                .collect();
            format!(
                "{} {} {}",
                revision["generation"].as_str().unwrap(),
                revision["action"].as_str().unwrap(),
                fields.join(",")
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "4 CHANGED priority,run.http.headers.authorization",
            "3 PAUSED ",
            "2 CHANGED schedule",
            "1 CREATED "
        ]
    );
    assert_eq!((&revisions[1]["reason"], &revisions[1]["author"]), (&json!("audit"), &json!("admin")));
    assert!(revisions.iter().all(|revision| !revision["changes"].to_string().contains("s3cret")));

    // In pages the last of each is compared with the first of the next.
    let (_, page) = registry.admin("GET", "/v1/jobs/invoices/revisions?pageSize=3", None).await;
    assert_eq!(page["revisions"][2]["changes"][0]["field"], "schedule");
    let rest = format!("/v1/jobs/invoices/revisions?pageToken={}", page["nextPageToken"].as_str().unwrap());
    assert_eq!(registry.admin("GET", &rest, None).await.1["revisions"][0]["generation"], "1");

    let (_, compared) = registry.admin("GET", "/v1/jobs/invoices/revisions:compare?from=1&to=3", None).await;
    assert_eq!(
        compared["changes"],
        json!([{ "field": "schedule", "before": "0 9 * * 1-5", "after": "0 10 * * *" }])
    );
    let (_, latest) = registry.admin("GET", "/v1/jobs/invoices/revisions:compare", None).await;
    assert_eq!((&latest["from"], &latest["to"]), (&json!("3"), &json!("4")));
    let (status, problem) = registry.admin("GET", "/v1/jobs/invoices/revisions:compare?from=9", None).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["from".to_owned()]));

    // A deleted job's are there, by its id; and never another tenant's.
    let id = created["id"].as_str().unwrap();
    registry.admin("DELETE", "/v1/jobs/invoices", None).await;
    let path = format!("/v1/jobs/{id}/revisions");
    assert_eq!(registry.admin("GET", &path, None).await.1["revisions"][0]["action"], "DELETED");
    let other = registry.token(Some(registry.other_tenant().await), store::api_token::Role::Admin).await;
    assert_eq!(registry.call(&other, "GET", &path, None).await.unwrap().0, 404);
}
