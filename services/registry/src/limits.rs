//! A tenant's limits on what it defines, looked at in the transaction that stores the definition; and on what it sees.
//!
//! Invariant: of those who create jobs at once, as many succeed as there are places, because each counts while it holds
//! the tenant's limits. What exists is never measured: a lowered limit breaks nothing, and refuses what comes. How many
//! channels and check-ins there are is in [`places`].

pub mod places;

use crate::definition;
use crate::failure::Failure;
use chrono::{DateTime, TimeDelta, Utc};
use model::calendar::Calendars;
use model::job::Definition;
use rpc::auth::Caller;
use rpc::status::Exceeded;
use schedule::{DateSets, Owner, Schedule};
use std::time::Duration;
use store::{Store, Transaction, tenant_limit};

/// Occurrences that are looked at for the shortest time between two of them: those of two days, if they are as far apart as
/// they must be, within these bounds.
const OCCURRENCES: std::ops::RangeInclusive<u64> = 100..=2_000;
const TWO_DAYS_S: u64 = 2 * 86_400;
/// How far ahead. A year has every pattern of a day, a week and a month in it.
const AHEAD: TimeDelta = TimeDelta::days(366);

/// A definition that is to be stored.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Its place in the request's list, if it stands in one.
    pub index: Option<usize>,
    /// What is to be stored.
    pub definition: &'a Definition,
    /// What is stored, if it is a change.
    pub before: Option<&'a Definition>,
    /// Whose it is, or is to be.
    pub owner: Owner,
}

/// What limits the caller's tenant, as a transaction has found it; none when nothing does.
#[derive(Debug, Default)]
pub struct Limits(Option<tenant_limit::Stored>);

impl Limits {
    /// Reads them. Keeps others from creating jobs of the tenant until the transaction ends, if this one `creates` some and
    /// their number is limited; that lock comes after those of jobs, and before those of what is queued and created.
    ///
    /// # Errors
    /// When the database can't be asked.
    pub async fn hold(tx: &Transaction<'_>, caller: &Caller, creates: bool) -> Result<Self, Failure> {
        let stored = tenant_limit::read(tx, caller.tenant_id).await?;
        // Whether there is a limit at all was read without a lock: one that is set this moment counts from the next
        // change on.
        if creates && stored.as_ref().is_some_and(|stored| stored.limits.jobs_max.is_some()) {
            tenant_limit::hold(tx, caller.tenant_id).await?;
            return Ok(Self(tenant_limit::read(tx, caller.tenant_id).await?));
        }
        Ok(Self(stored))
    }

