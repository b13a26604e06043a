//! A migrated cell on a real PostgreSQL for each test, jobs as the registry creates them, and a hand in the database.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code, reason = "shared by several test programs")]

pub mod place;

use chrono::{DateTime, TimeDelta, Utc};
use model::ids::{HolderId, JobId, RunKey, TenantId};
use model::job::{Alert, Definition, Handler, Misfire, Retry, Work};
use model::policy::{DstFold, DstGap, MisfirePolicy, OverlapPolicy};
use model::run::{Reason, State};
use model::token::Token;
use schedule::{DateSets, Owner, Schedule};
use stack::testkit::{TestDatabase, shared_postgres};
use std::collections::BTreeMap;
use std::time::Duration;
use store::fence::{self, Raised, Role, Term};
use store::job_change::{self, Change, New};
use store::run_end::{self, Attempt, End};
use store::term::{self, Process};
use store::{Settings, Store};
use ticker::Metrics;
use ticker::dates::Dates;
use ticker::plan::{Limits, Planner, Summary};
use ticker::reach::Reach;
use ticker::upkeep::{self, Ledger};

/// For whatever a test waits for.
pub const LIMIT: Duration = Duration::from_secs(20);

/// One test's cell.
pub struct Cell {
    /// As a ticker sees it.
    pub store: Store,
    database: TestDatabase,
}

impl Cell {
    /// A fresh, migrated cell, in which nobody has led yet.
    pub async fn create() -> Self {
        Self::named("main").await
    }

    /// One with a name of its own: its place in the tests' etcd.
    pub async fn create_unique() -> Self {
        Self::named(&format!("c{}", uuid::Uuid::new_v4().simple())).await
    }

    async fn named(cell: &str) -> Self {
        let database = TestDatabase::create(shared_postgres().await, None).await.expect("a database");
        let settings = Settings::new(database.url(), cell, "test");
        store::migrate(&settings).await.expect("migrated");
        Self { store: Store::new(settings).expect("sound settings"), database }
    }

    /// Where the database is.
    pub fn url(&self) -> &str {
        self.database.url()
    }

    /// A ticker that leads with `revision`.
    pub async fn ticker(&self, revision: i64) -> Ticker {
        let limits = Limits {
            lookahead: Duration::from_secs(60),
            jobs: 500,
            occurrences_per_job: 10_000,
            occurrences: 50_000,
        };
        self.ticker_with(revision, limits).await
    }

    /// A ticker that leads with `revision` and takes on so much at once.
    pub async fn ticker_with(&self, revision: i64, limits: Limits) -> Ticker {
        let term = Term { role: Role::Ticker, revision, holder: HolderId::random() };
        assert_eq!(fence::raise(&self.store, term).await.expect("raised"), Raised::Held);
        let mut client = self.store.client("begin").await.expect("connected");
        let tx = client.begin("begin").await.expect("begun");
        let process = Process { pid: std::process::id(), name: "test", http: "http://127.0.0.1:1" };
        term::begin(&tx, term, process).await.expect("a term");
        tx.commit().await.expect("committed");
        let planner = Planner {
            store: self.store.clone(),
            term,
            limits,
            metrics: Metrics::new(),
            dates: Dates::default(),
            reach: Reach::default(),
        };
        let ledger = upkeep::ensure(&self.store, term, self.now().await).await.expect("partitions");
        Ticker { planner, ledger }
    }

    /// The cell's clock.
    pub async fn now(&self) -> DateTime<Utc> {
        store::clock::now(&self.store).await.expect("the clock")
    }

    /// Lets `seconds` pass, by the cell's clock.
    pub async fn pass(&self, seconds: i64) {
        let by = format!("UPDATE clock_shift SET shift = shift + {seconds} * interval '1 second'");
        self.execute(&by).await;
    }

    /// Sets the cell's clock.
    pub async fn set_clock(&self, at: &str) {
        self.execute(&format!("UPDATE clock_shift SET shift = '{at}'::timestamptz - clock_timestamp()"))
            .await;
    }

    /// Creates a job as the registry does.
    pub async fn create_job(&self, name: &str, definition: &Definition) -> JobId {
        self.create_job_of(TenantId::DEFAULT, name, definition).await
    }

