//! Apply: a whole set of definitions in one transaction, all or nothing. Applying the same set again writes nothing.
//!
//! Order of locks: the jobs that exist, by id; then the channels; then new names. Whoever overtakes between looking a
//! name up and locking it makes the transaction start again.

use crate::audit;
use crate::channels::{self, Written as WrittenChannel};
use crate::definition::{self, Decision};
use crate::failure::{Failure, retrying};
use crate::registry::Registry;
use chrono::{DateTime, Utc};
use model::ids::JobId;
use model::validate::FieldError;
use rpc::auth::{Caller, Role};
use rpc::convert::job::Written;
use rpc::v1;
use rpc::v1::applied::Change as Changed;
use rpc::v1::apply_service_server::ApplyService;
use std::collections::{BTreeMap, BTreeSet};
use store::alert_channel::{self, Channel};
use store::audit::Event;
use store::job::{self, Stored};
use store::job_change::Action;
use store::{Store, Transaction, job_change};
use tonic::{Request, Response, Status};

/// Jobs of a set.
const JOBS_MAX: usize = 10_000;
/// Channels of a set.
const CHANNELS_MAX: usize = 1_000;

#[tonic::async_trait]
impl ApplyService for Registry {
    async fn apply(&self, request: Request<v1::ApplyRequest>) -> Result<Response<v1::ApplyResponse>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let set = Set::read(request.into_inner()).map_err(Failure::Invalid)?;
        let results = retrying(|| apply(&self.store, &caller, &set)).await?;
        let count = |change: Changed| results.iter().filter(|result| result.change == change as i32).count();
        tracing::info!(
            created = count(Changed::Created),
            changed = count(Changed::Changed),
            unchanged = count(Changed::Unchanged),
            actor = caller.token_name,
            "Applied a set of definitions"
        );
        Ok(Response::new(v1::ApplyResponse { results }))
    }
}

/// A set as a person wrote it. When `errors` are not empty, only what is right is in `channels` and `jobs`.
#[derive(Default)]
struct Set {
    channels: Vec<WrittenChannel>,
    jobs: Vec<Written>,
    /// The channels that each job of the request names.
    named: Vec<Vec<String>>,
    errors: Vec<FieldError>,
}

impl Set {
    /// Reads a set; what is wrong with its members is in [`Set::errors`].
    ///
    /// # Errors
    /// When it is too large to be read at all.
    fn read(request: v1::ApplyRequest) -> Result<Self, Vec<FieldError>> {
        let sizes =
            [("jobs", request.jobs.len(), JOBS_MAX), ("channels", request.channels.len(), CHANNELS_MAX)];
        let too_large = sizes.into_iter().filter(|(_, found, most)| found > most);
        let too_large: Vec<_> = too_large
            .map(|(field, found, most)| {
                FieldError::new(field, format!("{found} of them: use at most {most}"))
            })
            .collect();
        if !too_large.is_empty() {
            return Err(too_large);
        }
        let mut set = Self::default();
        let mut names = BTreeSet::new();
        for (index, channel) in request.channels.iter().enumerate() {
            set.repeated(&mut names, "channels", index, &channel.name);
            match channels::read(channel) {
                Ok(written) => set.channels.push(written),
                Err(errors) => set.wrong("channels", index, errors),
            }
        }
        names.clear();
        for (index, job) in request.jobs.into_iter().enumerate() {
            set.repeated(&mut names, "jobs", index, &job.name);
            match definition::read(&job) {
                Ok(written) => set.jobs.push(written),
                Err(errors) => set.wrong("jobs", index, errors),
            }
            set.named.push(job.alert.map(|alert| alert.channels).unwrap_or_default());
        }
        Ok(set)
    }

    fn repeated(&mut self, names: &mut BTreeSet<String>, list: &str, index: usize, name: &str) {
        if !name.is_empty() && !names.insert(name.to_owned()) {
            let message = format!("{name:?} is in this set already: name each once");
            self.errors.push(FieldError::new(format!("{list}[{index}].name"), message));
        }
    }

    fn wrong(&mut self, list: &str, index: usize, errors: Vec<FieldError>) {
        let placed = errors.into_iter();
        let placed =
            placed.map(|error| FieldError::new(format!("{list}[{index}].{}", error.field), error.message));
        self.errors.extend(placed);
    }

