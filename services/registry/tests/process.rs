//! The process: what it serves beside the API, how it ends, and that nothing acknowledged is lost when it is killed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use serde_json::{Value, json};
use stack::wait::wait_for;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Registry, SOON, job, with};
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[tokio::test]
async fn health_metrics_and_the_document_are_open() {
    let registry = Registry::start().await;
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json"] {
        let (status, _) = registry.call("", "GET", path, None).await.unwrap();
        assert_eq!(status, 200, "{path}");
    }
    let (_, document) = registry.call("", "GET", "/openapi.json", None).await.unwrap();
    assert!(document["paths"]["/v1/jobs"]["post"].is_object(), "{document}");
    let channel = Endpoint::from_shared(registry.grpc.clone()).unwrap().connect().await.unwrap();
    let mut health = HealthClient::new(channel);
    let request = HealthCheckRequest { service: "escapement.v1.JobService".to_owned() };
    let answer = health.check(request).await.unwrap().into_inner();
    assert_eq!(answer.status, tonic_health::pb::health_check_response::ServingStatus::Serving as i32);
}

/// The page for people draws what the document says, asks nobody else for anything, and can't be made to.
#[tokio::test]
async fn the_documents_page_needs_nothing_from_elsewhere() {
    let registry = Registry::start().await;
    let page = reqwest::get(format!("{}/docs", registry.rest)).await.unwrap();
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    let text = page.text().await.unwrap();
    let mut parts = vec!["/docs".to_owned()];
    for attribute in ["href=\"", "src=\""] {
        let named = text.split(attribute).skip(1).filter_map(|rest| rest.split('"').next());
        parts.extend(named.map(str::to_owned));
    }
    assert_eq!(parts, ["/docs", "/docs/page.css", "/openapi.json", "/openapi.json", "/docs/page.js"]);
    for part in ["/docs", "/docs/page.css", "/docs/page.js"] {
        let answer = reqwest::get(format!("{}{part}", registry.rest)).await.unwrap();
        assert_eq!(answer.status(), 200, "{part}");
        let policy = answer.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{part}: {policy}");
        let text = answer.text().await.unwrap();
        for foreign in ["//cdn", "https://", "innerHTML", "eval("] {
            assert!(!text.contains(foreign), "{part} has {foreign}");
        }
    }
}

#[tokio::test]
async fn it_ends_by_itself_when_asked_to() {
    let mut registry = Registry::start().await;
    let status = registry.process.terminate(SOON).await.unwrap();
    assert!(status.success(), "{status}: {}", registry.process.log_tail());
}

