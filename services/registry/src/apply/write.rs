//! Writing a set whose every row is locked: channels, then calendars, then check-ins, then what is pruned, then jobs.

use crate::audit;
use crate::calendars::{self, Written as WrittenCalendar};
use crate::channels::{self, Written as WrittenChannel};
use crate::definition::{self, Given};
use crate::failure::Failure;
use crate::limits::{Asked, Limits};
use crate::references::Known;
use crate::revisions;
use chrono::{DateTime, Utc};
use model::ids::{Generation, JobId};
use model::job::Definition;
use model::validate::FieldError;
use rpc::auth::Caller;
use rpc::convert::job::{Facts, Written};
use rpc::v1;
use rpc::v1::applied::Change as Changed;
use schedule::Owner;
use std::collections::{BTreeMap, BTreeSet};
use store::alert_channel::{self, Channel};
use store::audit::Event;
use store::calendar::{self, Calendar};
use store::job::Stored;
use store::job_change::{self, Action};
use store::{StoreError, Transaction};

/// A set while it is written, and what there is to say of it.
pub struct Writing<'a> {
    pub tx: &'a Transaction<'a>,
    pub caller: &'a Caller,
    pub at: DateTime<Utc>,
    pub limits: Limits,
    pub events: Vec<Event>,
    pub results: Vec<v1::Applied>,
    /// What the jobs were and become, for whoever wants to know what that means.
    pub steps: Vec<Step>,
}

/// What a job was and becomes.
#[derive(Debug, Clone)]
pub struct Step {
    pub name: String,
    pub owner: Owner,
    /// None of a new one. A paused one has no runs to come.
    pub before: Option<Definition>,
    /// None of one that is deleted.
    pub after: Option<Definition>,
    /// It is paused, and stays so.
    pub paused: bool,
}

/// What is done to a job of the set.
enum Deed<'a> {
    Create(job_change::New<'a>),
    Change(job_change::Change<'a>),
}

impl Deed<'_> {
    /// When it runs first after that, if ever.
    const fn first(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::Create(creation) => creation.first,
            Self::Change(change) => change.first,
        }
    }
}

