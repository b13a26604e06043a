//! A cell on a real PostgreSQL whose clock the tests move.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code, reason = "shared by several test programs")]

mod check_in;
mod receiver;

use chrono::{DateTime, Duration, Utc};
use model::calendar::{CalendarVersion, Calendars};
use model::channel::{Accepts, Target};
use model::ids::{Generation, HolderId, JobId, TenantId};
use model::job::{Alert, Definition, Handler, Misfire, Retry, Work, defaults};
use model::policy::{DstFold, DstGap, MisfirePolicy, OverlapPolicy};
use schedule::{DateSets, Owner, Schedule};
use service::egress::{Egress, Policy};
use service::health::Health;
use stack::testkit::{TestDatabase, shared_postgres};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration as Time;
use store::alert_channel::Channel;
use store::fence::{self, Raised, Role, Term};
use store::job_change::{self, Change, New};
use store::{Settings, Store, Transaction, calendar, clock};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use watchdog::check::{self, Limits, Memory, Summary};
use watchdog::deliver::{Deliverer, Patience};

#[allow(unused_imports, reason = "not every test program has check-ins")]
pub use check_in::check_in;
#[allow(unused_imports, reason = "not every test program receives")]
pub use receiver::{Received, Receiver};

/// The answer to a question of the test's own. A macro, because services don't name the driver's types.
macro_rules! rows {
    ($cell:expr, $sql:expr $(, $param:expr)* $(,)?) => {
        $cell.store.client("test").await.expect("connected").query("test", $sql, &[$(&$param),*]).await.expect($sql)
    };
}
pub(crate) use rows;

pub const LIMITS: Limits = Limits { jobs: 100, occurrences: 1_000 };

/// Noon of the tests' day, plus so many seconds.
pub fn noon(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_953_600 + second, 0).expect("in range")
}

/// One test's cell.
pub struct Cell {
    pub store: Store,
    pub url: String,
}

impl Cell {
    /// A fresh cell in which it is noon.
    pub async fn create() -> Self {
        let database = TestDatabase::create(shared_postgres().await, None).await.expect("a database");
        let url = database.url().to_owned();
        let settings = Settings::new(url.as_str(), "main", "test");
        store::migrate(&settings).await.expect("migrated");
        let cell = Self { store: Store::new(settings).expect("sound settings"), url };
        let (from, through) = (noon(0).date_naive().pred_opt().unwrap(), noon(86_400).date_naive());
        rows!(cell, "SELECT esc_make_partitions($1, $2)", from, through);
        cell.clock_to(0).await;
        rows!(cell, "UPDATE outcome_watch SET through = $1", noon(0));
        cell
    }

    /// Moves the cell's clock to noon plus so many seconds; from there it runs on.
    pub async fn clock_to(&self, second: i64) {
        self.clock_to_millis(second * 1_000).await;
    }

    /// Stops the cell's clock at noon: it moves with [`Self::stand_at`] only, however long anything takes.
    pub async fn stop_clock(&self) {
        let stopped = "CREATE OR REPLACE FUNCTION esc_now() RETURNS timestamptz LANGUAGE sql VOLATILE \
                       AS $$ SELECT timestamptz '2026-11-29 12:00:00Z' + (SELECT shift FROM clock_shift) $$";
        rows!(self, stopped);
        self.stand_at(0).await;
    }

    /// Puts the clock that was stopped to noon plus so many milliseconds.
    pub async fn stand_at(&self, millis: i64) {
        clock::shift(&self.store, millis).await.expect("shifted");
    }

    /// As [`Self::clock_to`], in milliseconds.
    pub async fn clock_to_millis(&self, millis: i64) {
        let shift = (noon(0) + Duration::milliseconds(millis) - Utc::now()).num_milliseconds();
        clock::shift(&self.store, shift).await.expect("shifted");
    }

    /// One number.
    pub async fn number(&self, sql: &str) -> i64 {
        rows!(self, sql)[0].get(0)
    }

    /// Creates a job now, as the registry does.
    pub async fn job(&self, name: &str, definition: &Definition) -> JobId {
        let mut client = self.store.client("test").await.expect("connected");
        let tx = client.begin("test").await.expect("begun");
        let at = job_change::now(&tx).await.expect("a clock");
        let id = JobId::random();
        let first = first_after(&tx, definition, id, at, at).await;
        let judge_at = first.and_then(|first| Some(first + deadline(definition)? + Duration::seconds(3)));
        let new = New { id, name, definition, first, judge_at };
        job_change::create(&tx, TenantId::DEFAULT, at, "test", &[new]).await.expect("created");
        tx.commit().await.expect("committed");
        id
    }

    /// Changes a job now, as the registry does.
    pub async fn change(&self, job: JobId, definition: &Definition) {
        self.change_name(job, None, definition).await;
    }

