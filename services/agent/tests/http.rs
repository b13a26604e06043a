//! HTTP calls: what is sent, what is kept of the answer, and where calls may not lead.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod harness;

use agent::AgentConfig;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Redirect;
use axum::routing::{any, get, post};
use harness::{HOUR, Subject, assert_outcome, output};
use rpc::v1::{self, completed::Outcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A server on this machine that counts what reaches it.
struct Target {
    port: u16,
    hits: Arc<AtomicUsize>,
    server: JoinHandle<()>,
}

impl Target {
    async fn start() -> Self {
        let hits = Arc::new(AtomicUsize::new(0));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let slow = async || {
            tokio::time::sleep(HOUR).await;
            "late"
        };
        let router = Router::new()
            .route("/echo", post(echo))
            .route("/fail", any(async || (StatusCode::SERVICE_UNAVAILABLE, "closed for today")))
            .route("/moved", any(async || Redirect::temporary("/secret")))
            .route("/secret", any(async || "secret"))
            .route("/slow", any(slow))
            .route("/big", get(async || "0123456789".repeat(20_000)))
            .layer(axum::middleware::from_fn_with_state(Arc::clone(&hits), count));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { port, hits, server }
    }

    fn at(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }

    fn url(&self, path: &str) -> String {
        self.at("127.0.0.1", path)
    }

    fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn count(
    State(hits): State<Arc<AtomicUsize>>,
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> axum::response::Response {
    hits.fetch_add(1, Ordering::SeqCst);
    next.run(request).await
}

async fn echo(headers: HeaderMap, body: String) -> String {
    let mut lines: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    lines.sort();
    format!("{}\n\n{body}", lines.join("\n"))
}

fn loopback() -> AgentConfig {
    AgentConfig { http_allow_loopback: true, ..AgentConfig::default() }
}

fn http(method: &str, url: String) -> v1::Http {
    v1::Http { method: method.into(), url, ..v1::Http::default() }
}

fn work(http: v1::Http) -> v1::run::Kind {
    v1::run::Kind::Http(http)
}

#[tokio::test]
async fn a_call_carries_the_jobs_request_and_the_runs_facts() {
    let target = Target::start().await;
    let mut subject = Subject::start(loopback()).await;
    let mut call = http("", target.url("/echo"));
    call.body = "{\"month\": 11}".into();
    call.headers.insert("Content-Type".into(), "application/json".into());
    call.headers.insert("Escapement-Fencing-Token".into(), "999999".into());
    let completed = subject.run(work(call)).await;
    assert_outcome(&completed, Outcome::Succeeded);
    assert_eq!(completed.exit_status, Some(200));
    let text = output(&completed);
    for expected in [
        "content-type: application/json\n",
        "escapement-run-id: invoices@2026-11-29T09:00:00Z\n",
        "escapement-scheduled-for: 2026-11-29T09:00:00Z\n",
        "escapement-attempt: 2\n",
        "escapement-fencing-token: 1002\n",
        "escapement-guard-key: 00000000-0000-0000-0000-000000000001\n",
        "escapement-idempotency-key: ",
        "escapement-deadline: ",
        "traceparent: 00-4bf92f35",
        "user-agent: escapement-agent/",
        "\n\n{\"month\": 11}",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing in {text}");
    }
    assert!(!text.contains("999999"), "a job can't give itself a token: {text}");
}

#[tokio::test]
async fn other_answers_than_success_are_failures_with_their_status_and_body() {
    let target = Target::start().await;
    let mut subject = Subject::start(loopback()).await;
    let completed = subject.run(work(http("GET", target.url("/fail")))).await;
    assert_outcome(&completed, Outcome::Failed);
    assert_eq!((completed.exit_status, output(&completed).as_str()), (Some(503), "closed for today"));
    let completed = subject.run(work(http("GET", target.url("/nowhere")))).await;
    assert_eq!((completed.outcome(), completed.exit_status), (Outcome::Failed, Some(404)));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let target = Target::start().await;
    let mut subject = Subject::start(loopback()).await;
    let completed = subject.run(work(http("GET", target.url("/moved")))).await;
    assert_outcome(&completed, Outcome::Failed);
    assert_eq!((completed.exit_status, target.hits()), (Some(307), 1));
    assert!(completed.error.contains("redirects are not followed"), "{}", completed.error);
}

#[tokio::test]
async fn inner_addresses_are_refused_however_they_are_written() {
    let target = Target::start().await;
    let mut subject = Subject::start(AgentConfig::default()).await;
    for host in ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"] {
        let completed = subject.run(work(http("GET", target.at(host, "/secret")))).await;
        assert_outcome(&completed, Outcome::NotStarted);
        assert!(completed.error.contains("http_allow_loopback"), "{host}: {}", completed.error);
    }
    for (url, setting) in [
        ("http://169.254.169.254/latest/meta-data", "http_allow_link_local"),
        ("http://10.0.0.1/", "http_allow_private"),
    ] {
        let completed = subject.run(work(http("GET", url.into()))).await;
        assert_outcome(&completed, Outcome::NotStarted);
        assert!(completed.error.contains(setting), "{}", completed.error);
    }
    assert_eq!(target.hits(), 0);
}

#[tokio::test]
async fn an_allowed_name_is_resolved_and_called() {
    let target = Target::start().await;
    let mut subject = Subject::start(loopback()).await;
    assert_outcome(
        &subject.run(work(http("GET", target.at("localhost", "/secret")))).await,
        Outcome::Succeeded,
    );
}

#[tokio::test]
async fn a_call_without_an_answer_fails_after_its_timeout() {
    let target = Target::start().await;
    let mut subject = Subject::start(loopback()).await;
    let mut call = http("GET", target.url("/slow"));
    call.timeout = Some(Duration::from_millis(200).try_into().unwrap());
    let completed = subject.run(work(call)).await;
    assert_outcome(&completed, Outcome::Failed);
    assert!(completed.error.contains("within 200ms"), "{}", completed.error);
}

#[tokio::test]
async fn a_cancelled_call_is_given_up() {
    let target = Target::start().await;
    let mut subject = Subject::start(loopback()).await;
    let run = subject.begin(work(http("GET", target.url("/slow"))), HOUR).await;
    subject.session.cancel(&run, "by hand").await;
    assert_outcome(&subject.session.completed().await, Outcome::Cancelled);
}

#[tokio::test]
async fn a_large_answer_is_read_up_to_the_limit() {
    let target = Target::start().await;
    let mut subject = Subject::start(AgentConfig { http_response_max_bytes: 10_005, ..loopback() }).await;
    let completed = subject.run(work(http("GET", target.url("/big")))).await;
    assert_outcome(&completed, Outcome::Succeeded);
    assert_eq!((completed.output.len(), completed.output_truncated), (4096, true));
    assert!(output(&completed).ends_with("901234"), "what came after the limit was not read");
}

#[tokio::test]
async fn an_answer_of_exactly_the_limit_is_whole_and_a_longer_one_is_cut() {
    let target = Target::start().await;
    for (limit, kept, truncated) in [(6, "secret", false), (5, "secre", true)] {
        let settings = AgentConfig { http_response_max_bytes: limit, ..loopback() };
        let mut subject = Subject::start(settings).await;
        let completed = subject.run(work(http("GET", target.url("/secret")))).await;
        assert_outcome(&completed, Outcome::Succeeded);
        assert_eq!((output(&completed).as_str(), completed.output_truncated), (kept, truncated));
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_failure_whatever_its_status() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            connection.read_buf(&mut request).await.unwrap();
        }
        connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").await.unwrap();
    });
    let mut subject = Subject::start(loopback()).await;
    let completed = subject.run(work(http("GET", url))).await;
    assert_outcome(&completed, Outcome::Failed);
    assert_eq!((completed.exit_status, output(&completed).as_str()), (Some(200), "half"));
    assert!(completed.error.contains("broke off"), "{}", completed.error);
    server.await.unwrap();
}

