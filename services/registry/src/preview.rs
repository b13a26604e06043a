//! Preview: what a schedule means and when it is due, with what rules moved, doubled or dropped. What can't be used is
//! refused as if a job were created with it.

use crate::failure::Failure;
use crate::references::{self, Known};
use crate::registry::Registry;
use crate::{definition, herd, jobs};
use chrono::{DateTime, TimeDelta, Utc};
use model::ids::JobId;
use model::job::Definition;
use model::validate::FieldError;
use rpc::auth::{Caller, Role};
use rpc::convert::time;
use rpc::v1;
use rpc::v1::preview_schedule_request::Direction;
use rpc::v1::schedule_service_server::ScheduleService;
use schedule::{DateSets, Entry, Owner, Schedule, Way};
use store::{Store, clock};
use tonic::{Request, Response, Status};

/// Occurrences when the caller does not say.
const COUNT_DEFAULT: usize = 10;
/// Occurrences at most.
const COUNT_MAX: usize = 1_000;
/// Stands in for what a schedule alone lacks to be a job.
const STAND_IN: &str = "preview";

#[tonic::async_trait]
impl ScheduleService for Registry {
    async fn preview_schedule(
        &self,
        request: Request<v1::PreviewScheduleRequest>,
    ) -> Result<Response<v1::PreviewScheduleResponse>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        let request = request.into_inner();
        Ok(Response::new(preview(&self.store, &caller, &request).await?))
    }

    async fn preview_herd(
        &self,
        request: Request<v1::PreviewHerdRequest>,
    ) -> Result<Response<v1::PreviewHerdResponse>, Status> {
        let caller = Caller::of(&request, Role::Viewer)?.clone();
        let request = request.into_inner();
        Ok(Response::new(herd::preview(&self.store, &self.turns, &caller, &request).await?))
    }
}

/// Which part of a schedule is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    from: DateTime<Utc>,
    count: usize,
    way: Way,
}

impl Part {
    fn read(request: &v1::PreviewScheduleRequest, now: DateTime<Utc>) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let from = request.from.as_ref().map_or(Ok(now), |from| time::instant("from", Some(from)));
        let from = from.unwrap_or_else(|error| {
            errors.push(error);
            now
        });
        let count = match usize::try_from(request.count) {
            Ok(0) => COUNT_DEFAULT,
            Ok(count @ 1..=COUNT_MAX) => count,
            _ => {
                let message = format!("{}: use 1 to {COUNT_MAX}, or 0 for {COUNT_DEFAULT}", request.count);
                errors.push(FieldError::new("count", message));
                0
            }
        };
        let way = match Direction::try_from(request.direction) {
            Ok(Direction::Previous) => Way::Backward,
            Ok(Direction::Next | Direction::Unspecified) => Way::Forward,
            Err(_) => {
                let message = format!("{} is none of its values: use a name", request.direction);
                errors.push(FieldError::new("direction", message));
                Way::Forward
            }
        };
        if errors.is_empty() { Ok(Self { from, count, way }) } else { Err(errors) }
    }
}

async fn preview(
    store: &Store,
    caller: &Caller,
    request: &v1::PreviewScheduleRequest,
) -> Result<v1::PreviewScheduleResponse, Failure> {
    let now = clock::now(store).await?;
    let part = Part::read(request, now);
    let (schedule, place_of_h) = if request.job.is_empty() {
        let created_at = part.as_ref().map_or(now, |part| part.from);
        let job = as_job(request);
        let known = known(store, caller, &job).await?;
        let wrong = part.as_ref().err().cloned().unwrap_or_default();
        let definition = of_fields(&job, &known, wrong).map_err(Failure::Invalid)?;
        let owner = Owner { tenant: caller.tenant_id, job: JobId(uuid::Uuid::nil()), created_at };
        (read(&definition, owner, known.dates())?, !spreads(&definition.schedule))
    } else {
        let mut errors = beside_job(request);
        errors.extend(part.as_ref().err().cloned().unwrap_or_default());
        if !errors.is_empty() {
            return Err(Failure::Invalid(errors));
        }
        let job = jobs::find(store, caller, &request.job).await?;
        let dates = references::dates(store, [(job.tenant, &job.definition)]).await?;
        (read(&job.definition, definition::owner(&job), &dates)?, true)
    };
    let part = part.map_err(Failure::Invalid)?;
    // A thousand sparse occurrences with everything that is dropped between them take a while.
    let answered = tokio::task::spawn_blocking(move || answer(&schedule, part, place_of_h)).await;
    answered.map_err(|_| Failure::Broken("listing a schedule"))
}

