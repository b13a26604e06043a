//! What the watchdog can be told, and what must hold between its settings.

use service::config::{Common, Problem, Validate};
use service::egress::Policy;
use std::time::Duration;

service::settings! {
    /// The watchdog's settings.
    pub struct WatchdogConfig {
        /// How far the database's clock may jump from one check to the next before judging stops, in milliseconds; 0
        /// judges by any clock.
        clock_jump_guard_ms: u64 = 5_000,
        /// How often it looks for occurrences to judge and for alerts that have recovered, in milliseconds.
        check_every_ms: u64 = 1_000,
        /// Jobs that one transaction judges at most.
        check_jobs_max: u32 = 500,
        /// Occurrences that one transaction judges at most.
        check_occurrences_max: u32 = 10_000,
        /// How long etcd keeps its leadership without a sign of life, in milliseconds: whole seconds, at least 5,000.
        election_lease_ms: u64 = 5_000,
        /// Deliveries that are being sent at most; half of them may be of one tenant.
        deliveries_max: u32 = 32,
        /// Deliveries to one channel that are being sent at most.
        deliveries_per_channel_max: u32 = 4,
        /// How long a receiver may take to answer, in milliseconds.
        delivery_timeout_ms: u64 = 10_000,
        /// The wait before a delivery's second try, in milliseconds; doubled for each further one.
        delivery_backoff_ms: u64 = 5_000,
        /// The longest wait between two tries, in milliseconds.
        delivery_backoff_max_ms: u64 = 3_600_000,
        /// A delivery older than this is given up, in milliseconds.
        delivery_give_up_ms: u64 = 259_200_000,
        /// Without a finished cycle of a ticker for longer, the operator is told, in milliseconds.
        ticker_silence_max_ms: u64 = 15_000,
        /// Without a sign of life of any dispatcher for longer, the operator is told, in milliseconds.
        dispatcher_silence_max_ms: u64 = 15_000,
        /// When runs have been due for so long in a queue that no worker serves, the operator is told, in milliseconds.
        worker_wait_max_ms: u64 = 30_000,
        /// When PostgreSQL or etcd has not answered for so long, those concerned are told, in milliseconds.
        silence_max_ms: u64 = 15_000,
        /// How far the database's clock and this machine's may differ, in milliseconds.
        clock_offset_max_ms: u64 = 1_000,
        /// From due to accepted, for 99 of 100 runs of the last five minutes, in milliseconds.
        lateness_objective_ms: u64 = 2_000,
        /// With fewer runs than this in five minutes lateness is not judged.
        lateness_runs_min: u32 = 100,
        /// How long a transaction may be open before the operator is told, in milliseconds.
        transaction_max_ms: u64 = 300_000,
        /// How often what changes slowly is looked at: lateness, partitions, tokens, channels, broken jobs, timezone
        /// databases, old transactions; in milliseconds.
        system_look_every_ms: u64 = 15_000,
        /// How long jobs that one trouble of the system explains are gathered before they are told as one, in milliseconds.
        group_wait_ms: u64 = 10_000,
        /// The address of the runbooks' page; alerts about the system link to its headings. None is linked when empty.
        runbooks_url: String = String::new(),
        /// Called each minute while checks really run, so that somebody outside can watch the watchdog. None when empty. It may
        /// lead where webhooks may.
        heartbeat_url: String = String::new(),
        /// How often it is called, in milliseconds.
        heartbeat_every_ms: u64 = 60_000,
        /// Webhooks may lead to this machine.
        webhook_allow_loopback: bool = false,
        /// Webhooks may lead to private networks.
        webhook_allow_private: bool = false,
        /// Webhooks may lead to link-local networks, where clouds keep their machines' credentials.
        webhook_allow_link_local: bool = false,
    }
}

impl WatchdogConfig {
    /// Where webhooks may lead.
    pub fn egress(&self) -> Policy {
        Policy {
            settings: "webhook",
            loopback: self.webhook_allow_loopback,
            private: self.webhook_allow_private,
            link_local: self.webhook_allow_link_local,
        }
    }

    /// How far the clock may jump; none is as far as it likes.
    pub fn clock_jump_guard(&self) -> Option<Duration> {
        (self.clock_jump_guard_ms > 0).then(|| Duration::from_millis(self.clock_jump_guard_ms))
    }

    /// How long etcd keeps the leadership.
    pub fn election_lease(&self) -> Duration {
        Duration::from_millis(self.election_lease_ms)
    }
}

impl Validate for WatchdogConfig {
    fn validate(&self, common: &Common) -> Vec<Problem> {
        let mut problems: Vec<_> = common.database_url().err().into_iter().collect();
        let mut least = |setting: &'static str, value: u64, least: u64| {
            if value < least {
                problems.push(Problem::new(setting, format!("{value}: use at least {least}")));
            }
        };
        least("check_every_ms", self.check_every_ms, 10);
        least("check_jobs_max", self.check_jobs_max.into(), 1);
        least("check_occurrences_max", self.check_occurrences_max.into(), 1);
        least("election_lease_ms", self.election_lease_ms, 5_000);
        least("deliveries_max", self.deliveries_max.into(), 1);
        least("deliveries_per_channel_max", self.deliveries_per_channel_max.into(), 1);
        least("delivery_timeout_ms", self.delivery_timeout_ms, 100);
        least("delivery_backoff_ms", self.delivery_backoff_ms, 1);
        least("ticker_silence_max_ms", self.ticker_silence_max_ms, 5_000);
        least("dispatcher_silence_max_ms", self.dispatcher_silence_max_ms, 5_000);
        least("worker_wait_max_ms", self.worker_wait_max_ms, 1_000);
        least("silence_max_ms", self.silence_max_ms, 5_000);
        least("clock_offset_max_ms", self.clock_offset_max_ms, 10);
        least("lateness_objective_ms", self.lateness_objective_ms, 1);
        least("lateness_runs_min", self.lateness_runs_min.into(), 1);
        least("transaction_max_ms", self.transaction_max_ms, 1_000);
        least("system_look_every_ms", self.system_look_every_ms, 100);
        least("heartbeat_every_ms", self.heartbeat_every_ms, 1_000);
        least("delivery_backoff_max_ms", self.delivery_backoff_max_ms, self.delivery_backoff_ms);
        for (setting, url) in [("runbooks_url", &self.runbooks_url), ("heartbeat_url", &self.heartbeat_url)] {
            if let Some(problem) = (!url.is_empty()).then(|| model::validate::url_problem(url)).flatten() {
                problems.push(Problem::new(setting, problem));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_setting_is_named() {
        let config = WatchdogConfig {
            check_every_ms: 0,
            delivery_backoff_max_ms: 1,
            silence_max_ms: 0,
            heartbeat_url: "ftp://example.test".to_owned(),
            ..WatchdogConfig::default()
        };
        let problems = config.validate(&Common::default());
        let text = format!("{problems:?}");
        for setting in
            ["database_url", "check_every_ms", "delivery_backoff_max_ms", "silence_max_ms", "heartbeat_url"]
        {
            assert!(text.contains(setting), "{setting} is missing in {text}");
        }
    }
}
