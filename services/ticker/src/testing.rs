//! What the tests of the pure parts share: definitions, revisions and cursors around one instant.

use chrono::{DateTime, Utc};
use model::ids::{Generation, JobId, TenantId};
use model::job::{Alert, Definition, Handler, Misfire, Retry, Work};
use model::policy::{DstFold, DstGap, MisfirePolicy, OverlapPolicy};
use std::collections::BTreeMap;
use std::time::Duration;
use store::job_cursor::{Cursor, Revision};

/// The beginning, a whole hour, plus `n` seconds.
pub fn second(n: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_942_800 + n, 0).expect("in range")
}

/// Each second, with 10 seconds of grace; a backlog of 30 at most.
pub fn each_second(misfire: MisfirePolicy) -> Definition {
    Definition {
        schedule: "* * * * * *".to_owned(),
        timezone: "UTC".to_owned(),
        dst_gap: DstGap::RunAfter,
        dst_fold: DstFold::First,
        starts_at: None,
        ends_at: None,
        calendars: model::calendar::Calendars::default(),
        misfire: Misfire {
            policy: misfire,
            grace: Duration::from_secs(10),
            catch_up_limit: 30,
            catch_up_window: Duration::from_secs(7 * 86_400),
            catch_up_per_second: 10,
        },
        overlap: OverlapPolicy::Forbid,
        max_runtime: Duration::from_secs(60),
        retry: Retry {
            max_attempts: 1,
            backoff: Duration::from_secs(1),
            backoff_max: Duration::from_secs(1),
            ..Retry::default()
        },
        jitter: Duration::ZERO,
        queue: "default".to_owned(),
        priority: 0,
        labels: BTreeMap::new(),
        alert: Alert::default(),
        run: Work::Handler(Handler { name: "nothing".to_owned(), payload: String::new() }),
    }
}

/// The same, each minute.
pub fn per_minute(misfire: MisfirePolicy) -> Definition {
    Definition { schedule: "* * * * *".to_owned(), ..each_second(misfire) }
}

/// A definition in force after second `from`.
pub fn revision(generation: i64, from: i64, definition: Definition) -> Revision {
    Revision {
        generation: Generation(generation),
        in_force_from: second(from),
        deleted: false,
        paused: false,
        catches_up: false,
        definition: Ok(definition),
    }
}

/// A job whose first unplanned instant is second `next`.
pub fn cursor(next: i64, revisions: Vec<Revision>) -> Cursor {
    Cursor {
        job_id: JobId(uuid::Uuid::from_u128(7)),
        tenant_id: TenantId::DEFAULT,
        name: "job".to_owned(),
        created_at: second(0),
        next_fire_at: Some(second(next)),
        broken: false,
        revisions,
    }
}