    /// Refuses definitions that are over a limit, and `new` jobs more than there is room for.
    ///
    /// # Errors
    /// [`Failure::OverLimit`], with every limit that is exceeded.
    pub async fn check(
        &self,
        tx: &Transaction<'_>,
        caller: &Caller,
        at: DateTime<Utc>,
        asked: &[Asked<'_>],
        new: usize,
    ) -> Result<(), Failure> {
        let Some(stored) = &self.0 else { return Ok(()) };
        let mut exceeded = over(stored, asked, at);
        if let Some(most) = stored.limits.jobs_max.filter(|_| new > 0) {
            let jobs = tenant_limit::jobs(tx, caller.tenant_id, i64::from(most) + 1).await?;
            let new = i64::try_from(new).unwrap_or(i64::MAX);
            if jobs.saturating_add(new) > i64::from(most) {
                exceeded.push(no_room(&stored.tenant, jobs, i64::from(most), new));
            }
        }
        if exceeded.is_empty() { Ok(()) } else { Err(Failure::OverLimit(exceeded)) }
    }
}

/// Whether the caller's tenant sees runs that are scheduled at an instant.
///
/// # Errors
/// When the database can't be asked.
pub async fn is_shown(store: &Store, caller: &Caller, scheduled_for: DateTime<Utc>) -> Result<bool, Failure> {
    let from = tenant_limit::shown_from(store, caller.tenant_id).await?;
    Ok(from.is_none_or(|from| from <= scheduled_for))
}

/// Says that there is no run scheduled at an instant that lies further back than the caller's tenant sees.
///
/// # Errors
/// [`Failure::NotFound`], with what `name` answers.
pub async fn still_shown(
    store: &Store,
    caller: &Caller,
    scheduled_for: DateTime<Utc>,
    name: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if is_shown(store, caller, scheduled_for).await? {
        Ok(())
    } else {
        Err(Failure::NotFound { kind: "run", name: name() })
    }
}

/// `from`, or the instant as far back as the caller's tenant sees runs, if that is later.
///
/// # Errors
/// When the database can't be asked.
pub async fn shown_from(
    store: &Store,
    caller: &Caller,
    from: DateTime<Utc>,
) -> Result<DateTime<Utc>, Failure> {
    let shown = tenant_limit::shown_from(store, caller.tenant_id).await?;
    Ok(shown.map_or(from, |shown| shown.max(from)))
}

fn no_room(tenant: &str, jobs: i64, most: i64, new: i64) -> Exceeded {
    let room = match new {
        1 => "delete one first, or ask an operator for more".to_owned(),
        _ => format!("{new} more don't fit: delete some first, or ask an operator for more"),
    };
    let message = format!("tenant {tenant:?} has {} of {} jobs: {room}", grouped(jobs), grouped(most));
    Exceeded { limit: "maxJobs", field: None, message }
}

fn over(stored: &tenant_limit::Stored, asked: &[Asked<'_>], at: DateTime<Utc>) -> Vec<Exceeded> {
    let tenant_limit::Stored { tenant, limits, .. } = stored;
    let mut exceeded = Vec::new();
    for Asked { index, definition, before, owner } in asked {
        let field = |name: &str| match index {
            Some(index) => Some(format!("jobs[{index}].{name}")),
            None => Some(name.to_owned()),
        };
        // What is left as it is was stored under other limits, and stays.
        let runs_the_same = before.is_some_and(|before| before.run == definition.run);
        let timed_the_same = before.is_some_and(|before| !definition::retimes(before, definition));
        if let Some(most) = limits.payload_bytes_max.filter(|_| !runs_the_same) {
            let bytes = payload_bytes(definition);
            if bytes > usize::try_from(most).unwrap_or(0) {
                let message = format!("has {bytes} bytes as JSON: tenant {tenant:?} may have {most}");
                exceeded.push(Exceeded { limit: "maxPayloadBytes", field: field("run"), message });
            }
        }
        if let Some(least) = limits.interval_min.filter(|_| !timed_the_same)
            && let Some(shortest) = shorter_interval(definition, *owner, at, least)
        {
            let (shortest, least) = (shortest.as_secs(), least.as_secs());
            let message = format!(
                "has occurrences {shortest} s apart: tenant {tenant:?} may have them {least} s apart"
            );
            exceeded.push(Exceeded { limit: "minInterval", field: field("schedule"), message });
        }
    }
    exceeded
}

/// Bytes of what runs, in the stored form.
fn payload_bytes(definition: &Definition) -> usize {
    serde_json::to_vec(&definition.run).map_or(0, |json| json.len())
}

/// The time between two occurrences of the year after `at` that is shorter than `least`, as far as the first ones show
/// it; the shortest one among them. Calendars don't count: other dates may open days later.
fn shorter_interval(
    definition: &Definition,
    owner: Owner,
    at: DateTime<Utc>,
    least: Duration,
) -> Option<Duration> {
    let every_day = Definition { calendars: Calendars::default(), ..definition.clone() };
    let schedule = Schedule::of_job(&every_day, owner, &DateSets::default()).ok()?;
    let until = at.checked_add_signed(AHEAD)?;
    let count = (TWO_DAYS_S / least.as_secs().max(1)).clamp(*OCCURRENCES.start(), *OCCURRENCES.end());
    let occurrences: Vec<_> =
        schedule.between(at, until).take(usize::try_from(count).unwrap_or(usize::MAX)).collect();
    let apart = occurrences.windows(2).filter_map(|pair| (pair[1] - pair[0]).to_std().ok());
    apart.min().filter(|shortest| *shortest < least)
}

/// A number with its thousands apart: 1,000.
fn grouped(number: i64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && index % 3 == first {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpc::v1;

    fn definition_of(schedule: &str) -> Definition {
        let handler = v1::Handler { name: "a".to_owned(), payload: "x".repeat(100) };
        let job = v1::Job {
            name: "a".to_owned(),
            schedule: schedule.to_owned(),
            run: Some(v1::Run { kind: Some(v1::run::Kind::Handler(handler)) }),
            ..v1::Job::default()
        };
        definition::read(&job).written.definition
    }

    fn over_with(limits: tenant_limit::Limits, schedule: &str) -> Vec<(String, String)> {
        let generation = model::ids::Generation::FIRST;
        let stored = tenant_limit::Stored { tenant: "acme".to_owned(), generation, limits };
        let at = DateTime::UNIX_EPOCH + TimeDelta::days(20_000);
        let owner = definition::new_owner(model::ids::TenantId::DEFAULT, at);
        let asked = Asked { index: Some(3), definition: &definition_of(schedule), before: None, owner };
        let over = over(&stored, &[asked], at).into_iter();
        over.map(|one| (one.field.unwrap_or_default(), one.message)).collect()
    }

    #[test]
    fn the_shortest_interval_counts_wherever_in_the_year_it_is() {
        let limits = |seconds| tenant_limit::Limits {
            interval_min: Some(Duration::from_secs(seconds)),
            ..tenant_limit::Limits::default()
        };
        for (schedule, seconds, sound) in [
            ("* * * * * *", 1, true),
            ("* * * * * *", 2, false),
            ("*/5 * * * *", 300, true),
            ("*/5 * * * *", 301, false),
            ("0,1 0 31 12 *", 61, false),
            ("0 0 1 1 *", 31_536_000, true),
        ] {
            assert_eq!(over_with(limits(seconds), schedule).is_empty(), sound, "{schedule} {seconds}");
        }
        let over = over_with(limits(60), "*/30 * * * * *");
        let message = "has occurrences 30 s apart: tenant \"acme\" may have them 60 s apart";
        assert_eq!(over, [("jobs[3].schedule".to_owned(), message.to_owned())]);
    }

    #[test]
    fn what_is_left_as_it_is_is_not_measured() {
        let limits = tenant_limit::Limits {
            interval_min: Some(Duration::from_secs(60)),
            payload_bytes_max: Some(10),
            ..tenant_limit::Limits::default()
        };
        let generation = model::ids::Generation::FIRST;
        let stored = tenant_limit::Stored { tenant: "acme".to_owned(), generation, limits };
        let owner = definition::new_owner(model::ids::TenantId::DEFAULT, DateTime::UNIX_EPOCH);
        let before = definition_of("* * * * * *");
        let over_by = |schedule: &str| {
            let after = Definition { priority: 3, ..definition_of(schedule) };
            let asked = Asked { index: None, definition: &after, before: Some(&before), owner };
            over(&stored, &[asked], DateTime::UNIX_EPOCH).len()
        };
        assert_eq!((over_by("* * * * * *"), over_by("*/2 * * * * *")), (0, 1));
    }

    #[test]
    fn what_runs_is_measured_as_it_is_stored() {
        let limits = |bytes| tenant_limit::Limits {
            payload_bytes_max: Some(bytes),
            ..tenant_limit::Limits::default()
        };
        assert_eq!(over_with(limits(1_000), "@daily"), []);
        assert_eq!(over_with(limits(100), "@daily")[0].0, "jobs[3].run");
    }

    #[test]
    fn a_full_tenant_is_told_how_full() {
        let told = no_room("acme", 1_000, 1_000, 1).message;
        assert_eq!(
            told,
            "tenant \"acme\" has 1,000 of 1,000 jobs: delete one first, or ask an operator for more"
        );
        assert!(no_room("acme", 7, 10, 5).message.contains("7 of 10 jobs: 5 more don't fit"));
        assert_eq!([0, 999, 1_000, 12_345_678].map(grouped), ["0", "999", "1,000", "12,345,678"]);
    }
}
