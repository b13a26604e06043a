//! A webhook receiver that remembers what it got.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use std::sync::{Arc, Mutex};
use std::time::Duration as Time;

/// What a receiver got.
#[derive(Debug, Clone)]
pub struct Received {
    pub id: String,
    pub headers: HeaderMap,
    pub body: String,
}

impl Received {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().expect("text")
    }

    pub fn event(&self) -> String {
        self.json()["type"].as_str().expect("a type").to_owned()
    }
}

/// A webhook receiver on loopback.
pub struct Receiver {
    pub url: String,
    script: Arc<Script>,
}

#[derive(Default)]
struct Script {
    received: Mutex<Vec<Received>>,
    /// Answers to give first; then 200.
    answers: Mutex<Vec<u16>>,
    /// Answers wait for this.
    gate: Mutex<Option<Arc<tokio::sync::Semaphore>>>,
}

impl Receiver {
    /// One that answers with `answers` first, then with 200.
    pub async fn start(answers: &[u16]) -> Self {
        let script = Arc::new(Script::default());
        *script.answers.lock().unwrap() = answers.to_vec();
        let router = Router::new().route("/hook", post(receive)).with_state(script.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, script }
    }

    /// Makes answers wait until the semaphore that is returned has permits.
    pub fn hold(&self) -> Arc<tokio::sync::Semaphore> {
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        *self.script.gate.lock().unwrap() = Some(gate.clone());
        gate
    }

    /// What it got so far.
    pub fn received(&self) -> Vec<Received> {
        self.script.received.lock().unwrap().clone()
    }

    /// How many it got.
    pub fn count(&self) -> usize {
        self.script.received.lock().unwrap().len()
    }

    /// Waits until it got so many.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        stack::wait::wait_for(Time::from_secs(20), "webhooks", async || {
            let received = self.received();
            (received.len() >= count).then_some(received)
        })
        .await
    }
}

async fn receive(
    State(script): State<Arc<Script>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, [(&'static str, &'static str); 1]) {
    let id = headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let body = String::from_utf8(body.to_vec()).expect("text");
    script.received.lock().unwrap().push(Received { id, headers, body });
    let gate = script.gate.lock().unwrap().clone();
    if let Some(gate) = gate {
        gate.acquire().await.expect("open").forget();
    }
    let mut answers = script.answers.lock().unwrap();
    let status = if answers.is_empty() { 200 } else { answers.remove(0) };
    // Whoever says "too many" says for how long.
    let wait = if status == 429 { "1" } else { "0" };
    (StatusCode::from_u16(status).expect("a status"), [("retry-after", wait)])
}
