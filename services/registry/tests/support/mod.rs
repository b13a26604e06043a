//! A registry's process over a fresh, migrated cell on a real PostgreSQL, and callers of it.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code, reason = "shared by several test programs")]

use model::ids::TenantId;
use serde_json::{Value, json};
use stack::process::{ManagedChild, Spec};
use stack::testkit::{TempFolder, TestDatabase, shared_postgres};
use stack::wait::wait_for;
use std::time::Duration;
use store::api_token::{self, NewToken, Role};
use store::{Settings, Store};
use tonic::metadata::MetadataValue;

/// For anything that takes milliseconds unless the machine is busy.
pub const SOON: Duration = Duration::from_secs(20);

/// A running registry.
pub struct Registry {
    /// Its cell.
    pub store: Store,
    /// Where REST is.
    pub rest: String,
    /// Where gRPC is.
    pub grpc: String,
    /// A token of an administrator of the default tenant.
    pub admin: String,
    /// The process.
    pub process: ManagedChild,
    database: TestDatabase,
    folder: TempFolder,
    http: reqwest::Client,
}

impl Registry {
    /// Starts one over a fresh cell.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts one over a fresh cell, with settings as its environment has them.
    pub async fn start_with(settings_in_environment: &[(&str, &str)]) -> Self {
        service::runtime::install_crypto();
        let database = TestDatabase::create(shared_postgres().await, None).await.expect("a database");
        let settings = Settings::new(database.url(), "main", "test");
        store::migrate(&settings).await.expect("migrated");
        let store = Store::new(settings).expect("sound settings");
        let admin = token(&store, Some(TenantId::DEFAULT), Role::Admin).await;
        let folder = TempFolder::create("registry").expect("a folder");
        let (process, rest, grpc) = launch(&folder, database.url(), settings_in_environment).await;
        let registry =
            Self { store, rest, grpc, admin, process, database, folder, http: reqwest::Client::new() };
        registry.sql("SELECT esc_make_partitions(current_date - 2, current_date + 2)").await;
        registry
    }

    /// Everything that the process has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("registry.log")).expect("a log")
    }

    /// Starts the process again, after it has ended.
    pub async fn start_again(&mut self) {
        let (process, rest, grpc) = launch(&self.folder, self.database.url(), &[]).await;
        (self.process, self.rest, self.grpc) = (process, rest, grpc);
    }

    /// A new token.
    pub async fn token(&self, tenant: Option<TenantId>, role: Role) -> String {
        token(&self.store, tenant, role).await
    }

    /// Runs statements in the cell's schema; rows as lines, columns parted by `|`.
    pub async fn sql(&self, statements: &str) -> String {
        let statements = format!("SET search_path = main; SET timezone = 'UTC'; {statements}");
        shared_postgres().await.psql(self.database.name(), &statements).await.expect("sound SQL")
    }

    /// Does something while another session holds what `statement` locks.
    pub async fn while_held<T>(&self, statement: &str, doing: impl Future<Output = T>) -> T {
        let held = format!("SET search_path = main; BEGIN; {statement}; SELECT pg_sleep(600)");
        let holder = "FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()";
        let postgres = shared_postgres().await;
        let holding = async { postgres.psql(self.database.name(), &held).await.is_err() };
        let done = async {
            let is_held =
                async || (self.sql(&format!("SELECT count(*) {holder}")).await == "1").then_some(());
            wait_for(SOON, "the lock", is_held).await;
            let done = doing.await;
            self.sql(&format!("SELECT pg_terminate_backend(pid) {holder}")).await;
            done
        };
        let (was_ended, done) = tokio::join!(holding, done);
        assert!(was_ended, "the lock was given up too early");
        done
    }

    /// Waits until so many sessions wait for a lock.
    pub async fn waiting(&self, sessions: usize) {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
        let enough = async || (self.sql(waiting).await.parse::<usize>().unwrap() >= sessions).then_some(());
        wait_for(SOON, "sessions that wait", enough).await;
    }

    /// A tenant beside the default one.
    pub async fn other_tenant(&self) -> TenantId {
        let id = TenantId(uuid::Uuid::new_v4());
        self.sql(&format!("INSERT INTO tenant (id, name) VALUES ('{id}', 'other')")).await;
        id
    }

    /// One REST call: the status, and the answer's JSON.
    pub async fn call(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), reqwest::Error> {
        self.call_with(token, method, path, body, &[]).await
    }

    /// As [`Self::call`], with further headers.
    pub async fn call_with(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Result<(u16, Value), reqwest::Error> {
        let method = method.parse().expect("a method");
        let mut request = self.http.request(method, format!("{}{path}", self.rest)).bearer_auth(token);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        let text = answer.bytes().await?;
        Ok((status, serde_json::from_slice(&text).unwrap_or(Value::Null)))
    }

    /// A POST of the administrator's that may be repeated with `key`.
    pub async fn keyed(&self, path: &str, body: &Value, key: &str) -> (u16, Value) {
        let headers = [("idempotency-key", key)];
        self.call_with(&self.admin, "POST", path, Some(body), &headers).await.expect("an answer")
    }

    /// As [`Self::call`], by the administrator.
    pub async fn admin(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.call(&self.admin, method, path, body).await.expect("an answer")
    }

    /// A request of the administrator's for a gRPC client.
    pub fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        let value: MetadataValue<_> = format!("Bearer {}", self.admin).parse().expect("a header");
        request.metadata_mut().insert("authorization", value);
        request
    }

    /// An open run of the job, planned so many seconds ago and handed out to a worker; its instant.
    pub async fn opened(&self, job: &str, seconds: i64) -> String {
        let at = self.plan(job, -seconds).await;
        self.sql(&format!(
            "DELETE FROM run_queue WHERE job_id = '{job}' AND scheduled_for = '{at}';
             INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
                                    undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
                 VALUES ('{job}', '{tenant}', gen_random_uuid(), gen_random_uuid(), '{at}', esc_now(), 1, 5, 0, 0, 0, 0, 1,
                         1, 'SCHEDULE', true, 'default')",
            tenant = TenantId::DEFAULT
        ))
        .await;
        at
    }

    /// Plans the occurrence so many seconds from now as the planner does, and returns its instant.
    pub async fn plan(&self, job: &str, seconds: i64) -> String {
        let (job, at) =
            (format!("'{job}'::uuid"), format!("date_trunc('second', esc_now()) + interval '{seconds} s'"));
        let tenant = TenantId::DEFAULT;
        self.sql(&format!(
            "CREATE TEMP TABLE at AS SELECT {at} AS at;
             INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
                 SELECT {job}, '{tenant}', at, at, 1, 7, 'SCHEDULE' FROM at;
             INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
                 SELECT {job}, '{tenant}', at, at, 1, 0, 'SCHEDULE', true, 'default' FROM at;
             SELECT to_char(at, 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') FROM at"
        ))
        .await
    }
}

