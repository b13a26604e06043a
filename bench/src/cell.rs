//! The cell that is measured: a stack on disk, workers, and as many alike jobs as asked for.
//!
//! One job is made through the API; the others are copies of its rows, in the database, because making tens of
//! thousands is not what is measured. The registry is stopped then. PostgreSQL syncs each commit, as in production.

use anyhow::{Context, anyhow, bail};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use stack::dev::{Options, RegistryEndpoint, Role, Stack};
use stack::process::{ManagedChild, Spec};
use stack::testkit::TempFolder;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The handler's name.
pub const HANDLER: &str = "nothing";
/// The queue of all jobs.
pub const QUEUE: &str = "bench";
/// Runs at a time of each worker, the most that a dispatcher grants.
const SLOTS: usize = 10_000;
const WORKERS: usize = 4;
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// For what has to happen before and after the load.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// What a server for this would be given, and nothing about safety.
const POSTGRES: [(&str, &str); 2] = [("shared_buffers", "1GB"), ("max_wal_size", "4GB")];

/// See the module.
pub struct Cell {
    stack: Stack,
    workers: Vec<ManagedChild>,
    notes: Vec<PathBuf>,
    /// The registry is only there while jobs are made.
    registry_stopped: bool,
    folder: TempFolder,
}

/// The jobs to be made.
pub struct Jobs<'a> {
    /// How many.
    pub count: u32,
    /// Of how many tenants.
    pub tenants: u32,
    /// Of each.
    pub schedule: &'a str,
    /// Of each: `FORBID`, or `ALLOW`.
    pub overlap: &'a str,
    /// The first occurrence.
    pub first: DateTime<Utc>,
}

impl Cell {
    /// Starts it: one ticker, two dispatchers, a registry.
    pub async fn start(statements: bool, change: impl FnOnce(Options) -> Options) -> anyhow::Result<Self> {
        let folder = TempFolder::create("bench")?;
        let mut options = Options::durable(folder.path());
        (options.tickers, options.watchdogs, options.agents) = (1, 0, 0);
        options.postgres.extend(POSTGRES.map(|(name, value)| (name.to_owned(), value.to_owned())));
        if statements {
            options.postgres.push(("shared_preload_libraries".to_owned(), "pg_stat_statements".to_owned()));
        }
        let mut stack =
            Stack::start(change(options)).await.map_err(|error| anyhow!(service::runtime::chain(&error)))?;
        if statements {
            stack.postgres().psql("postgres", "CREATE EXTENSION pg_stat_statements").await?;
        }
        Ok(Self { stack, workers: Vec::new(), notes: Vec::new(), registry_stopped: false, folder })
    }

    /// Starts the workers, each with another order of dispatchers.
    pub fn start_workers(&mut self) -> anyhow::Result<()> {
        let mut dispatchers: Vec<String> =
            self.stack.of(Role::Dispatcher).filter_map(|service| service.endpoint("grpc")).collect();
        for number in 1..=WORKERS {
            let notes = self.folder.path().join(format!("worker-{number}.notes"));
            let log = self.folder.path().join(format!("worker-{number}.log"));
            let spec = Spec::new(format!("worker-{number}"), std::env::current_exe()?, log)
                .args(["work", "--queue", QUEUE, "--slots", &SLOTS.to_string()])
                .args(["--name", &format!("worker-{number}"), "--dispatchers", &dispatchers.join(",")])
                .arg("--token-file")
                .arg(self.folder.path().join("worker-token"))
                .arg("--notes")
                .arg(&notes);
            self.workers.push(ManagedChild::spawn(&spec)?);
            self.notes.push(notes);
            dispatchers.rotate_left(1);
        }
        Ok(())
    }

    /// Makes jobs of no-op work, and stops the registry.
    pub async fn make(&mut self, jobs: &Jobs<'_>) -> anyhow::Result<()> {
        let template = json!({
            "name": "template", "schedule": jobs.schedule, "overlap": jobs.overlap, "queue": QUEUE,
            "run": { "handler": { "name": HANDLER } }, "misfire": { "grace": "3600s" },
        });
        self.call(reqwest::Method::POST, "/v1/jobs", Some(template)).await?;
        let (count, tenants, first) = (jobs.count, jobs.tenants.max(1), jobs.first.to_rfc3339());
        self.sql(&format!(
            "INSERT INTO tenant (id, name)
             SELECT md5('tenant-' || t)::uuid, 'bench-' || t FROM generate_series(1, {tenants}) t;
             CREATE TEMP TABLE copy AS
             SELECT md5('job-' || n)::uuid AS id, md5('tenant-' || (1 + n % {tenants}))::uuid AS tenant_id, 'bench-' || n AS name
             FROM generate_series(1, {count}) n;
             INSERT INTO job SELECT made.* FROM job j, copy c, LATERAL jsonb_populate_record(
                 j, jsonb_build_object('id', c.id, 'tenant_id', c.tenant_id, 'name', c.name)) made WHERE j.name = 'template';
             INSERT INTO job_revision SELECT made.* FROM job j JOIN job_revision r ON r.job_id = j.id, copy c,
                 LATERAL jsonb_populate_record(r, jsonb_build_object('job_id', c.id)) made WHERE j.name = 'template';
             INSERT INTO job_cursor (job_id, next_fire_at, generation) SELECT c.id, '{first}', 1 FROM copy c"
        ))
        .await?;
        self.sql("ANALYZE job, job_revision, job_cursor").await?;
        self.call(reqwest::Method::DELETE, "/v1/jobs/template", None).await?;
        let registry = self.stack.service("registry-1")?;
        registry.process().terminate(Duration::from_secs(20)).await?;
        self.registry_stopped = true;
        Ok(())
    }

