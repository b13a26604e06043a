//! The process: what it serves beside the API, how it ends, and that nothing acknowledged is lost when it is killed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use stack::wait::wait_for;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Registry, SOON, job};
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

#[tokio::test]
async fn killed_under_a_stream_of_creates_it_loses_no_acknowledged_one() {
    let mut registry = Registry::start().await;
    let mut acknowledged = BTreeSet::new();
    for round in 0..2 {
        let told = AtomicUsize::new(0);
        let creating = async {
            let mut created = Vec::new();
            for number in 0..10_000 {
                let name = format!("job-{round}-{number:05}");
                match registry.call(&registry.admin, "POST", "/v1/jobs", Some(&job(&name))).await {
                    Ok((200, _)) => created.push(name),
                    Ok((status, problem)) => panic!("{status}: {problem}"),
                    Err(_) => break, // killed in between: nobody was told
                }
                told.store(created.len(), Ordering::Relaxed);
            }
            created
        };
        let pid = nix::unistd::Pid::from_raw(i32::try_from(registry.process.pid()).unwrap());
        let killing = async {
            let many = async || (told.load(Ordering::Relaxed) >= 30).then_some(());
            wait_for(SOON, "30 jobs", many).await;
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        };
        let (created, ()) = tokio::join!(creating, killing);
        assert!(!created.is_empty());
        acknowledged.extend(created);
        let _ = registry.process.kill();
        registry.start_again().await;
    }
    let stored: BTreeSet<String> =
        registry.sql("SELECT name FROM job").await.lines().map(str::to_owned).collect();
    let lost: Vec<_> = acknowledged.difference(&stored).collect();
    assert!(lost.is_empty(), "{lost:?}");
    // Each is complete: revision and cursors with it.
    let torn =
        "SELECT count(*) FROM job WHERE NOT EXISTS (SELECT 1 FROM job_cursor c WHERE c.job_id = job.id)
                OR NOT EXISTS (SELECT 1 FROM watch_cursor c WHERE c.job_id = job.id)
                OR NOT EXISTS (SELECT 1 FROM job_revision c WHERE c.job_id = job.id)";
    assert_eq!(registry.sql(torn).await, "0");
}
