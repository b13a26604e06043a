//! Runs as people look for them: of one job or of all, latest first, a page at a time.

use crate::failure::Failure;
use crate::{jobs, limits, page, runs};
use chrono::{DateTime, Utc};
use model::ids::{JobId, instant_text};
use model::run::{Origin, Phase};
use model::validate::FieldError;
use rpc::auth::Caller;
use rpc::convert::{run, time};
use rpc::v1;
use store::Store;
use store::history::{self, Filter};

/// After every occurrence: schedules end with the year 2199. (PostgreSQL and chrono disagree about their own maxima.)
const END_OF_TIME: DateTime<Utc> = match DateTime::from_timestamp(32_503_680_000, 0) {
    Some(year_3000) => year_3000,
    None => DateTime::UNIX_EPOCH,
};

/// A page of a job's runs.
///
/// # Errors
/// [`Failure::Invalid`] with every filter that is wrong; [`Failure::NotFound`].
pub async fn list(
    store: &Store,
    caller: &Caller,
    request: &v1::ListRunsRequest,
) -> Result<v1::ListRunsResponse, Failure> {
    let size = page::size(request.page_size)?;
    let (filter, to) = asked(&request.states, &request.origins, request.from, request.to)?;
    let kind = format!("{} {filter:?} {to:?}", request.job);
    let before = match page::last_key_of(&kind, &request.page_token)? {
        Some(text) => time::instant_of_text("pageToken", &text).map_err(|_| page::bad_token())?,
        None => to,
    };
    let job = jobs::find_or_deleted(store, caller, &request.job).await?;
    let filter = Filter { from: limits::shown_from(store, caller, filter.from).await?, ..filter };
    let mut runs = history::page(store, caller.tenant_id, job.id, before, &filter, size as i64 + 1).await?;
    let last =
        page::cut(&mut runs, size).map(|last| page::token_of(&kind, &instant_text(last.scheduled_for)));
    let runs = runs.into_iter().map(|run| runs::message(&job, run)).collect();
    Ok(v1::ListRunsResponse { runs, next_page_token: last.unwrap_or_default() })
}

/// A page of the runs of all jobs of the caller's tenant, or of one.
///
/// # Errors
/// As [`list`].
pub async fn search(
    store: &Store,
    caller: &Caller,
    request: &v1::SearchRunsRequest,
) -> Result<v1::ListRunsResponse, Failure> {
    let v1::SearchRunsRequest { job, page_size, page_token, states, from, to, origins } = request.clone();
    if !job.is_empty() {
        let of_job = v1::ListRunsRequest { job, page_size, page_token, states, from, to, origins };
        return list(store, caller, &of_job).await;
    }
    let size = page::size(page_size)?;
    let (filter, to) = asked(&states, &origins, from, to)?;
    let kind = format!("{filter:?} {to:?}");
    // Nothing at `to` itself: no job's id is lower than none.
    let before = match page::last_key_of(&kind, &page_token)? {
        Some(text) => keyset(&text)?,
        None => (to, JobId(uuid::Uuid::nil())),
    };
    let filter = Filter { from: limits::shown_from(store, caller, filter.from).await?, ..filter };
    let mut found = history::search(store, caller.tenant_id, before, &filter, size as i64 + 1).await?;
    let last = page::cut(&mut found, size)
        .map(|last| page::token_of(&kind, &format!("{} {}", instant_text(last.run.scheduled_for), last.job)));
    let runs =
        found.into_iter().map(|owned| runs::message_of(owned.job, &owned.job_name, owned.run)).collect();
    Ok(v1::ListRunsResponse { runs, next_page_token: last.unwrap_or_default() })
}

fn keyset(key: &str) -> Result<(DateTime<Utc>, JobId), Failure> {
    let (at, id) = key.split_once(' ').ok_or_else(page::bad_token)?;
    let at = time::instant_of_text("pageToken", at).map_err(|_| page::bad_token())?;
    Ok((at, id.parse().map_err(|_| page::bad_token())?))
}

/// Which runs are asked for, and up to which instant, exclusive.
fn asked(
    states: &[i32],
    origins: &[String],
    from: Option<prost_types::Timestamp>,
    to: Option<prost_types::Timestamp>,
) -> Result<(Filter, DateTime<Utc>), Failure> {
    let mut errors = Vec::new();
    let mut phases = run::phases("states", states).unwrap_or_else(|wrong| {
        errors.extend(wrong);
        Vec::new()
    });
    if phases.is_empty() {
        // A window of a per-second job is over a hundred planned runs: they would hide what happened.
        phases.extend(Phase::ALL.iter().copied().filter(|phase| *phase != Phase::Planned));
    }
    let origins = origins_of(origins, &mut errors);
    let mut instant = |field, at: Option<prost_types::Timestamp>, default| match at {
        None => default,
        Some(at) => time::instant(field, Some(&at)).unwrap_or_else(|error| {
            errors.push(error);
            default
        }),
    };
    let (from, to) = (instant("from", from, DateTime::UNIX_EPOCH), instant("to", to, END_OF_TIME));
    if from > to {
        errors.push(FieldError::new("from", "lies after to: exchange them"));
    }
    if errors.is_empty() { Ok((Filter { from, phases, origins }, to)) } else { Err(Failure::Invalid(errors)) }
}

fn origins_of(origins: &[String], errors: &mut Vec<FieldError>) -> Vec<Origin> {
    let read = |(index, text): (usize, &String)| {
        let origin = text.parse().ok();
        if origin.is_none() {
            let message = format!("{text:?}: use SCHEDULE, CATCH_UP, BACKFILL or MANUAL");
            errors.push(FieldError::new(format!("origins[{index}]"), message));
        }
        origin
    };
    origins.iter().enumerate().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_filter_is_named() {
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let origins = ["MANUAL".to_owned(), "manual".to_owned()];
        let refused = asked(&[0, 5, 99], &origins, at(9), at(8)).expect_err("wrong");
        let Failure::Invalid(errors) = refused else { panic!("{refused:?}") };
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["states[0]", "states[2]", "origins[1]", "from"]);
    }
}
