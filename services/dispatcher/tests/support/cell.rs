//! A cell in a database of its own: jobs and due runs behind the dispatchers' backs, and what the ledger says of them.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code, reason = "shared by several test programs")]

use chrono::{DateTime, Utc};
use model::ids::{JobId, RunKey, TenantId};
use model::policy::OverlapPolicy;
use stack::postgres::Postgres;
use stack::testkit::{TempFolder, TestDatabase, shared_etcd, shared_postgres};
use stack::wait::wait_for;
use std::time::Duration;
use store::api_token::{self, NewToken, Role};
use store::{Settings, Store};

/// Longer than anything here takes.
pub const LIMIT: Duration = Duration::from_secs(20);

/// A cell.
pub struct Cell {
    pub store: Store,
    pub secret: String,
    pub start: DateTime<Utc>,
    pub name: String,
    pub url: String,
    pub folder: TempFolder,
}

impl Cell {
    pub async fn create() -> Self {
        Self::on(shared_postgres().await).await
    }

    /// On a server of the test's own, which it may stop.
    pub async fn on(server: &Postgres) -> Self {
        let database = TestDatabase::create(server, None).await.expect("a database");
        // etcd is shared by the tests of a process: a cell of its own keeps their marks apart.
        let name = format!("t{}", &uuid::Uuid::new_v4().simple().to_string()[..12]);
        let settings = Settings::new(database.url(), &name, "test");
        store::migrate(&settings).await.expect("migrated");
        let store = Store::new(settings).expect("sound settings");
        let sql = "SELECT date_trunc('second', esc_now()) AS at, \
            esc_make_partitions((esc_now() - interval '1 day')::date, (esc_now() + interval '1 day')::date)";
        let client = store.client("make partitions").await.expect("connected");
        let start = client.query("make partitions", sql, &[]).await.expect("partitions")[0].get("at");
        let secret = api_token::new_secret().expect("randomness");
        let token = NewToken { tenant: None, name: "worker", role: Role::Worker, secret: &secret };
        api_token::create(&store, token).await.expect("a token");
        let folder = TempFolder::create("dispatcher").expect("a folder");
        Self { store, secret, start, name, url: database.url().to_owned(), folder }
    }

    /// A client of the cell's keys in etcd.
    pub async fn etcd(&self) -> election::Client {
        let config = election::Config {
            endpoints: shared_etcd().await.endpoints(),
            cell: self.name.clone(),
            lease_ttl: Duration::from_secs(5),
            credentials: None,
            tls: election::Tls::default(),
        };
        election::Client::connect(&config).await.expect("connected")
    }

    /// A job whose runs may fail twice, with `max_runtime` in milliseconds.
    pub async fn job(&self, max_runtime: u32) -> JobId {
        let job = JobId::random();
        let definition = format!(
            r#"{{"schedule": "* * * * *", "timezone": "UTC", "dst_gap": "RUN_AFTER", "dst_fold": "FIRST",
            "misfire": {{"policy": "ONCE", "grace": 60000, "catch_up_limit": 10, "catch_up_window": 60000}},
            "overlap": "FORBID", "max_runtime": {max_runtime},
            "retry": {{"max_attempts": 2, "backoff": 100, "backoff_max": 100, "max_lost": 3}},
            "jitter": 0, "queue": "default", "priority": 0, "labels": {{}},
            "alert": {{"success_within": null, "channels": [], "disabled": true}},
            "run": {{"handler": {{"name": "x", "payload": ""}}}}}}"#
        );
        let sql = "WITH job AS (INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
                VALUES ($1::uuid, $2, 1, esc_now(), esc_now(), left($1::uuid::text, 36), $3::text::jsonb))
            INSERT INTO job_revision (job_id, generation, in_force_from, action, author, definition)
            VALUES ($1, 1, esc_now(), 'CREATED', 'test', $3::text::jsonb)";
        let client = self.store.client("store a job").await.expect("connected");
        client.query("store a job", sql, &[&job.0, &TenantId::DEFAULT.0, &definition]).await.expect("a job");
        job
    }

    /// A planned, exclusive run that was due `ago` seconds ago.
    pub async fn due(&self, job: JobId, ago: i64) -> RunKey {
        let key = RunKey::new(job, self.start - chrono::Duration::seconds(ago));
        let sql = "WITH run AS (INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
                VALUES ($1, $2, $3, $3, 1, 1, 'SCHEDULE'))
            INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
            VALUES ($1, $2, $3, $3, 1, 0, 'SCHEDULE', true, 'default')";
        let client = self.store.client("queue a run").await.expect("connected");
        let tenant = TenantId::DEFAULT.0;
        client.query("queue a run", sql, &[&job.0, &tenant, &key.scheduled_for]).await.expect("a queued run");
        key
    }

    /// The same with this overlap policy, queued late and so due now: claims don't look below their floor.
    pub async fn due_with(&self, job: JobId, ago: i64, overlap: OverlapPolicy) -> RunKey {
        let key = RunKey::new(job, self.start - chrono::Duration::seconds(ago));
        let sql = "WITH run AS (INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
                VALUES ($1, $2, $3, $3, 1, 1, 'SCHEDULE'))
            INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, overlap,
                queue)
            VALUES ($1, $2, $3, esc_now(), 1, 0, 'SCHEDULE', true, $4::text::run_overlap, 'default')";
        let client = self.store.client("queue a run").await.expect("connected");
        let (tenant, overlap) = (TenantId::DEFAULT.0, overlap.as_str());
        client
            .query("queue a run", sql, &[&job.0, &tenant, &key.scheduled_for, &overlap])
            .await
            .expect("a queued run");
        key
    }

    /// State and reason of a run in the ledger.
    pub async fn end(&self, key: RunKey) -> String {
        let sql = "SELECT state::text || coalesce('(' || reason::text || ')', '') FROM run WHERE job_id = $1 AND scheduled_for = $2";
        let client = self.store.client("look at a run").await.expect("connected");
        client.query("look at a run", sql, &[&key.job_id.0, &key.scheduled_for]).await.expect("a run")[0]
            .get(0)
    }

    /// The state of a run in the ledger.
    pub async fn state(&self, key: RunKey) -> String {
        let sql = "SELECT state::text FROM run WHERE job_id = $1 AND scheduled_for = $2";
        let client = self.store.client("look at a run").await.expect("connected");
        client.query("look at a run", sql, &[&key.job_id.0, &key.scheduled_for]).await.expect("a run")[0]
            .get(0)
    }

    pub async fn until_state(&self, key: RunKey, state: &str) {
        wait_for(LIMIT, state, async || (self.state(key).await == state).then_some(())).await;
    }

    /// One number.
    pub async fn count(&self, sql: &str) -> i64 {
        let client = self.store.client("count").await.expect("connected");
        client.query("count", sql, &[]).await.expect("one row")[0].get(0)
    }

    /// Waits until the number is this.
    pub async fn until_count(&self, expected: i64, what: &str, sql: &str) {
        wait_for(LIMIT, what, async || (self.count(sql).await == expected).then_some(())).await;
    }

    /// A statement behind the dispatchers' backs.
    pub async fn meddle(&self, sql: &str) {
        let client = self.store.client("meddle").await.expect("connected");
        client.query("meddle", sql, &[]).await.expect("done");
    }
}
