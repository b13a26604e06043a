//! Apply: a whole set of definitions in one transaction, all or nothing. Applying the same set again writes nothing.
//!
//! With labels to prune by, jobs that have them and are not in the set are deleted by it. A dry run stores nothing.
//!
//! Order of locks: the jobs that exist, those that name a calendar of the set among them, by id; then the tenant's limits,
//! if jobs, channels or check-ins may be new; then what is queued of those jobs, the calendars, the channels, the
//! check-ins; then new names. Whoever overtakes between looking something up and locking it makes the transaction start
//! again.

mod check_ins;
mod coming;
mod set;
mod write;

use crate::calendars;
use crate::failure::{Failure, retrying, wrong};
use crate::limits::Limits;
use crate::limits::places::{Kind, Places};
use crate::references::Known;
use crate::registry::Registry;
use chrono::{DateTime, Utc};
use model::ids::JobId;
use rpc::auth::{Caller, Role};
use rpc::v1;
use rpc::v1::applied::Change as Changed;
use rpc::v1::apply_service_server::ApplyService;
use schedule::DateSets;
pub use set::Set;
use std::collections::{BTreeMap, BTreeSet};
use store::alert_channel::{self, Channel};
use store::calendar::{self, Calendar};
use store::job::{self, Stored};
use store::{Store, Transaction, check_in, job_change};
use tonic::{Request, Response, Status};
use write::{Step, Writing};

/// Jobs that one call deletes.
const PRUNED_MAX: i64 = 10_000;

#[tonic::async_trait]
impl ApplyService for Registry {
    async fn apply(&self, request: Request<v1::ApplyRequest>) -> Result<Response<v1::ApplyResponse>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let set = Set::read(request.into_inner()).map_err(Failure::Invalid)?;
        // Before anything is locked: who waits for a turn is in nobody's way.
        let turn = if set.dry_run { Some(self.turns.wait(caller.tenant_id).await?) } else { None };
        let Outcome { results, steps, dates, at } = retrying(|| apply(&self.store, &caller, &set)).await?;
        if let Some(turn) = turn {
            let coming = coming::of(turn, steps, dates, at).await?;
            let response = v1::ApplyResponse { results, dry_run: true, coming: Some(coming) };
            return Ok(Response::new(response));
        }
        let count = |change: Changed| results.iter().filter(|result| result.change == change as i32).count();
        tracing::info!(
            created = count(Changed::Created),
            changed = count(Changed::Changed),
            unchanged = count(Changed::Unchanged),
            deleted = count(Changed::Deleted),
            actor = caller.token_name,
            "Applied a set of definitions"
        );
        Ok(Response::new(v1::ApplyResponse { results, dry_run: false, coming: None }))
    }
}

/// What became of a set, or would.
struct Outcome {
    results: Vec<v1::Applied>,
    steps: Vec<Step>,
    /// Of the calendars that they name, when it is a dry run.
    dates: DateSets,
    at: DateTime<Utc>,
}

/// A dry run does everything and undoes it: what it says is what would happen, limits and names that are taken included.
async fn apply(store: &Store, caller: &Caller, set: &Set) -> Result<Outcome, Failure> {
    let mut client = store.client("apply a set").await?;
    let tx = client.begin("apply a set").await?;
    // A set that is wrong anyway waits for nobody's jobs.
    let Jobs { at, limits, places, named, users, pruned } = if set.errors.is_empty() {
        lock_jobs(&tx, caller, set).await?
    } else {
        Jobs { at: job_change::now(&tx).await?, ..Jobs::default() }
    };
    let calendars = lock_calendars(&tx, caller, set).await?;
    let channels = lock_channels(&tx, caller, set).await?;
    let check_ins = check_in::lock_named(&tx, caller.tenant_id, &set.check_in_names()).await?;
    let mut known = Known::new(caller.tenant_id, &channels, &calendars);
    let errors = set.errors_with(&known);
    if !errors.is_empty() {
        return Err(Failure::Invalid(errors));
    }
    let new = absent(&set.channel_names(), channels.iter().map(|channel| &channel.name));
    places.check(&tx, caller, Kind::Channel, new).await?;
    let new = absent(&set.check_in_names(), check_ins.iter().map(|check_in| &check_in.name));
    places.check(&tx, caller, Kind::CheckIn, new).await?;
    let mut users = calendars::still_used(&tx, caller, &set.calendar_names(), users).await?;
    users.retain(|user| pruned.iter().all(|job| job.id != user.id));
    let (events, results, steps) = (Vec::new(), Vec::new(), Vec::new());
    let mut writing = Writing { tx: &tx, caller, at, limits, events, results, steps };
    writing.channels(&set.channels, &by_name(channels, |channel| &channel.name)).await?;
    let calendars = by_name(calendars, |calendar| &calendar.name);
    let changed = writing.calendars(&set.calendars, &calendars, &users, &mut known).await?;
    writing.check_ins(&set.check_ins, &by_name(check_ins, |one| &one.name)).await?;
    let deleted = writing.prune(&pruned).await?;
    writing.jobs(&set.jobs, &named, &users, &changed, &mut known).await?;
    let Writing { events, mut results, steps, .. } = writing;
    results.extend(deleted);
    if set.dry_run {
        let named: Vec<_> = steps.iter().flat_map(|step| step.before.iter().chain(&step.after)).collect();
        known.complete(&tx, named.into_iter()).await?;
        return Ok(Outcome { results, steps, dates: known.dates().clone(), at });
    }
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &events).await?;
    tx.commit().await?;
    Ok(Outcome { results, steps: Vec::new(), dates: DateSets::default(), at })
}