async fn token(store: &Store, tenant: Option<TenantId>, role: Role) -> String {
    let secret = api_token::new_secret().expect("randomness");
    let name = role.as_str().to_lowercase();
    api_token::create(store, NewToken { tenant, name: &name, role, secret: &secret }).await.expect("stored");
    secret
}

async fn launch(
    folder: &TempFolder,
    database_url: &str,
    environment: &[(&str, &str)],
) -> (ManagedChild, String, String) {
    let endpoints = folder.path().join("endpoints.json");
    let _ = std::fs::remove_file(&endpoints);
    let program = env!("CARGO_BIN_EXE_escapement-registry");
    let spec = Spec::new("registry", program, folder.path().join("registry.log"))
        .clear_env()
        .env("ESCAPEMENT_DATABASE_URL", database_url)
        .arg("--endpoints-file")
        .arg(&endpoints);
    let spec = environment.iter().fold(spec, |spec, (name, value)| spec.env(*name, *value));
    let mut process = ManagedChild::spawn(&spec).expect("a process");
    let text = wait_for(SOON, "the registry's endpoints", async || {
        let ended = process.exited().expect("a state");
        assert!(ended.is_none(), "the registry ended: {}", process.log_tail());
        std::fs::read_to_string(&endpoints).ok()
    })
    .await;
    let endpoints: Value = serde_json::from_str(&text).expect("JSON");
    let of = |name: &str| endpoints[name].as_str().expect("an address").to_owned();
    (process, of("rest"), of("grpc"))
}

/// A sound job.
pub fn job(name: &str) -> Value {
    json!({
        "name": name,
        "schedule": "0 9 * * 1-5",
        "timezone": "Europe/Berlin",
        "run": { "http": { "url": "http://127.0.0.1:1/invoices" } },
    })
}

/// `object` with `fields` over it.
pub fn with(mut object: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { panic!("an object") };
    for (name, value) in fields {
        object[name] = value;
    }
    object
}

/// The fields that a problem names.
pub fn wrong_fields(problem: &Value) -> Vec<String> {
    let errors = problem["errors"].as_array().cloned().unwrap_or_default();
    errors.iter().map(|error| error["field"].as_str().expect("a field").to_owned()).collect()
}
