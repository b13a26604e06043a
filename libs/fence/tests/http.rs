//! The guard of an HTTP service against zombie writers, over a real socket.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use fence::http::{Admission, FenceLayer, HighestSeen, InMemory, Unguarded};
use fence::postgres::{RAISE, SCHEMA};
use fence::{FencingToken, GuardKey};
use serde_json::Value;
use stack::testkit::{TestDatabase, shared_postgres};
use stack::wait::wait_for;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

const LIMIT: Duration = Duration::from_secs(20);

/// The guard key of most tests.
const JOB: &str = "0b7c3c1e-5d0a-4f7e-9a51-0f5b8f1f2a77";

/// Tokens of an attempt and of the one after it: neighbours that doubles can't tell apart.
const OLDER: &str = "9007199254740992";
const NEWER: &str = "9007199254740993";

/// The bodies of requests that a handler has begun, and ended.
#[derive(Default)]
struct Written {
    begun: Mutex<Vec<String>>,
    done: Mutex<Vec<String>>,
}

/// A service that writes down what it is sent; a body that begins with `slow` is held until `go` has a permit.
struct Billing {
    address: SocketAddr,
    written: Arc<Written>,
    go: Arc<Semaphore>,
}

impl Billing {
    async fn start<H: HighestSeen>(fence: FenceLayer<H>) -> Self {
        let (written, go) = (Arc::new(Written::default()), Arc::new(Semaphore::new(0)));
        let router = Router::new()
            .route("/invoices", post(write))
            .layer(fence)
            .with_state((Arc::clone(&written), Arc::clone(&go)));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, written, go }
    }

    async fn in_memory() -> Self {
        Self::start(FenceLayer::new(InMemory::new(Duration::from_secs(3600), 100))).await
    }

    fn done(&self) -> Vec<String> {
        self.written.done.lock().expect("no panic while held").clone()
    }

    async fn has_begun(&self, body: &str) {
        wait_for(LIMIT, "the handler to begin", async || {
            self.written.begun.lock().expect("no panic while held").iter().any(|it| it == body).then_some(())
        })
        .await;
    }

    /// A request with these headers; its status and body.
    async fn send(&self, headers: &[(&str, &str)], body: &str) -> Answer {
        send(self.address, headers, body).await
    }

    /// A job's request.
    async fn write(&self, token: &str, body: &str) -> Answer {
        self.send(&[("Escapement-Fencing-Token", token), ("Escapement-Guard-Key", JOB)], body).await
    }

    /// The same on a task of its own.
    fn write_beside(&self, token: &'static str, body: &'static str) -> tokio::task::JoinHandle<Answer> {
        let address = self.address;
        let headers = [("Escapement-Fencing-Token", token), ("Escapement-Guard-Key", JOB)];
        tokio::spawn(async move { send(address, &headers, body).await })
    }
}

type Shared = (Arc<Written>, Arc<Semaphore>);

async fn write(State((written, go)): State<Shared>, body: String) -> &'static str {
    written.begun.lock().expect("no panic while held").push(body.clone());
    if body.starts_with("slow") {
        go.acquire().await.expect("never closed").forget();
    }
    written.done.lock().expect("no panic while held").push(body);
    "sent"
}

struct Answer {
    status: u16,
    content_type: String,
    body: String,
}

impl Answer {
    fn problem(&self) -> Value {
        assert_eq!(self.content_type, "application/problem+json", "{}", self.body);
        let problem: Value = serde_json::from_str(&self.body).expect("JSON");
        assert_eq!(problem["status"], self.status);
        problem
    }
}

/// One request on a connection of its own.
async fn send(address: SocketAddr, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let length = body.len();
    let mut request = format!(
        "POST /invoices HTTP/1.1\r\nHost: billing\r\nConnection: close\r\nContent-Length: {length}\r\n"
    );
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let content_type = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, content_type: content_type.to_owned(), body: body.to_owned() }
}

#[tokio::test]
async fn a_zombie_is_refused_once_a_newer_attempt_has_written() {
    let billing = Billing::in_memory().await;
    assert_eq!(billing.write(OLDER, "first").await.status, 200);
    assert_eq!(billing.write(OLDER, "second").await.status, 200, "an attempt writes again");
    assert_eq!(billing.write(NEWER, "third").await.status, 200);
    let refused = billing.write(OLDER, "late").await;
    let problem = refused.problem();
    assert_eq!((refused.status, &problem["type"]), (409, &"urn:escapement:problem:stale-token".into()));
    assert_eq!(problem["token"], OLDER);
    assert_eq!(problem["highestToken"], NEWER);
    assert_eq!(problem["guardKey"], JOB);
    assert_eq!(billing.done(), ["first", "second", "third"]);
    let other = [("Escapement-Fencing-Token", OLDER), ("Escapement-Guard-Key", "another-job")];
    assert_eq!(billing.send(&other, "other").await.status, 200);
}

