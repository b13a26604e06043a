//! Calendars: create, get, list, update, delete; and what other dates mean to the jobs that name them.
//!
//! A definition names versions. So a change of dates is, in the same transaction, a revision of every job that names
//! the calendar: what applied at an instant stays known, and what is planned is planned anew.

use crate::failure::{Failure, retrying, wrong};
use crate::references::Known;
use crate::registry::Registry;
use crate::{audit, definition, page};
use chrono::{DateTime, Datelike, NaiveDate, Utc};
use model::ids::JobId;
use model::validate::{self, FieldError, limits};
use rpc::auth::{Caller, Role};
use rpc::convert::time;
use rpc::v1;
use rpc::v1::calendar_service_server::CalendarService;
use std::collections::BTreeSet;
use store::calendar::{self, Calendar};
use store::job::Stored;
use store::job_change::Action;
use store::{Store, Transaction, job_change};
use tonic::{Request, Response, Status};

/// Dates of a page of calendars: some hundred kilobytes of text.
const PAGE_DATES_MAX: i64 = 50_000;
/// Jobs that a refused deletion names.
const JOBS_NAMED: usize = 5;
/// Dates of a change that are shown.
const DATES_SHOWN: usize = 50;
/// The years that schedules know.
const YEARS: std::ops::RangeInclusive<i32> = 1970..=2199;

#[tonic::async_trait]
impl CalendarService for Registry {
    async fn create_calendar(
        &self,
        request: Request<v1::CreateCalendarRequest>,
    ) -> Result<Response<v1::Calendar>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let written = given(request.into_inner().calendar, None)?;
        let created = retrying(|| create(&self.store, &caller, &written)).await?;
        tracing::info!(calendar.name = created.name, actor = caller.token_name, "Created a calendar");
        Ok(Response::new(message(&created)))
    }

    async fn get_calendar(
        &self,
        request: Request<v1::GetCalendarRequest>,
    ) -> Result<Response<v1::Calendar>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        let name = request.into_inner().calendar;
        Ok(Response::new(message(&get(&self.store, &caller, &name).await?)))
    }

    async fn list_calendars(
        &self,
        request: Request<v1::ListCalendarsRequest>,
    ) -> Result<Response<v1::ListCalendarsResponse>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        let request = request.into_inner();
        let size = page::size(request.page_size)?;
        let after = page::last_key(&request.page_token)?.unwrap_or_default();
        let found = calendar::page(&self.store, caller.tenant_id, &after, size, PAGE_DATES_MAX);
        let found = found.await.map_err(Failure::from)?;
        let last = found.calendars.last().filter(|_| found.more);
        Ok(Response::new(v1::ListCalendarsResponse {
            next_page_token: last.map(|last| page::token(&last.name)).unwrap_or_default(),
            calendars: found.calendars.iter().map(message).collect(),
        }))
    }

    async fn update_calendar(
        &self,
        request: Request<v1::UpdateCalendarRequest>,
    ) -> Result<Response<v1::Calendar>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let v1::UpdateCalendarRequest { name, calendar } = request.into_inner();
        let written = given(calendar, Some(name))?;
        let (updated, jobs) = retrying(|| update(&self.store, &caller, &written)).await?;
        tracing::info!(
            calendar.name = updated.name,
            calendar.version = updated.version,
            jobs,
            actor = caller.token_name,
            "Updated a calendar"
        );
        Ok(Response::new(message(&updated)))
    }

    async fn delete_calendar(
        &self,
        request: Request<v1::DeleteCalendarRequest>,
    ) -> Result<Response<()>, Status> {
        let caller = Caller::of(&request, Role::Editor)?.clone();
        let name = request.into_inner().calendar;
        retrying(|| delete(&self.store, &caller, &name)).await?;
        tracing::info!(calendar.name = name, actor = caller.token_name, "Deleted a calendar");
        Ok(Response::new(()))
    }
}

/// A calendar as a person wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its name.
    pub name: String,
    /// In order, each once.
    pub dates: Vec<NaiveDate>,
    /// The version that the writer changes, when it says so.
    pub version: Option<i64>,
}

/// The calendar of a request; one that is updated has its name in the path, and may leave it out.
fn given(calendar: Option<v1::Calendar>, named: Option<String>) -> Result<Written, Failure> {
    let missing = || wrong("calendar", "is missing: give the calendar's dates");
    let mut calendar = calendar.ok_or_else(missing)?;
    if let Some(name) = named {
        if validate::name("", &name).is_some() {
            return Err(not_found(&name));
        }
        if !calendar.name.is_empty() && calendar.name != name {
            let message =
                format!("{:?} is another name than {name:?}: a calendar keeps its name", calendar.name);
            return Err(wrong("name", message));
        }
        calendar.name = name;
    }
    read(&calendar).map_err(Failure::Invalid)
}

