//! Jobs, due runs, workers and an epoch, for tests of what dispatchers do with them.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code, reason = "shared by several test programs")]

use crate::support::Cell;
use chrono::{DateTime, Utc};
use model::attempt::Spent;
use model::ids::{ClaimId, DispatcherId, JobId, RunKey, SessionId, TenantId};
use model::policy::OverlapPolicy;
use model::run::{Reason, State};
use std::time::Duration;
use store::run_end::{Attempt, End};
use store::run_lease::assignment::Assignment;
use store::run_parked::Parked;
use store::run_queue::{Claimed, Request, Slot, Tenants};
use store::worker_session::Worker;
use uuid::Uuid;

/// A cell in which runs can be handed out.
pub struct Floor {
    pub cell: Cell,
    /// The other party of a race.
    pub side: tokio_postgres::Client,
    pub dispatcher: DispatcherId,
    pub start: DateTime<Utc>,
}

impl Floor {
    pub async fn create() -> Self {
        let cell = Cell::create().await;
        let side = cell.connect().await;
        let at = side
            .query_one("SELECT date_trunc('second', esc_now()) AS at, esc_make_partitions((esc_now() - interval '1 day')::date, (esc_now() + interval '1 day')::date)", &[])
            .await
            .expect("partitions");
        let floor = Self { start: at.get("at"), cell, side, dispatcher: DispatcherId::random() };
        let epoch = store::epoch::read(&floor.cell.store).await.expect("an epoch");
        assert!(store::epoch::raise(&floor.cell.store, 1, epoch.server).await.expect("raised"));
        floor
    }

