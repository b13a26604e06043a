//! Limits of requests: how large, how deep, how many, how fast; and that nothing is read of those who may not call.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use rpc::v1;
use rpc::v1::job_service_client::JobServiceClient;
use rpc::v1::run_service_client::RunServiceClient;
use serde_json::{Value, json};
use stack::wait::wait_for;
use std::cell::Cell;
use std::sync::Arc;
use support::{Registry, SOON, job, with, wrong_fields};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
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
    announced_to(registry, "/v1/jobs", token, bytes).await
}

/// As [`announced`], to `path`.
async fn announced_to(registry: &Registry, path: &str, token: &str, bytes: usize) -> String {
    let address = registry.rest.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: registry\r\nauthorization: Bearer {token}\r\n\
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
    let refused = grpc.get_job(registry.request(wanted)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("more than 100000 bytes"), "{refused:?}");

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
    let set = json!({ "jobs": vec![json!({}); 10_001] });
    let (status, problem) = registry.admin("POST", "/v1/apply", Some(&set)).await;
    assert_eq!((status, wrong_fields(&problem)), (400, vec!["jobs".to_owned()]));
    assert_eq!(registry.admin("POST", "/v1/jobs", Some(&job("sound"))).await.0, 200);
}

/// As many as there are at once after a pause, and each counted once though REST hands it on to gRPC.
#[tokio::test]
async fn a_stream_over_rest_counts_as_one_request() {
    let settings = [("ESCAPEMENT_TOKEN_REQUESTS_PER_SECOND", "1"), ("ESCAPEMENT_TOKEN_REQUESTS_BURST", "3")];
    let registry = Registry::start_with(&settings).await;
    let http = reqwest::Client::new();
    let mut open = Vec::new();
    for _ in 0..3 {
        let request = http.get(format!("{}/v1/runs:watch", registry.rest)).bearer_auth(&registry.admin);
        open.push(request.send().await.unwrap());
    }
    let statuses: Vec<u16> = open.iter().map(|answer| answer.status().as_u16()).collect();
    assert_eq!(statuses, [200, 200, 200]);
}

/// Asks until it is refused, and says how often it was answered before.
async fn until_refused(ask: impl AsyncFn() -> (u16, Value)) -> (usize, Value) {
    for answered in 0..1_000 {
        match ask().await {
            (200, _) => {}
            (status, problem) => {
                assert_eq!(status, 429, "{problem}");
                return (answered, problem);
            }
        }
    }
    panic!("nothing is refused");
}

#[tokio::test]
async fn a_tenant_that_asks_for_too_many_runs_or_backfills_is_refused_and_no_other_is() {
    let settings =
        [("ESCAPEMENT_TENANT_RUNS_PER_SECOND", "1"), ("ESCAPEMENT_TENANT_BACKFILLS_PER_SECOND", "1")];
    let registry = Registry::start_with(&settings).await;
    let other = registry.token(Some(registry.other_tenant().await), store::api_token::Role::Admin).await;
    let overlapping = with(job("a"), json!({ "overlap": "ALLOW" }));
    for token in [&registry.admin, &other] {
        assert_eq!(registry.call(token, "POST", "/v1/jobs", Some(&overlapping)).await.unwrap().0, 200);
    }
    let now = registry.sql("SELECT to_char(esc_now(), 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')").await;
    let estimate = json!({ "from": now, "to": now, "dryRun": true });
    for (path, body, what) in
        [("/v1/jobs/a:trigger", json!({}), "runs by hand"), ("/v1/jobs/a:backfill", estimate, "backfills")]
    {
        let ask = async || registry.admin("POST", path, Some(&body)).await;
        let (answered, problem) = until_refused(ask).await;
        assert!(answered >= 4, "{what}: {answered}");
        let detail = problem["detail"].as_str().unwrap();
        let expected = format!("your tenant asks for more than 1 {what} a second: try again in ");
        assert!(detail.starts_with(&expected), "{detail}");
        let (status, answer) = registry.call(&other, "POST", path, Some(&body)).await.unwrap();
        assert_eq!(status, 200, "another tenant: {answer}");
    }
}

#[tokio::test]
async fn whoever_sends_unknown_tokens_waits_costs_no_more_look_ups_and_keeps_out_nobody_who_is_known() {
    let settings = [("ESCAPEMENT_TOKEN_CACHE_MS", "0"), ("ESCAPEMENT_UNKNOWN_TOKENS_PER_SECOND", "1")];
    let registry = Arc::new(Registry::start_with(&settings).await);
    let known = async || registry.admin("GET", "/v1/jobs", None).await.0;
    assert_eq!(known().await, 200);
    let unknown = |number: usize| {
        let registry = registry.clone();
        async move { registry.call(&format!("esc_{number}"), "GET", "/v1/jobs", None).await.unwrap().0 }
    };
    let refused = Cell::new(0);
    let sent = Cell::new(0);
    wait_for(SOON, "a refusal", async || {
        for _ in 0..100 {
            sent.set(sent.get() + 1);
            match unknown(sent.get()).await {
                401 => {}
                429 => refused.set(refused.get() + 1),
                other => panic!("{other}"),
            }
        }
        (refused.get() > 0).then_some(())
    })
    .await;
    assert!(sent.get() - refused.get() >= 100, "of {} {} were refused", sent.get(), refused.get());
    assert_eq!(known().await, 200, "whose token was valid is looked up again");
    let grpc = JobServiceClient::connect(registry.grpc.clone()).await.unwrap();
    wait_for(SOON, "a refusal by gRPC", async || {
        let mut request = tonic::Request::new(v1::ListJobsRequest::default());
        request.metadata_mut().insert("authorization", "Bearer esc_wrong".parse().unwrap());
        let refused = grpc.clone().list_jobs(request).await.unwrap_err();
        let code = refused.code();
        assert!(matches!(code, Code::Unauthenticated | Code::ResourceExhausted), "{refused:?}");
        (code == Code::ResourceExhausted && rpc::status::retry_after(&refused).is_some()).then_some(())
    })
    .await;

    // Whatever needs a look-up has to wait now: most need none.
    registry
        .while_held("LOCK TABLE api_token", async {
            let mut asking: JoinSet<u16> = (0..200).map(unknown).collect();
            for _ in 0..100 {
                let answered = tokio::time::timeout(SOON, asking.join_next()).await.expect("an answer");
                assert_eq!(answered.unwrap().unwrap(), 429);
            }
        })
        .await;
}