#[tokio::test]
async fn a_malformed_header_is_a_bad_request() {
    let billing = Billing::in_memory().await;
    let (token, key) = (("escapement-fencing-token", OLDER), ("escapement-guard-key", JOB));
    for headers in [
        vec![("escapement-fencing-token", "seven"), key],
        vec![("escapement-fencing-token", "9223372036854775808"), key],
        vec![token, ("escapement-guard-key", "")],
        vec![token, token, key],
        vec![token],
        vec![key],
    ] {
        let answer = billing.send(&headers, "x").await;
        let problem = answer.problem();
        assert_eq!(answer.status, 400, "{headers:?}");
        assert_eq!(problem["type"], "urn:escapement:problem:malformed-token");
        assert!(problem["detail"].as_str().expect("a sentence").contains("escapement-"), "{problem}");
    }
    assert_eq!(billing.done(), [""; 0]);
}

#[tokio::test]
async fn requests_without_headers_are_refused_or_pass_as_configured() {
    let billing = Billing::in_memory().await;
    let refused = billing.send(&[], "x").await;
    assert_eq!(refused.status, 428);
    assert_eq!(refused.problem()["type"], "urn:escapement:problem:token-required");

    let fence = FenceLayer::new(InMemory::new(LIMIT, 10)).unguarded(Unguarded::Pass);
    let open = Billing::start(fence).await;
    assert_eq!(open.write(NEWER, "job").await.status, 200);
    assert_eq!(open.send(&[], "person").await.status, 200);
    assert_eq!(open.write(OLDER, "late").await.status, 409, "jobs are compared all the same");
    assert_eq!(open.done(), ["job", "person"]);
}

#[tokio::test]
async fn a_newer_attempt_waits_for_the_handler_of_an_older_one() {
    let billing = Billing::in_memory().await;
    let zombie = billing.write_beside(OLDER, "slow older");
    billing.has_begun("slow older").await;
    let successor = billing.write_beside(NEWER, "newer");
    // The newer token is remembered at once, though its handler has not begun.
    wait_for(LIMIT, "the newer token to be seen", async || {
        (billing.write(OLDER, "probe").await.status == 409).then_some(())
    })
    .await;
    let done = || {
        let mut done = billing.done();
        done.retain(|body| body != "probe");
        done
    };
    assert_eq!(done(), [""; 0]);
    billing.go.add_permits(1);
    assert_eq!(zombie.await.expect("no panic").status, 200, "it had begun before");
    assert_eq!(successor.await.expect("no panic").status, 200);
    assert_eq!(done(), ["slow older", "newer"]);
}

#[tokio::test]
async fn a_caller_that_goes_away_holds_nobody_up() {
    let billing = Billing::in_memory().await;
    let zombie = billing.write_beside(OLDER, "slow older");
    billing.has_begun("slow older").await;
    zombie.abort(); // closes its connection
    let newer = tokio::time::timeout(LIMIT, billing.write(NEWER, "newer")).await;
    assert_eq!(newer.expect("not held up").status, 200);
    assert_eq!(billing.done(), ["newer"]);
}

#[tokio::test]
async fn when_the_highest_token_is_not_known_nothing_passes() {
    let billing = Billing::start(FenceLayer::new(InMemory::new(LIMIT, 1))).await;
    assert_eq!(billing.write(OLDER, "first").await.status, 200);
    let headers = [("Escapement-Fencing-Token", OLDER), ("Escapement-Guard-Key", "one-too-many")];
    let full = billing.send(&headers, "x").await;
    assert_eq!(full.status, 503);
    assert_eq!(full.problem()["type"], "urn:escapement:problem:fence-unavailable");
    assert_eq!(billing.done(), ["first"]);
}

/// The table as the common memory of several processes: the recipe of `docs/fencing.md`.
struct InPostgres(tokio_postgres::Client);

impl HighestSeen for InPostgres {
    type Permit = ();
    type Error = tokio_postgres::Error;

    async fn admit(&self, key: &GuardKey, token: FencingToken) -> Result<Admission<()>, Self::Error> {
        let rows = self.0.query(RAISE, &[&key.as_str(), &token.as_i64()]).await?;
        Ok(if rows.is_empty() { Admission::Stale { highest: None } } else { Admission::Admitted(()) })
    }
}

#[tokio::test]
async fn two_processes_share_what_they_saw_through_a_table() {
    let database = TestDatabase::create(shared_postgres().await, None).await.expect("a database");
    let mut services = Vec::new();
    for _ in 0..2 {
        let connected = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await;
        let (client, connection) = connected.expect("a connection");
        tokio::spawn(connection);
        client.batch_execute(SCHEMA).await.expect("the schema");
        services.push(Billing::start(FenceLayer::new(InPostgres(client))).await);
    }
    assert_eq!(services[0].write(OLDER, "older").await.status, 200);
    assert_eq!(services[1].write(NEWER, "newer").await.status, 200);
    let refused = services[0].write(OLDER, "late").await;
    assert_eq!(refused.status, 409);
    assert_eq!(refused.problem()["highestToken"], Value::Null);
    assert_eq!(services[0].done(), ["older"]);
}