/// The schedule of the request as a job that has nothing else wrong with it.
fn as_job(request: &v1::PreviewScheduleRequest) -> v1::Job {
    let handler = v1::Handler { name: STAND_IN.to_owned(), payload: String::new() };
    v1::Job {
        name: STAND_IN.to_owned(),
        schedule: request.schedule.clone(),
        timezone: request.timezone.clone(),
        dst_gap: request.dst_gap,
        dst_fold: request.dst_fold,
        starts_at: request.starts_at,
        ends_at: request.ends_at,
        calendars: request.calendars.clone(),
        run: Some(v1::Run { kind: Some(v1::run::Kind::Handler(handler)) }),
        ..v1::Job::default()
    }
}

/// The calendars that the job names, as far as they are there.
async fn known(store: &Store, caller: &Caller, job: &v1::Job) -> Result<Known, Failure> {
    let named = references::Named::of(job);
    let names: Vec<&str> = named.calendars().collect();
    let calendars = store::calendar::find(store, caller.tenant_id, &names).await?;
    Ok(Known::new(caller.tenant_id, &[], &calendars))
}

/// The definition with its calendars' present versions, unless something is `wrong` already or with it.
fn of_fields(job: &v1::Job, known: &Known, wrong: Vec<FieldError>) -> Result<Definition, Vec<FieldError>> {
    let given = definition::read(job);
    let mut errors = given.errors.clone();
    errors.extend(known.unknown("", &given.named));
    errors.extend(wrong);
    if errors.is_empty() { Ok(known.resolve(&given.written).definition) } else { Err(errors) }
}

/// An error for each field that comes from the job.
fn beside_job(request: &v1::PreviewScheduleRequest) -> Vec<FieldError> {
    let given = [
        ("schedule", !request.schedule.is_empty()),
        ("timezone", !request.timezone.is_empty()),
        ("dstGap", request.dst_gap != 0),
        ("dstFold", request.dst_fold != 0),
        ("startsAt", request.starts_at.is_some()),
        ("endsAt", request.ends_at.is_some()),
        ("calendars", request.calendars.is_some()),
    ];
    let given = given.into_iter().filter(|(_, given)| *given);
    given
        .map(|(field, _)| FieldError::new(field, "comes from the job: leave it out, or leave job out"))
        .collect()
}

/// A schedule that can't be used is one of a stored job that is broken.
fn read(definition: &Definition, owner: Owner, dates: &DateSets) -> Result<Schedule, Failure> {
    Schedule::of_job(definition, owner, dates).map_err(|errors| {
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        crate::failure::wrong("job", format!("can't be planned: {}", texts.join("; ")))
    })
}

/// True when a field of the expression is `H`, which stands for another value in each job.
fn spreads(expression: &str) -> bool {
    let mut parts = expression.split(|c: char| c.is_whitespace() || c == ',');
    parts.any(|part| {
        let rest = part.strip_prefix(['H', 'h']);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['(', '/']))
    })
}

fn answer(schedule: &Schedule, part: Part, place_of_h: bool) -> v1::PreviewScheduleResponse {
    let found = schedule.preview(part.from, part.count, part.way);
    let last = found.entries.iter().rev().find(|entry| !entry.is_dropped()).map_or(part.from, |last| last.at);
    let beyond = match part.way {
        Way::Forward => schedule.next(last),
        Way::Backward => schedule.previous(last - TimeDelta::seconds(1)),
    };
    let mut description = schedule.describe();
    if !place_of_h {
        description.push_str("; H stands for another value in each job");
    }
    v1::PreviewScheduleResponse {
        occurrences: found.entries.into_iter().map(occurrence).collect(),
        exhausted: found.exhausted || beyond.is_none(),
        description,
        tzdata: schedule::tzdata_version().to_owned(),
    }
}

