//! Limits of requests: how large, how deep, how many, how fast; and that nothing is read of those who may not call.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use rpc::v1;
use rpc::v1::job_service_client::JobServiceClient;
use serde_json::json;
use support::{Registry, SOON, job, wrong_fields};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::Code;

#[tokio::test]
async fn a_token_that_asks_too_fast_is_told_when_to_try_again_and_others_are_not_held_up() {
    let settings = [("ESCAPEMENT_TOKEN_REQUESTS_PER_SECOND", "1"), ("ESCAPEMENT_TOKEN_REQUESTS_BURST", "3")];
    let registry = Registry::start_with(&settings).await;
    let http = reqwest::Client::new();
    let asked = async || {
        let request = http.get(format!("{}/v1/jobs", registry.rest)).bearer_auth(&registry.admin);
        request.send().await.unwrap()
    };
    for _ in 0..3 {
        assert_eq!(asked().await.status(), 200); // counted once each, though REST calls gRPC
    }
    let refused = asked().await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    let mut grpc = JobServiceClient::connect(registry.grpc.clone()).await.unwrap();
    let refused = grpc.list_jobs(registry.request(v1::ListJobsRequest::default())).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let wait = rpc::status::retry_after(&refused).expect("when to try again");
    assert!(wait <= std::time::Duration::from_secs(1), "{wait:?}");
    let other = registry.token(Some(model::ids::TenantId::DEFAULT), store::api_token::Role::Viewer).await;
    assert_eq!(registry.call(&other, "GET", "/v1/jobs", None).await.unwrap().0, 200);
}

/// Announces a body and sends none; the answer's first line.
async fn announced(registry: &Registry, token: &str, bytes: usize) -> String {
    let address = registry.rest.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: registry\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {bytes}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 12];
    tokio::time::timeout(SOON, stream.read_exact(&mut answer))
        .await
        .expect("an answer without a body")
        .unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn nothing_is_read_of_a_body_before_the_token_is_known() {
    let registry = Registry::start().await;
    assert_eq!(announced(&registry, "esc_wrong", 1_000).await, "HTTP/1.1 401");
    assert_eq!(announced(&registry, "esc_wrong", 1_000_000_000).await, "HTTP/1.1 401");
    assert_eq!(announced(&registry, &registry.admin, 1_000_000_000).await, "HTTP/1.1 413");
}

#[tokio::test]
async fn what_is_too_large_too_deep_or_too_many_is_refused() {
    let registry = Registry::start_with(&[("ESCAPEMENT_REQUEST_BYTES_MAX", "100000")]).await;
    let large = json!({ "name": "x".repeat(200_000) });
    assert_eq!(registry.admin("POST", "/v1/jobs", Some(&large)).await.0, 413);
    let mut grpc = JobServiceClient::connect(registry.grpc.clone()).await.unwrap();
    let wanted = v1::GetJobRequest { job: "x".repeat(200_000) };
    assert_eq!(grpc.get_job(registry.request(wanted)).await.unwrap_err().code(), Code::OutOfRange);

    let deep = format!("{{\"name\":{}1{}}}", "[".repeat(1_000), "]".repeat(1_000));
    let answer = reqwest::Client::new()
        .post(format!("{}/v1/jobs", registry.rest))
        .bearer_auth(&registry.admin)
        .header("content-type", "application/json")
        .body(deep)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 400);
    assert!(answer.text().await.unwrap().contains("recursion limit"));

    let (status, problem) = registry.admin("GET", "/v1/jobs?pageSize=1001", None).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["pageSize".to_owned()]));
    assert_eq!(registry.admin("POST", "/v1/jobs", Some(&job("sound"))).await.0, 200);
}
