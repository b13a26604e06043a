//! The coming load of a tenant's jobs, with what would spread its peaks.
//!
//! Invariant: bounded in memory and time, whatever is asked for: so many jobs, so long a time, so many steps of counting,
//! and, by [`Turns`], so many requests at once. Deliberately not here: the counting, which is [`schedule::Herd`]'s.

use crate::failure::{Failure, wrong};
use crate::turns::Turns;
use crate::{definition, job_list};
use chrono::{DateTime, TimeDelta, Utc};
use model::validate::FieldError;
use rpc::auth::Caller;
use rpc::convert::time;
use rpc::v1;
use rpc::v1::herd_spread::Change;
use schedule::{By, DateSets, Herd, Peak, Picture, Spread};
use std::time::Duration;
use store::job::{self, Filter, Listed};
use store::{Store, calendar, clock};

/// Jobs that are looked at.
const JOBS_MAX: usize = 100_000;
/// Jobs that are read at a time.
const PAGE: i64 = 1_000;
/// How long a time is looked at.
const SPAN: std::ops::RangeInclusive<u64> = 60..=7 * 86_400;
const SPAN_DEFAULT: Duration = Duration::from_secs(86_400);
const BUCKETS: std::ops::RangeInclusive<usize> = 10..=1_000;
const BUCKETS_DEFAULT: usize = 100;
/// Jobs that are left out and named.
const LEFT_OUT_MAX: usize = 10;

/// Looks at the caller's jobs.
///
/// # Errors
/// [`Failure::Invalid`] with everything that is wrong with the request, or when more is asked for than is looked at;
/// [`Failure::Crowded`] when too many wait.
pub async fn preview(
    store: &Store,
    turns: &Turns,
    caller: &Caller,
    request: &v1::PreviewHerdRequest,
) -> Result<v1::PreviewHerdResponse, Failure> {
    let Asked { from, to, buckets, filter } =
        Asked::read(request, clock::now(store).await?).map_err(Failure::Invalid)?;
    let broken = |_| Failure::Broken("looking at the coming load");
    // Held by the work itself, which goes on when the caller has gone.
    let turn = turns.wait(caller.tenant_id).await?;
    let (herd, left_out) = gathered(store, caller, &filter, Herd::new(from, to)).await?;
    let look = move || {
        let picture = herd.look(buckets);
        drop(turn);
        picture
    };
    let picture = tokio::task::spawn_blocking(look).await.map_err(broken)?;
    let picture = picture.map_err(|too_much| {
        wrong("labels", format!("{too_much}, not even for minutes: name labels or a queue of fewer jobs"))
    })?;
    Ok(answer(picture, left_out))
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    buckets: usize,
    filter: Filter,
}

impl Asked {
    fn read(request: &v1::PreviewHerdRequest, now: DateTime<Utc>) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let from = request.from.as_ref().map_or(Ok(now), |from| time::instant("from", Some(from)));
        let from = from.map_err(|error| errors.push(error)).unwrap_or(now);
        let span = request.span.as_ref().map_or(Ok(SPAN_DEFAULT), |span| time::duration_of("span", span));
        let span = span.map_err(|error| errors.push(error)).unwrap_or(SPAN_DEFAULT);
        if !SPAN.contains(&span.as_secs()) {
            let (least, most) = (SPAN.start(), SPAN.end());
            let message = format!("{} s: use {least} s to {most} s, which is a week", span.as_secs());
            errors.push(FieldError::new("span", message));
        }
        let buckets = match usize::try_from(request.buckets) {
            Ok(0) => BUCKETS_DEFAULT,
            Ok(buckets) if BUCKETS.contains(&buckets) => buckets,
            _ => {
                let (least, most) = (BUCKETS.start(), BUCKETS.end());
                let message =
                    format!("{}: use {least} to {most}, or 0 for {BUCKETS_DEFAULT}", request.buckets);
                errors.push(FieldError::new("buckets", message));
                BUCKETS_DEFAULT
            }
        };
        let (labels, keys) = job_list::labels("labels", &request.labels, &mut errors);
        let queue = job_list::queue(&request.queue, &mut errors);
        let to = from + TimeDelta::from_std(span).unwrap_or_default();
        let filter = Filter { queue, paused: Some(false), labels, keys, ..Filter::default() };
        if errors.is_empty() { Ok(Self { from, to, buckets, filter }) } else { Err(errors) }
    }
}

