//! A webhook receiver, or any HTTP target of a job: keeps what it gets.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::Value;
use std::sync::{Arc, Mutex};

/// One request.
#[derive(Debug, Clone)]
pub struct Received {
    /// Method and path with query.
    pub target: String,
    /// Headers, lower-case names.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Received {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// A header as text; empty when it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }
}

/// A running receiver that answers 200; it ends with the test.
pub struct Receiver {
    /// Its base address.
    pub url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    /// Listens on a free loopback port.
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let received = Arc::new(Mutex::new(Vec::new()));
        let router = Router::new().fallback(keep).with_state(Arc::clone(&received));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, received }
    }

    /// Everything received so far.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no panic while held").clone()
    }
}

async fn keep(
    State(received): State<Arc<Mutex<Vec<Received>>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let target = format!("{method} {uri}");
    received.lock().expect("no panic while held").push(Received { target, headers, body });
    StatusCode::OK
}
