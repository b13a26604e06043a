//! Creating, reading, listing, changing and deleting jobs, over REST and gRPC alike.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use model::ids::JobId;
use rpc::v1;
use rpc::v1::job_service_client::JobServiceClient;
use serde_json::json;
use stack::wait::wait_for;
use store::job_change;
use support::{Registry, SOON, job, with};

#[tokio::test]
async fn a_job_is_created_read_listed_and_deleted_over_rest() {
    let registry = Registry::start().await;
    let (status, created) = registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    assert_eq!(status, 200, "{created}");
    assert_eq!(created["generation"], "1");
    assert_eq!(created["misfire"]["policy"], "ONCE");
    assert_eq!(created["run"]["http"]["method"], "POST");
    let id = created["id"].as_str().unwrap().to_owned();

    for path in ["/v1/jobs/invoices".to_owned(), format!("/v1/jobs/{id}")] {
        let (status, read) = registry.admin("GET", &path, None).await;
        assert_eq!((status, &read["schedule"]), (200, &json!("0 9 * * 1-5")));
    }
    let (_, listed) = registry.admin("GET", "/v1/jobs", None).await;
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await.0, 409);

    assert_eq!(registry.admin("DELETE", "/v1/jobs/invoices", None).await.0, 200);
    assert_eq!(registry.admin("GET", "/v1/jobs/invoices", None).await.0, 404);
    assert_eq!(registry.admin("DELETE", "/v1/jobs/invoices", None).await.0, 404);
    let (_, again) = registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    assert_ne!(again["id"], json!(id), "an id is never used again");
    assert_eq!(registry.admin("GET", &format!("/v1/jobs/{id}/runs"), None).await.0, 200, "history stays");

    let trail = registry.sql("SELECT action, object, actor FROM audit_event ORDER BY id").await;
    let expected =
        "job.create|job/invoices|admin\njob.delete|job/invoices|admin\njob.create|job/invoices|admin";
    assert_eq!(trail, expected);
}

#[tokio::test]
async fn grpc_and_rest_are_one_service() {
    let registry = Registry::start().await;
    let mut client = JobServiceClient::connect(registry.grpc.clone()).await.unwrap();
    let handler = v1::Handler { name: "invoice".to_owned(), payload: String::new() };
    let wanted = v1::Job {
        name: "invoices".to_owned(),
        schedule: "*/10 * * * * *".to_owned(),
        run: Some(v1::Run { kind: Some(v1::run::Kind::Handler(handler)) }),
        ..v1::Job::default()
    };
    let create = v1::CreateJobRequest { job: Some(wanted.clone()) };
    let created = client.create_job(registry.request(create.clone())).await.unwrap().into_inner();
    assert!(created.next_fire_time.is_some());
    let (_, read) = registry.admin("GET", "/v1/jobs/invoices", None).await;
    assert_eq!(read["id"], json!(created.id));

    let code = |status: tonic::Status| status.code();
    let again = client.create_job(registry.request(create)).await.map_err(code);
    assert_eq!(again.err(), Some(tonic::Code::AlreadyExists));
    let bad = v1::CreateJobRequest { job: Some(v1::Job { schedule: "61 * * * *".to_owned(), ..wanted }) };
    let refused = client.create_job(registry.request(bad)).await.expect_err("wrong");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    let fields: Vec<_> = rpc::status::field_errors(&refused).into_iter().map(|error| error.field).collect();
    assert_eq!(fields, ["schedule"]);
    let delete = v1::DeleteJobRequest { job: created.id };
    client.delete_job(registry.request(delete.clone())).await.unwrap();
    let gone = client.delete_job(registry.request(delete)).await.map_err(code);
    assert_eq!(gone.err(), Some(tonic::Code::NotFound));
}

#[tokio::test]
async fn lists_come_in_pages_by_name() {
    let registry = Registry::start().await;
    let jobs: Vec<_> = (0..5).map(|number| job(&format!("job-{number}"))).collect();
    assert_eq!(registry.admin("POST", "/v1/apply", Some(&json!({ "jobs": jobs }))).await.0, 200);
    let (mut names, mut token) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/jobs?pageSize=2&pageToken={token}");
        let (status, page) = registry.admin("GET", &path, None).await;
        assert_eq!(status, 200, "{page}");
        let jobs = page["jobs"].as_array().unwrap();
        assert!(jobs.len() <= 2);
        names.extend(jobs.iter().map(|job| job["name"].as_str().unwrap().to_owned()));
        token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(names, ["job-0", "job-1", "job-2", "job-3", "job-4"]);
    assert_eq!(registry.admin("GET", "/v1/jobs?pageToken=%21", None).await.0, 400);
    assert_eq!(registry.admin("GET", "/v1/jobs?pageSize=1001", None).await.0, 400);
}

