//! What the audit trail says of calendars: which dates came and which went, the first of them by name and all by number.

use chrono::NaiveDate;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use store::audit::Event;
use store::calendar::Calendar;

/// Dates that are named, of those that came and of those that went.
const DATES_MAX: usize = 100;

/// A calendar was stored.
pub fn created(calendar: &Calendar) -> Event {
    event("calendar.create", calendar, 0, &[], &calendar.dates)
}

/// A calendar got other dates than those `before`, which are in force for so many jobs from now on.
pub fn changed(before: &[NaiveDate], after: &Calendar, jobs: usize) -> Event {
    event("calendar.update", after, jobs, before, &after.dates)
}

/// A calendar was deleted.
pub fn deleted(calendar: &Calendar) -> Event {
    event("calendar.delete", calendar, 0, &calendar.dates, &[])
}

fn event(
    action: &'static str,
    calendar: &Calendar,
    jobs: usize,
    before: &[NaiveDate],
    after: &[NaiveDate],
) -> Event {
    let (was, is): (BTreeSet<_>, BTreeSet<_>) = (before.iter().collect(), after.iter().collect());
    let detail = json!({
        "version": calendar.version,
        "dates": is.len(),
        "jobs": jobs,
        "added": named(is.difference(&was)),
        "removed": named(was.difference(&is)),
    });
    Event { action, object: format!("calendar/{}", calendar.name), detail }
}

/// How many there are, and the first of them in order.
fn named<'a>(dates: impl Iterator<Item = &'a &'a NaiveDate>) -> Value {
    let dates: Vec<_> = dates.map(ToString::to_string).collect();
    json!({ "count": dates.len(), "dates": dates.iter().take(DATES_MAX).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;

    fn calendar(days: impl IntoIterator<Item = usize>) -> Calendar {
        let first = NaiveDate::from_ymd_opt(2026, 1, 1).expect("a day");
        let (created_at, updated_at) = (DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH);
        let dates = days.into_iter().filter_map(|day| first.iter_days().nth(day)).collect();
        Calendar { name: "holidays".to_owned(), version: 2, created_at, updated_at, dates }
    }

    #[test]
    fn dates_that_came_and_went_are_named_and_those_that_stay_are_not() {
        let detail = changed(&calendar([0, 1]).dates, &calendar([1, 2]), 3).detail;
        assert_eq!((&detail["dates"], &detail["jobs"]), (&json!(2), &json!(3)));
        assert_eq!(detail["added"], json!({ "count": 1, "dates": ["2026-01-03"] }));
        assert_eq!(detail["removed"], json!({ "count": 1, "dates": ["2026-01-01"] }));
        assert_eq!(deleted(&calendar([0])).detail["removed"]["dates"], json!(["2026-01-01"]));
    }

    #[test]
    fn of_many_dates_the_first_are_named_and_all_are_counted() {
        let detail = created(&calendar(0..DATES_MAX + 7)).detail;
        assert_eq!(detail["added"]["count"], DATES_MAX + 7);
        assert_eq!(detail["added"]["dates"].as_array().map(Vec::len), Some(DATES_MAX));
    }
}
