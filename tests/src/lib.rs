//! What the end-to-end tests share: a whole cell of real processes, and the questions that they ask of it.
//!
//! Tests ask the ledger through the API where people would, and through SQL where the point is what is stored.
//! Nothing here sleeps for a fixed time: it waits for a condition, with a limit that names it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test's failure is a panic that names the cause"
)]

pub mod authority;
pub mod python;
pub mod receiver;
pub mod terminal;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use stack::dev::{Options, Role, Stack};
use stack::testkit::TempFolder;
use stack::wait::wait_for;
use std::process::{Command, Output};
use std::time::Duration;

/// Longer than anything takes that is not itself being measured, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A whole cell: etcd, PostgreSQL, services.
pub struct Cell {
    /// The processes.
    pub stack: Stack,
    /// Who asks the registry, as its administrator.
    pub api: Api,
    folder: TempFolder,
}

impl Cell {
    /// Two tickers, two dispatchers, a registry, a watchdog and an agent.
    pub async fn start() -> Self {
        Self::start_with(|options| options).await
    }

    /// The same, changed by `change`.
    pub async fn start_with(change: impl FnOnce(Options) -> Options) -> Self {
        service::runtime::install_crypto();
        let folder = TempFolder::create("cell").expect("a temporary folder");
        let stack = Stack::start(change(Options::for_tests(folder.path()))).await;
        let stack = stack
            .unwrap_or_else(|error| panic!("the cell does not start: {}", service::runtime::chain(&error)));
        let endpoints = stack.endpoints();
        let token = std::fs::read_to_string(&endpoints.admin_token_file).expect("the administrator's token");
        Self { api: Api::new(&endpoints.registry.rest, token.trim()), stack, folder }
    }

    /// The stack's folder.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// One statement by psql, for looking at what is stored; columns are separated by `|`.
    pub async fn sql(&mut self, statement: &str) -> String {
        let statement = format!("SET search_path = main; {statement}");
        let answer = self.stack.postgres().psql("postgres", &statement).await;
        let answer =
            answer.unwrap_or_else(|error| panic!("{statement}: {}", service::runtime::chain(&error)));
        answer.trim().trim_start_matches("SET").trim().to_owned()
    }

    /// A number from the database.
    pub async fn count(&mut self, statement: &str) -> i64 {
        let answer = self.sql(statement).await;
        answer.parse().unwrap_or_else(|_| panic!("{statement} answered {answer:?}"))
    }

    /// The name and revision of the ticker that leads, once one does and the ledger has a place for today's runs.
    pub async fn leader(&self) -> (String, i64) {
        wait_for(PATIENCE, "a leading ticker", async || {
            let status = self.api.get("/v1/status").await.ok()?;
            if status["ledger"]["days"].as_i64().unwrap_or(0) < 1 {
                return None;
            }
            let leader = &status["ticker"]["leader"];
            let revision = leader["revision"].as_str()?.parse().ok()?;
            Some((leader["name"].as_str()?.to_owned(), revision))
        })
        .await
    }

    /// Everything that a service has logged.
    pub fn log(&mut self, name: &str) -> String {
        let path = self.stack.service(name).expect("a service of the cell").log().to_owned();
        std::fs::read_to_string(path).expect("its log")
    }

    /// A metric of a service by the beginning of its line, summed over its labels; zero when it has none.
    pub async fn metric(&mut self, service: &str, beginning: &str) -> f64 {
        let http = self.stack.service(service).expect("a service").endpoint("http").expect("its address");
        let text =
            reqwest::get(format!("{http}/metrics")).await.expect("an answer").text().await.expect("text");
        let lines = text.lines().filter(|line| line.starts_with(beginning));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Runs the command line as a user would, with the two environment variables.
    pub fn escapement(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the command line starts")
    }

    /// The same, not yet started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let endpoints = self.stack.endpoints();
        let token = std::fs::read_to_string(&endpoints.admin_token_file).expect("the administrator's token");
        let program = Options::for_tests(self.folder()).binaries.join("escapement");
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("ESCAPEMENT_SERVER", &endpoints.registry.rest)
            .env("ESCAPEMENT_TOKEN", token.trim());
        command
    }