    /// A job with a definition that allows two attempts and two losses.
    pub async fn job(&self) -> JobId {
        let job = JobId::random();
        let definition = r#"{"schedule": "* * * * *", "timezone": "UTC", "dst_gap": "RUN_AFTER", "dst_fold": "FIRST",
            "misfire": {"policy": "ONCE", "grace": 60000, "catch_up_limit": 10, "catch_up_window": 60000},
            "overlap": "FORBID", "max_runtime": 1000,
            "retry": {"max_attempts": 2, "backoff": 1000, "backoff_max": 1000, "max_lost": 2},
            "jitter": 0, "queue": "default", "priority": 0, "labels": {},
            "alert": {"success_within": null, "channels": [], "disabled": true},
            "run": {"handler": {"name": "x", "payload": ""}}}"#;
        let sql = "WITH job AS (INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
                VALUES ($1::uuid, $2, 1, esc_now(), esc_now(), left($1::uuid::text, 36), $3::text::jsonb))
            INSERT INTO job_revision (job_id, generation, in_force_from, action, author, definition)
            VALUES ($1, 1, esc_now(), 'CREATED', 'test', $3::text::jsonb)";
        self.side.execute(sql, &[&job.0, &TenantId::DEFAULT.0, &definition]).await.expect("a job");
        job
    }

    /// A planned run of the schedule that was due `ago` seconds ago, in the queue.
    pub async fn due(&self, job: JobId, ago: i64, exclusive: bool) -> RunKey {
        self.queued(job, ago, exclusive, "SCHEDULE", false).await
    }

    pub async fn queued(&self, job: JobId, ago: i64, exclusive: bool, origin: &str, late: bool) -> RunKey {
        let overlap = if exclusive { OverlapPolicy::Forbid } else { OverlapPolicy::Allow };
        self.queued_with(job, ago, overlap, origin, late).await
    }

    /// A planned run of the schedule that was due `ago` seconds ago, in the queue.
    pub async fn due_with(&self, job: JobId, ago: i64, overlap: OverlapPolicy) -> RunKey {
        self.queued_with(job, ago, overlap, "SCHEDULE", false).await
    }

    pub async fn queued_with(
        &self,
        job: JobId,
        ago: i64,
        overlap: OverlapPolicy,
        origin: &str,
        late: bool,
    ) -> RunKey {
        // Only manual runs lie between two seconds.
        let fraction = chrono::Duration::milliseconds(if origin == "MANUAL" { 500 } else { 0 });
        let key = RunKey::new(job, self.start - chrono::Duration::seconds(ago) - fraction);
        let sql = "WITH run AS (INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
                VALUES ($1, $2, $3, $3, 1, 1, $5::text::run_origin))
            INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, late, exclusive,
                overlap, queue)
            VALUES ($1, $2, $3, $3, 1, 0, $5::text::run_origin, $6, $4, $7::text::run_overlap, 'default')";
        self.side
            .execute(
                sql,
                &[
                    &job.0,
                    &TenantId::DEFAULT.0,
                    &key.scheduled_for,
                    &overlap.is_exclusive(),
                    &origin,
                    &late,
                    &overlap.as_str(),
                ],
            )
            .await
            .expect("a queued run");
        key
    }

    /// What was put off is due again.
    pub async fn put_off_is_over(&self) {
        let sql =
            "UPDATE run_queue SET due_at = scheduled_for WHERE due_at > esc_now() AND due_at < 'infinity'";
        self.side.execute(sql, &[]).await.expect("due");
    }

    /// What the ledger says of a run.
    pub async fn state(&self, key: RunKey) -> String {
        let sql = "SELECT state::text || coalesce('(' || reason::text || ')', '') FROM run WHERE job_id = $1 AND scheduled_for = $2";
        self.side.query_one(sql, &[&key.job_id.0, &key.scheduled_for]).await.expect("a run").get(0)
    }

    /// Parks these runs in a transaction of its own.
    pub async fn park(&self, keys: &[RunKey]) -> Parked {
        let mut client = self.cell.store.client("park").await.expect("connected");
        let tx = client.begin("park").await.expect("begun");
        let parked = store::run_parked::park(&tx, keys).await.expect("parked");
        tx.commit().await.expect("committed");
        parked
    }

    /// Ends a run as its worker's success.
    pub async fn succeed(&self, assignment: &Assignment) {
        let end = End {
            key: assignment.lease.key,
            attempt: Some(attempt(assignment)),
            state: State::Succeeded,
            reason: None,
            output: None,
        };
        assert_eq!(self.end(end).await, 1);
    }

    /// Ends a run; how many ended.
    pub async fn end(&self, end: End) -> usize {
        let mut client = self.cell.store.client("end").await.expect("connected");
        let tx = client.begin("end").await.expect("begun");
        let ended = store::run_end::end(&tx, &[end]).await.expect("answered");
        tx.commit().await.expect("committed");
        ended.len()
    }

    /// Sends a run back to the queue after a failure.
    pub async fn fail(&self, assignment: &Assignment, after: Duration) {
        let retry = store::run_lease::Retry {
            key: assignment.lease.key,
            attempt: attempt(assignment),
            state: State::Failed,
            reason: Reason::WorkFailed,
            spent: Spent { failed: 1, ..Spent::default() },
            after,
            output: None,
        };
        let mut client = self.cell.store.client("retry").await.expect("connected");
        let tx = client.begin("retry").await.expect("begun");
        assert_eq!(store::run_lease::retry(&tx, &[retry]).await.expect("retried").len(), 1);
        tx.commit().await.expect("committed");
    }

    /// A backlog of the job that has no run left.
    pub async fn backlog(&self, job: JobId) {
        let sql = "INSERT INTO catch_up (job_id, next_at, through, remaining) VALUES ($1, esc_now() - interval '1 hour', esc_now() - interval '30 minutes', 3)";
        self.side.execute(sql, &[&job.0]).await.expect("a backlog");
    }

    /// A connected worker.
    pub async fn worker(&self) -> SessionId {
        let session = SessionId::random();
        store::worker_session::insert(&self.cell.store, session, self.dispatcher, &worker())
            .await
            .expect("a session");
        session
    }

    pub fn request(&self, session: SessionId, slots: usize) -> Request {
        Request {
            claim: ClaimId::random(),
            dispatcher: self.dispatcher,
            slots: vec![Slot { session, connection: 1 }; slots],
            queues: vec!["default".to_owned()],
            tenants: Tenants::After(TenantId(Uuid::nil())),
            floor: DateTime::UNIX_EPOCH,
            latest: None,
            quantum: 1_000,
        }
    }

    pub async fn claim(&self, session: SessionId, slots: usize) -> Claimed {
        store::run_queue::claim(&self.cell.store, &self.request(session, slots)).await.expect("a claim")
    }

    /// The one run that a claim is expected to take.
    pub async fn claim_one(&self, session: SessionId) -> Assignment {
        let claimed = self.claim(session, 1).await;
        assert_eq!(claimed.assignments.len(), 1, "{claimed:?}");
        claimed.assignments.into_iter().next().expect("one")
    }

    /// One value of one row.
    pub async fn one<T: for<'a> tokio_postgres::types::FromSql<'a>>(&self, sql: &str) -> T {
        self.side.query_one(sql, &[]).await.expect("one row").get(0)
    }

    /// Waits until a backend waits for a lock.
    pub async fn someone_waits(&self) {
        self.so_many_wait(1).await;
    }

    /// Waits until so many backends wait for locks.
    pub async fn so_many_wait(&self, count: i64) {
        stack::wait::wait_for(Duration::from_secs(5), "sessions that wait for a lock", async || {
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
            (self.one::<i64>(sql).await >= count).then_some(())
        })
        .await;
    }
}

pub fn worker() -> Worker {
    Worker {
        name: "w".to_owned(),
        version: "1".to_owned(),
        queues: vec!["default".to_owned()],
        slots: 100,
        tenant: None,
    }
}

/// The attempt that an assignment stands for.
pub fn attempt(assignment: &Assignment) -> Attempt {
    assignment.lease.named()
}
