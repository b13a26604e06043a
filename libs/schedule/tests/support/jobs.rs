//! Whole definitions, where a schedule alone does not do; for tests and benchmarks.

use chrono::DateTime;
use escapement_schedule::Owner;
use model::calendar::Calendars;
use model::ids::{JobId, TenantId};
use model::job::{Alert, Definition, Handler, Misfire, Retry, Work, defaults};
use model::policy::{DstFold, DstGap, MisfirePolicy, OverlapPolicy};
use std::collections::BTreeMap;
use std::time::Duration;

/// A job of this schedule, which starts with this jitter.
pub fn definition(schedule: &str, timezone: &str, jitter: Duration) -> Definition {
    Definition {
        schedule: schedule.to_owned(),
        timezone: timezone.to_owned(),
        dst_gap: DstGap::RunAfter,
        dst_fold: DstFold::First,
        starts_at: None,
        ends_at: None,
        calendars: Calendars::default(),
        misfire: Misfire {
            policy: MisfirePolicy::Once,
            grace: defaults::MISFIRE_GRACE,
            catch_up_limit: defaults::CATCH_UP_LIMIT,
            catch_up_window: defaults::CATCH_UP_WINDOW,
            catch_up_per_second: defaults::CATCH_UP_PER_SECOND,
        },
        overlap: OverlapPolicy::Forbid,
        max_runtime: defaults::MAX_RUNTIME,
        retry: Retry::default(),
        jitter,
        queue: defaults::QUEUE.to_owned(),
        priority: 0,
        labels: BTreeMap::new(),
        alert: Alert::default(),
        run: Work::Handler(Handler { name: "nothing".to_owned(), payload: String::new() }),
    }
}

/// Whose the job of this number is; it was created that many seconds after the epoch.
pub fn owner(number: usize) -> Owner {
    let id = format!("00000000-0000-4000-8000-{number:012x}");
    let job: JobId = id.parse().unwrap_or_else(|_| unreachable!("{id} is an id"));
    let created_at = DateTime::from_timestamp(number as i64, 0).unwrap_or_default();
    Owner { tenant: TenantId::DEFAULT, job, created_at }
}