    /// Every wrong field, once it is known which channels there are.
    fn errors_with(&self, known: &BTreeSet<&str>) -> Vec<FieldError> {
        let mut errors = self.errors.clone();
        for (index, named) in self.named.iter().enumerate() {
            errors.extend(channels::unknown(&format!("jobs[{index}]."), named, |name| known.contains(name)));
        }
        errors
    }
}

async fn apply(store: &Store, caller: &Caller, set: &Set) -> Result<Vec<v1::Applied>, Failure> {
    let mut client = store.client("apply a set").await?;
    let tx = client.begin("apply a set").await?;
    let (at, jobs) = if set.errors.is_empty() {
        lock_jobs(&tx, caller, &set.jobs).await?
    } else {
        (job_change::now(&tx).await?, BTreeMap::new())
    };
    let stored = lock_channels(&tx, caller, set).await?;
    let given = set.channels.iter().map(|channel| channel.name.as_str());
    let known: BTreeSet<&str> = stored.keys().map(String::as_str).chain(given).collect();
    let errors = set.errors_with(&known);
    if !errors.is_empty() {
        return Err(Failure::Invalid(errors));
    }
    let mut events = Vec::new();
    let mut results = write_channels(&tx, caller, at, &set.channels, &stored, &mut events).await?;
    results.extend(write_jobs(&tx, caller, at, &set.jobs, &jobs, &mut events).await?);
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &events).await?;
    tx.commit().await?;
    Ok(results)
}

/// Locks those of the jobs that exist; the moment of the change, and they by name.
async fn lock_jobs(
    tx: &Transaction<'_>,
    caller: &Caller,
    jobs: &[Written],
) -> Result<(DateTime<Utc>, BTreeMap<String, Stored>), Failure> {
    let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
    let found = job::by_names(tx, caller.tenant_id, &names).await?;
    let ids: Vec<JobId> = found.values().copied().collect();
    let locked = job_change::lock(tx, &ids).await?;
    let by_name: BTreeMap<String, Stored> = locked
        .jobs
        .into_iter()
        .filter(|job| job.deleted_at.is_none())
        .map(|job| (job.name.clone(), job))
        .collect();
    let same = found.iter().all(|(name, id)| by_name.get(name).is_some_and(|job| job.id == *id));
    // Renamed or deleted between the look and the lock.
    if same { Ok((locked.at, by_name)) } else { Err(Failure::Overtaken) }
}

/// The channels that the set names or defines, as far as they exist: they stay until the transaction ends.
async fn lock_channels(
    tx: &Transaction<'_>,
    caller: &Caller,
    set: &Set,
) -> Result<BTreeMap<String, Channel>, Failure> {
    let given = set.channels.iter().map(|channel| &channel.name);
    let names: BTreeSet<&str> = given.chain(set.named.iter().flatten()).map(String::as_str).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| !name.contains('\0')).collect();
    let stored = if set.channels.is_empty() {
        alert_channel::hold(tx, caller.tenant_id, &names).await?
    } else {
        alert_channel::lock(tx, caller.tenant_id, &names).await?
    };
    Ok(stored.into_iter().map(|channel| (channel.name.clone(), channel)).collect())
}

async fn write_channels(
    tx: &Transaction<'_>,
    caller: &Caller,
    at: DateTime<Utc>,
    written: &[WrittenChannel],
    stored: &BTreeMap<String, Channel>,
    events: &mut Vec<Event>,
) -> Result<Vec<v1::Applied>, Failure> {
    let (mut new, mut changed, mut results) = (Vec::new(), Vec::new(), Vec::new());
    for channel in written {
        let before = stored.get(&channel.name);
        let after = channel.over(before, at);
        let change = match before {
            Some(before) if *before == after => Changed::Unchanged,
            Some(_) => Changed::Changed,
            None => Changed::Created,
        };
        results.push(applied("Channel", &channel.name, change));
        match change {
            Changed::Created => {
                events.push(audit::channel("channel.create", &after));
                new.push(after);
            }
            Changed::Changed => {
                events.push(audit::channel("channel.update", &after));
                changed.push(after);
            }
            Changed::Unchanged | Changed::Unspecified => {}
        }
    }
    if !changed.is_empty() {
        alert_channel::update(tx, &changed).await?;
    }
    if !new.is_empty() {
        let stored = alert_channel::insert(tx, caller.tenant_id, at, &new).await;
        stored.map_err(|error| overtaken(error, alert_channel::NAME_TAKEN))?;
    }
    Ok(results)
}