/// The jobs that nobody else changes, plans or judges until the set is applied.
#[derive(Default)]
struct Jobs {
    /// The moment of the change.
    at: DateTime<Utc>,
    /// What the tenant may have.
    limits: Limits,
    /// What of them is left for channels and check-ins.
    places: Places,
    /// Those of the set that exist, by name.
    named: BTreeMap<String, Stored>,
    /// Those that named a calendar of the set when they were looked for.
    users: Vec<Stored>,
    /// Those that are to be deleted, by name.
    pruned: Vec<Stored>,
}

async fn lock_jobs(tx: &Transaction<'_>, caller: &Caller, set: &Set) -> Result<Jobs, Failure> {
    let names: BTreeSet<&str> = set.jobs.iter().map(|job| job.written.name.as_str()).collect();
    let found = job::by_names(tx, caller.tenant_id, &names.iter().copied().collect::<Vec<_>>()).await?;
    let users = calendar::used_by(tx, caller.tenant_id, &set.calendar_names(), None).await?;
    let users: BTreeSet<JobId> = users.into_iter().map(|(job, _)| job).collect();
    let labelled = if set.prune.is_empty() {
        Vec::new()
    } else {
        job::labelled(tx, caller.tenant_id, &set.prune, PRUNED_MAX + 1).await?
    };
    if labelled.len() as i64 > PRUNED_MAX {
        return Err(wrong(
            "prune.labels",
            format!("more than {PRUNED_MAX} jobs have them: name further labels"),
        ));
    }
    let ids: BTreeSet<JobId> = users.iter().chain(found.values()).chain(&labelled).copied().collect();
    let ids: Vec<JobId> = ids.into_iter().collect();
    let locked = job_change::lock_unqueued(tx, &ids).await?;
    let limits = Limits::hold(tx, caller, found.len() < names.len()).await?;
    let places = Places::hold_for(tx, caller, &set.channel_names(), &set.check_in_names()).await?;
    let at = job_change::lock_queued(tx, &ids).await?;
    let (mut named, mut locked_users, mut pruned) = (BTreeMap::new(), Vec::new(), Vec::new());
    for job in locked.jobs.into_iter().filter(|job| job.deleted_at.is_none()) {
        if users.contains(&job.id) {
            locked_users.push(job.clone());
        }
        if names.contains(job.name.as_str()) {
            named.insert(job.name.clone(), job);
        } else if labelled.contains(&job.id) && set.prunes(&job.definition) {
            pruned.push(job);
        }
    }
    pruned.sort_by(|one, other| one.name.cmp(&other.name));
    let same = found.iter().all(|(name, id)| named.get(name).is_some_and(|job| job.id == *id));
    // Renamed or deleted between the look and the lock.
    if same {
        Ok(Jobs { at, limits, places, named, users: locked_users, pruned })
    } else {
        Err(Failure::Overtaken)
    }
}

/// The calendars that the set names or defines, as far as they exist: they stay until the transaction ends.
async fn lock_calendars(tx: &Transaction<'_>, caller: &Caller, set: &Set) -> Result<Vec<Calendar>, Failure> {
    let given = set.calendar_names();
    let named = set.jobs.iter().flat_map(|job| job.named.calendars());
    let names: BTreeSet<&str> = given.iter().copied().chain(named).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let stored = if given.is_empty() {
        calendar::hold(tx, caller.tenant_id, &names).await?
    } else {
        calendar::lock(tx, caller.tenant_id, &names).await?
    };
    Ok(stored)
}

/// The channels that the set names or defines, as far as they exist: they stay until the transaction ends.
async fn lock_channels(tx: &Transaction<'_>, caller: &Caller, set: &Set) -> Result<Vec<Channel>, Failure> {
    let given = set.channels.iter().map(|channel| channel.name.as_str());
    let named = set.jobs.iter().flat_map(|job| job.named.channels());
    let by_check_ins = set.check_ins.iter().flat_map(|(_, one)| &one.definition.channels);
    let names: BTreeSet<&str> = given.chain(named).chain(by_check_ins.map(String::as_str)).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let stored = if set.channels.is_empty() {
        alert_channel::hold(tx, caller.tenant_id, &names).await?
    } else {
        alert_channel::lock(tx, caller.tenant_id, &names).await?
    };
    Ok(stored)
}

/// How many of the names are not `there`.
fn absent<'a>(names: &[&str], there: impl Iterator<Item = &'a String>) -> usize {
    let there: BTreeSet<&str> = there.map(String::as_str).collect();
    names.iter().filter(|name| !there.contains(*name)).count()
}

fn by_name<T>(items: Vec<T>, name: impl Fn(&T) -> &String) -> BTreeMap<String, T> {
    items.into_iter().map(|item| (name(&item).clone(), item)).collect()
}
