//! Where the play is given: a local stack, the billing database, and the programs of this example as processes.

use crate::billing::Billing;
use crate::work::{HANDLER, Order};
use anyhow::{Context, anyhow, bail};
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use serde_json::{Value, json};
use stack::dev::{Options, Role, Stack};
use stack::process::{ManagedChild, Spec};
use stack::testkit::TempFolder;
use stack::wait::try_wait_for;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longer than any step takes, on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Shorter than the defaults, in the same proportions: the second half of the play waits for leases to run out.
const DISPATCHER: &str =
    "lease_ms = 9000\nheartbeat_ms = 1000\nself_deadline_ms = 5000\nkill_grace_ms = 2000";

/// The variable with the billing database's address.
pub const BILLING_URL: &str = "BILLING_URL";

const BILLING_DATABASE: &str = "billing";

/// The stage. Dropping it ends everything on it.
pub struct Stage {
    // Dropped, and so ended, in this order.
    pub stack: Stack,
    pub billing: Billing,
    billing_url: String,
    http: reqwest::Client,
    admin_token: String,
    folder: TempFolder,
}

impl Stage {
    /// Three tickers, two dispatchers, a registry; no agent, since the workers are our own.
    pub async fn set() -> anyhow::Result<Self> {
        let folder = TempFolder::create("invoices")?;
        let options = Options { tickers: 3, agents: 0, watchdogs: 0, ..Options::for_tests(folder.path()) };
        let mut stack = Stack::start(options.setting(Role::Dispatcher, DISPATCHER)).await?;
        let postgres = stack.postgres();
        postgres.psql("postgres", &format!("CREATE DATABASE {BILLING_DATABASE}")).await?;
        let billing_url = postgres.url_of(BILLING_DATABASE);
        let billing = Billing::connect(&billing_url).await?;
        billing.prepare().await?;
        let token_file = stack.endpoints().admin_token_file;
        let admin_token = std::fs::read_to_string(&token_file)
            .with_context(|| format!("reading {}", token_file.display()))?;
        let http = reqwest::Client::builder().timeout(LIMIT).build()?;
        Ok(Self { stack, billing, billing_url, http, admin_token: admin_token.trim().to_owned(), folder })
    }

    /// A new, empty folder.
    pub fn new_folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.folder.path().join(name);
        std::fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(path)
    }

    /// Starts this program with other arguments.
    pub fn spawn(&self, name: &str, arguments: &[&str]) -> anyhow::Result<ManagedChild> {
        let program = std::env::current_exe().context("finding this program")?;
        let log = self.folder.path().join("log").join(format!("{name}.log"));
        let spec = Spec::new(name, program, log).args(arguments).env(BILLING_URL, &self.billing_url);
        Ok(ManagedChild::spawn(&spec)?)
    }

    /// Starts a worker; with a folder it pauses in the middle of each run.
    pub fn spawn_worker(&self, name: &str, pause: Option<&Path>) -> anyhow::Result<ManagedChild> {
        let token_file = self.folder.path().join("worker-token").display().to_string();
        let mut arguments = vec!["worker", "--name", name, "--token-file", &token_file];
        let dispatchers: Vec<String> =
            self.stack.of(Role::Dispatcher).filter_map(|service| service.endpoint("grpc")).collect();
        arguments.extend(dispatchers.iter().flat_map(|address| ["--dispatcher", address]));
        let pause = pause.map(|folder| folder.display().to_string());
        arguments.extend(pause.iter().flat_map(|folder| ["--pause", folder]));
        self.spawn(name, &arguments)
    }

    /// GET from the registry.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.call(reqwest::Method::GET, path, None).await
    }

    async fn call(&self, method: reqwest::Method, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
        let server = self.stack.endpoints().registry.rest;
        let mut request = self.http.request(method, format!("{server}{path}")).bearer_auth(&self.admin_token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.with_context(|| format!("asking the registry for {path}"))?;
        let status = response.status();
        let answer = response.text().await?;
        if !status.is_success() {
            bail!("the registry answered {status} for {path}: {answer}");
        }
        serde_json::from_str(&answer).with_context(|| format!("reading the registry's answer {answer:?}"))
    }

    /// Creates a job that has the invoices sent; its runs exclude each other with `FORBID`, and not with `ALLOW`.
    pub async fn create_job(
        &self,
        name: &str,
        schedule: &str,
        overlap: &str,
        order: Order,
    ) -> anyhow::Result<()> {
        let job = json!({
            "name": name,
            "schedule": schedule,
            "maxRuntime": "120s",
            // None is missed here, however slow the machine: the numbers are about doubling.
            "overlap": overlap,
            "misfire": {"policy": "CATCH_UP", "grace": "300s"},
            "alert": {"disabled": true},
            "run": {"handler": {"name": HANDLER, "payload": serde_json::to_string(&order)?}},
        });
        self.call(reqwest::Method::POST, "/v1/jobs", Some(job)).await.map(drop)
    }

    /// Deletes a job.
    pub async fn delete_job(&self, name: &str) -> anyhow::Result<()> {
        self.call(reqwest::Method::DELETE, &format!("/v1/jobs/{name}"), None).await.map(drop)
    }

    /// A job's runs, the earliest first.
    pub async fn runs(&self, job: &str) -> anyhow::Result<Vec<Value>> {
        let mut answer = self.get(&format!("/v1/jobs/{job}/runs?pageSize=1000")).await?;
        let Value::Array(mut runs) = answer["runs"].take() else { bail!("no list of runs: {answer}") };
        runs.reverse();
        Ok(runs)
    }

    /// Waits until `count` runs of a job have succeeded; returns those, the earliest first.
    pub async fn succeeded(&self, job: &str, count: usize) -> anyhow::Result<Vec<Value>> {
        let what = format!("{count} runs of {job} to succeed");
        let runs = try_wait_for(LIMIT, &what, async || {
            let mut runs = self.runs(job).await.ok()?;
            runs.retain(|run| run["state"] == "SUCCEEDED");
            (runs.len() >= count).then_some(runs)
        });
        Ok(runs.await?)
    }

    /// Which ticker leads, once one other than `not` does.
    pub async fn leader(&self, not: Option<&str>) -> anyhow::Result<String> {
        let leader = try_wait_for(LIMIT, "a leading ticker", async || {
            let status = self.get("/v1/status").await.ok()?;
            let name = status["ticker"]["leader"]["name"].as_str()?;
            (Some(name) != not).then(|| name.to_owned())
        });
        Ok(leader.await?)
    }

    /// How many writes of a former leader the fence has refused.
    pub async fn fence_refusals(&mut self, ticker: &str) -> anyhow::Result<u64> {
        let address = self.stack.service(ticker)?.endpoint("http").context("the ticker has no address")?;
        let text = self.http.get(format!("{address}/metrics")).send().await?.text().await?;
        let lines = text.lines().filter(|line| line.starts_with("escapement_fence_refusals"));
        Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
    }
}

/// A text field of the registry's answer.
pub fn text<'a>(value: &'a Value, field: &str) -> anyhow::Result<&'a str> {
    value[field].as_str().ok_or_else(|| anyhow!("{field} is missing in {value}"))
}

/// The second after next: soon, and not yet begun.
pub fn soon() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(0) + TimeDelta::seconds(2)
}

/// A schedule of that one instant.
pub fn once(at: DateTime<Utc>) -> String {
    format!("@at {}", at.format("%Y-%m-%dT%H:%M:%S"))
}
