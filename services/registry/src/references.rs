//! What definitions name that must be there: channels and calendars. Both are held while a definition that names them
//! is stored, so that nobody deletes or changes them meanwhile.

use crate::failure::Failure;
use model::calendar::CalendarVersion;
use model::ids::TenantId;
use model::job::Definition;
use model::validate::{self, FieldError};
use rpc::auth::Caller;
use rpc::convert::job::Written;
use rpc::v1;
use schedule::DateSets;
use std::collections::{BTreeMap, BTreeSet};
use store::alert_channel::Channel;
use store::calendar::Calendar;
use store::{Store, Transaction, alert_channel, calendar};

/// What a job of a request names, also when the rest of it is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    channels: Vec<String>,
    exclude: Vec<String>,
    only: Vec<String>,
}

impl Named {
    /// What `job` names.
    pub fn of(job: &v1::Job) -> Self {
        let calendars = job.calendars.clone().unwrap_or_default();
        let channels = job.alert.as_ref().map(|alert| alert.channels.clone()).unwrap_or_default();
        Self { channels, exclude: calendars.exclude, only: calendars.only }
    }

    /// The channels that can exist.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.channels.iter().map(String::as_str).filter(|name| is_name(name))
    }

    /// The calendars that can exist.
    pub fn calendars(&self) -> impl Iterator<Item = &str> {
        self.exclude.iter().chain(&self.only).map(String::as_str).filter(|name| is_name(name))
    }
}

/// What is no name is wrong for another reason, and PostgreSQL may refuse it as a text.
fn is_name(name: &str) -> bool {
    validate::name("", name).is_none()
}

/// The channels and calendars that are there.
#[derive(Debug, Clone)]
pub struct Known {
    tenant: TenantId,
    channels: BTreeSet<String>,
    versions: BTreeMap<String, i64>,
    dates: DateSets,
}

impl Known {
    /// Of `tenant`, from what was held or locked.
    pub fn new(tenant: TenantId, channels: &[Channel], calendars: &[Calendar]) -> Self {
        let channels = channels.iter().map(|channel| channel.name.clone()).collect();
        let mut known = Self { tenant, channels, versions: BTreeMap::new(), dates: DateSets::default() };
        for calendar in calendars {
            known.add_calendar(&calendar.name, calendar.version, &calendar.dates);
        }
        known
    }

    /// Holds what a job names until the transaction ends.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn hold(tx: &Transaction<'_>, caller: &Caller, named: &Named) -> Result<Self, Failure> {
        let calendars: BTreeSet<&str> = named.calendars().collect();
        let calendars: Vec<&str> = calendars.into_iter().collect();
        let calendars = calendar::hold(tx, caller.tenant_id, &calendars).await?;
        let channels: Vec<&str> = named.channels().collect();
        let channels = alert_channel::hold(tx, caller.tenant_id, &channels).await?;
        Ok(Self::new(caller.tenant_id, &channels, &calendars))
    }

    /// A channel is about to be there.
    pub fn add_channel(&mut self, name: &str) {
        self.channels.insert(name.to_owned());
    }

    /// A calendar has this version from now on.
    pub fn add_calendar(&mut self, name: &str, version: i64, dates: &[chrono::NaiveDate]) {
        self.versions.insert(name.to_owned(), version);
        let version = CalendarVersion { name: name.to_owned(), version };
        self.dates.add((self.tenant, version), dates.iter().copied());
    }

    /// The dates of the versions that are known.
    pub const fn dates(&self) -> &DateSets {
        &self.dates
    }

    /// An error for each of these names, a list at `place`, that is no channel's.
    pub fn unknown_channels(&self, place: &str, names: &[String]) -> Vec<FieldError> {
        missing(place, "channel", names, &|name| self.channels.contains(name))
    }

    /// An error for each name that is none; `prefix` is the job's place, `jobs[2].` in a set.
    pub fn unknown(&self, prefix: &str, named: &Named) -> Vec<FieldError> {
        let calendar = |name: &str| self.versions.contains_key(name);
        let mut errors =
            missing(&format!("{prefix}calendars.exclude"), "calendar", &named.exclude, &calendar);
        errors.extend(missing(&format!("{prefix}calendars.only"), "calendar", &named.only, &calendar));
        errors.extend(self.unknown_channels(&format!("{prefix}alert.channels"), &named.channels));
        errors
    }

    /// Learns the dates of every other version that `definitions` name.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn complete<'a>(
        &mut self,
        tx: &Transaction<'_>,
        definitions: impl Iterator<Item = &'a Definition>,
    ) -> Result<(), Failure> {
        let missing = self.dates.missing(definitions.map(|definition| (self.tenant, definition)));
        for (version, dates) in calendar::dates(tx, &missing).await? {
            self.dates.add(version, dates);
        }
        Ok(())
    }

    /// What was written, with the present versions of the calendars that it names.
    pub fn resolve(&self, written: &Written) -> Written {
        Written { definition: self.renewed(&written.definition), ..written.clone() }
    }

    /// A definition with the present versions of those calendars that are known.
    pub fn renewed(&self, definition: &Definition) -> Definition {
        let mut renewed = definition.clone();
        let calendars = &mut renewed.calendars;
        for named in calendars.exclude.iter_mut().chain(&mut calendars.only) {
            if let Some(version) = self.versions.get(&named.name) {
                named.version = *version;
            }
        }
        renewed
    }
}

/// An error for each of `names`, a list at `place`, that can be a name and is not `known`.
fn missing(place: &str, kind: &str, names: &[String], known: &dyn Fn(&str) -> bool) -> Vec<FieldError> {
    let missing = names.iter().enumerate().filter(|(_, name)| is_name(name) && !known(name));
    let error = |(index, name): (usize, &String)| {
        let message = format!("there is no {kind} {name:?}: create it first, or in the same apply");
        FieldError::new(format!("{place}[{index}]"), message)
    };
    missing.map(error).collect()
}

/// The dates of the calendars that `definitions` name.
///
/// # Errors
/// When the database fails.
pub async fn dates<'a>(
    store: &Store,
    definitions: impl IntoIterator<Item = (TenantId, &'a Definition)>,
) -> Result<DateSets, Failure> {
    let mut dates = DateSets::default();
    let missing = dates.missing(definitions);
    for (version, found) in calendar::look_up(store, &missing).await? {
        dates.add(version, found);
    }
    Ok(dates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> Named {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Named {
            channels: names(&["oncall", "nobody"]),
            exclude: names(&["holidays", "Not A Name"]),
            only: names(&["opening-days"]),
        }
    }

    fn known() -> Known {
        let mut known = Known::new(TenantId::DEFAULT, &[], &[]);
        known.add_channel("oncall");
        known.add_calendar("holidays", 3, &[]);
        known
    }

    #[test]
    fn what_is_not_there_is_named_by_its_place_and_what_is_no_name_is_not() {
        let errors = known().unknown("jobs[2].", &named());
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["jobs[2].calendars.only[0]", "jobs[2].alert.channels[1]"]);
    }

    #[test]
    fn definitions_get_the_present_version() {
        let job = v1::Job {
            calendars: Some(v1::JobCalendars { exclude: vec!["holidays".to_owned()], ..Default::default() }),
            ..v1::Job::default()
        };
        let written = known().resolve(&rpc::convert::job::read(&job).written);
        assert_eq!(written.definition.calendars.exclude[0].version, 3);
    }
}
