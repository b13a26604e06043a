//! The same statements by plain SQL: what the database alone can do.
//!
//! Two loops, one for each core, in batches of 1,000 with nothing between them: insert and queue, claim and read the
//! assignments, record start and end in one. No planner's arithmetic, no messages, no worker; each loop has a queue of its own.

use crate::cell::Cell;
use anyhow::{Context, bail, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use model::ids::{ClaimId, DispatcherId, Generation, HolderId, JobId, RunKey, SessionId, TenantId};
use model::policy::OverlapPolicy;
use model::run::{Origin, State};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use store::fence::{Role, Term};
use store::run::{New, Release};
use store::run_end::End;
use store::run_lease;
use store::run_queue::{Request, Slot, Tenants};
use store::worker_session::{self, Worker};
use store::{Settings, Store, run, run_end, run_queue};

const BATCH: usize = 1_000;
const LOOPS: usize = 2;
const LENGTH: Duration = Duration::from_secs(10);

/// Whole lives a second. `round` counts the calls: each plans an hour of its own.
///
/// # Errors
/// What the database answers.
pub async fn per_second(cell: &mut Cell, url: &str, round: usize) -> anyhow::Result<f64> {
    // What the cell has left would be claimed by nobody, and only be stepped over.
    cell.sql("TRUNCATE run_queue, run_lease").await?;
    let ids = cell
        .sql(&format!(
            "SELECT id || ' ' || tenant_id FROM job WHERE name LIKE 'bench-%' LIMIT {}",
            BATCH * LOOPS
        ))
        .await?;
    let jobs: Vec<(JobId, TenantId)> = ids
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(job, tenant)| Ok((job.parse()?, tenant.parse()?)))
        .collect::<anyhow::Result<_>>()?;
    ensure!(jobs.len() >= BATCH * LOOPS, "there are only {} jobs", jobs.len());
    let mut settings = Settings::new(url, "main", "escapement-bench");
    settings.by_index_only = true; // as dispatchers have it
    let store = Store::new(settings)?;
    let mut loops = Vec::new();
    for number in 0..LOOPS {
        let mine = jobs[number * BATCH..][..BATCH].to_vec();
        let driver = Driver::new(store.clone(), (round, number), mine).await?;
        loops.push(tokio::spawn(driver.run()));
    }
    let mut sum = 0.0;
    for running in loops {
        sum += running.await??;
    }
    store.close();
    Ok(sum)
}

struct Driver {
    store: Store,
    queue: String,
    jobs: Vec<(JobId, TenantId)>,
    slots: Vec<Slot>,
    dispatcher: DispatcherId,
    /// No row is due before.
    floor: DateTime<Utc>,
    /// The next second to be planned, long past and not one of the cell's.
    next: DateTime<Utc>,
}

impl Driver {
    async fn new(
        store: Store,
        (round, number): (usize, usize),
        jobs: Vec<(JobId, TenantId)>,
    ) -> anyhow::Result<Self> {
        let (session, dispatcher, queue) =
            (SessionId::random(), DispatcherId::random(), format!("limit-{number}"));
        let worker = Worker {
            name: queue.clone(),
            version: String::new(),
            queues: vec![queue.clone()],
            slots: i32::try_from(BATCH)?,
            tenant: None,
        };
        worker_session::insert(&store, session, dispatcher, &worker).await?;
        let now = Utc::now();
        let today = now.date_naive().and_hms_opt(0, 0, 0).context("midnight")?.and_utc();
        // Tomorrow's partition, which the cell has made and not touched.
        let next = today + TimeDelta::days(1) + TimeDelta::hours(i64::try_from(round)?);
        let slots = vec![Slot { session, connection: 1 }; BATCH];
        Ok(Self { store, queue, jobs, slots, dispatcher, floor: now - TimeDelta::seconds(10), next })
    }

    async fn run(mut self) -> anyhow::Result<f64> {
        let began = Instant::now();
        let mut lives = 0;
        while began.elapsed() < LENGTH {
            lives += self.one().await?;
        }
        Ok(lives as f64 / began.elapsed().as_secs_f64())
    }

    async fn one(&mut self) -> anyhow::Result<usize> {
        let due = Utc::now() - TimeDelta::milliseconds(1);
        let mut keys: Vec<_> =
            self.jobs.iter().map(|(job, tenant)| (RunKey::new(*job, self.next), *tenant)).collect();
        keys.sort_unstable();
        self.next += TimeDelta::seconds(1);
        let release =
            Release { at: due, start_by: Some(due + TimeDelta::hours(1)), late: false, held: false };
        let new = keys.iter().map(|(key, tenant)| New {
            key: *key,
            tenant_id: *tenant,
            generation: Generation::FIRST,
            origin: Origin::Schedule,
            due_at: due,
            release: Some(release),
            queue: &self.queue,
            priority: 0,
            overlap: OverlapPolicy::Allow,
        });
        let term = Term { role: Role::Ticker, revision: 1, holder: HolderId::random() };
        let mut client = self.store.client("plan").await?;
        let tx = client.begin("plan").await?;
        let inserted = run::insert(&tx, term, None, &new.collect::<Vec<_>>()).await?;
        tx.commit().await?;
        drop(client);
        ensure!(inserted.queued == BATCH as i64, "{} runs were queued", inserted.queued);
        let claimed = run_queue::claim(&self.store, &self.request()).await?;
        if claimed.assignments.len() != BATCH {
            bail!("{} runs were claimed", claimed.assignments.len());
        }
        let mut leases: Vec<_> = claimed.assignments.iter().map(|it| &it.lease).collect();
        leases.sort_unstable_by_key(|lease| lease.key);
        let keys: Vec<RunKey> = leases.iter().map(|lease| lease.key).collect();
        // As dispatchers record what ends as soon as it has started.
        let begun: BTreeMap<_, _> = keys.iter().map(|key| (*key, Duration::ZERO)).collect();
        let ends: Vec<_> = leases
            .iter()
            .map(|lease| End {
                key: lease.key,
                attempt: Some(lease.named()),
                state: State::Succeeded,
                reason: None,
                output: None,
            })
            .collect();
        let mut client = self.store.client("record").await?;
        let tx = client.begin("record").await?;
        let _ = run_lease::lock(&tx, &keys, Duration::ZERO).await?;
        let ended = run_end::end_begun(&tx, &ends, &begun).await?;
        tx.commit().await?;
        ensure!(ended.len() == BATCH, "{} runs ended", ended.len());
        Ok(BATCH)
    }

    fn request(&self) -> Request {
        Request {
            claim: ClaimId::random(),
            dispatcher: self.dispatcher,
            slots: self.slots.clone(),
            queues: vec![self.queue.clone()],
            tenants: Tenants::After(TenantId(uuid::Uuid::nil())),
            floor: self.floor,
            quantum: BATCH as i64,
            latest: None,
        }
    }
}
