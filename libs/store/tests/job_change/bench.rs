//! One job in a cell of its own, and the rows that planners and claims would write for it.

use crate::support::Cell;
use chrono::{DateTime, TimeDelta, Utc};
use model::ids::{JobId, RunKey, TenantId};
use model::job::{Alert, Definition, Handler, Misfire, Retry, Work};
use model::policy::{DstFold, DstGap, MisfirePolicy, OverlapPolicy};
use std::time::Duration;
use store::StoreError;
use store::job_change::{self, Change, Deleted, Held, New, Released};
use tokio_postgres::Client;

/// A sound definition with this expression.
pub fn definition(schedule: &str) -> Definition {
    Definition {
        schedule: schedule.to_owned(),
        timezone: "UTC".to_owned(),
        dst_gap: DstGap::RunAfter,
        dst_fold: DstFold::First,
        starts_at: None,
        ends_at: None,
        calendars: model::calendar::Calendars::default(),
        misfire: Misfire {
            policy: MisfirePolicy::Once,
            grace: Duration::from_secs(60),
            catch_up_limit: 1_000,
            catch_up_window: Duration::from_secs(86_400),
            catch_up_per_second: 10,
        },
        overlap: OverlapPolicy::Forbid,
        max_runtime: Duration::from_secs(3_600),
        retry: Retry {
            max_attempts: 3,
            backoff: Duration::from_secs(10),
            backoff_max: Duration::from_secs(60),
            ..Retry::default()
        },
        jitter: Duration::ZERO,
        queue: "default".to_owned(),
        priority: 0,
        labels: std::collections::BTreeMap::new(),
        alert: Alert::default(),
        run: Work::Handler(Handler { name: "h".to_owned(), payload: String::new() }),
    }
}

/// A job with cursors, in a cell with partitions around now.
pub struct Bench {
    /// The cell.
    pub cell: Cell,
    /// A look from the side.
    pub sql: Client,
    /// The job.
    pub job: JobId,
    /// The clock when it was made, in whole seconds.
    pub now: DateTime<Utc>,
}

impl Bench {
    /// A fresh one: its cursor is at 60 s from now, its watch cursor too.
    pub async fn create() -> Self {
        let cell = Cell::create().await;
        let sql = cell.connect().await;
        sql.batch_execute("SELECT esc_make_partitions(current_date - 2, current_date + 2)").await.unwrap();
        let job = JobId::random();
        let row = sql.query_one("SELECT date_trunc('second', esc_now()) AS now", &[]).await.unwrap();
        let bench = Self { cell, sql, job, now: row.get("now") };
        let definition = definition("* * * * *");
        let new = New {
            id: job,
            name: "invoices",
            definition: &definition,
            first: Some(bench.at(60)),
            judge_at: Some(bench.at(90)),
        };
        let mut client = bench.cell.store.client("test").await.unwrap();
        let tx = client.begin("test").await.unwrap();
        job_change::create(&tx, TenantId::DEFAULT, bench.now, "tester", &[new]).await.unwrap();
        tx.commit().await.unwrap();
        bench
    }

    /// So many seconds after the bench was made.
    pub fn at(&self, seconds: i64) -> DateTime<Utc> {
        self.now + TimeDelta::seconds(seconds)
    }

    /// The run so many seconds after the bench was made.
    pub fn key(&self, seconds: i64) -> RunKey {
        RunKey::new(self.job, self.at(seconds))
    }

    /// A row of the ledger, as the planner writes it.
    pub async fn in_ledger(&self, seconds: i64, origin: &str) {
        let sql = "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
                   VALUES ($1, $2, $3, $3, 1, 7, ($4::text)::run_origin)";
        let (tenant, at) = (TenantId::DEFAULT.0, self.at(seconds));
        self.sql.execute(sql, &[&self.job.0, &tenant, &at, &origin]).await.unwrap();
    }

    /// A row of the queue.
    pub async fn queued(&self, seconds: i64, due_after: i64, origin: &str, attempt: i32) {
        let sql = "INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, attempt, origin, exclusive, queue)
                   VALUES ($1, $2, $3, $4, 1, 0, $5, ($6::text)::run_origin, true, 'default')";
        let (tenant, at, due) = (TenantId::DEFAULT.0, self.at(seconds), self.at(seconds + due_after));
        self.sql.execute(sql, &[&self.job.0, &tenant, &at, &due, &attempt, &origin]).await.unwrap();
    }

    /// Both, as the planner writes them.
    pub async fn planned(&self, seconds: i64, due_after: i64, origin: &str) {
        self.in_ledger(seconds, origin).await;
        let due = "UPDATE run SET due_at = $3 WHERE job_id = $1 AND scheduled_for = $2";
        self.sql
            .execute(due, &[&self.job.0, &self.at(seconds), &self.at(seconds + due_after)])
            .await
            .unwrap();
        self.queued(seconds, due_after, origin, 0).await;
    }

    /// A lease of attempt 1; `session` is none between two attempts.
    pub async fn leased(&self, seconds: i64, session: Option<uuid::Uuid>) {
        let sql = "INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
                       undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
                   VALUES ($1, $2, $3, $1, $4, esc_now(), 1, 5, 0, 0, 0, 0, 1, 1, 'SCHEDULE', false, 'default')";
        let (tenant, at) = (TenantId::DEFAULT.0, self.at(seconds));
        self.sql.execute(sql, &[&self.job.0, &tenant, &session, &at]).await.unwrap();
    }

    /// A run that waits for an earlier one.
    pub async fn parked(&self, seconds: i64) {
        let sql = "INSERT INTO run_parked (job_id, tenant_id, scheduled_for, parked_at, generation, priority, origin, overlap, queue)
                   VALUES ($1, $2, $3, esc_now(), 1, 0, 'SCHEDULE', 'QUEUE', 'default')";
        let (tenant, at) = (TenantId::DEFAULT.0, self.at(seconds));
        self.sql.execute(sql, &[&self.job.0, &tenant, &at]).await.unwrap();
    }