    /// The same, of another tenant.
    pub async fn create_job_of(&self, tenant: TenantId, name: &str, definition: &Definition) -> JobId {
        let id = JobId::random();
        let mut client = self.store.client("create").await.expect("connected");
        let tx = client.begin("create").await.expect("begun");
        let at = job_change::now(&tx).await.expect("the clock");
        let first = next(definition, id, at, at);
        let new = New { id, name, definition, first, judge_at: None };
        job_change::create(&tx, tenant, at, "test", &[new]).await.expect("created");
        tx.commit().await.expect("committed");
        id
    }

    /// Changes a job as the registry does; the moment of the change.
    pub async fn change_job(&self, id: JobId, definition: &Definition) -> DateTime<Utc> {
        let mut client = self.store.client("change").await.expect("connected");
        let tx = client.begin("change").await.expect("begun");
        let locked = job_change::lock(&tx, &[id]).await.expect("locked");
        let (at, stored) = (locked.at, &locked.jobs[0]);
        let change = Change {
            job: id,
            generation: stored.generation.next(),
            name: &stored.name,
            definition,
            first: next(definition, id, stored.created_at, at),
            replans: stored.definition.replans(definition),
            paused: stored.paused.is_some(),
        };
        job_change::change(&tx, at, "test", job_change::Action::Changed, &[change]).await.expect("changed");
        tx.commit().await.expect("committed");
        at
    }

    /// Pauses a job as the registry does; the moment of the pause.
    pub async fn pause_job(&self, id: JobId) -> DateTime<Utc> {
        let mut client = self.store.client("pause").await.expect("connected");
        let tx = client.begin("pause").await.expect("begun");
        let locked = job_change::lock(&tx, &[id]).await.expect("locked");
        let stored = &locked.jobs[0];
        let first = next(&stored.definition, id, stored.created_at, locked.at);
        job_change::pause(&tx, locked.at, "test", stored, first, "a test").await.expect("paused");
        tx.commit().await.expect("committed");
        locked.at
    }

    /// Resumes a job as the registry does; the moment of it.
    pub async fn resume_job(&self, id: JobId, catches_up: bool) -> DateTime<Utc> {
        let mut client = self.store.client("resume").await.expect("connected");
        let tx = client.begin("resume").await.expect("begun");
        let locked = job_change::lock(&tx, &[id]).await.expect("locked");
        let stored = &locked.jobs[0];
        let first = next(&stored.definition, id, stored.created_at, locked.at);
        job_change::resume(&tx, locked.at, "test", stored, first, catches_up).await.expect("resumed");
        tx.commit().await.expect("committed");
        locked.at
    }

    /// Claims the one queued run of the job's backlog, as a dispatcher does, whenever it is due, and ends it.
    pub async fn work_off(&self, job: JobId) -> Option<DateTime<Utc>> {
        let client = self.store.client("claim").await.expect("connected");
        let claim = format!(
            "WITH taken AS (DELETE FROM run_queue WHERE job_id = '{job}' AND origin = 'CATCH_UP' RETURNING *) \
             INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority, \
                                    undelivered, lost, failed, attempt, connection, origin, exclusive, queue) \
             SELECT job_id, tenant_id, gen_random_uuid(), gen_random_uuid(), scheduled_for, esc_now(), generation, 1, priority, \
                    0, 0, 0, 1, 1, origin, exclusive, queue FROM taken RETURNING scheduled_for"
        );
        let rows = client.query("claim", &claim, &[]).await.expect("claimed");
        let scheduled_for: DateTime<Utc> = rows.first()?.get(0);
        assert_eq!(rows.len(), 1, "one at a time");
        drop(client);
        let token = Token::from_i64(1).expect("a token");
        let end = End {
            key: RunKey::new(job, scheduled_for),
            attempt: Some(Attempt { number: 1, token, session: None }),
            state: State::Failed,
            reason: Some(Reason::WorkFailed),
            output: None,
        };
        let mut client = self.store.client("end").await.expect("connected");
        let tx = client.begin("end").await.expect("begun");
        assert_eq!(run_end::end(&tx, &[end]).await.expect("ended").len(), 1);
        tx.commit().await.expect("committed");
        Some(scheduled_for)
    }

    /// Deletes a job as the registry does; the moment of the deletion.
    pub async fn delete_job(&self, id: JobId) -> DateTime<Utc> {
        let mut client = self.store.client("delete").await.expect("connected");
        let tx = client.begin("delete").await.expect("begun");
        let locked = job_change::lock(&tx, &[id]).await.expect("locked");
        job_change::delete(&tx, locked.at, "test", &locked.jobs[0]).await.expect("deleted");
        tx.commit().await.expect("committed");
        locked.at
    }

