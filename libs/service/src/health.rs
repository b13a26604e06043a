//! The operations server: `/healthz`, `/readyz`, `/metrics`, and what the service adds.
//!
//! Healthy means that every loop of the process still turns; a supervisor restarts what is not. Ready means that
//! every named condition holds, so that traffic may come. Invariant: an answer of 503 names what is wrong.
//! Deliberately does no probing of its own: loops and connections report, the server only tells.

use crate::http;
use crate::telemetry::Metrics;
use crate::tls::Incoming;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What the process knows about itself; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    loops: BTreeMap<&'static str, Turn>,
    unmet: BTreeMap<&'static str, String>,
    draining: bool,
}

#[derive(Debug)]
struct Turn {
    last: Instant,
    limit: Duration,
}

impl Health {
    /// A process without loops and conditions: healthy and ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Watches a loop from now on: without a [`beat`](Beat::beat) for `limit` the process is unhealthy.
    #[must_use = "a loop that never beats makes the process unhealthy"]
    pub fn watch(&self, name: &'static str, limit: Duration) -> Beat {
        self.known().loops.insert(name, Turn { last: Instant::now(), limit });
        Beat { health: self.clone(), name }
    }

    /// A condition of readiness, unmet from now on as `starting`.
    #[must_use = "a condition that is never met keeps the process from getting ready"]
    pub fn condition(&self, name: &'static str) -> Condition {
        let condition = Condition { health: self.clone(), name };
        condition.unmet("starting");
        condition
    }

    /// Not ready from now on, for good: the process is about to end.
    pub fn drain(&self) {
        self.known().draining = true;
    }

    /// The loops that stand still at `now`: name, and how long ago the last beat was.
    pub fn stuck(&self, now: Instant) -> Vec<(&'static str, Duration)> {
        let known = self.known();
        let ages =
            known.loops.iter().map(|(name, turn)| (name, turn, now.saturating_duration_since(turn.last)));
        ages.filter(|(_, turn, age)| *age > turn.limit).map(|(name, _, age)| (*name, age)).collect()
    }

    /// The conditions that do not hold: name, and why.
    pub fn unmet(&self) -> Vec<(&'static str, String)> {
        let known = self.known();
        let mut unmet: Vec<_> = known.unmet.iter().map(|(name, why)| (*name, why.clone())).collect();
        if known.draining {
            unmet.push(("shutdown", "stopping".to_owned()));
        }
        unmet
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A loop's pulse.
#[derive(Debug)]
pub struct Beat {
    health: Health,
    name: &'static str,
}

impl Beat {
    /// The loop has turned once more.
    pub fn beat(&self) {
        if let Some(turn) = self.health.known().loops.get_mut(self.name) {
            turn.last = Instant::now();
        }
    }

    /// The loop has ended as it should. One that only drops its pulse, as a panic does, is found stuck.
    pub fn done(self) {
        self.health.known().loops.remove(self.name);
    }
}

/// One condition of readiness; clones share it.
#[derive(Debug, Clone)]
pub struct Condition {
    health: Health,
    name: &'static str,
}

impl Condition {
    /// It holds.
    pub fn met(&self) {
        self.health.known().unmet.remove(self.name);
    }

    /// It does not hold, and why.
    pub fn unmet(&self, why: impl Into<String>) {
        self.health.known().unmet.insert(self.name, why.into());
    }
}

/// The three routes of every service.
pub fn router(health: Health, metrics: Metrics) -> Router {
    let probes =
        Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz)).with_state(health);
    let metrics = Router::new().route("/metrics", get(expose)).with_state(metrics);
    probes.merge(metrics)
}

async fn healthz(State(health): State<Health>) -> Response {
    let stuck = health.stuck(Instant::now());
    let lines =
        stuck.iter().map(|(name, age)| format!("loop {name} stands still since {} ms", age.as_millis()));
    answer(lines.collect())
}

async fn readyz(State(health): State<Health>) -> Response {
    answer(health.unmet().iter().map(|(name, why)| format!("{name}: {why}")).collect())
}

