//! Writing a set whose every row is locked: channels, then calendars, then jobs.

use crate::audit;
use crate::calendars::{self, Written as WrittenCalendar};
use crate::channels::Written as WrittenChannel;
use crate::definition::{self, Given};
use crate::failure::Failure;
use crate::references::Known;
use chrono::{DateTime, Utc};
use model::validate::FieldError;
use rpc::auth::Caller;
use rpc::convert::job::Written;
use rpc::v1;
use rpc::v1::applied::Change as Changed;
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
    pub events: Vec<Event>,
    pub results: Vec<v1::Applied>,
}

impl Writing<'_> {
    pub async fn channels(
        &mut self,
        written: &[WrittenChannel],
        stored: &BTreeMap<String, Channel>,
    ) -> Result<(), Failure> {
        let (mut new, mut changed) = (Vec::new(), Vec::new());
        for channel in written {
            let before = stored.get(&channel.name);
            let after = channel.over(before, self.at);
            match before {
                Some(before) if *before == after => {
                    self.result("Channel", &channel.name, Changed::Unchanged);
                }
                Some(_) => {
                    self.result("Channel", &channel.name, Changed::Changed);
                    self.events.push(audit::channel("channel.update", &after));
                    changed.push(after);
                }
                None => {
                    self.result("Channel", &channel.name, Changed::Created);
                    self.events.push(audit::channel("channel.create", &after));
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
                    self.result("Calendar", name, Changed::Changed);
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
            let action =
                if version == 1 || created_at == self.at { "calendar.create" } else { "calendar.update" };
            let after = Calendar {
                name: name.clone(),
                version,
                created_at,
                updated_at: self.at,
                dates: dates.clone(),
            };
            self.events.push(audit::calendar(action, &after, calendars::naming(users, name)));
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
        let tenant = self.caller.tenant_id;
        let resolved: Vec<_> = given.iter().map(|job| known.resolve(&job.written)).collect();
        let (mut new, mut changes, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for (index, job) in resolved.iter().enumerate() {
            let before = stored.get(&job.name);
            let owner = before.map_or_else(|| definition::new_owner(tenant, self.at), definition::owner);
            let (first, change) = match before {
                None => {
                    let creation = definition::creation(job, owner, known.dates());
                    self.events.push(audit::job_created(&job.name, creation.id, &job.definition));
                    new.push(creation);
                    (creation.first, Changed::Created)
                }
                Some(before) => match renewed_change(before, job, known, self.at) {
                    None => {
                        self.result("Job", &job.name, Changed::Unchanged);
                        continue;
                    }
                    Some(change) => {
                        self.events.push(audit::job_changed(before, job, change.generation));
                        changes.push(change);
                        (change.first, Changed::Changed)
                    }
                },
            };
            self.result("Job", &job.name, change);
            if first.is_none()
                && let Some(FieldError { field, message }) =
                    definition::never_again(&job.definition, before, owner, self.at)
            {
                errors.push(FieldError::new(format!("jobs[{index}].{field}"), message));
            }
        }
        if !errors.is_empty() {
            return Err(Failure::Invalid(errors));
        }
        let author = self.caller.token_name.as_str();
        let written: BTreeSet<_> = changes.iter().map(|change| change.job).collect();
        job_change::change(self.tx, self.at, author, Action::Changed, &changes).await?;
        let others = users.iter().filter(|job| !written.contains(&job.id));
        let others = others
            .filter(|job| job.definition.calendars.versions().any(|named| changed.contains(&named.name)));
        calendars::renew(self.tx, self.caller, self.at, others, known).await?;
        let created = job_change::create(self.tx, tenant, self.at, author, &new).await;
        created.map_err(|error| overtaken(error, job_change::NAME_TAKEN))
    }

    fn result(&mut self, kind: &str, name: &str, change: Changed) {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.results.push(v1::Applied { kind, name, change: change.into() });
    }
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
fn overtaken(error: StoreError, constraint: &str) -> Failure {
    if error.violates(constraint) { Failure::Overtaken } else { error.into() }
}