    /// The rows of the queue that are held, in seconds after the bench was made.
    pub async fn held(&self) -> Vec<i64> {
        self.keys("(SELECT * FROM run_queue WHERE due_at = 'infinity') held").await
    }

    /// Every revision as a line: generation, action, whether it pauses or catches up, reason.
    pub async fn revisions(&self) -> Vec<String> {
        let sql = "SELECT concat_ws(' ', generation, action, CASE WHEN paused THEN 'paused' END,
                                    CASE WHEN catches_up THEN 'catches up' END, reason)
                   FROM job_revision ORDER BY generation";
        self.sql.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    /// Puts the planner's cursor so many seconds after the bench was made.
    pub async fn move_cursor(&self, seconds: i64) {
        let sql = "UPDATE job_cursor SET next_fire_at = $2 WHERE job_id = $1";
        self.sql.execute(sql, &[&self.job.0, &self.at(seconds)]).await.unwrap();
    }

    /// The job's rows of a table, in seconds after the bench was made.
    pub async fn keys(&self, table: &str) -> Vec<i64> {
        let sql = format!("SELECT scheduled_for FROM {table} WHERE job_id = $1 ORDER BY scheduled_for");
        let rows = self.sql.query(&sql, &[&self.job.0]).await.unwrap();
        rows.iter().map(|row| (row.get::<_, DateTime<Utc>>(0) - self.now).num_seconds()).collect()
    }

    /// How the run ended: state and reason.
    pub async fn end(&self, seconds: i64) -> (String, Option<String>) {
        let sql = "SELECT state::text, reason::text FROM run WHERE job_id = $1 AND scheduled_for = $2";
        let row = self.sql.query_one(sql, &[&self.job.0, &self.at(seconds)]).await.unwrap();
        (row.get(0), row.get(1))
    }

    /// Where the planner's cursor is, in seconds after the bench was made, and its generation.
    pub async fn cursor(&self) -> (Option<i64>, i64) {
        let sql = "SELECT next_fire_at, generation FROM job_cursor WHERE job_id = $1";
        let row = self.sql.query_one(sql, &[&self.job.0]).await.unwrap();
        let next: Option<DateTime<Utc>> = row.get(0);
        (next.map(|next| (next - self.now).num_seconds()), row.get(1))
    }

    /// Where the watchdog's cursor is, and when it looks.
    pub async fn watch_cursor(&self) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
        let sql = "SELECT next_at, judge_at FROM watch_cursor WHERE job_id = $1";
        let row = self.sql.query_one(sql, &[&self.job.0]).await.unwrap();
        (row.get(0), row.get(1))
    }

    /// Puts a schedule in force whose first instant is at `first`; what was taken back, and when it was in force.
    pub async fn change(
        &self,
        first: i64,
        replans: bool,
    ) -> Result<(Vec<RunKey>, DateTime<Utc>), StoreError> {
        let mut client = self.cell.store.client("test").await?;
        let tx = client.begin("test").await?;
        let locked = job_change::lock(&tx, &[self.job]).await?;
        let job = &locked.jobs[0];
        let definition = definition("*/5 * * * *");
        let change = Change {
            job: job.id,
            generation: job.generation.next(),
            name: &job.name,
            definition: &definition,
            first: Some(self.at(first)),
            replans,
            paused: false,
        };
        let removed =
            job_change::change(&tx, locked.at, "tester", job_change::Action::Changed, &[change]).await?;
        tx.commit().await?;
        Ok((removed, locked.at))
    }

    /// Deletes the job; what that did, and when.
    pub async fn delete(&self) -> Result<(Deleted, DateTime<Utc>), StoreError> {
        let mut client = self.cell.store.client("test").await?;
        let tx = client.begin("test").await?;
        let locked = job_change::lock(&tx, &[self.job]).await?;
        let deleted = job_change::delete(&tx, locked.at, "tester", &locked.jobs[0]).await?;
        tx.commit().await?;
        Ok((deleted, locked.at))
    }

    /// Pauses the job, whose first instant after that is at 120; what that did, and when.
    pub async fn pause(&self, reason: &str) -> Result<(Held, DateTime<Utc>), StoreError> {
        let mut client = self.cell.store.client("test").await?;
        let tx = client.begin("test").await?;
        let locked = job_change::lock(&tx, &[self.job]).await?;
        let (job, first) = (&locked.jobs[0], Some(self.at(120)));
        let held = job_change::pause(&tx, locked.at, "tester", job, first, reason).await?;
        tx.commit().await?;
        Ok((held, locked.at))
    }

    /// Resumes the job, whose first instant after that is at 120; what that did, and when.
    pub async fn resume(&self, catches_up: bool) -> Result<(Released, DateTime<Utc>), StoreError> {
        let mut client = self.cell.store.client("test").await?;
        let tx = client.begin("test").await?;
        let locked = job_change::lock(&tx, &[self.job]).await?;
        let (job, first) = (&locked.jobs[0], Some(self.at(120)));
        let released = job_change::resume(&tx, locked.at, "tester", job, first, catches_up).await?;
        tx.commit().await?;
        Ok((released, locked.at))
    }

    /// Returns once somebody waits for a lock in this database.
    pub async fn somebody_waits(&self) {
        let waits = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND wait_event_type = 'Lock'";
        stack::wait::wait_for(Duration::from_secs(10), "a session that waits for a lock", async || {
            let waiting: i64 = self.sql.query_one(waits, &[]).await.unwrap().get(0);
            (waiting > 0).then_some(())
        })
        .await;
    }
}