#[tokio::test]
async fn an_update_needs_the_generation_that_was_read_when_it_names_one() {
    let registry = Registry::start().await;
    registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let changed = with(job("invoices"), json!({ "schedule": "0 10 * * *", "generation": "1" }));
    let (status, updated) = registry.admin("PUT", "/v1/jobs/invoices", Some(&changed)).await;
    assert_eq!((status, &updated["generation"]), (200, &json!("2")), "{updated}");

    let (status, problem) = registry.admin("PUT", "/v1/jobs/invoices", Some(&changed)).await;
    assert_eq!(status, 409);
    assert!(problem["detail"].as_str().unwrap().contains("generation 2"), "{problem}");
    // The same definition again, with no generation: nothing to write.
    let same = with(job("invoices"), json!({ "schedule": "0 10 * * *" }));
    let (status, unchanged) = registry.admin("PUT", "/v1/jobs/invoices", Some(&same)).await;
    assert_eq!((status, &unchanged["generation"]), (200, &json!("2")));
    assert_eq!(registry.sql("SELECT count(*) FROM job_revision").await, "2");
    // Another name for the same job.
    let renamed = with(same, json!({ "name": "bills" }));
    let (status, renamed) = registry.admin("PUT", "/v1/jobs/invoices", Some(&renamed)).await;
    assert_eq!((status, &renamed["id"]), (200, &updated["id"]), "{renamed}");
    assert_eq!(registry.admin("GET", "/v1/jobs/bills", None).await.0, 200);
    assert_eq!(registry.admin("GET", "/v1/jobs/invoices", None).await.0, 404);
}

#[tokio::test]
async fn an_update_without_a_name_keeps_the_one_that_the_job_has_by_then() {
    let registry = Registry::start().await;
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let id: JobId = created["id"].as_str().unwrap().parse().unwrap();
    // Somebody else is about to rename it.
    let mut client = registry.store.client("rename").await.unwrap();
    let tx = client.begin("rename").await.unwrap();
    let locked = job_change::lock(&tx, &[id]).await.unwrap();
    let stored = &locked.jobs[0];
    let renamed = job_change::Change {
        job: id,
        generation: stored.generation.next(),
        name: "bills",
        definition: &stored.definition,
        first: None,
        replans: false,
        paused: false,
    };
    job_change::change(&tx, locked.at, "test", job_change::Action::Changed, &[renamed]).await.unwrap();
    let changed = with(job(""), json!({ "schedule": "0 10 * * *" }));
    let renaming = async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting = async || (registry.sql(waits).await != "0").then_some(());
        wait_for(SOON, "the update's wait for the rename", waiting).await;
        tx.commit().await.unwrap();
    };
    let ((status, updated), ()) =
        tokio::join!(registry.admin("PUT", "/v1/jobs/invoices", Some(&changed)), renaming);
    assert_eq!(
        (status, &updated["name"], &updated["generation"]),
        (200, &json!("bills"), &json!("3")),
        "{updated}"
    );
}

#[tokio::test]
async fn of_two_updates_from_the_same_generation_one_wins() {
    let registry = Registry::start().await;
    registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    for generation in 1..=5 {
        let to = |schedule: &str| {
            with(job("invoices"), json!({ "schedule": schedule, "generation": generation.to_string() }))
        };
        let (one, two) = (to(&format!("{generation} 1 * * *")), to(&format!("{generation} 2 * * *")));
        let (one, two) = tokio::join!(
            registry.admin("PUT", "/v1/jobs/invoices", Some(&one)),
            registry.admin("PUT", "/v1/jobs/invoices", Some(&two)),
        );
        let mut answers = [one.0, two.0];
        answers.sort_unstable();
        assert_eq!(answers, [200, 409]);
    }
    assert_eq!(registry.sql("SELECT generation FROM job_cursor").await, "6");
}

#[tokio::test]
async fn a_job_deleted_five_seconds_before_its_run_leaves_none() {
    let registry = Registry::start().await;
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let id = created["id"].as_str().unwrap();
    registry.plan(id, 5).await;
    let (_, runs) = registry.admin("GET", "/v1/jobs/invoices/runs?states=PLANNED", None).await;
    assert_eq!(runs["runs"][0]["state"], "PLANNED");
    assert_eq!(registry.admin("DELETE", "/v1/jobs/invoices", None).await.0, 200);
    let counted = "SELECT (SELECT count(*) FROM run) || ' ' || (SELECT count(*) FROM run_queue)";
    assert_eq!(registry.sql(counted).await, "0 0");
}

#[tokio::test]
async fn a_changed_schedule_takes_back_the_window_and_a_label_does_not() {
    let registry = Registry::start().await;
    let (_, created) = registry.admin("POST", "/v1/jobs", Some(&job("invoices"))).await;
    let id = created["id"].as_str().unwrap();
    registry.plan(id, 40).await;
    let due = registry.plan(id, -5).await;
    let labelled = with(job("invoices"), json!({ "labels": { "team": "billing" } }));
    registry.admin("PUT", "/v1/jobs/invoices", Some(&labelled)).await;
    assert_eq!(registry.sql("SELECT count(*) FROM run_queue").await, "2");
    let changed = with(job("invoices"), json!({ "schedule": "30 9 * * *" }));
    let (_, updated) = registry.admin("PUT", "/v1/jobs/invoices", Some(&changed)).await;
    assert_eq!(updated["generation"], "3");
    let (_, runs) = registry.admin("GET", "/v1/jobs/invoices/runs", None).await;
    let left: Vec<_> = runs["runs"].as_array().unwrap().iter().map(|run| &run["scheduledFor"]).collect();
    assert_eq!(left, [&json!(due)]);
}
