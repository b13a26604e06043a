//! Tickers as processes of their own, over a cell with its own place in etcd.

use super::{Cell, LIMIT};
use stack::etcd::Etcd;
use stack::process::{ManagedChild, Spec};
use stack::testkit::{TempFolder, shared_etcd};
use stack::wait::wait_for;

/// A cell with its own place in etcd, and a folder for logs.
pub struct Place {
    /// The cell.
    pub cell: Cell,
    /// Where tickers campaign.
    pub etcd: &'static Etcd,
    /// Of logs.
    pub folder: TempFolder,
}

impl Place {
    /// A fresh one.
    pub async fn create() -> Self {
        let cell = Cell::create_unique().await;
        let folder = TempFolder::create("ticker").expect("a folder");
        Self { cell, etcd: shared_etcd().await, folder }
    }

    /// Starts a ticker.
    pub fn start(&self, name: &str) -> ManagedChild {
        self.start_with(name, self.cell.url())
    }

    /// Starts a ticker that knows the database by another address.
    pub fn start_with(&self, name: &str, database: &str) -> ManagedChild {
        self.start_set(name, &[("ESCAPEMENT_DATABASE_URL", database)])
    }

    /// Starts a ticker with further settings, as environment variables.
    pub fn start_set(&self, name: &str, settings: &[(&str, &str)]) -> ManagedChild {
        let log = self.folder.path().join(format!("{name}.log"));
        let mut spec = Spec::new(name, env!("CARGO_BIN_EXE_escapement-ticker"), log)
            .clear_env()
            .arg("--endpoints-file")
            .arg(self.folder.path().join(format!("{name}.json")))
            .env("ESCAPEMENT_NAME", name)
            .env("ESCAPEMENT_CELL", &self.cell.store.settings().cell)
            .env("ESCAPEMENT_DATABASE_URL", self.cell.url())
            .env("ESCAPEMENT_ETCD_ENDPOINTS", self.etcd.endpoints().join(","))
            .env("ESCAPEMENT_WRITE_SILENCE_MAX_MS", "2000")
            .env("ESCAPEMENT_CLOCK_JUMP_GUARD_MS", "0");
        for (setting, value) in settings {
            spec = spec.env(*setting, *value);
        }
        ManagedChild::spawn(&spec).expect("started")
    }

    /// What it has logged.
    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default()
    }

    /// The leader's name and revision, once it has finished a cycle and is not `other`.
    pub async fn leader_but(&self, other: &str) -> (String, i64) {
        let statement =
            "SELECT name || ' ' || revision FROM term WHERE ended_at IS NULL AND last_cycle_at IS NOT NULL";
        wait_for(LIMIT, "a leader that works", async || {
            let found = self.cell.texts(statement).await;
            let (name, revision) = found.split_once(' ')?;
            (name != other).then(|| (name.to_owned(), revision.parse().expect("a revision")))
        })
        .await
    }

    /// How a leadership ended.
    pub async fn ended(&self, revision: i64) -> String {
        self.cell
            .texts(&format!("SELECT coalesce(ended_how, '') FROM term WHERE revision = {revision}"))
            .await
    }

    /// What a process tells about itself.
    pub async fn metrics(&self, name: &str) -> String {
        self.page(name, "/metrics").await
    }

    /// A page of a process: the whole answer.
    pub async fn page(&self, name: &str, path: &str) -> String {
        let text = std::fs::read(self.folder.path().join(format!("{name}.json"))).expect("its endpoints");
        let endpoints: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let address =
            endpoints["http"].as_str().expect("an address").trim_start_matches("http://").to_owned();
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("connected");
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let request = format!("GET {path} HTTP/1.1\r\nHost: ticker\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("asked");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("answered");
        text
    }
}
