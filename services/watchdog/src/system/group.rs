//! One cause, one page: jobs whose missing success a trouble of the system explains are told as one.
//!
//! Invariants: each such job's alert is opened as ever, for its history, and says which alert tells of it; a channel hears
//! of a group once, with how many jobs, five of them and the cause; and not at all while it knows of the trouble itself.
//! When the trouble is over and some of its jobs still have no success, a channel that was spared is told of these. A
//! group is resolved as one, when the trouble has been over for a minute and all of its jobs' alerts are resolved: what it
//! made late is judged until then, and belongs to it.

use super::watch::Settings;
use super::words;
use super::write::to;
use chrono::{DateTime, Utc};
use model::alert::{Cause, Kind};
use model::ids::{JobId, TenantId};
use model::run::Reason;
use model::system_health::{Trouble, explain};
use std::collections::{BTreeMap, BTreeSet};
use store::alert_delivery::{self, Event};
use store::alert_group::{self, Due, More};
use store::fence::{self, Term};
use store::{Store, StoreError, Transaction, alert_life};
use uuid::Uuid;

/// Channels that one look tells.
const CHANNELS_MAX: i64 = 1_000;

/// Examples that a group keeps for each channel.
const EXAMPLES_MAX: usize = 5;

/// A job without success, as far as a group is concerned.
#[derive(Debug, Clone, Copy)]
pub struct Missing<'a> {
    /// The job.
    pub job: JobId,
    /// Its tenant.
    pub tenant: TenantId,
    /// The queue in which its runs wait.
    pub queue: &'a str,
    /// Why it has no success.
    pub cause: Cause,
    /// Why its run ended, if it has.
    pub reason: Option<Reason>,
    /// Its alert is not open yet, and would be told: with its group, if a trouble explains it.
    pub opens: bool,
}

/// The jobs that a trouble of the system explains.
#[derive(Debug, Clone, Default)]
pub struct Explained {
    by: BTreeMap<JobId, Option<Uuid>>,
}

impl Explained {
    /// Whether a trouble explains this job.
    pub fn has(&self, job: JobId) -> bool {
        self.by.contains_key(&job)
    }

    /// The alert that tells of this job, if its own opens now.
    pub fn by(&self, job: JobId) -> Option<Uuid> {
        self.by.get(&job).copied().flatten()
    }
}

/// Which of these jobs a trouble explains that is known to be open; for missing successes only. A group is opened by jobs
/// whose alerts open: one of jobs that were told of before would stand for nobody.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn find(
    tx: &Transaction<'_>,
    kind: Kind,
    missing: &[Missing<'_>],
) -> Result<Explained, StoreError> {
    if kind != Kind::NoSuccess || missing.is_empty() {
        return Ok(Explained::default());
    }
    let open = alert_group::causes(tx).await?;
    if open.is_empty() {
        return Ok(Explained::default());
    }
    let tenants: BTreeSet<_> = missing.iter().map(|missing| missing.tenant).collect();
    let tenants: Vec<_> = tenants.into_iter().collect();
    let names = alert_group::tenants(tx, &tenants).await?;
    let explained: BTreeMap<JobId, (TenantId, Trouble)> = missing
        .iter()
        .filter_map(|missing| {
            let tenant = names.get(&missing.tenant)?;
            Some((
                missing.job,
                (missing.tenant, explain(missing.cause, missing.reason, tenant, missing.queue, &open)?),
            ))
        })
        .collect();
    let opens: BTreeSet<_> =
        missing.iter().filter(|missing| missing.opens).map(|missing| missing.job).collect();
    let gathered = explained.iter().filter(|(job, _)| opens.contains(job));
    let groups: BTreeSet<_> = gathered.map(|(_, group)| *group).collect();
    let alerts = alert_group::raise(tx, &groups).await?;
    let alert = |(job, group)| (job, alerts.get(&group).copied().filter(|_| opens.contains(&job)));
    Ok(Explained { by: explained.into_iter().map(alert).collect() })
}

/// A job's alert that was opened and is told with its group.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// The alert that tells of it.
    pub group: Uuid,
    /// The job's name.
    pub name: &'a str,
    /// The occurrence without success.
    pub occurrence: DateTime<Utc>,
    /// The channels that would be told of it.
    pub channels: &'a BTreeSet<Uuid>,
}

/// Adds members to their groups.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn add(tx: &Transaction<'_>, members: &[Member<'_>]) -> Result<(), StoreError> {
    if members.is_empty() {
        return Ok(());
    }
    let mut sizes: BTreeMap<Uuid, i64> = BTreeMap::new();
    let mut more: BTreeMap<(Uuid, Uuid), More> = BTreeMap::new();
    for member in members {
        *sizes.entry(member.group).or_default() += 1;
        for channel in member.channels {
            let more = more.entry((member.group, *channel)).or_insert_with(|| More {
                alert: member.group,
                channel: *channel,
                count: 0,
                examples: Vec::new(),
            });
            more.count += 1;
            if more.examples.len() < EXAMPLES_MAX {
                more.examples.push(format!(
                    "{}@{}",
                    member.name,
                    model::ids::instant_text(member.occurrence)
                ));
            }
        }
    }
    alert_group::grow(tx, &sizes).await?;
    let more: Vec<_> = more.into_values().collect();
    alert_group::add(tx, &more).await
}

/// Tells of the groups that have gathered, and resolves those that are over; how many deliveries that makes.
///
/// # Errors
/// [`StoreError::Fenced`] when a later watchdog leads; else whatever the database failed with.
pub async fn run_once(store: &Store, term: Term, settings: &Settings) -> Result<usize, StoreError> {
    let operation = "tell of groups of alerts";
    let mut client = store.client(operation).await?;
    let tx = client.begin(operation).await?;
    fence::hold(&tx, term).await?;
    if !alert_group::any(&tx).await? {
        return Ok(0);
    }
    let mut deliveries = Vec::new();
    // First what is over, so that nobody is told of it now who was spared until now.
    for (kind, resolved) in alert_group::resolve(&tx).await? {
        alert_life::record(&tx, &[(resolved.id, "RESOLVED", "")], None).await?;
        let told = alert_delivery::told(&tx, &[resolved.id]).await?;
        let body = words::group_resolved(kind, &resolved, &settings.runbooks).body();
        let channels = told.into_iter().map(|(_, channel)| channel);
        deliveries.extend(to(channels, resolved.id, Event::Resolved, &body));
    }
    let due = alert_group::due(&tx, settings.group_wait, CHANNELS_MAX).await?;
    if !due.is_empty() {
        for due in &due {
            let body = words::group(due, &settings.runbooks).body();
            deliveries.extend(to([due.more.channel], due.more.alert, Event::Opened, &body));
        }
        alert_group::told(&tx, &due).await?;
        let alerts: BTreeSet<_> = due.iter().map(|due| due.more.alert).collect();
        let events: Vec<_> = alerts.iter().map(|alert| (*alert, "TOLD", "")).collect();
        alert_life::record(&tx, &events, None).await?;
    }
    alert_delivery::insert(&tx, &deliveries).await?;
    // Crash window: told and noted, or neither.
    tx.commit().await?;
    report(&due);
    Ok(deliveries.len())
}

fn report(due: &[Due]) {
    for due in due {
        tracing::warn!(
            alert.id = %due.more.alert,
            alert.kind = %due.kind,
            jobs = due.more.count,
            channel.id = %due.more.channel,
            "Jobs that one trouble explains are told as one"
        );
    }
}