    /// What a command prints that succeeds.
    pub fn prints(&self, arguments: &[&str]) -> String {
        let output = self.escapement(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Stops everything, in order.
    pub async fn stop(self) {
        self.stack.stop().await.expect("the cell stops");
    }
}

/// The registry's REST API.
#[derive(Clone)]
pub struct Api {
    http: reqwest::Client,
    server: String,
    token: String,
}

/// An answer that is no success: its status and problem document.
#[derive(Debug)]
pub struct Refused {
    /// HTTP status; 0 when there was no answer.
    pub status: u16,
    /// The body, or the reason why there was none.
    pub problem: Value,
}

impl Api {
    /// The API at `server` for the bearer of `token`.
    pub fn new(server: &str, token: &str) -> Self {
        let http = reqwest::Client::builder().timeout(PATIENCE).build().expect("an HTTP client");
        Self::with_client(http, server, token)
    }

    /// The same, through `http`.
    pub fn with_client(http: reqwest::Client, server: &str, token: &str) -> Self {
        Self { http, server: server.to_owned(), token: token.to_owned() }
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Result<Value, Refused> {
        self.call(reqwest::Method::GET, path, None, None).await
    }

    /// POST.
    pub async fn post(&self, path: &str, body: Value) -> Result<Value, Refused> {
        self.call(reqwest::Method::POST, path, Some(body), None).await
    }

    /// POST, which may be repeated with the same `key`.
    pub async fn post_once(&self, path: &str, body: Value, key: &str) -> Result<Value, Refused> {
        self.call(reqwest::Method::POST, path, Some(body), Some(key)).await
    }

    /// PUT.
    pub async fn put(&self, path: &str, body: Value) -> Result<Value, Refused> {
        self.call(reqwest::Method::PUT, path, Some(body), None).await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> Result<Value, Refused> {
        self.call(reqwest::Method::DELETE, path, None, None).await
    }

    async fn call(
        &self,
        method: reqwest::Method,
        path: &str,
        body: Option<Value>,
        key: Option<&str>,
    ) -> Result<Value, Refused> {
        let mut request =
            self.http.request(method, format!("{}{path}", self.server)).bearer_auth(&self.token);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let unreachable = |error: reqwest::Error| Refused { status: 0, problem: json!(error.to_string()) };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let text = response.text().await.map_err(unreachable)?;
        let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if status.is_success() { Ok(value) } else { Err(Refused { status: status.as_u16(), problem: value }) }
    }

    /// Creates a job and returns it as stored.
    pub async fn create(&self, job: Value) -> Value {
        self.post("/v1/jobs", job.clone()).await.unwrap_or_else(|refused| panic!("{job}: {refused:?}"))
    }

    /// A job's runs, the latest first.
    pub async fn runs(&self, job: &str) -> Vec<Value> {
        let answer = self.get(&format!("/v1/jobs/{job}/runs?pageSize=1000")).await;
        let mut answer = answer.unwrap_or_else(|refused| panic!("runs of {job}: {refused:?}"));
        match answer["runs"].take() {
            Value::Array(runs) => runs,
            other => panic!("runs of {job}: {other}"),
        }
    }

    /// Waits until at least `count` of a job's runs are in `state`; returns those, the earliest first.
    pub async fn wait_for_runs(&self, job: &str, state: &str, count: usize) -> Vec<Value> {
        wait_for(PATIENCE, &format!("{count} runs of {job} in state {state}"), async || {
            let mut runs = self.runs(job).await;
            runs.retain(|run| run["state"] == state);
            runs.reverse();
            (runs.len() >= count).then_some(runs)
        })
        .await
    }
}

/// The shortest sound job: every second, a process that does nothing.
pub fn job(name: &str, schedule: &str, run: Value) -> Value {
    json!({ "name": name, "schedule": schedule, "maxRuntime": "60s", "run": run })
}

/// A process that does nothing.
pub fn noop() -> Value {
    json!({ "exec": { "argv": ["true"] } })
}

/// A line for the shell.
pub fn shell(line: &str) -> Value {
    json!({ "exec": { "shell": line } })
}

/// An instant of a run.
pub fn instant(run: &Value, field: &str) -> DateTime<Utc> {
    let text = run[field].as_str().unwrap_or_else(|| panic!("{field} is missing in {run}"));
    text.parse().unwrap_or_else(|_| panic!("{field} is {text:?}"))
}

/// A run's token as a number.
pub fn token(run: &Value) -> i64 {
    let text = run["token"].as_str().unwrap_or_else(|| panic!("no token in {run}"));
    text.parse().unwrap_or_else(|_| panic!("token {text:?}"))
}

/// Names of all services of a role.
pub fn names(stack: &Stack, role: Role) -> Vec<String> {
    stack.of(role).map(|service| service.name().to_owned()).collect()
}
