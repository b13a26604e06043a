//! Calendars, and the jobs that name them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::{Registry, job, with, wrong_fields};

fn calendar(name: &str, dates: &[&str]) -> Value {
    json!({ "name": name, "dates": dates })
}

/// A job that does not run on the days of `calendar`.
fn closed_on(name: &str, calendar: &str) -> Value {
    with(job(name), json!({ "calendars": { "exclude": [calendar] } }))
}

#[tokio::test]
async fn a_calendar_is_stored_read_changed_and_deleted() {
    let registry = Registry::start().await;
    let holidays = calendar("holidays", &["2026-12-26", "2026-12-25", "2026-12-26"]);
    let (status, created) = registry.admin("POST", "/v1/calendars", Some(&holidays)).await;
    assert_eq!(status, 200, "{created}");
    assert_eq!(created["dates"], json!(["2026-12-25", "2026-12-26"]));
    assert_eq!(created["version"], "1");
    assert!(created["createTime"].is_string() && created["updateTime"] == created["createTime"], "{created}");
    assert_eq!(registry.admin("POST", "/v1/calendars", Some(&holidays)).await.0, 409);
    assert_eq!(registry.admin("GET", "/v1/calendars/holidays", None).await.1, created);

    let (status, same) = registry.admin("PUT", "/v1/calendars/holidays", Some(&created)).await;
    assert_eq!((status, &same), (200, &created), "the same dates change nothing");
    let new_year = with(created.clone(), json!({ "dates": ["2027-01-01"] }));
    let (status, changed) = registry.admin("PUT", "/v1/calendars/holidays", Some(&new_year)).await;
    assert_eq!((status, &changed["version"]), (200, &json!("2")), "{changed}");
    let (status, problem) = registry.admin("PUT", "/v1/calendars/holidays", Some(&new_year)).await;
    assert_eq!(status, 409, "version 1 is no longer the stored one: {problem}");

    assert_eq!(registry.admin("DELETE", "/v1/calendars/holidays", None).await.0, 200);
    assert_eq!(registry.admin("GET", "/v1/calendars/holidays", None).await.0, 404);
    assert_eq!(registry.admin("PUT", "/v1/calendars/holidays", Some(&new_year)).await.0, 404);
    assert_eq!(registry.admin("DELETE", "/v1/calendars/holidays", None).await.0, 404);
    // Versions of the deleted one stay what they were.
    let (status, again) = registry.admin("POST", "/v1/calendars", Some(&holidays)).await;
    assert_eq!((status, &again["version"]), (200, &json!("3")), "{again}");
    assert_eq!(
        registry.sql("SELECT string_agg(action, ',' ORDER BY id) FROM audit_event").await,
        "calendar.create,calendar.update,calendar.delete,calendar.create"
    );
    let dates = "SELECT detail -> 'added' -> 'dates' ->> 0, detail -> 'removed' ->> 'count' FROM audit_event WHERE action = 'calendar.update'";
    assert_eq!(registry.sql(dates).await, "2027-01-01|2");
}

#[tokio::test]
async fn every_wrong_date_is_named_and_nothing_is_stored() {
    let registry = Registry::start().await;
    let wrong = calendar("Holidays", &["2026-12-25", "2026-13-01", "tomorrow", "2026-12-26"]);
    let (status, problem) = registry.admin("POST", "/v1/calendars", Some(&wrong)).await;
    assert_eq!(status, 400);
    assert_eq!(wrong_fields(&problem), ["name", "dates[1]", "dates[2]"]);
    assert_eq!(registry.sql("SELECT count(*) FROM calendar").await, "0");
}

