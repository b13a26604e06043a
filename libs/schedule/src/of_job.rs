//! The schedule of a stored definition, a job's or a check-in's: the one reading of it for registry, planner, watchdog and
//! `why`.

use crate::calendar::{DateSet, OpenDays};
use crate::schedule::Schedule;
use crate::spec::{Spec, SpecError};
use chrono::{DateTime, NaiveDate, Utc};
use model::calendar::CalendarVersion;
use model::check_in;
use model::ids::{JobId, TenantId};
use model::job::Definition;
use model::policy::{DstFold, DstGap};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::sync::Arc;

/// A version of some tenant's calendar.
pub type DateSetKey = (TenantId, CalendarVersion);

/// The date sets that are known: what a version holds never changes, so that none is asked for twice.
#[derive(Debug, Clone, Default)]
pub struct DateSets {
    known: HashMap<DateSetKey, Arc<DateSet>>,
}

impl DateSets {
    /// The versions that `definitions` name and that are not known yet.
    pub fn missing<'a>(
        &self,
        definitions: impl IntoIterator<Item = (TenantId, &'a Definition)>,
    ) -> BTreeSet<DateSetKey> {
        let named = definitions.into_iter().flat_map(|(tenant, definition)| {
            definition.calendars.versions().map(move |version| (tenant, version.clone()))
        });
        named.filter(|key| !self.known.contains_key(key)).collect()
    }

    /// Makes a version known.
    pub fn add(&mut self, key: DateSetKey, dates: impl IntoIterator<Item = NaiveDate>) {
        let set = DateSet::new(key.1.name.clone(), dates);
        self.known.insert(key, Arc::new(set));
    }

    /// Forgets everything when more than `most` sets are known, so that a long life doesn't keep what nobody uses.
    pub fn limit(&mut self, most: usize) {
        if self.known.len() > most {
            self.known.clear();
        }
    }

    fn get(&self, tenant: TenantId, version: &CalendarVersion) -> Result<Arc<DateSet>, SpecError> {
        self.known.get(&(tenant, version.clone())).cloned().ok_or_else(|| {
            SpecError::calendars(format!("{:?} has no version {}", version.name, version.version))
        })
    }
}

/// Which job a definition belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    /// Its tenant, whose calendars are meant.
    pub tenant: TenantId,
    /// The job, from whose identity `H` and jitter are drawn.
    pub job: JobId,
    /// When the job was created: `@every` counts from there, unless the definition says from when.
    pub created_at: DateTime<Utc>,
}

impl Schedule {
    /// The schedule of `definition`, with its bounds and calendars.
    ///
    /// # Errors
    /// Everything that is wrong with expression, timezone and calendars; a calendar that `dates` lacks is.
    pub fn of_job(definition: &Definition, owner: Owner, dates: &DateSets) -> Result<Self, Vec<SpecError>> {
        let seed = owner.job.to_string();
        let schedule = Self::parse(&Spec {
            expression: &definition.schedule,
            timezone: &definition.timezone,
            dst_gap: definition.dst_gap,
            dst_fold: definition.dst_fold,
            seed: &seed,
            anchor: definition.starts_at.unwrap_or(owner.created_at),
        })?;
        let sets = |versions: &[CalendarVersion]| {
            versions.iter().map(|version| dates.get(owner.tenant, version)).collect::<Result<Vec<_>, _>>()
        };
        let calendars = || {
            let (exclude, only) = (sets(&definition.calendars.exclude)?, sets(&definition.calendars.only)?);
            Ok(OpenDays { exclude, only, rule: definition.calendars.rule })
        };
        let schedule = calendars()
            .and_then(|calendars| schedule.with_calendars(calendars))
            .map_err(|error| vec![error])?;
        Ok(schedule.bounded(definition.starts_at, definition.ends_at))
    }

    /// When the check-in `id`, of which `H` is drawn and which was created at `created_at`, is expected; none when it has no
    /// schedule.
    ///
    /// # Errors
    /// Everything that is wrong with expression and timezone.
    pub fn of_check_in(
        definition: &check_in::Definition,
        id: impl Display,
        created_at: DateTime<Utc>,
    ) -> Result<Option<Self>, Vec<SpecError>> {
        let Some(expression) = definition.schedule.as_deref() else { return Ok(None) };
        let spec = Spec {
            expression,
            timezone: &definition.timezone,
            dst_gap: DstGap::RunAfter,
            dst_fold: DstFold::First,
            seed: &id.to_string(),
            anchor: created_at,
        };
        Self::parse(&spec).map(Some)
    }
}