    /// Changes a job and its name now, as the registry does; a paused one stays paused.
    pub async fn change_name(&self, job: JobId, name: Option<&str>, definition: &Definition) {
        let mut client = self.store.client("test").await.expect("connected");
        let tx = client.begin("test").await.expect("begun");
        let locked = job_change::lock(&tx, &[job]).await.expect("locked");
        let stored = &locked.jobs[0];
        let first = first_after(&tx, definition, job, stored.created_at, locked.at).await;
        let generation = Generation(stored.generation.0 + 1);
        let paused = stored.paused.is_some();
        let name = name.unwrap_or(&stored.name);
        let change = Change { job, generation, name, definition, first, replans: true, paused };
        job_change::change(&tx, locked.at, "test", job_change::Action::Changed, &[change])
            .await
            .expect("changed");
        tx.commit().await.expect("committed");
    }

    /// Pauses a job now, as the registry does.
    pub async fn pause(&self, job: JobId) {
        let mut client = self.store.client("test").await.expect("connected");
        let tx = client.begin("test").await.expect("begun");
        let locked = job_change::lock(&tx, &[job]).await.expect("locked");
        let stored = &locked.jobs[0];
        let first = first_after(&tx, &stored.definition, job, stored.created_at, locked.at).await;
        job_change::pause(&tx, locked.at, "test", stored, first, "").await.expect("paused");
        tx.commit().await.expect("committed");
    }

    /// Resumes a job now, as the registry does.
    pub async fn resume(&self, job: JobId, catches_up: bool) {
        let mut client = self.store.client("test").await.expect("connected");
        let tx = client.begin("test").await.expect("begun");
        let locked = job_change::lock(&tx, &[job]).await.expect("locked");
        let stored = &locked.jobs[0];
        let first = first_after(&tx, &stored.definition, job, stored.created_at, locked.at).await;
        job_change::resume(&tx, locked.at, "test", stored, first, catches_up).await.expect("resumed");
        tx.commit().await.expect("committed");
    }

    /// A version of a calendar.
    pub async fn calendar(&self, name: &str, version: i64, dates: &[&str]) -> CalendarVersion {
        rows!(
            self,
            "WITH c AS (INSERT INTO calendar (tenant_id, version, created_at, updated_at, name) \
                        VALUES ('00000000-0000-4000-8000-000000000001', $2, $4, $4, $1) \
                        ON CONFLICT (tenant_id, name) DO UPDATE SET version = $2) \
             INSERT INTO calendar_version (tenant_id, version, created_at, name, author, dates) \
             VALUES ('00000000-0000-4000-8000-000000000001', $2, $4, $1, 'test', $3::text[]::date[])",
            name,
            version,
            dates,
            noon(0)
        );
        CalendarVersion { name: name.to_owned(), version }
    }

    /// Deletes a job now, as the registry does.
    pub async fn delete(&self, job: JobId) {
        let mut client = self.store.client("test").await.expect("connected");
        let tx = client.begin("test").await.expect("begun");
        let locked = job_change::lock(&tx, &[job]).await.expect("locked");
        job_change::delete(&tx, locked.at, "test", &locked.jobs[0]).await.expect("deleted");
        tx.commit().await.expect("committed");
    }

    /// Stores a channel.
    pub async fn channel(&self, name: &str, url: &str, secret: Option<&str>) -> Uuid {
        let mut client = self.store.client("test").await.expect("connected");
        let tx = client.begin("test").await.expect("begun");
        let channel = Channel {
            id: Uuid::new_v4(),
            name: name.to_owned(),
            tenant_id: TenantId::DEFAULT,
            target: Target::Webhook { url: url.to_owned() },
            secret: secret.map(str::to_owned),
            accepts: Accepts::default(),
            system: None,
            created_at: noon(0),
        };
        let channels = std::slice::from_ref(&channel);
        store::alert_channel::insert(&tx, TenantId::DEFAULT, noon(0), channels).await.expect("stored");
        tx.commit().await.expect("committed");
        channel.id
    }

    /// Stores a channel that this release can't read.
    pub async fn channel_of_a_later_release(&self, name: &str) -> Uuid {
        let id = self.channel(name, "", None).await;
        rows!(self, "ALTER TABLE alert_channel DROP CONSTRAINT alert_channel_kind_check");
        rows!(
            self,
            "UPDATE alert_channel SET kind = 'CARRIER_PIGEON', target = '{\"loft\": 7}', accepts = '{\"severities\": [\"DIRE\"]}' \
             WHERE id = $1",
            id
        );
        id
    }

    /// A row of the ledger that ended at noon plus `finished` seconds; without that it has not ended.
    pub async fn run(
        &self,
        job: JobId,
        second: i64,
        state: &str,
        reason: Option<&str>,
        finished: Option<i64>,
    ) {
        rows!(
            self,
            "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, finished_at, generation, term, token, attempt, \
                              origin, state, reason) \
             VALUES ($1, '00000000-0000-4000-8000-000000000001', $2, $2, $3, 1, 1, 1, 1, 'SCHEDULE', \
                     $4::text::run_state, $5::text::run_reason) \
             ON CONFLICT (job_id, scheduled_for) DO UPDATE \
             SET state = excluded.state, reason = excluded.reason, finished_at = excluded.finished_at",
            job.0,
            noon(second),
            finished.map(noon),
            state,
            reason,
        );
    }

