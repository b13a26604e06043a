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

fn team(name: &str, team: &str) -> Value {
    with(job(name), json!({ "labels": { "team": team } }))
}

#[tokio::test]
async fn what_is_left_out_of_a_set_is_pruned_by_its_label_and_nothing_else_is() {
    let registry = Registry::start().await;
    let jobs = [team("a", "billing"), team("b", "billing"), team("c", "mail"), job("d")];
    registry.admin("POST", "/v1/apply", Some(&json!({ "jobs": jobs }))).await;
    let set = json!({ "jobs": [team("a", "billing"), team("e", "billing")], "prune": { "labels": ["team=billing"] } });
    let mut dry = set.clone();
    dry["dryRun"] = json!(true);
    let events = "SELECT count(*) FROM audit_event";
    let before = registry.sql(events).await;
    let (status, said) = registry.admin("POST", "/v1/apply", Some(&dry)).await;
    assert_eq!((status, &said["dryRun"]), (200, &json!(true)), "{said}");
    assert_eq!(registry.sql(events).await, before);
    assert_eq!(
        registry.sql("SELECT count(*) FROM job WHERE deleted_at IS NULL").await,
        "4",
        "a dry run stores nothing"
    );
    let (_, done) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    assert_eq!(changes(&done), ["Job a UNCHANGED", "Job e CREATED", "Job b DELETED"]);
    assert_eq!(changes(&said), changes(&done), "a dry run says what happens");
    let left = "SELECT string_agg(name, ',' ORDER BY name) FROM job WHERE deleted_at IS NULL";
    assert_eq!(registry.sql(left).await, "a,c,d,e");
    let (_, again) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    assert_eq!(changes(&again), ["Job a UNCHANGED", "Job e UNCHANGED"]);
    assert!(registry.sql("SELECT string_agg(action, ',') FROM audit_event").await.contains("job.delete"));

    for (labels, field) in
        [(json!([]), "prune.labels"), (json!(["team"]), "prune.labels"), (json!(["=x"]), "prune.labels[0]")]
    {
        let wrong = json!({ "jobs": [job("f")], "prune": { "labels": labels } });
        let (status, problem) = registry.admin("POST", "/v1/apply", Some(&wrong)).await;
        assert_eq!((status, wrong_fields(&problem)), (400, vec![field.to_owned()]));
    }
    assert_eq!(registry.sql(left).await, "a,c,d,e");
    // Another tenant's jobs of that label are not his to prune.
    let other = registry.token(Some(registry.other_tenant().await), store::api_token::Role::Admin).await;
    let empty = json!({ "jobs": [job("x")], "prune": { "labels": ["team=billing"] } });
    let (_, theirs) = registry.call(&other, "POST", "/v1/apply", Some(&empty)).await.unwrap();
    assert_eq!(changes(&theirs), ["Job x CREATED"]);
    assert_eq!(registry.sql("SELECT count(*) FROM job WHERE deleted_at IS NULL AND name = 'a'").await, "1");
}

#[tokio::test]
async fn a_wrong_set_prunes_nothing() {
    let registry = Registry::start().await;
    registry.admin("POST", "/v1/apply", Some(&json!({ "jobs": [team("a", "billing")] }))).await;
    let wrong = with(job("b"), json!({ "schedule": "61 * * * *" }));
    let set = json!({ "jobs": [wrong], "prune": { "labels": ["team=billing"] } });
    assert_eq!(registry.admin("POST", "/v1/apply", Some(&set)).await.0, 400);
    assert_eq!(registry.admin("GET", "/v1/jobs/a", None).await.0, 200);
}

#[tokio::test]
async fn a_dry_run_says_which_fields_change_and_what_that_means_to_the_coming_runs() {
    let registry = Registry::start().await;
    let at = |hour: u8| json!({ "schedule": format!("0 {hour} * * *"), "timezone": "UTC" });
    registry
        .admin("POST", "/v1/apply", Some(&json!({ "jobs": [with(job("a"), at(9)), with(job("b"), at(9))] })))
        .await;
    let set = json!({ "jobs": [with(job("a"), at(10)), with(job("b"), at(9)), with(job("c"), at(9))], "dryRun": true });
    let (status, said) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    assert_eq!(status, 200, "{said}");
    assert_eq!(changes(&said), ["Job a CHANGED", "Job b UNCHANGED", "Job c CREATED"]);
    assert_eq!(
        said["results"][0]["changes"],
        json!([{ "field": "schedule", "before": "0 9 * * *", "after": "0 10 * * *" }])
    );
    let coming = &said["coming"];
    assert_eq!(
        (&coming["jobs"][0]["name"], &coming["jobs"][1]["name"]),
        (&json!("a"), &json!("c")),
        "{coming}"
    );
    assert_eq!(
        (&coming["jobs"][0]["moved"], &coming["jobs"][1]["added"]),
        (&json!(1), &json!(1)),
        "{coming}"
    );
    let moved = &coming["jobs"][0]["changes"][0];
    assert!(
        moved["was"].as_str().unwrap().contains("T09:00:00Z")
            && moved["time"].as_str().unwrap().contains("T10:00:00Z")
    );
    assert_eq!(
        (&coming["peakBefore"]["runs"], &coming["peakAfter"]["runs"]),
        (&json!(2), &json!(2)),
        "{coming}"
    );
    let (_, unchanged) = registry.admin("GET", "/v1/jobs/a", None).await;
    assert_eq!(unchanged["schedule"], "0 9 * * *");
}