async fn write_jobs(
    tx: &Transaction<'_>,
    caller: &Caller,
    at: DateTime<Utc>,
    written: &[Written],
    stored: &BTreeMap<String, Stored>,
    events: &mut Vec<Event>,
) -> Result<Vec<v1::Applied>, Failure> {
    let (mut new, mut changes, mut results) = (Vec::new(), Vec::new(), Vec::new());
    for job in written {
        let Some(before) = stored.get(&job.name) else {
            let creation = new_job(job, at);
            events.push(audit::job_created(&job.name, creation.id, &job.definition));
            new.push(creation);
            results.push(applied("Job", &job.name, Changed::Created));
            continue;
        };
        let Some(change) = change(before, job, at) else {
            results.push(applied("Job", &job.name, Changed::Unchanged));
            continue;
        };
        events.push(audit::job_changed(before, job, change.generation));
        changes.push(change);
        results.push(applied("Job", &job.name, Changed::Changed));
    }
    job_change::change(tx, at, &caller.token_name, Action::Changed, &changes).await?;
    let created = job_change::create(tx, caller.tenant_id, at, &caller.token_name, &new).await;
    created.map_err(|error| overtaken(error, job_change::NAME_TAKEN))?;
    Ok(results)
}

/// A job to be stored at `at`.
pub fn new_job(written: &Written, at: DateTime<Utc>) -> job_change::New<'_> {
    let id = JobId::random();
    let first = definition::next_fire_at(&written.definition, id, at, at);
    job_change::New {
        id,
        name: &written.name,
        definition: &written.definition,
        first,
        judge_at: first.and_then(|first| definition::judge_at(&written.definition, first)),
    }
}

/// What putting `written` in force at `at` changes; none when nothing differs.
pub fn change<'a>(
    stored: &Stored,
    written: &'a Written,
    at: DateTime<Utc>,
) -> Option<job_change::Change<'a>> {
    match definition::decide(stored, written, at) {
        Decision::Unchanged => None,
        Decision::Change { generation, first, replans } => Some(job_change::Change {
            job: stored.id,
            generation,
            name: &written.name,
            definition: &written.definition,
            first,
            replans,
            paused: stored.paused.is_some(),
        }),
    }
}

fn applied(kind: &str, name: &str, change: Changed) -> v1::Applied {
    v1::Applied { kind: kind.to_owned(), name: name.to_owned(), change: change.into() }
}

/// A name that was free a moment ago is taken: look again.
fn overtaken(error: store::StoreError, constraint: &str) -> Failure {
    if error.violates(constraint) { Failure::Overtaken } else { error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_fields_are_named_with_their_place_and_names_must_differ() {
        let job = |name: &str, schedule: &str| v1::Job {
            name: name.to_owned(),
            schedule: schedule.to_owned(),
            run: Some(v1::Run {
                kind: Some(v1::run::Kind::Handler(v1::Handler {
                    name: "h".to_owned(),
                    payload: String::new(),
                })),
            }),
            alert: Some(v1::JobAlert { channels: vec!["oncall".to_owned()], ..v1::JobAlert::default() }),
            ..v1::Job::default()
        };
        let jobs = vec![job("a", "* * * * *"), job("a", "* * * * *"), job("b", "61 * * * *")];
        let set = Set::read(v1::ApplyRequest {
            jobs,
            channels: vec![v1::Channel::default()],
            ..v1::ApplyRequest::default()
        })
        .ok();
        let set = set.expect("not too large");
        let errors = set.errors_with(&BTreeSet::new());
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        let expected = [
            "channels[0].name",
            "channels[0].webhook",
            "jobs[1].name",
            "jobs[2].schedule",
            "jobs[0].alert.channels[0]",
            "jobs[1].alert.channels[0]",
            "jobs[2].alert.channels[0]",
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn a_set_that_is_too_large_is_refused_unread() {
        let jobs = vec![v1::Job::default(); JOBS_MAX + 1];
        let errors =
            Set::read(v1::ApplyRequest { jobs, ..v1::ApplyRequest::default() }).err().expect("too large");
        assert_eq!(errors[0].field, "jobs");
    }
}