#[tokio::test]
async fn calendars_are_listed_by_page_and_never_more_dates_than_fit() {
    let registry = Registry::start().await;
    for name in ["c", "a", "b"] {
        let (status, _) =
            registry.admin("POST", "/v1/calendars", Some(&calendar(name, &["2026-12-25"]))).await;
        assert_eq!(status, 200);
    }
    let names = |page: &Value| {
        let calendars = page["calendars"].as_array().unwrap();
        calendars.iter().map(|calendar| calendar["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (_, first) = registry.admin("GET", "/v1/calendars?pageSize=2", None).await;
    assert_eq!(names(&first), ["a", "b"]);
    let token = first["nextPageToken"].as_str().unwrap();
    let (_, last) = registry.admin("GET", &format!("/v1/calendars?pageSize=2&pageToken={token}"), None).await;
    assert_eq!(
        (names(&last), last["nextPageToken"].as_str().unwrap_or_default()),
        (vec!["c".to_owned()], "")
    );

    // Six of the largest: five fill a page.
    registry
        .sql(
            "INSERT INTO calendar (tenant_id, version, created_at, updated_at, name)
                 SELECT tenant_id, 1, created_at, created_at, 'large-' || n FROM calendar, generate_series(1, 6) n
                 WHERE name = 'a';
             INSERT INTO calendar_version (tenant_id, version, created_at, name, author, dates)
                 SELECT tenant_id, 1, created_at, name, 'test',
                        ARRAY(SELECT date '1970-01-01' + d FROM generate_series(1, 10000) d)
                 FROM calendar WHERE name LIKE 'large-%'",
        )
        .await;
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let (status, page) = registry.admin("GET", &format!("/v1/calendars?pageToken={token}"), None).await;
        assert_eq!(status, 200, "{page}");
        let dates: usize = page["calendars"]
            .as_array()
            .unwrap()
            .iter()
            .map(|calendar| calendar["dates"].as_array().unwrap().len())
            .sum();
        assert!(dates <= 50_000, "{dates}");
        seen.extend(names(&page));
        token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen.len(), 9, "{seen:?}");
}

#[tokio::test]
async fn jobs_name_calendars_that_are_there_and_keep_them_from_being_deleted() {
    let registry = Registry::start().await;
    let (status, problem) = registry.admin("POST", "/v1/jobs", Some(&closed_on("a", "holidays"))).await;
    assert_eq!(status, 400);
    assert_eq!(wrong_fields(&problem), ["calendars.exclude[0]"]);
    registry.admin("POST", "/v1/calendars", Some(&calendar("holidays", &[]))).await;
    for number in 1..=7 {
        let name = format!("job-{number}");
        assert_eq!(registry.admin("POST", "/v1/jobs", Some(&closed_on(&name, "holidays"))).await.0, 200);
    }
    let (_, read) = registry.admin("GET", "/v1/jobs/job-1", None).await;
    assert_eq!(read["calendars"], json!({ "exclude": ["holidays"], "only": [], "rule": "SKIP" }));
    let (_, written) = registry.admin("PUT", "/v1/jobs/job-1", Some(&read)).await;
    assert_eq!(written["generation"], "1", "what was read and written back is unchanged");

    let (status, problem) = registry.admin("DELETE", "/v1/calendars/holidays", None).await;
    assert_eq!(status, 409, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("\"job-1\", \"job-2\", \"job-3\", \"job-4\", \"job-5\" and more"), "{detail}");
    for number in 1..=7 {
        registry.admin("DELETE", &format!("/v1/jobs/job-{number}"), None).await;
    }
    assert_eq!(registry.admin("DELETE", "/v1/calendars/holidays", None).await.0, 200);
}

#[tokio::test]
async fn other_dates_are_a_revision_of_every_job_that_names_the_calendar() {
    let registry = Registry::start().await;
    registry.admin("POST", "/v1/calendars", Some(&calendar("holidays", &[]))).await;
    registry.admin("POST", "/v1/calendars", Some(&calendar("bridge-days", &[]))).await;
    let both = json!({ "calendars": { "exclude": ["holidays", "bridge-days"] }, "schedule": "0 9 * * *" });
    let (_, both) = registry.admin("POST", "/v1/jobs", Some(&with(job("both"), both))).await;
    registry.admin("POST", "/v1/jobs", Some(&job("neither"))).await;
    // The day on which it is due next is closed, by the second of its calendars.
    let next = both["nextFireTime"].as_str().unwrap();
    let closed = calendar("", &[&next[..10]]);
    let planned = registry.plan(both["id"].as_str().unwrap(), 40).await;
    let (status, changed) = registry.admin("PUT", "/v1/calendars/bridge-days", Some(&closed)).await;
    assert_eq!((status, &changed["version"]), (200, &json!("2")), "{changed}");

    let (_, after) = registry.admin("GET", "/v1/jobs/both", None).await;
    assert_eq!(after["generation"], "2");
    assert!(after["nextFireTime"].as_str().unwrap() > next, "{after}");
    assert_eq!(registry.admin("GET", "/v1/jobs/neither", None).await.1["generation"], "1");
    assert_eq!(
        registry.admin("GET", &format!("/v1/jobs/both/runs/{planned}"), None).await.0,
        404,
        "what was planned by the old dates is taken back"
    );
    let revisions =
        "SELECT string_agg(r.generation || ' ' || r.action || ' ' || r.author, ',' ORDER BY r.generation)
                     FROM job_revision r JOIN job j ON j.id = r.job_id WHERE j.name = 'both'";
    assert_eq!(registry.sql(revisions).await, "1 CREATED admin,2 CALENDAR admin");
    let cursor = "SELECT count(*) FROM job_cursor c JOIN job j ON j.id = c.job_id
                  WHERE j.name = 'both' AND c.generation = 2";
    assert_eq!(registry.sql(cursor).await, "1");
}

#[tokio::test]
async fn calendars_are_applied_before_the_jobs_that_name_them() {
    let registry = Registry::start().await;
    let mut set = json!({
        "calendars": [calendar("holidays", &["2026-12-25"])],
        "jobs": [closed_on("a", "holidays"), closed_on("b", "holidays"), job("c")],
    });
    let changes = |answer: &Value| {
        let results = answer["results"].as_array().expect("results").clone();
        let text = |result: &Value| {
            let of = |field: &str| result[field].as_str().unwrap().to_owned();
            format!("{} {} {}", of("kind"), of("name"), of("change"))
        };
        results.iter().map(text).collect::<Vec<_>>().join(", ")
    };
    let (status, answer) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(changes(&answer), "Calendar holidays CREATED, Job a CREATED, Job b CREATED, Job c CREATED");
    let (_, answer) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    assert_eq!(
        changes(&answer),
        "Calendar holidays UNCHANGED, Job a UNCHANGED, Job b UNCHANGED, Job c UNCHANGED"
    );

    // Other dates and, in one of the jobs, another schedule.
    set["calendars"][0]["dates"] = json!(["2026-12-26"]);
    set["jobs"][1]["schedule"] = json!("0 10 * * *");
    let (status, answer) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(
        changes(&answer),
        "Calendar holidays CHANGED, Job a UNCHANGED, Job b CHANGED, Job c UNCHANGED"
    );
    let revisions = "SELECT string_agg(j.name || ' ' || r.action || ' ' ||
                                       (r.definition #>> '{calendars,exclude,0,version}'), ',' ORDER BY j.name)
                     FROM job_revision r JOIN job j ON j.id = r.job_id WHERE r.generation = 2";
    assert_eq!(registry.sql(revisions).await, "a CALENDAR 2,b CHANGED 2");

    let unknown =
        json!({ "jobs": [closed_on("d", "nobody")], "calendars": [calendar("x", &["2026-02-30"])] });
    let (status, problem) = registry.admin("POST", "/v1/apply", Some(&unknown)).await;
    let mut fields = wrong_fields(&problem);
    fields.sort_unstable();
    assert_eq!(
        (status, fields),
        (400, vec!["calendars[0].dates[0]".to_owned(), "jobs[0].calendars.exclude[0]".to_owned()])
    );
}

#[tokio::test]
async fn a_calendar_of_ten_thousand_jobs_is_changed_in_seconds() {
    let registry = Registry::start().await;
    let jobs: Vec<_> = (0..10_000).map(|number| closed_on(&format!("job-{number:05}"), "holidays")).collect();
    let set = json!({ "calendars": [calendar("holidays", &[])], "jobs": jobs });
    let (status, answer) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    assert_eq!(status, 200, "{answer}");
    let began = Instant::now();
    let changed = calendar("holidays", &["2026-12-25"]);
    let (status, answer) = registry.admin("PUT", "/v1/calendars/holidays", Some(&changed)).await;
    let took = began.elapsed();
    assert_eq!(status, 200, "{answer}");
    let revised = "SELECT count(*) FROM job_revision WHERE action = 'CALENDAR' AND generation = 2";
    assert_eq!(registry.sql(revised).await, "10000");
    // Unoptimised and on a busy machine.
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[tokio::test]
async fn a_job_that_comes_to_name_a_calendar_while_it_changes_gets_the_new_dates() {
    let registry = Registry::start().await;
    registry.admin("POST", "/v1/calendars", Some(&calendar("holidays", &[]))).await;
    for round in 0..10 {
        let name = format!("job-{round}");
        let date = format!("2026-12-{:02}", round + 1);
        let (changed, new) = (calendar("", &[&date]), closed_on(&name, "holidays"));
        let change = registry.admin("PUT", "/v1/calendars/holidays", Some(&changed));
        let create = registry.admin("POST", "/v1/jobs", Some(&new));
        let ((first, _), (second, _)) = tokio::join!(change, create);
        assert_eq!((first, second), (200, 200));
    }
    let stale = "SELECT count(*) FROM job j JOIN calendar c ON c.name = 'holidays'
                 WHERE (j.definition #>> '{calendars,exclude,0,version}')::bigint <> c.version";
    assert_eq!(registry.sql(stale).await, "0", "no definition names a version that is not the present one");
}

#[tokio::test]
async fn what_would_never_run_is_refused_with_the_place_of_the_fault() {
    let registry = Registry::start().await;
    for (fields, wrong) in [
        (json!({ "schedule": "0 0 9 * * * 2020" }), "schedule"),
        (json!({ "schedule": "@at 2020-12-24T18:00:00" }), "schedule"),
        (json!({ "endsAt": "2020-01-01T00:00:00Z" }), "endsAt"),
    ] {
        let (status, problem) =
            registry.admin("POST", "/v1/jobs", Some(&with(job("over"), fields.clone()))).await;
        assert_eq!((status, wrong_fields(&problem)), (400, vec![wrong.to_owned()]), "{fields}");
        let (status, problem) = registry
            .admin("POST", "/v1/apply", Some(&json!({ "jobs": [with(job("over"), fields.clone())] })))
            .await;
        assert_eq!((status, wrong_fields(&problem)), (400, vec![format!("jobs[0].{wrong}")]), "{fields}");
    }
    registry.admin("POST", "/v1/calendars", Some(&calendar("empty", &[]))).await;
    let only = with(job("waits"), json!({ "calendars": { "only": ["empty"] } }));
    let (status, created) = registry.admin("POST", "/v1/jobs", Some(&only)).await;
    assert_eq!(
        (status, &created["nextFireTime"]),
        (200, &Value::Null),
        "an empty calendar may be filled: {created}"
    );
    // A sound job that has run its course may be written back, and labelled.
    registry
        .admin("POST", "/v1/jobs", Some(&with(job("course"), json!({ "endsAt": "2199-01-01T00:00:00Z" }))))
        .await;
    registry
        .sql("UPDATE job SET definition = jsonb_set(definition, '{ends_at}', '\"2020-01-01T00:00:00Z\"') WHERE name = 'course'")
        .await;
    let labelled =
        with(job("course"), json!({ "endsAt": "2020-01-01T00:00:00Z", "labels": { "team": "billing" } }));
    assert_eq!(registry.admin("PUT", "/v1/jobs/course", Some(&labelled)).await.0, 200);
    let retimed = with(labelled, json!({ "schedule": "0 10 * * *" }));
    assert_eq!(registry.admin("PUT", "/v1/jobs/course", Some(&retimed)).await.0, 400);
}

#[tokio::test]
async fn a_dry_run_says_what_changes_in_calendars_and_channels() {
    let registry = Registry::start().await;
    let secret = |letter: &str| format!("whsec_{}", letter.repeat(40));
    let channel = |url: &str, letter: &str| json!({ "name": "oncall", "webhook": { "url": url, "secret": secret(letter) } });
    let set = |dates: &[&str], channel: Value, dry: bool| json!({ "calendars": [calendar("holidays", dates)], "channels": [channel], "dryRun": dry });
    let first = set(&["2026-12-24", "2026-12-25"], channel("http://127.0.0.1:1/hook", "a"), false);
    assert_eq!(registry.admin("POST", "/v1/apply", Some(&first)).await.0, 200);
    let other = set(&["2026-12-25", "2026-12-26"], channel("http://127.0.0.1:2/hook", "b"), true);
    let (status, answer) = registry.admin("POST", "/v1/apply", Some(&other)).await;
    assert_eq!(status, 200, "{answer}");
    assert!(!answer.to_string().contains("whsec"), "{answer}");
    let changes = |kind: &str| {
        let results = answer["results"].as_array().unwrap();
        results.iter().find(|result| result["kind"] == kind).unwrap()["changes"].clone()
    };
    assert_eq!(
        changes("Calendar"),
        json!([{ "field": "dates", "before": "2026-12-24" }, { "field": "dates", "after": "2026-12-26" }])
    );
    assert_eq!(
        changes("Channel"),
        json!([
            { "field": "webhook.secret", "before": "…", "after": "… (another one)" },
            { "field": "webhook.url", "before": "http://127.0.0.1:1/hook", "after": "http://127.0.0.1:2/hook" },
        ])
    );
}