/// Reads a calendar and finds everything that is wrong with it.
///
/// # Errors
/// Every wrong field, as the API spells it.
pub fn read(calendar: &v1::Calendar) -> Result<Written, Vec<FieldError>> {
    let mut errors: Vec<_> = validate::name("name", &calendar.name).into_iter().collect();
    let mut dates = BTreeSet::new();
    for (index, text) in calendar.dates.iter().enumerate() {
        match date(text) {
            Ok(date) => drop(dates.insert(date)),
            Err(problem) => errors.push(FieldError::new(format!("dates[{index}]"), problem)),
        }
    }
    if dates.len() > limits::CALENDAR_DATES {
        let message = format!("{} dates: use at most {}", dates.len(), limits::CALENDAR_DATES);
        errors.push(FieldError::new("dates", message));
    }
    if calendar.version < 0 {
        errors.push(FieldError::new("version", "is negative: use the one that was read, or none"));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let version = (calendar.version > 0).then_some(calendar.version);
    Ok(Written { name: calendar.name.clone(), dates: dates.into_iter().collect(), version })
}

fn date(text: &str) -> Result<NaiveDate, String> {
    let shaped = text.len() == 10
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() });
    if !shaped {
        return Err(format!("{text:?}: write a date as 2026-12-25"));
    }
    let date: NaiveDate = text.parse().map_err(|_| format!("{text:?} is no day of any year"))?;
    if !YEARS.contains(&date.year()) {
        return Err(format!("{text:?}: use the years {} to {}", YEARS.start(), YEARS.end()));
    }
    Ok(date)
}

fn message(calendar: &Calendar) -> v1::Calendar {
    v1::Calendar {
        name: calendar.name.clone(),
        dates: calendar.dates.iter().map(ToString::to_string).collect(),
        version: calendar.version,
        create_time: Some(time::timestamp(calendar.created_at)),
        update_time: Some(time::timestamp(calendar.updated_at)),
    }
}

fn not_found(name: &str) -> Failure {
    Failure::NotFound { kind: "calendar", name: name.to_owned() }
}

async fn get(store: &Store, caller: &Caller, name: &str) -> Result<Calendar, Failure> {
    if validate::name("", name).is_some() {
        return Err(not_found(name)); // no calendar has such a name
    }
    let found = calendar::find(store, caller.tenant_id, &[name]).await?;
    found.into_iter().next().ok_or_else(|| not_found(name))
}

async fn create(store: &Store, caller: &Caller, written: &Written) -> Result<Calendar, Failure> {
    let mut client = store.client("create a calendar").await?;
    let tx = client.begin("create a calendar").await?;
    let at = job_change::now(&tx).await?;
    let Written { name, dates, .. } = written;
    let version = calendar::insert(&tx, caller.tenant_id, at, &caller.token_name, name, dates).await?;
    let version = version.ok_or_else(|| Failure::Exists { kind: "calendar", name: name.clone() })?;
    let created =
        Calendar { name: name.clone(), version, created_at: at, updated_at: at, dates: dates.clone() };
    let event = audit::calendar::created(&created);
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    tx.commit().await?;
    Ok(created)
}

/// Gives a calendar other dates; as it is then, and how many jobs got a revision.
async fn update(store: &Store, caller: &Caller, written: &Written) -> Result<(Calendar, usize), Failure> {
    let mut client = store.client("update a calendar").await?;
    let tx = client.begin("update a calendar").await?;
    let Written { name, dates, version } = written;
    let users = calendar::used_by(&tx, caller.tenant_id, &[name], None).await?;
    let users: Vec<JobId> = users.into_iter().map(|(job, _)| job).collect();
    let locked = job_change::lock(&tx, &users).await?;
    let found = calendar::lock(&tx, caller.tenant_id, &[name]).await?;
    let before = found.into_iter().next().ok_or_else(|| not_found(name))?;
    if let Some(expected) = version.filter(|expected| *expected != before.version) {
        return Err(Failure::CalendarChangedSince { name: before.name, expected, stored: before.version });
    }
    if before.dates == *dates {
        return Ok((before, 0));
    }
    let users = still_used(&tx, caller, &[name], locked.jobs).await?;
    let at = locked.at;
    let version = calendar::update(&tx, caller.tenant_id, at, &caller.token_name, name, dates).await?;
    let after = Calendar { version, updated_at: at, dates: dates.clone(), ..before.clone() };
    let mut known = Known::new(caller.tenant_id, &[], std::slice::from_ref(&after));
    renew(&tx, caller, at, users.iter(), &mut known).await?;
    let event = audit::calendar::changed(&before.dates, &after, users.len());
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    tx.commit().await?;
    Ok((after, users.len()))
}

