//! What the ticker can be told, and what must hold between its settings.

use crate::upkeep::Policy;
use service::config::{Common, Problem, Validate};
use std::time::Duration;

service::settings! {
    /// The ticker's settings.
    pub struct TickerConfig {
        /// How far ahead each occurrence has its run, in milliseconds: a failover shorter than this delays none.
        lookahead_ms: u64 = 60_000,
        /// How often it looks for occurrences to plan, in milliseconds.
        plan_every_ms: u64 = 1_000,
        /// Jobs that one transaction plans at most.
        plan_jobs_max: u32 = 500,
        /// Occurrences of one job that one transaction decides about at most.
        plan_occurrences_per_job_max: u32 = 10_000,
        /// Occurrences that one transaction decides about at most, give or take one job's.
        plan_occurrences_max: u32 = 50_000,
        /// The database's clock and this machine's may differ by so much from one look to the next, in milliseconds;
        /// more stops planning until they agree for 10 seconds. 0 never stops.
        clock_jump_guard_ms: u64 = 5_000,
        /// A leader that commits nothing for so long lets another one try, in milliseconds.
        write_silence_max_ms: u64 = 10_000,
        /// How long etcd keeps its leadership without a sign of life, in milliseconds: whole seconds, at least 5,000.
        election_lease_ms: u64 = 5_000,
        /// How many days the ledger is kept, and misfires, verdicts, resolved alerts, leaderships and sessions with it:
        /// more than any job's catch-up window and maximal runtime, and a day.
        retention_days: u32 = 30,
        /// How many days the audit trail is kept, at least as long as the ledger.
        audit_retention_days: u32 = 400,
    }
}

impl TickerConfig {
    /// How long things are kept.
    pub fn retention(&self) -> Policy {
        let days = |days: u32| Duration::from_secs(u64::from(days) * 86_400);
        Policy { ledger: days(self.retention_days), audit: days(self.audit_retention_days) }
    }

    /// How long etcd keeps the leadership.
    pub fn election_lease(&self) -> Duration {
        Duration::from_millis(self.election_lease_ms)
    }

    /// How far the clocks may drift apart at once; none when nobody minds.
    pub fn clock_jump_guard(&self) -> Option<Duration> {
        (self.clock_jump_guard_ms > 0).then(|| Duration::from_millis(self.clock_jump_guard_ms))
    }
}

impl Validate for TickerConfig {
    fn validate(&self, common: &Common) -> Vec<Problem> {
        let mut problems: Vec<_> = common.database_url().err().into_iter().collect();
        let mut between = |setting: &'static str, value: u64, least: u64, most: u64| {
            if !(least..=most).contains(&value) {
                problems.push(Problem::new(setting, format!("{value}: use {least} to {most}")));
            }
        };
        // Plans reach two windows ahead, into partitions that are made three days ahead.
        between("lookahead_ms", self.lookahead_ms, 2_000, 86_400_000);
        between("plan_every_ms", self.plan_every_ms, 10, self.lookahead_ms / 2);
        between("plan_jobs_max", self.plan_jobs_max.into(), 1, 10_000);
        between("plan_occurrences_per_job_max", self.plan_occurrences_per_job_max.into(), 1, 10_000);
        between("plan_occurrences_max", self.plan_occurrences_max.into(), 1, 1_000_000);
        between("write_silence_max_ms", self.write_silence_max_ms, 1_000, u64::MAX);
        between("election_lease_ms", self.election_lease_ms, 5_000, 300_000);
        between("retention_days", self.retention_days.into(), 2, 36_500);
        between("audit_retention_days", self.audit_retention_days.into(), self.retention_days.into(), 36_500);
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_setting_is_named() {
        let config = TickerConfig { lookahead_ms: 1, plan_jobs_max: 0, ..TickerConfig::default() };
        let text = format!("{:?}", config.validate(&Common::default()));
        for setting in ["database_url", "lookahead_ms", "plan_every_ms", "plan_jobs_max"] {
            assert!(text.contains(setting), "{setting} is missing in {text}");
        }
    }

    #[test]
    fn a_guard_of_zero_is_none() {
        let config = TickerConfig { clock_jump_guard_ms: 0, ..TickerConfig::default() };
        assert_eq!(config.clock_jump_guard(), None);
        assert_eq!(TickerConfig::default().clock_jump_guard(), Some(Duration::from_secs(5)));
    }
}