/// A new check-in; where it reports.
async fn reporting(registry: &Registry) -> String {
    let written = json!({ "name": "backup", "period": "3600s" });
    let (status, created) = registry.admin("POST", "/v1/check-ins", Some(&written)).await;
    assert_eq!(status, 200, "{created}");
    created["path"].as_str().expect("where to report").to_owned()
}

#[tokio::test]
async fn unknown_tokens_of_check_ins_wait_too_and_keep_out_none_that_has_reported() {
    let registry = Arc::new(Registry::start_with(&[("ESCAPEMENT_UNKNOWN_TOKENS_PER_SECOND", "1")]).await);
    let path = reporting(&registry).await;
    let report = |path: String| {
        let registry = registry.clone();
        async move { registry.call("", "POST", &path, None).await.unwrap().0 }
    };
    let unknown = || {
        let secret = store::api_token::new_secret().expect("randomness");
        report(format!("/v1/checkins/{secret}/fail"))
    };
    assert_eq!(report(path.clone()).await, 200);
    let (sent, refused) = (Cell::new(0), Cell::new(0));
    wait_for(SOON, "a refusal", async || {
        for _ in 0..100 {
            sent.set(sent.get() + 1);
            match unknown().await {
                404 => {}
                429 => refused.set(refused.get() + 1),
                other => panic!("{other}"),
            }
        }
        (refused.get() > 0).then_some(())
    })
    .await;
    assert!(sent.get() - refused.get() >= 100, "of {} {} were refused", sent.get(), refused.get());
    assert_eq!(report(path).await, 200, "whoever has reported goes on");

    registry
        .while_held("LOCK TABLE check_in", async {
            // What no token looks like needs no look-up at all; of the others most have to wait now.
            let status = tokio::time::timeout(SOON, report("/v1/checkins/nobody".to_owned())).await;
            assert_eq!(status.expect("an answer"), 404);
            let mut asking: JoinSet<u16> = (0..200).map(|_| unknown()).collect();
            for _ in 0..100 {
                let answered = tokio::time::timeout(SOON, asking.join_next()).await.expect("an answer");
                assert_eq!(answered.unwrap().unwrap(), 429);
            }
        })
        .await;
}

#[tokio::test]
async fn nothing_is_read_of_a_report_before_its_token_is_known_and_one_that_is_long_is_noted() {
    let registry = Registry::start().await;
    let path = reporting(&registry).await;
    let nobody = announced_to(&registry, "/v1/checkins/nobody", "", 4_096).await;
    assert_eq!(nobody, "HTTP/1.1 404");
    let http = reqwest::Client::new();
    let said = "disk full ".repeat(300_000);
    let answer = http.post(format!("{}{path}/fail", registry.rest)).body(said.clone()).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let (_, found) = registry.admin("GET", "/v1/check-ins/backup", None).await;
    assert_eq!(found["reports"][0]["message"], said[..store::check_in::MESSAGE_BYTES_MAX]);
}

#[tokio::test]
async fn a_check_in_that_reports_too_often_is_told_when_to_try_again() {
    let registry = Registry::start().await;
    let path = reporting(&registry).await;
    registry
        .sql(
            "INSERT INTO check_in_report (check_in_id, at, kind, message)
             SELECT id, esc_now() + n * interval '1 minute', 'SUCCESS', '' FROM check_in, generate_series(1, 60) n",
        )
        .await;
    let refused = reqwest::Client::new().post(format!("{}{path}", registry.rest)).send().await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    let problem: Value = refused.json().await.unwrap();
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("this check-in has reported 60 times in the last minute: try again"),
        "{detail}"
    );
}

/// However many watch, and however long their looks take, three quarters of the connections are left to others.
#[tokio::test]
async fn five_hundred_who_watch_leave_room_for_those_who_ask() {
    let registry = Registry::start().await;
    assert_eq!(registry.admin("POST", "/v1/jobs", Some(&job("a"))).await.0, 200);
    let other = registry.token(Some(registry.other_tenant().await), store::api_token::Role::Viewer).await;
    let (mut clients, mut watches) = (Vec::new(), Vec::new());
    for token in [&registry.admin, &registry.admin, &other, &other] {
        let client = RunServiceClient::connect(registry.grpc.clone()).await.unwrap();
        for _ in 0..125 {
            let mut request = tonic::Request::new(v1::WatchRunsRequest::default());
            request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
            let mut watch = client.clone().watch_runs(request).await.unwrap().into_inner();
            tokio::time::timeout(SOON, watch.next()).await.unwrap().unwrap().unwrap();
            watches.push(watch);
        }
        clients.push(client);
    }
    assert_eq!(watches.len(), 500);
    registry
        .while_held("LOCK TABLE run_event_floor", async {
            registry.waiting(4).await; // each look does
            for _ in 0..20 {
                assert_eq!(registry.admin("GET", "/v1/jobs/a", None).await.0, 200);
            }
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
            assert!(registry.sql(waiting).await.parse::<usize>().unwrap() <= 4);
        })
        .await;
}