fn answer(problems: Vec<String>) -> Response {
    let status = if problems.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let text = if problems.is_empty() { "ok".to_owned() } else { problems.join("\n") };
    (status, text + "\n").into_response()
}

async fn expose(State(metrics): State<Metrics>) -> Response {
    match metrics.render() {
        Ok(text) => {
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// A running HTTP server.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    scheme: &'static str,
    stop: CancellationToken,
    task: JoinHandle<std::io::Result<()>>,
}

impl Server {
    /// Its address as a client is told it: `https://…` with TLS.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Takes no more connections, answers what it has, and ends.
    ///
    /// # Errors
    /// When the server had failed.
    pub async fn stop(self) -> std::io::Result<()> {
        self.stop.cancel();
        self.task.await.map_err(std::io::Error::other)?
    }
}

/// Serves `router` on `listener` until [`Server::stop`] or `stop`.
///
/// # Errors
/// When the listener has no address.
pub fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> std::io::Result<Server> {
    Ok(serve_incoming(Incoming::new(listener, None)?, router, stop))
}

/// [`serve`], with TLS if `incoming` has it. Each request knows its peer as tonic's do, by
/// [`TcpConnectInfo`](tonic::transport::server::TcpConnectInfo).
pub fn serve_incoming(incoming: Incoming, router: Router, stop: CancellationToken) -> Server {
    let (address, scheme) = (incoming.address(), incoming.scheme());
    let task = tokio::spawn(http::run(incoming, router, stop.clone()));
    Server { address, scheme, stop, task }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt;

    async fn ask(health: &Health, path: &str) -> (u16, String) {
        let router = router(health.clone(), Metrics::new("test").expect("metrics"));
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let response = router.oneshot(request).await.expect("an answer");
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
        (status, String::from_utf8(body.to_vec()).expect("text"))
    }

    #[test]
    fn a_loop_is_stuck_only_past_its_limit_and_recovers_with_a_beat() {
        let health = Health::new();
        let beat = health.watch("plan", Duration::from_secs(5));
        let start = Instant::now();
        assert_eq!(health.stuck(start + Duration::from_secs(4)), []);
        let stuck = health.stuck(start + Duration::from_secs(60));
        assert_eq!(stuck.len(), 1);
        assert_eq!(stuck[0].0, "plan");
        beat.done();
        assert_eq!(health.stuck(start + Duration::from_secs(60)), []);
    }

    #[test]
    fn a_dropped_pulse_is_found_stuck() {
        let health = Health::new();
        drop(health.watch("plan", Duration::from_secs(5)));
        assert_eq!(health.stuck(Instant::now() + Duration::from_secs(6)).len(), 1);
    }

    #[tokio::test]
    async fn a_stuck_loop_is_named_with_503() {
        let health = Health::new();
        let _beat = health.watch("plan", Duration::ZERO);
        let (status, text) = ask(&health, "/healthz").await;
        assert_eq!(status, 503);
        assert!(text.contains("loop plan stands still"), "{text}");
        assert_eq!(ask(&Health::new(), "/healthz").await, (200, "ok\n".to_owned()));
    }

    #[tokio::test]
    async fn readiness_names_every_unmet_condition_and_ends_with_the_drain() {
        let health = Health::new();
        let (database, etcd) = (health.condition("database"), health.condition("etcd"));
        etcd.unmet("no leader");
        let all = (503, "database: starting\netcd: no leader\n".to_owned());
        assert_eq!(ask(&health, "/readyz").await, all);
        database.met();
        etcd.met();
        assert_eq!(ask(&health, "/readyz").await.0, 200);
        health.drain();
        assert_eq!(ask(&health, "/readyz").await, (503, "shutdown: stopping\n".to_owned()));
    }

    #[tokio::test]
    async fn a_server_answers_until_it_is_stopped() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let health = Health::new();
        let metrics = Metrics::new("test").expect("metrics");
        let server = serve(listener, router(health, metrics), CancellationToken::new()).expect("it serves");
        let address = server.address;
        tokio::net::TcpStream::connect(address).await.expect("it listens");
        server.stop().await.expect("it ends");
        assert!(tokio::net::TcpStream::connect(address).await.is_err());
    }
}