/// The jobs that are meant, and the names of those whose definitions can't be used.
async fn gathered(
    store: &Store,
    caller: &Caller,
    filter: &Filter,
    mut herd: Herd,
) -> Result<(Herd, Vec<String>), Failure> {
    let (mut left_out, mut dates, mut after) = (Vec::new(), DateSets::default(), String::new());
    loop {
        let page = job::page(store, caller.tenant_id, filter, &after, PAGE).await?;
        let sound = page.iter().filter_map(|job| match job {
            Listed::Sound(job) => Some((job.tenant, &job.definition)),
            Listed::Unreadable(_) => None,
        });
        let missing = dates.missing(sound);
        for (version, found) in calendar::look_up(store, &missing).await? {
            dates.add(version, found);
        }
        for job in &page {
            let used = match job {
                Listed::Sound(job) => {
                    herd.add(&job.name, &job.definition, definition::owner(job), &dates).is_ok()
                }
                Listed::Unreadable(_) => false,
            };
            if !used {
                left_out.push(job.name().to_owned());
            }
        }
        few_enough(herd.jobs() + left_out.len())?;
        match page.last() {
            Some(last) if page.len() as i64 == PAGE => last.name().clone_into(&mut after),
            _ => return Ok((herd, left_out)),
        }
    }
}

/// Whether so many jobs are looked at.
fn few_enough(jobs: usize) -> Result<(), Failure> {
    if jobs > JOBS_MAX {
        let message = format!("more than {JOBS_MAX} jobs have them: name labels or a queue");
        return Err(wrong("labels", message));
    }
    Ok(())
}

fn answer(picture: Picture, mut left_out: Vec<String>) -> v1::PreviewHerdResponse {
    let more_left_out = left_out.len().saturating_sub(LEFT_OUT_MAX);
    left_out.truncate(LEFT_OUT_MAX);
    let bucket = |bucket: schedule::Bucket| v1::HerdBucket {
        time: Some(time::timestamp(bucket.at)),
        runs: long(bucket.runs),
        peak: int(bucket.peak),
    };
    v1::PreviewHerdResponse {
        from: Some(time::timestamp(picture.from)),
        to: Some(time::timestamp(picture.to)),
        cut: picture.cut,
        jobs: int(picture.jobs),
        left_out,
        more_left_out: int(more_left_out),
        runs: long(picture.runs),
        busiest: picture
            .busiest
            .map(|(at, runs)| v1::Peak { runs: int(runs), time: Some(time::timestamp(at)) }),
        bucket: Some(time::duration(picture.bucket)),
        buckets: picture.buckets.into_iter().map(bucket).collect(),
        peaks: picture.peaks.into_iter().map(peak).collect(),
        tzdata: schedule::tzdata_version().to_owned(),
    }
}

fn peak(peak: Peak) -> v1::HerdPeak {
    // Each run is of another job.
    let more = i64::from(peak.runs) - peak.jobs.len() as i64;
    v1::HerdPeak {
        time: Some(time::timestamp(peak.at)),
        runs: int(peak.runs),
        times: int(peak.times),
        jobs: peak.jobs,
        more_jobs: int(more.max(0)),
        spreads: peak.spreads.into_iter().map(spread).collect(),
    }
}

fn spread(spread: Spread) -> v1::HerdSpread {
    let (change, instead_of) = match spread.by {
        By::Jitter(jitter) => (Change::Jitter(time::duration(jitter)), String::new()),
        By::Schedule { was, is } => (Change::Schedule(is), was),
    };
    v1::HerdSpread { change: Some(change), instead_of, jobs: int(spread.jobs), peak: int(spread.peak) }
}

fn int(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_from_now_is_asked_for_unless_something_else_is() {
        let now = DateTime::UNIX_EPOCH;
        let asked = Asked::read(&v1::PreviewHerdRequest::default(), now).expect("sound");
        assert_eq!((asked.from, asked.to, asked.buckets), (now, now + TimeDelta::hours(24), 100));
        assert_eq!(asked.filter, Filter { paused: Some(false), ..Filter::default() });
    }

    #[test]
    fn a_hundred_thousand_jobs_are_looked_at_and_for_one_more_labels_are_asked_for() {
        assert!(few_enough(100_000).is_ok());
        let Err(Failure::Invalid(errors)) = few_enough(100_001) else { panic!("they are too many") };
        let message = "more than 100000 jobs have them: name labels or a queue";
        assert_eq!(errors, [FieldError::new("labels", message)]);
    }

    #[test]
    fn everything_that_is_wrong_is_named() {
        let request = v1::PreviewHerdRequest {
            from: Some(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 }),
            span: Some(prost_types::Duration { seconds: 59, nanos: 0 }),
            buckets: 9,
            labels: vec!["=a".to_owned()],
            queue: "\0".to_owned(),
        };
        let errors = Asked::read(&request, DateTime::UNIX_EPOCH).expect_err("wrong");
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["from", "span", "buckets", "labels[0]", "queue"]);
        assert!(errors[1].message.contains("use 60 s to 604800 s"), "{errors:?}");
    }
}
