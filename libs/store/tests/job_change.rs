//! Changing and deleting jobs: what is taken back, what stays, and who wins when a planner or a claim is in between.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use chrono::{DateTime, TimeDelta, Utc};
use model::ids::{Generation, JobId, RunKey, TenantId};
use model::job::{Alert, Definition, Handler, Misfire, Retry, Work};
use model::policy::{DstFold, DstGap, MisfirePolicy, OverlapPolicy};
use std::time::Duration;
use store::job_change::{self, Change, Deleted, New};
use store::{StoreError, job};
use support::Cell;
use tokio_postgres::Client;

fn definition(schedule: &str) -> Definition {
    Definition {
        schedule: schedule.to_owned(),
        timezone: "UTC".to_owned(),
        dst_gap: DstGap::RunAfter,
        dst_fold: DstFold::First,
        misfire: Misfire {
            policy: MisfirePolicy::Once,
            grace: Duration::from_secs(60),
            catch_up_limit: 1_000,
            catch_up_window: Duration::from_secs(86_400),
        },
        overlap: OverlapPolicy::Forbid,
        max_runtime: Duration::from_secs(3_600),
        retry: Retry {
            max_attempts: 3,
            backoff: Duration::from_secs(10),
            backoff_max: Duration::from_secs(60),
            max_lost: 3,
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
struct Bench {
    cell: Cell,
    sql: Client,
    job: JobId,
    /// The clock when it was made, in whole seconds.
    now: DateTime<Utc>,
}

impl Bench {
    async fn create() -> Self {
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
    fn at(&self, seconds: i64) -> DateTime<Utc> {
        self.now + TimeDelta::seconds(seconds)
    }

    fn key(&self, seconds: i64) -> RunKey {
        RunKey::new(self.job, self.at(seconds))
    }

    /// A row of the ledger, as the planner writes it.
    async fn in_ledger(&self, seconds: i64, origin: &str) {
        let sql = "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
                   VALUES ($1, $2, $3, $3, 1, 7, ($4::text)::run_origin)";
        let (tenant, at) = (TenantId::DEFAULT.0, self.at(seconds));
        self.sql.execute(sql, &[&self.job.0, &tenant, &at, &origin]).await.unwrap();
    }

    async fn queued(&self, seconds: i64, due_after: i64, origin: &str, attempt: i32) {
        let sql = "INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, attempt, origin, exclusive, queue)
                   VALUES ($1, $2, $3, $4, 1, 0, $5, ($6::text)::run_origin, true, 'default')";
        let (tenant, at, due) = (TenantId::DEFAULT.0, self.at(seconds), self.at(seconds + due_after));
        self.sql.execute(sql, &[&self.job.0, &tenant, &at, &due, &attempt, &origin]).await.unwrap();
    }

    async fn planned(&self, seconds: i64, due_after: i64, origin: &str) {
        self.in_ledger(seconds, origin).await;
        self.queued(seconds, due_after, origin, 0).await;
    }

    /// A lease of attempt 1; `session` is none between two attempts.
    async fn leased(&self, seconds: i64, session: Option<uuid::Uuid>) {
        let sql = "INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
                       undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
                   VALUES ($1, $2, $3, $1, $4, esc_now(), 1, 5, 0, 0, 0, 0, 1, 1, 'SCHEDULE', false, 'default')";
        let (tenant, at) = (TenantId::DEFAULT.0, self.at(seconds));
        self.sql.execute(sql, &[&self.job.0, &tenant, &session, &at]).await.unwrap();
    }

    async fn keys(&self, table: &str) -> Vec<i64> {
        let sql = format!("SELECT scheduled_for FROM {table} WHERE job_id = $1 ORDER BY scheduled_for");
        let rows = self.sql.query(&sql, &[&self.job.0]).await.unwrap();
        rows.iter().map(|row| (row.get::<_, DateTime<Utc>>(0) - self.now).num_seconds()).collect()
    }

    /// How the run ended: state and reason.
    async fn end(&self, seconds: i64) -> (String, Option<String>) {
        let sql = "SELECT state::text, reason::text FROM run WHERE job_id = $1 AND scheduled_for = $2";
        let row = self.sql.query_one(sql, &[&self.job.0, &self.at(seconds)]).await.unwrap();
        (row.get(0), row.get(1))
    }

    async fn cursor(&self) -> (Option<i64>, i64) {
        let sql = "SELECT next_fire_at, generation FROM job_cursor WHERE job_id = $1";
        let row = self.sql.query_one(sql, &[&self.job.0]).await.unwrap();
        let next: Option<DateTime<Utc>> = row.get(0);
        (next.map(|next| (next - self.now).num_seconds()), row.get(1))
    }

    async fn watch_cursor(&self) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
        let sql = "SELECT next_at, judge_at FROM watch_cursor WHERE job_id = $1";
        let row = self.sql.query_one(sql, &[&self.job.0]).await.unwrap();
        (row.get(0), row.get(1))
    }

    /// Puts a schedule in force whose first instant is at `first`; what was taken back, and when it was in force.
    async fn change(&self, first: i64, replans: bool) -> Result<(Vec<RunKey>, DateTime<Utc>), StoreError> {
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
        };
        let removed = job_change::change(&tx, locked.at, "tester", &[change]).await?;
        tx.commit().await?;
        Ok((removed, locked.at))
    }

    async fn delete(&self) -> Result<(Deleted, DateTime<Utc>), StoreError> {
        let mut client = self.cell.store.client("test").await?;
        let tx = client.begin("test").await?;
        let locked = job_change::lock(&tx, &[self.job]).await?;
        let deleted = job_change::delete(&tx, locked.at, "tester", &locked.jobs[0]).await?;
        tx.commit().await?;
        Ok((deleted, locked.at))
    }

    /// Returns once somebody waits for a lock in this database.
    async fn somebody_waits(&self) {
        let waits = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND wait_event_type = 'Lock'";
        stack::wait::wait_for(Duration::from_secs(10), "a session that waits for a lock", async || {
            let waiting: i64 = self.sql.query_one(waits, &[]).await.unwrap().get(0);
            (waiting > 0).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_change_takes_back_exactly_what_was_planned_after_it() {
    let bench = Bench::create().await;
    bench.planned(-30, 90, "SCHEDULE").await; // in its jitter window
    bench.planned(300, 0, "SCHEDULE").await;
    bench.planned(360, 0, "SCHEDULE").await;
    bench.planned(310, 0, "CATCH_UP").await;
    bench.in_ledger(320, "SCHEDULE").await; // between two attempts
    bench.queued(320, 10, "SCHEDULE", 1).await;
    bench.leased(320, None).await;

    let (removed, at) = bench.change(120, true).await.unwrap();

    assert_eq!(removed, [bench.key(300), bench.key(360)]);
    assert_eq!(bench.keys("run").await, [-30, 310, 320]);
    assert_eq!(bench.keys("run_queue").await, [-30, 310, 320]);
    // Its cursor was at 60 and 60 was not planned yet: the new schedule's 120 must not jump over it.
    assert_eq!(bench.cursor().await, (Some(60), 2));
    assert_eq!(bench.watch_cursor().await, (Some(bench.at(60)), Some(at)));
    let revisions =
        "SELECT generation, action, in_force_from FROM job_revision WHERE job_id = $1 ORDER BY generation";
    let rows = bench.sql.query(revisions, &[&bench.job.0]).await.unwrap();
    let revisions: Vec<(i64, String, DateTime<Utc>)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(revisions, [(1, "CREATED".to_owned(), bench.now), (2, "CHANGED".to_owned(), at)]);
}

#[tokio::test]
async fn the_cursor_goes_back_to_an_earlier_first_instant() {
    let bench = Bench::create().await;
    bench.change(20, true).await.unwrap();
    assert_eq!(bench.cursor().await, (Some(20), 2));
}

#[tokio::test]
async fn what_does_not_replan_leaves_the_plan_and_moves_the_generation() {
    let bench = Bench::create().await;
    bench.planned(300, 0, "SCHEDULE").await;
    let (removed, _) = bench.change(20, false).await.unwrap();
    assert_eq!(removed, []);
    assert_eq!(bench.keys("run_queue").await, [300]);
    assert_eq!(bench.cursor().await, (Some(60), 2));
}

#[tokio::test]
async fn a_job_that_was_not_watched_is_watched_from_the_change_on() {
    let bench = Bench::create().await;
    let unwatched = "UPDATE watch_cursor SET next_at = $2, judge_at = NULL WHERE job_id = $1";
    bench.sql.execute(unwatched, &[&bench.job.0, &bench.at(-86_400)]).await.unwrap();
    let (_, at) = bench.change(120, false).await.unwrap();
    assert_eq!(bench.watch_cursor().await, (Some(bench.at(120)), Some(at)));
}

#[tokio::test]
async fn a_run_that_a_claim_took_stays_in_the_ledger() {
    let bench = Bench::create().await;
    bench.planned(300, 0, "SCHEDULE").await;
    bench.planned(360, 0, "SCHEDULE").await;
    let claim = bench.cell.connect().await;
    claim.batch_execute("BEGIN").await.unwrap();
    let take = "DELETE FROM run_queue WHERE job_id = $1 AND scheduled_for = $2";
    claim.execute(take, &[&bench.job.0, &bench.at(300)]).await.unwrap();

    let (changed, ()) = tokio::join!(bench.change(120, true), async {
        bench.somebody_waits().await;
        claim.batch_execute("COMMIT").await.unwrap();
    });

    assert_eq!(changed.unwrap().0, [bench.key(360)]);
    assert_eq!(bench.keys("run").await, [300], "its queue row was gone, so it was released");
}

#[tokio::test]
async fn a_run_whose_claim_was_rolled_back_is_taken_back() {
    let bench = Bench::create().await;
    bench.planned(300, 0, "SCHEDULE").await;
    let claim = bench.cell.connect().await;
    claim.batch_execute("BEGIN").await.unwrap();
    claim.execute("DELETE FROM run_queue WHERE job_id = $1", &[&bench.job.0]).await.unwrap();

    let (changed, ()) = tokio::join!(bench.change(120, true), async {
        bench.somebody_waits().await;
        claim.batch_execute("ROLLBACK").await.unwrap();
    });

    assert_eq!(changed.unwrap().0, [bench.key(300)]);
    assert_eq!(bench.keys("run").await, [0_i64; 0]);
}

#[tokio::test]
async fn what_a_planner_commits_while_the_change_waits_is_seen() {
    let bench = Bench::create().await;
    let planner = bench.cell.connect().await;
    planner.batch_execute("BEGIN").await.unwrap();
    let lock = "SELECT 1 FROM job_cursor WHERE job_id = $1 FOR UPDATE";
    planner.execute(lock, &[&bench.job.0]).await.unwrap();

    let (changed, ()) = tokio::join!(bench.change(120, true), async {
        bench.somebody_waits().await;
        let insert = "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
                      VALUES ($1, $2, $3, $3, 1, 7, 'SCHEDULE')";
        let (tenant, at) = (TenantId::DEFAULT.0, bench.at(60));
        planner.execute(insert, &[&bench.job.0, &tenant, &at]).await.unwrap();
        let queue = "INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
                     VALUES ($1, $2, $3, $3, 1, 0, 'SCHEDULE', true, 'default')";
        planner.execute(queue, &[&bench.job.0, &tenant, &at]).await.unwrap();
        let advance = "UPDATE job_cursor SET next_fire_at = $2 WHERE job_id = $1";
        planner.execute(advance, &[&bench.job.0, &bench.at(180)]).await.unwrap();
        planner.batch_execute("COMMIT").await.unwrap();
    });

    assert_eq!(changed.unwrap().0, [bench.key(60)]);
    assert_eq!(bench.keys("run").await, [0_i64; 0]);
    assert_eq!(bench.cursor().await, (Some(120), 2));
}

#[tokio::test]
async fn the_moment_of_a_change_is_after_the_wait_for_its_locks() {
    let bench = Bench::create().await;
    let other = bench.cell.connect().await;
    other.batch_execute("BEGIN").await.unwrap();
    other.execute("SELECT 1 FROM job WHERE id = $1 FOR UPDATE", &[&bench.job.0]).await.unwrap();
    let (changed, released) = tokio::join!(bench.change(120, true), async {
        bench.somebody_waits().await;
        let row = other.query_one("SELECT esc_now()", &[]).await.unwrap();
        other.batch_execute("COMMIT").await.unwrap();
        row.get::<_, DateTime<Utc>>(0)
    });
    assert!(changed.unwrap().1 > released);
}

#[tokio::test]
async fn changes_of_the_same_jobs_in_any_order_do_not_deadlock() {
    let bench = Bench::create().await;
    let other = JobId::random();
    let definition = definition("* * * * *");
    let new = New {
        id: other,
        name: "reports",
        definition: &definition,
        first: Some(bench.at(60)),
        judge_at: None,
    };
    let mut client = bench.cell.store.client("test").await.unwrap();
    let tx = client.begin("test").await.unwrap();
    job_change::create(&tx, TenantId::DEFAULT, bench.now, "tester", &[new]).await.unwrap();
    tx.commit().await.unwrap();
    let hold = async |jobs: [JobId; 2]| -> Result<(), StoreError> {
        for _ in 0..50 {
            let mut client = bench.cell.store.client("test").await?;
            let tx = client.begin("test").await?;
            job_change::lock(&tx, &jobs).await?;
            tx.commit().await?;
        }
        Ok(())
    };
    let (one, two) = tokio::join!(hold([bench.job, other]), hold([other, bench.job]));
    one.and(two).expect("no deadlock");
}

#[tokio::test]
async fn a_deletion_removes_ends_and_leaves_what_it_should() {
    let bench = Bench::create().await;
    bench.planned(300, 0, "SCHEDULE").await; // after it
    bench.planned(-20, 0, "SCHEDULE").await; // due, waiting
    bench.planned(-30, 90, "SCHEDULE").await; // in its jitter window
    bench.in_ledger(-40, "SCHEDULE").await; // between two attempts
    bench.queued(-40, 60, "SCHEDULE", 1).await;
    bench.leased(-40, None).await;
    bench.in_ledger(-50, "SCHEDULE").await; // running
    bench.leased(-50, Some(uuid::Uuid::new_v4())).await;
    for seconds in [-100, -90, -80] {
        bench.in_ledger(seconds, "CATCH_UP").await; // a backlog: one is queued, two are not
    }
    bench.queued(-100, 0, "CATCH_UP", 0).await;
    let backlog = "INSERT INTO catch_up (job_id, next_at, through, remaining) VALUES ($1, $2, $3, 2)";
    bench.sql.execute(backlog, &[&bench.job.0, &bench.at(-99), &bench.at(-80)]).await.unwrap();

    let (deleted, at) = bench.delete().await.unwrap();

    assert_eq!(deleted.removed, [bench.key(300)]);
    let ended: Vec<i64> = [-100, -90, -80, -40, -30, -20].to_vec();
    assert_eq!(
        deleted.cancelled.iter().copied().collect::<Vec<_>>(),
        ended.iter().map(|s| bench.key(*s)).collect::<Vec<_>>()
    );
    for seconds in ended {
        assert_eq!(
            bench.end(seconds).await,
            ("CANCELLED".to_owned(), Some("DELETED".to_owned())),
            "{seconds}"
        );
    }
    assert_eq!(bench.end(-50).await.0, "PLANNED", "it runs, and goes on");
    assert_eq!(bench.keys("run").await, [-100, -90, -80, -50, -40, -30, -20]);
    assert_eq!(bench.keys("run_queue").await, [0_i64; 0]);
    assert_eq!(bench.keys("run_lease").await, [-50]);
    assert_eq!(bench.keys("run_outcome").await.len(), 6);
    let left = bench.sql.query("SELECT 1 FROM catch_up", &[]).await.unwrap();
    assert!(left.is_empty());
    assert_eq!(bench.cursor().await, (None, 2), "nothing is due after it");
    assert_eq!(bench.watch_cursor().await, (None, None));
    let gone = job::find(&bench.cell.store, TenantId::DEFAULT, "invoices").await.unwrap();
    assert_eq!(gone, None);
    let by_id = job::find(&bench.cell.store, TenantId::DEFAULT, &bench.job.to_string()).await.unwrap();
    let by_id = by_id.expect("its history stays readable");
    assert_eq!((by_id.deleted_at, by_id.generation), (Some(at), Generation(2)));
}

#[tokio::test]
async fn a_deletion_leaves_the_unplanned_past_to_the_planner() {
    let bench = Bench::create().await;
    let back = "UPDATE job_cursor SET next_fire_at = $2 WHERE job_id = $1";
    bench.sql.execute(back, &[&bench.job.0, &bench.at(-120)]).await.unwrap();
    let judged = "UPDATE watch_cursor SET next_at = $2, judge_at = $3 WHERE job_id = $1";
    bench.sql.execute(judged, &[&bench.job.0, &bench.at(-120), &bench.at(500)]).await.unwrap();
    bench.delete().await.unwrap();
    assert_eq!(bench.cursor().await, (Some(-120), 2));
    assert_eq!(bench.watch_cursor().await, (Some(bench.at(-120)), Some(bench.at(500))));
}

#[tokio::test]
async fn a_run_that_is_claimed_while_the_job_is_deleted_goes_on() {
    let bench = Bench::create().await;
    bench.planned(-20, 0, "SCHEDULE").await;
    let claim = bench.cell.connect().await;
    claim.batch_execute("BEGIN").await.unwrap();
    claim.execute("DELETE FROM run_queue WHERE job_id = $1", &[&bench.job.0]).await.unwrap();
    let lease = "INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
                     undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
                 VALUES ($1, $2, $1, $1, $3, esc_now(), 1, 5, 0, 0, 0, 0, 1, 1, 'SCHEDULE', true, 'default')";
    claim.execute(lease, &[&bench.job.0, &TenantId::DEFAULT.0, &bench.at(-20)]).await.unwrap();

    let (deleted, ()) = tokio::join!(bench.delete(), async {
        bench.somebody_waits().await;
        claim.batch_execute("COMMIT").await.unwrap();
    });

    assert!(deleted.unwrap().0.cancelled.is_empty());
    assert_eq!(bench.end(-20).await.0, "PLANNED");
    assert_eq!(bench.keys("run_lease").await, [-20]);
}