fn occurrence(entry: Entry) -> v1::PreviewedOccurrence {
    v1::PreviewedOccurrence {
        time: Some(time::timestamp(entry.at)),
        note: entry.note().unwrap_or_default(),
        dropped: entry.is_dropped(),
        local: entry.local,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ids::TenantId;

    fn request(schedule: &str, timezone: &str) -> v1::PreviewScheduleRequest {
        v1::PreviewScheduleRequest {
            schedule: schedule.to_owned(),
            timezone: timezone.to_owned(),
            ..v1::PreviewScheduleRequest::default()
        }
    }

    fn known_none() -> Known {
        Known::new(TenantId::DEFAULT, &[], &[])
    }

    fn answered(request: &v1::PreviewScheduleRequest, from: &str) -> v1::PreviewScheduleResponse {
        let from = from.parse().expect("an instant");
        let part = Part::read(request, from).expect("a part");
        let definition = of_fields(&as_job(request), &known_none(), Vec::new()).expect("sound");
        let owner = Owner { tenant: TenantId::DEFAULT, job: JobId(uuid::Uuid::nil()), created_at: from };
        answer(&read(&definition, owner, &DateSets::default()).expect("sound"), part, true)
    }

    #[test]
    fn every_wrong_field_is_named_as_a_creation_would_name_it() {
        let mut wrong = request("61 * * * *", "Europe/Atlantis");
        wrong.count = 1_001;
        wrong.direction = 9;
        wrong.calendars =
            Some(v1::JobCalendars { only: vec!["nobody".to_owned()], ..v1::JobCalendars::default() });
        let part = Part::read(&wrong, DateTime::UNIX_EPOCH).expect_err("wrong");
        let errors = of_fields(&as_job(&wrong), &known_none(), part).expect_err("wrong");
        let fields: Vec<_> = errors.into_iter().map(|error| error.field).collect();
        assert_eq!(fields, ["schedule", "timezone", "calendars.only[0]", "count", "direction"]);
    }

    #[test]
    fn a_job_brings_its_own_schedule() {
        let mut both = request("* * * * *", "");
        both.job = "invoices".to_owned();
        both.dst_fold = v1::dst_fold::Rule::Both.into();
        let fields: Vec<_> = beside_job(&both).into_iter().map(|error| error.field).collect();
        assert_eq!(fields, ["schedule", "dstFold"]);
    }

    #[test]
    fn what_a_gap_moves_is_marked() {
        let mut gap = request("30 2 * * *", "Europe/Berlin");
        gap.count = 2;
        let found = answered(&gap, "2026-03-28T00:00:00Z");
        assert_eq!(found.occurrences.len(), 2);
        assert_eq!(found.occurrences[0].note, "");
        assert_eq!(found.occurrences[1].local, "2026-03-29T03:00:00+02:00");
        assert!(found.occurrences[1].note.contains("do not exist"), "{found:?}");
        assert!(!found.exhausted);
    }

    #[test]
    fn the_end_is_known_also_when_it_was_just_reached() {
        let mut once = request("@at 2026-12-24T18:00:00", "Europe/Berlin");
        once.count = 1;
        let found = answered(&once, "2026-11-29T00:00:00Z");
        assert_eq!((found.occurrences.len(), found.exhausted), (1, true));
        once.direction = Direction::Previous.into();
        let found = answered(&once, "2026-11-29T00:00:00Z");
        assert_eq!((found.occurrences.len(), found.exhausted), (0, true));
    }

    #[test]
    fn only_an_h_that_is_one_counts() {
        for (expression, expected) in [
            ("H * * * *", true),
            ("0 H(0-3) * * *", true),
            ("0,H/15 * * * *", true),
            ("h h(1-4) * * *", true),
            ("0 9 * MARCH THU", false),
        ] {
            assert_eq!(spreads(expression), expected, "{expression}");
        }
    }
}