#[tokio::test]
async fn nobody_listening_is_a_failure_that_says_so() {
    let port = Target::start().await.port;
    let mut subject = Subject::start(loopback()).await;
    let completed = subject.run(work(http("GET", format!("http://127.0.0.1:{port}/")))).await;
    assert_outcome(&completed, Outcome::Failed);
    assert!(completed.error.starts_with("no answer: "), "{}", completed.error);
}

#[tokio::test]
async fn what_is_no_request_is_not_started() {
    let mut subject = Subject::start(loopback()).await;
    for call in [http("B AD", "http://127.0.0.1/".into()), http("GET", "ftp://127.0.0.1/".into())] {
        assert_outcome(&subject.run(work(call)).await, Outcome::NotStarted);
    }
}

#[tokio::test]
async fn a_post_without_a_body_says_so_and_secrets_of_headers_are_not_kept() {
    let target = Target::start().await;
    let mut subject =
        Subject::start(AgentConfig { http_allow_loopback: true, ..AgentConfig::default() }).await;
    let work = v1::Http {
        method: "POST".into(),
        url: target.url("/echo"),
        headers: [("authorization".to_owned(), "Bearer abc-def".to_owned())].into(),
        ..v1::Http::default()
    };
    let completed = subject.run(v1::run::Kind::Http(work)).await;
    assert_outcome(&completed, Outcome::Succeeded);
    let text = output(&completed);
    assert!(text.contains("content-length: 0"), "{text}");
    assert!(text.contains("authorization: ***") && !text.contains("abc-def"), "{text}");
}

#[tokio::test]
async fn a_call_succeeds_with_the_statuses_that_it_expects() {
    let target = Target::start().await;
    let mut subject =
        Subject::start(AgentConfig { http_allow_loopback: true, ..AgentConfig::default() }).await;
    for (path, expected_status, outcome) in [
        ("/fail", vec![503, 200], Outcome::Succeeded),
        ("/fail", vec![200], Outcome::Failed),
        ("/secret", vec![503], Outcome::Failed),
        ("/moved", vec![307], Outcome::Succeeded),
    ] {
        let call = v1::Http { expected_status, ..http("GET", target.url(path)) };
        assert_outcome(&subject.run(v1::run::Kind::Http(call)).await, outcome);
    }
}
