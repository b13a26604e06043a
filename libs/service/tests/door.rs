//! What somebody without a token can hold of a listener: neither its time nor its places.
#![allow(clippy::expect_used, reason = "a test that can't go on has failed")]

use axum::Router;
use axum::body::Bytes;
use axum::extract::Extension;
use axum::routing::{get, post};
use escapement_service::door::{Guest, Limits};
use escapement_service::health::{Server, serve_incoming};
use escapement_service::tls::{Incoming, introducing};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// The longest wait for what comes at once, on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// What is over soon.
const SHORT: Duration = Duration::from_millis(200);
/// What is never over within a test.
const LONG: Duration = Duration::from_secs(3_600);
/// How HTTP/2 begins, with empty settings.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

/// Everybody may take as long as he likes.
const PATIENT: Limits =
    Limits { connections_max: 1_000, first: LONG, head: LONG, body: LONG, ping_every: LONG, ping: LONG };

async fn incoming(limits: Limits) -> Incoming {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    Incoming::within(limits, listener, None).expect("an address")
}

async fn start(limits: Limits) -> Server {
    let known = |Extension(guest): Extension<Guest>| async move { guest.vouch() };
    let size = |body: Bytes| async move { body.len().to_string() };
    let router = Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/known", get(known))
        .route("/size", post(size));
    serve_incoming(incoming(limits).await, router, CancellationToken::new())
}

async fn connect(address: SocketAddr, text: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(text).await.expect("it is open");
    stream
}

/// What comes until the other side closes, which it must.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(SOON, stream.read_to_end(&mut bytes)).await;
    // Closed either way: in order, or by a reset.
    let _ = read.expect("the connection is still open");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Asks on a connection that stays; the head of the answer, empty if it was closed instead.
async fn ask(stream: &mut TcpStream, path: &str) -> String {
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    if stream.write_all(head.as_bytes()).await.is_err() {
        return String::new();
    }
    let mut bytes = [0; 1_024];
    let read = tokio::time::timeout(SOON, stream.read(&mut bytes)).await.expect("an answer");
    String::from_utf8_lossy(&bytes[..read.unwrap_or(0)]).into_owned()
}

#[tokio::test]
async fn whoever_does_not_finish_a_head_is_closed() {
    let server = start(Limits { first: SHORT, head: SHORT, ..PATIENT }).await;
    for part in ["", "G", "PRI * HT", "GET /healthz HTTP/1.1\r\nhost: x\r\nx-", "POST /size HTTP/1.1\r\n"] {
        let text = rest(connect(server.address, part.as_bytes()).await).await;
        assert!(!text.starts_with("HTTP/1.1 200"), "{part:?}: {text}");
    }
}

#[tokio::test]
async fn a_connection_that_is_kept_for_nothing_is_closed() {
    let server = start(Limits { head: SHORT, ..PATIENT }).await;
    let mut stream = TcpStream::connect(server.address).await.expect("it listens");
    let answer = ask(&mut stream, "/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(rest(stream).await, "");
}

#[tokio::test]
async fn a_body_whose_next_byte_does_not_come_is_answered_408() {
    let server = start(Limits { body: SHORT, ..PATIENT }).await;
    for head in ["content-length: 9\r\n\r\nhalf", "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
        let request = format!("POST /size HTTP/1.1\r\nhost: x\r\n{head}");
        let answer = rest(connect(server.address, request.as_bytes()).await).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{head}: {answer}");
        assert!(answer.contains("application/problem+json") && answer.contains("\"status\":408"), "{answer}");
    }
    let whole = b"POST /size HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 4\r\n\r\nhalf";
    let answer = rest(connect(server.address, whole).await).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with('4'), "{answer}");
}

#[tokio::test]
async fn whoever_answers_no_ping_is_closed() {
    let server = start(Limits { ping_every: SHORT, ping: SHORT, ..PATIENT }).await;
    rest(connect(server.address, HTTP2).await).await;
}

/// What others lose by their silence meanwhile shows that the limits have passed.
#[tokio::test]
async fn a_quiet_stream_outlives_the_limits() {
    let limits = Limits { first: SHORT, head: SHORT, body: SHORT, ping_every: SHORT, ping: LONG, ..PATIENT };
    let incoming = incoming(limits).await;
    let (address, url) = (incoming.address(), incoming.url());
    let (reporter, health) = tonic_health::server::health_reporter();
    let server = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(limits.ping_every))
        .http2_keepalive_timeout(Some(limits.ping))
        .layer(introducing())
        .add_service(health)
        .serve_with_incoming(incoming);
    tokio::spawn(server);
    let channel = Endpoint::from_shared(url).expect("an address").connect().await.expect("it listens");
    let mut client = HealthClient::new(channel);
    let mut stream = client.watch(HealthCheckRequest::default()).await.expect("a stream").into_inner();
    stream.message().await.expect("open").expect("the state now");
    for part in [&HTTP2[..9], b""] {
        for _ in 0..3 {
            rest(connect(address, part).await).await;
        }
    }
    reporter.set_service_status("", ServingStatus::NotServing).await;
    let next = tokio::time::timeout(SOON, stream.message()).await.expect("it comes");
    next.expect("the stream is open").expect("the next state");
}

#[tokio::test]
async fn a_full_listener_answers_newcomers_and_keeps_whom_it_knows() {
    let server = start(Limits { connections_max: 4, ..PATIENT }).await;
    let mut known = TcpStream::connect(server.address).await.expect("it listens");
    assert!(ask(&mut known, "/known").await.starts_with("HTTP/1.1 200"));
    let mut silent = Vec::new();
    for part in [&b""[..], b"GET / HTTP/1.1\r\n", b"POST /size HTTP/1.1\r\ncontent-length: 9\r\n\r\nx", HTTP2]
    {
        for _ in 0..5 {
            silent.push(connect(server.address, part).await);
        }
        let mut probe = TcpStream::connect(server.address).await.expect("it listens");
        let answer = ask(&mut probe, "/healthz").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    for stream in silent.drain(..silent.len() - 2) {
        rest(stream).await;
    }
    assert!(ask(&mut known, "/known").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_listener_full_of_known_ones_closes_newcomers_until_one_leaves() {
    let server = start(Limits { connections_max: 2, ..PATIENT }).await;
    let mut known = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.address).await.expect("it listens");
        assert!(ask(&mut stream, "/known").await.starts_with("HTTP/1.1 200"));
        known.push(stream);
    }
    let mut refused = TcpStream::connect(server.address).await.expect("it listens");
    assert_eq!(ask(&mut refused, "/healthz").await, "");
    known.pop();
    let until = tokio::time::Instant::now() + SOON;
    loop {
        let mut next = TcpStream::connect(server.address).await.expect("it listens");
        if ask(&mut next, "/healthz").await.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(tokio::time::Instant::now() < until, "the place of the one that left stays taken");
    }
    assert!(ask(&mut known[0], "/known").await.starts_with("HTTP/1.1 200"));
}