/// Writes until the process is killed: what was written, with the answer, of those that were acknowledged.
async fn acknowledged(
    told: &AtomicUsize,
    most: usize,
    write: impl AsyncFn(usize) -> Result<(u16, Value), reqwest::Error>,
) -> Vec<(usize, Value)> {
    let mut acknowledged = Vec::new();
    for number in 0..most {
        match write(number).await {
            Ok((200, answer)) => acknowledged.push((number, answer)),
            Ok((status, problem)) => panic!("{status}: {problem}"),
            Err(_) => break, // killed in between: nobody was told
        }
        told.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}

/// A job that says by which write it is as it is.
fn written_by(name: &str, write: &str) -> Value {
    with(job(name), json!({ "labels": { "write": write } }))
}

/// Jobs of the set that is applied again and again.
const SET: usize = 10;
/// Jobs that wait for their deletion.
const DOOMED: usize = 500;

/// What was acknowledged, by kind of write.
#[derive(Default)]
struct Acknowledged {
    created: BTreeSet<String>,
    /// Generation and write.
    changed: BTreeSet<String>,
    deleted: BTreeSet<String>,
    /// Writes.
    applied: BTreeSet<String>,
}

/// Creates, changes, deletes and applies at once until the process is killed in the middle of it.
async fn write_until_killed(registry: &mut Registry, round: usize, all: &mut Acknowledged) {
    let doomed = |number: usize| format!("doomed-{round}-{number}");
    let jobs: Vec<_> = (0..DOOMED).map(|number| job(&doomed(number))).chain([job("changing")]).collect();
    assert_eq!(registry.admin("POST", "/v1/apply", Some(&json!({ "jobs": jobs }))).await.0, 200);
    let told: [AtomicUsize; 4] = Default::default();
    let name = |number: usize| format!("job-{round}-{number:05}");
    let by = |number: usize| format!("{round}-{number}");
    let (asked, admin) = (&*registry, registry.admin.as_str());
    let creating = acknowledged(&told[0], usize::MAX, async |number| {
        asked.call(admin, "POST", "/v1/jobs", Some(&job(&name(number)))).await
    });
    let changing = acknowledged(&told[1], usize::MAX, async |number| {
        let changed = written_by("changing", &by(number));
        asked.call(admin, "PUT", "/v1/jobs/changing", Some(&changed)).await
    });
    let deleting = acknowledged(&told[2], DOOMED, async |number| {
        asked.call(admin, "DELETE", &format!("/v1/jobs/{}", doomed(number)), None).await
    });
    let applying = acknowledged(&told[3], usize::MAX, async |number| {
        let jobs: Vec<_> = (0..SET).map(|n| written_by(&format!("set-{n}"), &by(number))).collect();
        asked.call(admin, "POST", "/v1/apply", Some(&json!({ "jobs": jobs }))).await
    });
    let pid = nix::unistd::Pid::from_raw(i32::try_from(registry.process.pid()).unwrap());
    let killing = async {
        let many = async || told.iter().all(|told| told.load(Ordering::Relaxed) >= 10).then_some(());
        wait_for(SOON, "ten of each kind", many).await;
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    };
    let (created, changed, deleted, applied, ()) =
        tokio::join!(creating, changing, deleting, applying, killing);
    all.created.extend(created.iter().map(|(number, _)| name(*number)));
    let generation = |job: &Value| job["generation"].as_str().unwrap().to_owned();
    all.changed.extend(changed.iter().map(|(number, job)| format!("{} {}", generation(job), by(*number))));
    all.deleted.extend(deleted.iter().map(|(number, _)| doomed(*number)));
    all.applied.extend(applied.iter().map(|(number, _)| by(*number)));
    let _ = registry.process.kill();
    registry.start_again().await;
}

#[tokio::test]
async fn killed_under_load_it_loses_no_acknowledged_write() {
    let mut registry = Registry::start().await;
    let mut all = Acknowledged::default();
    for round in 0..2 {
        write_until_killed(&mut registry, round, &mut all).await;
    }
    let stored = async |query: &str| -> BTreeSet<String> {
        registry.sql(query).await.lines().map(str::to_owned).collect()
    };
    let lost = |of: &BTreeSet<String>, stored: &BTreeSet<String>| -> Vec<String> {
        of.difference(stored).cloned().collect()
    };
    let created = stored("SELECT name FROM job WHERE deleted_at IS NULL").await;
    assert_eq!(lost(&all.created, &created), [""; 0]);
    let revisions = "FROM job_revision r JOIN job j ON j.id = r.job_id, LATERAL (SELECT r.definition->'labels'->>'write' AS write) w";
    let changed =
        format!("SELECT r.generation || ' ' || write {revisions} WHERE name = 'changing' AND write <> ''");
    assert_eq!(lost(&all.changed, &stored(&changed).await), [""; 0]);
    let deleted = stored("SELECT name FROM job WHERE deleted_at IS NOT NULL").await;
    assert_eq!(lost(&all.deleted, &deleted), [""; 0]);
    let of_sets = format!("{revisions} WHERE name LIKE 'set-%' GROUP BY write");
    let applied = stored(&format!("SELECT write {of_sets} HAVING count(*) = {SET}")).await;
    assert_eq!(lost(&all.applied, &applied), [""; 0]);
    let in_part = stored(&format!("SELECT write {of_sets} HAVING count(*) <> {SET}")).await;
    assert!(in_part.is_empty(), "all or nothing: {in_part:?}");
    // Each is complete: revision and cursors with it.
    let torn =
        "SELECT count(*) FROM job WHERE NOT EXISTS (SELECT 1 FROM job_cursor c WHERE c.job_id = job.id)
                OR NOT EXISTS (SELECT 1 FROM watch_cursor c WHERE c.job_id = job.id)
                OR NOT EXISTS (SELECT 1 FROM job_revision c WHERE c.job_id = job.id)";
    assert_eq!(registry.sql(torn).await, "0");
}