impl Writing<'_> {
    pub async fn channels(
        &mut self,
        written: &[WrittenChannel],
        stored: &BTreeMap<String, Channel>,
    ) -> Result<(), Failure> {
        let (mut new, mut changed) = (Vec::new(), Vec::new());
        for (index, channel) in written.iter().enumerate() {
            let before = stored.get(&channel.name);
            let after = channel.over(before, self.caller.tenant_id, self.at).map_err(|error| {
                let field = format!("channels[{index}].{}", error.field);
                Failure::Invalid(vec![FieldError::new(field, error.message)])
            })?;
            match before {
                Some(before) if *before == after => {
                    self.result("Channel", &channel.name, Changed::Unchanged);
                }
                Some(before) => {
                    let changes = channels::differences(before, &after);
                    self.changed("Channel", &channel.name, changes.into_iter().map(revisions::change));
                    self.events.push(audit::channel::changed(before, &after));
                    changed.push(after);
                }
                None => {
                    self.result("Channel", &channel.name, Changed::Created);
                    self.events.push(audit::channel::created(&after));
                    new.push(after);
                }
            }
        }
        if !changed.is_empty() {
            alert_channel::update(self.tx, &changed).await?;
        }
        if !new.is_empty() {
            let stored = alert_channel::insert(self.tx, self.caller.tenant_id, self.at, &new).await;
            stored.map_err(|error| overtaken(error, alert_channel::NAME_TAKEN))?;
        }
        Ok(())
    }

    /// Writes the calendars, whose present versions `known` has then; the names of those that jobs may name and that
    /// are no longer the same. `users` are the jobs that name one of the set's.
    pub async fn calendars(
        &mut self,
        written: &[WrittenCalendar],
        stored: &BTreeMap<String, Calendar>,
        users: &[Stored],
        known: &mut Known,
    ) -> Result<BTreeSet<String>, Failure> {
        let (tenant, author) = (self.caller.tenant_id, self.caller.token_name.as_str());
        let mut changed = BTreeSet::new();
        for WrittenCalendar { name, dates, .. } in written {
            let (version, created_at) = match stored.get(name) {
                Some(before) if before.dates == *dates => {
                    self.result("Calendar", name, Changed::Unchanged);
                    continue;
                }
                Some(before) => {
                    self.changed("Calendar", name, calendars::differences(&before.dates, dates));
                    changed.insert(name.clone());
                    let version = calendar::update(self.tx, tenant, self.at, author, name, dates).await?;
                    (version, before.created_at)
                }
                None => {
                    self.result("Calendar", name, Changed::Created);
                    let version = calendar::insert(self.tx, tenant, self.at, author, name, dates).await?;
                    (version.ok_or(Failure::Overtaken)?, self.at)
                }
            };
            known.add_calendar(name, version, dates);
            let after = Calendar {
                name: name.clone(),
                version,
                created_at,
                updated_at: self.at,
                dates: dates.clone(),
            };
            let jobs = calendars::naming(users, name);
            self.events.push(match stored.get(name) {
                Some(before) => audit::calendar::changed(&before.dates, &after, jobs),
                None => audit::calendar::created(&after),
            });
        }
        Ok(changed)
    }

    /// Writes the jobs, and what the `changed` calendars mean to the other `users`. Only here is it known which would
    /// never run.
    pub async fn jobs(
        &mut self,
        given: &[Given],
        stored: &BTreeMap<String, Stored>,
        users: &[Stored],
        changed: &BTreeSet<String>,
        known: &mut Known,
    ) -> Result<(), Failure> {
        let mut resolved: Vec<_> = given.iter().map(|job| known.resolve(&job.written)).collect();
        let mut errors = Vec::new();
        for (index, job) in resolved.iter_mut().enumerate() {
            errors.extend(placed(index, definition::keep_secrets(job, stored.get(&job.name))));
        }
        let (mut new, mut changes, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        for (index, job) in resolved.iter().enumerate() {
            let before = stored.get(&job.name);
            let owner = before
                .map_or_else(|| definition::new_owner(self.caller.tenant_id, self.at), definition::owner);
            let Some(deed) = self.job(job, before, owner, known) else { continue };
            let first = deed.first();
            match deed {
                Deed::Create(creation) => new.push(creation),
                Deed::Change(change) => changes.push(change),
            }
            let (definition, before_it) = (&job.definition, before.map(|before| &before.definition));
            asked.push(Asked { index: Some(index), definition, before: before_it, owner });
            if first.is_none() {
                errors.extend(placed(index, definition::never_again(definition, before, owner, self.at)));
            }
        }
        if !errors.is_empty() {
            return Err(Failure::Invalid(errors));
        }
        self.limits.check(self.tx, self.caller, self.at, &asked, new.len()).await?;
        self.store(&new, &changes, users, changed, known).await
    }

    /// Says what becomes of a job of the set; none when it is so already.
    fn job<'job>(
        &mut self,
        job: &'job Written,
        before: Option<&Stored>,
        owner: Owner,
        known: &Known,
    ) -> Option<Deed<'job>> {
        let deed = match before {
            None => {
                let creation = definition::creation(job, owner, known.dates());
                self.events.push(audit::job_created(&job.name, creation.id, &job.definition));
                self.result("Job", &job.name, Changed::Created);
                Some(Deed::Create(creation))
            }
            Some(before) => match renewed_change(before, job, known, self.at) {
                None => {
                    self.result("Job", &job.name, Changed::Unchanged);
                    None
                }
                Some(change) => {
                    self.events.push(audit::job_changed(before, job, change.generation));
                    let stored = plain(&before.name, &before.definition);
                    let differences = rpc::fields::differences(&stored, &plain(&job.name, &job.definition));
                    self.changed("Job", &job.name, differences.into_iter().map(revisions::change));
                    Some(Deed::Change(change))
                }
            },
        };
        self.step(before.is_some_and(|before| before.paused.is_some()), job, before, owner);
        deed
    }

    /// Writes what becomes of jobs, and what the `changed` calendars mean to the other `users`.
    async fn store(
        &self,
        new: &[job_change::New<'_>],
        changes: &[job_change::Change<'_>],
        users: &[Stored],
        changed: &BTreeSet<String>,
        known: &mut Known,
    ) -> Result<(), Failure> {
        let (tenant, author) = (self.caller.tenant_id, self.caller.token_name.as_str());
        let written: BTreeSet<_> = changes.iter().map(|change| change.job).collect();
        job_change::change(self.tx, self.at, author, Action::Changed, changes).await?;
        let others = users.iter().filter(|job| !written.contains(&job.id));
        let others = others
            .filter(|job| job.definition.calendars.versions().any(|named| changed.contains(&named.name)));
        calendars::renew(self.tx, self.caller, self.at, others, known).await?;
        let created = job_change::create(self.tx, tenant, self.at, author, new).await;
        created.map_err(|error| overtaken(error, job_change::NAME_TAKEN))
    }

    /// Deletes jobs that are not in the set; before the set's own are stored, so that they make room. Their results.
    pub async fn prune(&mut self, pruned: &[Stored]) -> Result<Vec<v1::Applied>, Failure> {
        let author = self.caller.token_name.as_str();
        let mut results = Vec::new();
        for job in pruned {
            job_change::delete(self.tx, self.at, author, job).await?;
            self.events.push(audit::job_deleted(job));
            self.steps.push(Step {
                name: job.name.clone(),
                owner: definition::owner(job),
                before: Some(job.definition.clone()),
                after: None,
                paused: job.paused.is_some(),
            });
            results.push(applied("Job", &job.name, Changed::Deleted));
        }
        Ok(results)
    }

    fn step(&mut self, paused: bool, job: &Written, before: Option<&Stored>, owner: Owner) {
        self.steps.push(Step {
            name: job.name.clone(),
            owner,
            before: before.map(|before| before.definition.clone()),
            after: Some(job.definition.clone()),
            paused,
        });
    }

    /// Says what of one of the set was changed.
    pub fn changed(&mut self, kind: &str, name: &str, changes: impl IntoIterator<Item = v1::FieldChange>) {
        let changes = changes.into_iter().collect();
        self.results.push(v1::Applied { changes, ..applied(kind, name, Changed::Changed) });
    }

    /// Says what became of one of the set.
    pub fn result(&mut self, kind: &str, name: &str, change: Changed) {
        self.results.push(applied(kind, name, change));
    }
}

/// Wrong fields of the set's job with that index, as the request has them.
fn placed(index: usize, errors: impl IntoIterator<Item = FieldError>) -> impl Iterator<Item = FieldError> {
    let field = move |field: String| format!("jobs[{index}].{field}");
    errors.into_iter().map(move |FieldError { field: name, message }| FieldError::new(field(name), message))
}

fn applied(kind: &str, name: &str, change: Changed) -> v1::Applied {
    let (kind, name) = (kind.to_owned(), name.to_owned());
    v1::Applied { kind, name, change: change.into(), changes: Vec::new() }
}

/// A definition as a message, without what became of the job.
fn plain(name: &str, definition: &Definition) -> v1::Job {
    let at = DateTime::UNIX_EPOCH;
    let facts = Facts {
        id: JobId(uuid::Uuid::nil()),
        name: name.to_owned(),
        generation: Generation::FIRST,
        created_at: at,
        updated_at: at,
        next_fire_at: None,
        broken: None,
        paused: None,
    };
    rpc::convert::job::write(definition, facts)
}

/// What putting `written` in force over a stored job changes, whose calendars may have other dates by then: that alone
/// is no change by this set.
fn renewed_change<'a>(
    before: &Stored,
    written: &'a Written,
    known: &Known,
    at: DateTime<Utc>,
) -> Option<job_change::Change<'a>> {
    let renewed = Stored { definition: known.renewed(&before.definition), ..before.clone() };
    let change = definition::change(&renewed, written, known.dates(), at)?;
    Some(job_change::Change { replans: before.definition.replans(&written.definition), ..change })
}

/// A name that was free a moment ago is taken: look again.
pub fn overtaken(error: StoreError, constraint: &str) -> Failure {
    if error.violates(constraint) { Failure::Overtaken } else { error.into() }
}