    /// As [`Self::run`], with the record of its end.
    pub async fn end(&self, job: JobId, second: i64, state: &str, reason: &str, finished: i64) {
        self.run(job, second, state, Some(reason), Some(finished)).await;
        rows!(
            self,
            "INSERT INTO run_outcome (job_id, tenant_id, scheduled_for, at, attempt, state, reason, final) \
             VALUES ($1, '00000000-0000-4000-8000-000000000001', $2, $3, 1, $4::text::run_state, $5::text::run_reason, true)",
            job.0,
            noon(second),
            noon(finished),
            state,
            reason,
        );
    }

    /// A success.
    pub async fn success(&self, job: JobId, second: i64, finished: i64) {
        self.run(job, second, "SUCCEEDED", None, Some(finished)).await;
    }

    /// Raises the watchdog's fence to this revision.
    pub async fn lead(&self, revision: i64) -> Term {
        let term = Term { role: Role::Watchdog, revision, holder: HolderId::random() };
        assert_eq!(fence::raise(&self.store, term).await.expect("raised"), Raised::Held);
        term
    }

    /// One cycle of a leader at noon plus so many seconds.
    pub async fn check(&self, term: Term, second: i64) -> Summary {
        self.clock_to(second).await;
        check::run_once(&self.store, term, LIMITS, &mut Memory::default(), || true, &|| None)
            .await
            .expect("a cycle")
    }

    /// The causes of the verdicts, in time order.
    pub async fn causes(&self) -> Vec<String> {
        let rows = rows!(self, "SELECT cause FROM verdict ORDER BY occurrence");
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Starts a delivery loop that may call this machine.
    pub fn deliver(&self, patience: Patience) -> Delivering {
        self.deliver_with(patience, Policy { loopback: true, ..Policy::default() })
    }

    /// Starts a delivery loop.
    pub fn deliver_with(&self, patience: Patience, policy: Policy) -> Delivering {
        let shutdown = CancellationToken::new();
        let deliverer = Deliverer {
            store: self.store.clone(),
            egress: Egress::new(policy, "test").expect("a client"),
            patience,
            in_flight_max: 8,
            per_channel_max: 2,
            poke: Arc::new(Notify::new()),
            metrics: watchdog::Metrics::new(),
        };
        let health = Health::new();
        let beat = health.watch("deliver", Time::from_secs(60));
        let task = tokio::spawn(deliverer.run(beat, health.condition("database"), shutdown.clone()));
        Delivering { shutdown, task }
    }
}

/// A running delivery loop.
pub struct Delivering {
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Delivering {
    /// Ends it in order.
    pub async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.expect("the loop ends");
    }

    /// Ends it as a crash does: between two instructions.
    pub fn kill(self) {
        self.task.abort();
    }
}

/// Tries that follow quickly.
pub const IMPATIENT: Patience = Patience {
    timeout: Time::from_secs(5),
    backoff: Time::from_millis(50),
    backoff_max: Time::from_millis(100),
    give_up: Time::from_secs(86_400),
};

pub fn definition(schedule: &str, within: u64) -> Definition {
    Definition {
        schedule: schedule.to_owned(),
        timezone: "UTC".to_owned(),
        dst_gap: DstGap::RunAfter,
        dst_fold: DstFold::First,
        starts_at: None,
        ends_at: None,
        calendars: Calendars::default(),
        misfire: Misfire {
            policy: MisfirePolicy::Once,
            grace: defaults::MISFIRE_GRACE,
            catch_up_limit: defaults::CATCH_UP_LIMIT,
            catch_up_window: defaults::CATCH_UP_WINDOW,
            catch_up_per_second: 10,
        },
        overlap: OverlapPolicy::Forbid,
        max_runtime: defaults::MAX_RUNTIME,
        retry: Retry {
            max_attempts: 1,
            backoff: defaults::BACKOFF,
            backoff_max: defaults::BACKOFF_MAX,
            ..Retry::default()
        },
        jitter: Time::ZERO,
        queue: defaults::QUEUE.to_owned(),
        priority: 0,
        labels: BTreeMap::new(),
        alert: Alert {
            success_within: Some(Time::from_secs(within)),
            channels: vec!["oncall".to_owned()],
            ..Alert::default()
        },
        run: Work::Handler(Handler::default()),
    }
}

fn deadline(definition: &Definition) -> Option<Duration> {
    definition.success_within().map(|within| Duration::from_std(within).expect("in range"))
}

async fn first_after(
    tx: &Transaction<'_>,
    definition: &Definition,
    job: JobId,
    created_at: DateTime<Utc>,
    after: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    let mut dates = DateSets::default();
    let named = dates.missing([(TenantId::DEFAULT, definition)]);
    for (version, days) in calendar::dates(tx, &named).await.expect("read") {
        dates.add(version, days);
    }
    let owner = Owner { tenant: TenantId::DEFAULT, job, created_at };
    Schedule::of_job(definition, owner, &dates).expect("a sound schedule").next(after)
}

/// A leadership of tickers that nobody has.
pub fn no_ticker() -> Term {
    Term { role: Role::Ticker, revision: i64::MAX, holder: HolderId(Uuid::nil()) }
}