    /// Runs a statement.
    pub async fn execute(&self, statement: &str) {
        let client = self.store.client("execute").await.expect("connected");
        client.query("execute", statement, &[]).await.expect("executed");
    }

    /// A number that a statement says.
    pub async fn count(&self, statement: &str) -> i64 {
        let client = self.store.client("count").await.expect("connected");
        client.query("count", statement, &[]).await.expect("counted")[0].get(0)
    }

    /// A column of texts that a statement says, joined by spaces.
    pub async fn texts(&self, statement: &str) -> String {
        let client = self.store.client("ask").await.expect("connected");
        let rows = client.query("ask", statement, &[]).await.expect("asked");
        rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join(" ")
    }

    /// Occurrences, one each second after `after` through `through`, that are not exactly one of: a run, or counted as
    /// missed.
    pub async fn unaccounted(&self, job: JobId, after: DateTime<Utc>, through: DateTime<Utc>) -> i64 {
        let statement = "WITH expected AS ( \
               SELECT generate_series(date_trunc('second', $2::timestamptz) + interval '1 second', $3, interval '1 second') AS at) \
             SELECT count(*) FROM expected e \
             WHERE (SELECT count(*) FROM run r WHERE r.job_id = $1 AND r.scheduled_for = e.at) \
                 + (SELECT count(*) FROM misfire m WHERE m.job_id = $1 AND e.at BETWEEN m.first AND m.last) <> 1";
        let client = self.store.client("count").await.expect("connected");
        client.query("count", statement, &[&job.0, &after, &through]).await.expect("counted")[0].get(0)
    }

    /// How many occurrences of a job are counted as missed.
    pub async fn missed(&self, job: JobId) -> i64 {
        self.count(&format!("SELECT coalesce(sum(count), 0)::bigint FROM misfire WHERE job_id = '{job}'"))
            .await
    }
}

fn next(
    definition: &Definition,
    id: JobId,
    created_at: DateTime<Utc>,
    after: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    let owner = Owner { tenant: TenantId::DEFAULT, job: id, created_at };
    match Schedule::of_job(definition, owner, &DateSets::default()) {
        Ok(schedule) => schedule.next(after),
        Err(_) => Some(after + TimeDelta::seconds(1)), // so that a ticker finds what is wrong with it
    }
}

/// One that leads.
pub struct Ticker {
    /// What plans.
    pub planner: Planner,
    /// Where to.
    pub ledger: Ledger,
}

impl Ticker {
    /// Cycles until nothing is left over.
    pub async fn plan(&self) -> Summary {
        let mut sum = Summary::default();
        loop {
            let summary = self.planner.run_once(self.ledger, || true).await.expect("planned");
            sum += summary;
            if !sum.more {
                return sum;
            }
        }
    }

    /// Notes that a cycle was finished now.
    pub async fn mark(&self) {
        let (store, term) = (&self.planner.store, self.planner.term);
        let now = store::clock::now(store).await.expect("the clock");
        let mut client = store.client("mark").await.expect("connected");
        let tx = client.begin("mark").await.expect("begun");
        fence::hold(&tx, term).await.expect("held");
        term::mark(&tx, term, now, None).await.expect("marked");
        tx.commit().await.expect("committed");
    }
}

/// A job each second, of these policies; it does nothing.
pub fn each_second(misfire: MisfirePolicy, overlap: OverlapPolicy) -> Definition {
    Definition {
        schedule: "* * * * * *".to_owned(),
        timezone: "UTC".to_owned(),
        dst_gap: DstGap::RunAfter,
        dst_fold: DstFold::First,
        starts_at: None,
        ends_at: None,
        calendars: model::calendar::Calendars::default(),
        misfire: Misfire {
            policy: misfire,
            grace: Duration::from_secs(10),
            catch_up_limit: 30,
            catch_up_window: Duration::from_secs(7 * 86_400),
            catch_up_per_second: 10,
        },
        overlap,
        max_runtime: Duration::from_secs(60),
        retry: Retry {
            max_attempts: 1,
            backoff: Duration::from_secs(1),
            backoff_max: Duration::from_secs(1),
            ..Retry::default()
        },
        jitter: Duration::ZERO,
        queue: "default".to_owned(),
        priority: 0,
        labels: BTreeMap::new(),
        alert: Alert::default(),
        run: Work::Handler(Handler { name: "nothing".to_owned(), payload: String::new() }),
    }
}
