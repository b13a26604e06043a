//! A tenant's limits as a person writes and reads them.

use model::validate::{self, FieldError};
use rpc::convert::time;
use rpc::v1;
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use std::time::Duration;
use store::{tenant, tenant_limit};

/// Of a tenant's share.
const WEIGHT: RangeInclusive<i32> = 1..=100;
/// Runs at a time.
const RUNNING: RangeInclusive<i32> = 0..=1_000_000;
/// Starts a second.
const STARTS: RangeInclusive<i32> = 1..=100_000;
/// Queues that have a limit of their own.
const QUEUES_MAX: usize = 1_000;
/// Jobs.
const JOBS: RangeInclusive<i32> = 0..=10_000_000;
/// Between two occurrences.
const INTERVAL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(365 * 86_400);
/// Bytes of what runs; no job may have more.
const PAYLOAD_BYTES: RangeInclusive<i32> = 1..=65_536;
/// Days of history.
const HISTORY_DAYS: RangeInclusive<i32> = 1..=3_650;

/// All limits of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Of what workers do for it.
    pub workers: tenant::Limits,
    /// Of what it defines and sees.
    pub definitions: tenant_limit::Limits,
}

impl Limits {
    /// Reads limits, and finds everything that is wrong with them; what is not given is not limited.
    pub fn read(given: Option<&v1::TenantLimits>) -> (Self, Vec<FieldError>) {
        let given = given.cloned().unwrap_or_default();
        let mut errors = Vec::new();
        let mut within = |field: &str, value: i32, range: &RangeInclusive<i32>| {
            if !range.contains(&value) {
                let (least, most) = (range.start(), range.end());
                let message = format!("{value}: use {least} to {most}");
                errors.push(FieldError::new(format!("limits.{field}"), message));
            }
        };
        let weight = if given.weight == 0 { 1 } else { given.weight };
        within("weight", weight, &WEIGHT);
        let optional = [
            ("maxRunning", given.max_running, &RUNNING),
            ("maxStartsPerSecond", given.max_starts_per_second, &STARTS),
            ("maxJobs", given.max_jobs, &JOBS),
            ("maxPayloadBytes", given.max_payload_bytes, &PAYLOAD_BYTES),
            ("historyDays", given.history_days, &HISTORY_DAYS),
        ];
        for (field, value, range) in optional {
            if let Some(value) = value {
                within(field, value, range);
            }
        }
        for (queue, running) in &given.max_running_by_queue {
            within(&format!("maxRunningByQueue.{queue}"), *running, &RUNNING);
        }
        errors.extend(queue_errors(&given));
        let interval_min = given.min_interval.as_ref().map(interval).transpose().unwrap_or_else(|error| {
            errors.push(error);
            None
        });
        let workers = tenant::Limits {
            weight,
            max_running: given.max_running,
            max_starts_per_second: given.max_starts_per_second,
            queues: given.max_running_by_queue.into_iter().collect(),
        };
        let definitions = tenant_limit::Limits {
            jobs_max: given.max_jobs,
            interval_min,
            payload_bytes_max: given.max_payload_bytes,
            history_days: given.history_days,
        };
        (Self { workers, definitions }, errors)
    }

    /// As a message.
    pub fn message(&self) -> v1::TenantLimits {
        let Self { workers, definitions } = self;
        v1::TenantLimits {
            weight: workers.weight,
            max_running: workers.max_running,
            max_starts_per_second: workers.max_starts_per_second,
            max_running_by_queue: workers.queues.clone().into_iter().collect(),
            max_jobs: definitions.jobs_max,
            min_interval: definitions.interval_min.map(time::duration),
            max_payload_bytes: definitions.payload_bytes_max,
            history_days: definitions.history_days,
        }
    }

    /// In the audit trail.
    pub fn shown(&self) -> Value {
        let Self { workers, definitions } = self;
        json!({
            "weight": workers.weight,
            "maxRunning": workers.max_running,
            "maxStartsPerSecond": workers.max_starts_per_second,
            "maxRunningByQueue": workers.queues,
            "maxJobs": definitions.jobs_max,
            "minInterval": definitions.interval_min.map(|least| format!("{}s", least.as_secs())),
            "maxPayloadBytes": definitions.payload_bytes_max,
            "historyDays": definitions.history_days,
        })
    }
}

fn queue_errors(given: &v1::TenantLimits) -> Vec<FieldError> {
    let queues = &given.max_running_by_queue;
    let field = "limits.maxRunningByQueue";
    let mut errors: Vec<_> = queues.keys().filter_map(|queue| validate::name(field, queue)).collect();
    if queues.len() > QUEUES_MAX {
        errors.push(FieldError::new(field, format!("{} queues: use at most {QUEUES_MAX}", queues.len())));
    }
    errors
}

fn interval(given: &prost_types::Duration) -> Result<Duration, FieldError> {
    let field = "limits.minInterval";
    let interval = time::duration_of(field, given)?;
    if !INTERVAL.contains(&interval) || interval.subsec_nanos() != 0 {
        return Err(FieldError::new(field, format!("{interval:?}: use whole seconds, 1 s to 365 days")));
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_come_back_as_they_were_written() {
        let written = v1::TenantLimits {
            weight: 3,
            max_running: Some(0),
            max_starts_per_second: Some(5),
            max_running_by_queue: [("mail".to_owned(), 2)].into(),
            max_jobs: Some(1_000),
            min_interval: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
            max_payload_bytes: Some(1_024),
            history_days: Some(30),
        };
        let (limits, errors) = Limits::read(Some(&written));
        assert_eq!((limits.message(), errors), (written, Vec::new()));
        let (none, errors) = Limits::read(None);
        let unlimited = v1::TenantLimits { weight: 1, ..v1::TenantLimits::default() };
        assert_eq!((none.message(), errors), (unlimited, Vec::new()));
    }

    #[test]
    fn every_wrong_limit_is_named() {
        let written = v1::TenantLimits {
            weight: 101,
            max_running: Some(-1),
            max_starts_per_second: Some(0),
            max_running_by_queue: [("Mail".to_owned(), -1)].into(),
            max_jobs: Some(-1),
            min_interval: Some(prost_types::Duration { seconds: 1, nanos: 500_000_000 }),
            max_payload_bytes: Some(0),
            history_days: Some(0),
        };
        let (_, errors) = Limits::read(Some(&written));
        let mut fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        fields.sort_unstable();
        let expected = [
            "limits.historyDays",
            "limits.maxJobs",
            "limits.maxPayloadBytes",
            "limits.maxRunning",
            "limits.maxRunningByQueue",
            "limits.maxRunningByQueue.Mail",
            "limits.maxStartsPerSecond",
            "limits.minInterval",
            "limits.weight",
        ];
        assert_eq!(fields, expected);
    }
}