    /// Where the registry answers, and an administrator's token for it.
    pub fn api(&self) -> anyhow::Result<(RegistryEndpoint, String)> {
        let endpoints = self.stack.endpoints();
        let token = std::fs::read_to_string(&endpoints.admin_token_file)?;
        Ok((endpoints.registry, token.trim().to_owned()))
    }

    async fn call(&self, method: reqwest::Method, path: &str, body: Option<Value>) -> anyhow::Result<()> {
        let (registry, token) = self.api()?;
        let mut request =
            reqwest::Client::new().request(method, format!("{}{path}", registry.rest)).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await?;
        let status = response.status();
        if !status.is_success() {
            bail!("{path} answered {status}: {}", response.text().await?);
        }
        Ok(())
    }

    /// One or more statements by psql, in one transaction.
    pub async fn sql(&mut self, statement: &str) -> anyhow::Result<String> {
        let statement = format!("SET search_path = main, public; {statement}");
        let answer = self.stack.postgres().psql("postgres", &statement).await;
        answer.map_err(|error| anyhow!(service::runtime::chain(&error)))
    }

    /// Vacuums tables, which can't be done in a transaction.
    pub async fn vacuum(&mut self, tables: &str) -> anyhow::Result<()> {
        let tables: Vec<String> = tables.split(", ").map(|table| format!("main.{table}")).collect();
        let answer =
            self.stack.postgres().psql("postgres", &format!("VACUUM ANALYZE {}", tables.join(", "))).await;
        answer.map(drop).map_err(|error| anyhow!(service::runtime::chain(&error)))
    }

    /// A number from the database.
    pub async fn count(&mut self, statement: &str) -> anyhow::Result<i64> {
        let answer = self.sql(statement).await?;
        answer.trim().parse().with_context(|| format!("{statement} answered {answer:?}"))
    }

    /// Waits until a count is reached.
    pub async fn wait_for_count(&mut self, what: &str, statement: &str, least: i64) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let count = self.count(statement).await?;
            if count >= least {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                bail!("only {count} of {least} {what} within {PATIENCE:?}");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Where the workers write what they receive.
    pub fn notes(&self) -> &[PathBuf] {
        &self.notes
    }

    /// Every process by its name.
    pub fn processes(&mut self) -> BTreeMap<String, u32> {
        let mut all: BTreeMap<String, u32> =
            [Role::Registry, Role::Ticker, Role::Dispatcher, Role::Watchdog, Role::Agent]
                .into_iter()
                .filter(|role| *role != Role::Registry || !self.registry_stopped)
                .flat_map(|role| self.stack.of(role))
                .map(|service| (service.name().to_owned(), service.pid()))
                .collect();
        all.extend(self.workers.iter().map(|worker| (worker.name().to_owned(), worker.pid())));
        all.extend(self.stack.postgres().pid().map(|pid| ("postgres".to_owned(), pid)));
        all.extend(self.stack.etcd().pid().map(|pid| ("etcd".to_owned(), pid)));
        all
    }

    /// Ends tickers, dispatchers and workers; PostgreSQL stays.
    pub async fn stop_services(&mut self) -> anyhow::Result<()> {
        for worker in &mut self.workers {
            worker.kill()?;
        }
        for name in ["ticker-1", "dispatcher-1", "dispatcher-2"] {
            self.stack.service(name)?.process().terminate(Duration::from_secs(20)).await?;
        }
        Ok(())
    }

    /// Where the database is.
    pub fn database_url(&mut self) -> String {
        self.stack.postgres().url()
    }

    /// PostgreSQL's version and the settings that matter for speed, and the machine.
    pub async fn machine(&mut self) -> anyhow::Result<Value> {
        let mut machine = crate::machine::machine();
        let settings = self
            .sql("SELECT string_agg(name || '=' || current_setting(name), ' ' ORDER BY name) FROM pg_settings WHERE name IN ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'max_wal_size')")
            .await?;
        machine["postgres"] = settings.trim().into();
        Ok(machine)
    }

    /// The statements that took longest, if they were asked for.
    pub async fn write_statements(&mut self, path: Option<&Path>) -> anyhow::Result<()> {
        let Some(path) = path else { return Ok(()) };
        let text = self
            .sql("SELECT round(total_exec_time) || ' ms, ' || calls || ' calls, ' || rows || ' rows, ' || round(total_exec_time / greatest(calls, 1)) || ' ms each: ' || left(regexp_replace(query, '\\s+', ' ', 'g'), 120) FROM pg_stat_statements ORDER BY total_exec_time DESC LIMIT 25")
            .await?;
        std::fs::write(path, text + "\n")?;
        Ok(())
    }

    /// Forgets the statements so far.
    pub async fn forget_statements(&mut self, asked: bool) -> anyhow::Result<()> {
        if asked {
            self.sql("SELECT pg_stat_statements_reset()").await?;
        }
        Ok(())
    }

    /// Stops everything that still runs.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        for worker in &mut self.workers {
            let _ = worker.kill();
        }
        Ok(self.stack.stop().await?)
    }
}

/// Sleeps until the wall clock shows `instant`.
pub async fn until(instant: DateTime<Utc>) {
    if let Ok(wait) = (instant - Utc::now()).to_std() {
        tokio::time::sleep(wait).await;
    }
}