/// Those of the locked jobs that name one of the calendars, which are locked by now.
///
/// # Errors
/// [`Failure::Overtaken`] when a job that is not locked has come to name one.
pub async fn still_used(
    tx: &Transaction<'_>,
    caller: &Caller,
    names: &[&str],
    locked: Vec<Stored>,
) -> Result<Vec<Stored>, Failure> {
    let users = calendar::used_by(tx, caller.tenant_id, names, None).await?;
    let users: BTreeSet<JobId> = users.into_iter().map(|(job, _)| job).collect();
    let still: Vec<Stored> = locked.into_iter().filter(|job| users.contains(&job.id)).collect();
    if still.len() == users.len() { Ok(still) } else { Err(Failure::Overtaken) }
}

/// Puts the versions of calendars that are `known` into the definitions of locked jobs.
///
/// # Errors
/// When the database fails.
pub async fn renew<'a>(
    tx: &Transaction<'_>,
    caller: &Caller,
    at: DateTime<Utc>,
    jobs: impl Iterator<Item = &'a Stored>,
    known: &mut Known,
) -> Result<(), Failure> {
    let renewed: Vec<_> = jobs.map(|job| (job, known.renewed(&job.definition))).collect();
    known.complete(tx, renewed.iter().map(|(_, definition)| definition)).await?;
    let changes: Vec<_> = renewed
        .iter()
        .map(|(job, definition)| definition::renewal(job, definition, known.dates(), at))
        .collect();
    job_change::change(tx, at, &caller.token_name, Action::Calendar, &changes).await?;
    Ok(())
}

/// How many of the jobs name a calendar.
pub fn naming(jobs: &[Stored], calendar: &str) -> usize {
    let names = |job: &&Stored| job.definition.calendars.versions().any(|named| named.name == calendar);
    jobs.iter().filter(names).count()
}

/// The dates that one set has and the other has not, in order; past the first ones, how many more.
pub fn differences(before: &[NaiveDate], after: &[NaiveDate]) -> Vec<v1::FieldChange> {
    let (before, after): (BTreeSet<_>, BTreeSet<_>) = (before.iter().collect(), after.iter().collect());
    let differing: Vec<_> = before.symmetric_difference(&after).collect();
    let change = |before: Option<String>, after: Option<String>| v1::FieldChange {
        field: "dates".to_owned(),
        before,
        after,
    };
    let shown = differing.iter().take(DATES_SHOWN).map(|date| {
        let of = |dates: &BTreeSet<&NaiveDate>| dates.contains(*date).then(|| date.to_string());
        change(of(&before), of(&after))
    });
    let mut changes: Vec<_> = shown.collect();
    if let Some(more) = differing.len().checked_sub(DATES_SHOWN).filter(|more| *more > 0) {
        changes.push(change(None, Some(format!("… and {more} more that differ"))));
    }
    changes
}

async fn delete(store: &Store, caller: &Caller, name: &str) -> Result<(), Failure> {
    get(store, caller, name).await?;
    let mut client = store.client("delete a calendar").await?;
    let tx = client.begin("delete a calendar").await?;
    let found = calendar::lock(&tx, caller.tenant_id, &[name]).await?;
    let found = found.into_iter().next().ok_or_else(|| not_found(name))?;
    let limit = i64::try_from(JOBS_NAMED + 1).ok();
    let users = calendar::used_by(&tx, caller.tenant_id, &[name], limit).await?;
    if !users.is_empty() {
        let more = users.len() > JOBS_NAMED;
        let jobs = users.into_iter().take(JOBS_NAMED).map(|(_, job)| job).collect();
        return Err(Failure::CalendarInUse { calendar: found.name, jobs, more });
    }
    let at = job_change::now(&tx).await?;
    calendar::delete(&tx, caller.tenant_id, at, name).await?;
    let event = audit::calendar::deleted(&found);
    store::audit::record(&tx, caller.tenant_id, &caller.token_name, &[event]).await?;
    tx.commit().await?;
    Ok(())
}

#[cfg(test)]
mod tests;