#[tokio::test]
async fn check_ins_of_a_set_are_stored_with_tokens_that_nobody_knows_until_they_are_rotated() {
    let registry = Registry::start().await;
    let check_in =
        json!({ "name": "backup", "period": "3600s", "channels": ["oncall"], "severity": "WARNING" });
    let mut set = json!({ "channels": [channel("oncall")], "checkIns": [check_in], "jobs": [job("a")] });
    let mut dry = set.clone();
    dry["dryRun"] = json!(true);
    let (_, answer) = registry.admin("POST", "/v1/apply", Some(&dry)).await;
    assert_eq!(changes(&answer), ["Channel oncall CREATED", "CheckIn backup CREATED", "Job a CREATED"]);
    assert_eq!(registry.sql("SELECT count(*) FROM check_in").await, "0");
    for expected in ["CREATED", "UNCHANGED"] {
        let (status, answer) = registry.admin("POST", "/v1/apply", Some(&set)).await;
        assert_eq!((status, changes(&answer)[1].clone()), (200, format!("CheckIn backup {expected}")));
        assert!(!answer.to_string().contains("esc_"), "no secret is shown: {answer}");
    }

    let rotate = async || {
        let (status, shown) = registry.admin("POST", "/v1/check-ins/backup:rotate", Some(&json!({}))).await;
        assert_eq!(status, 200, "{shown}");
        shown["path"].as_str().expect("where to report").to_owned()
    };
    let report = async |path: &str| registry.call("", "POST", path, None).await.expect("an answer").0;
    let (first, second) = (rotate().await, rotate().await);
    assert_eq!((report(&first).await, report(&second).await), (404, 200), "only the newest is taken");
    let (_, found) = registry.admin("GET", "/v1/check-ins/backup", None).await;
    assert_eq!((&found["reports"][0]["kind"], &found["generation"]), (&json!("SUCCESS"), &json!("1")));
    assert_eq!(registry.admin("POST", "/v1/check-ins/nobody:rotate", Some(&json!({}))).await.0, 404);

    // A change keeps token and pause.
    registry.admin("POST", "/v1/check-ins/backup:pause", Some(&json!({}))).await;
    set["checkIns"][0]["period"] = json!("60s");
    let (_, answer) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    assert_eq!(changes(&answer)[1], "CheckIn backup CHANGED");
    let changed = json!([{ "field": "period", "before": "3600s", "after": "60s" }]);
    assert_eq!(answer["results"][1]["changes"], changed);
    let (_, found) = registry.admin("GET", "/v1/check-ins/backup", None).await;
    assert_eq!((&found["paused"], &found["period"]), (&json!(true), &json!("60s")));
    assert_eq!(report(&second).await, 200);

    set["checkIns"] = json!([
        { "name": "backup", "period": "60s", "channels": ["nobody"] },
        { "name": "backup", "period": "1s", "schedule": "@daily" },
    ]);
    let (status, problem) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    let mut found = wrong_fields(&problem);
    found.sort_unstable();
    let expected =
        ["checkIns[0].channels[0]", "checkIns[1].name", "checkIns[1].period", "checkIns[1].period"];
    assert_eq!((status, found), (400, expected.map(str::to_owned).to_vec()), "{problem}");
}

#[tokio::test]
async fn the_trail_has_what_was_expected_of_a_check_in_before_and_after() {
    let registry = Registry::start().await;
    let hourly = json!({ "name": "backup", "period": "3600s" });
    let labelled = with(hourly.clone(), json!({ "labels": { "team": "mail" } }));
    let daily = json!({ "name": "backup", "schedule": "@daily" });
    registry.admin("POST", "/v1/check-ins", Some(&hourly)).await;
    registry.admin("PUT", "/v1/check-ins/backup", Some(&labelled)).await;
    registry.admin("POST", "/v1/apply", Some(&json!({ "checkIns": [daily] }))).await;
    registry.admin("DELETE", "/v1/check-ins/backup", None).await;
    let (_, trail) = registry.admin("GET", "/v1/auditEvents?object=check-in/backup", None).await;
    let events: Vec<&Value> = trail["events"].as_array().expect("events").iter().rev().collect();
    let of = |index: usize| (events[index]["action"].as_str().expect("a deed"), &events[index]["detail"]);
    let (action, detail) = of(0);
    assert_eq!((action, &detail["after"]["period"]), ("check_in.create", &json!(3_600_000.0)), "{detail}");
    let (action, detail) = of(1);
    let labels = json!({ "labels": { "before": {}, "after": { "team": "mail" } } });
    assert_eq!((action, &detail["changed"]), ("check_in.update", &labels), "{detail}");
    let (action, detail) = of(2);
    let changed = json!({
        "labels": { "before": { "team": "mail" }, "after": {} },
        "period": { "before": 3_600_000.0, "after": null },
        "schedule": { "before": null, "after": "@daily" },
    });
    assert_eq!((action, &detail["changed"]), ("check_in.update", &changed), "{detail}");
    let (action, detail) = of(3);
    assert_eq!((action, &detail["before"]["schedule"]), ("check_in.delete", &json!("@daily")), "{detail}");
}
