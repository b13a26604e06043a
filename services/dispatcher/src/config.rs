//! What the dispatcher can be told, and what must hold between its settings.

use service::config::{Common, Problem, Validate};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

service::settings! {
    /// The dispatcher's settings.
    pub struct DispatcherConfig {
        /// Where workers connect; port 0 takes a free one.
        listen_grpc: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        /// The address that workers are told to use, when it is not the one listened on: http://host:port.
        advertise_grpc: Option<String> = None,
        /// Without a heartbeat for this long a worker is given up for dead, in milliseconds.
        lease_ms: u64 = 15_000,
        /// Between two heartbeats of a worker, in milliseconds.
        heartbeat_ms: u64 = 3_000,
        /// How long after its dispatcher's last committed renewal a worker may go on, in milliseconds.
        self_deadline_ms: u64 = 9_000,
        /// Between a request to stop and a kill, in milliseconds.
        kill_grace_ms: u64 = 4_000,
        /// Runs that one claim takes at most.
        claim_batch_max: u32 = 500,
        /// Reports of workers that one transaction records at most.
        commit_batch_max: u32 = 500,
        /// How long a transaction waits for more reports to record, in milliseconds.
        commit_wait_ms: u64 = 5,
        /// How often the leases of all sessions are compared with what their workers hold, in milliseconds.
        reconcile_ms: u64 = 5_000,
        /// Connections to PostgreSQL at most.
        database_connections_max: u32 = 8,
        /// How far the database's clock may jump from one second to the next before nothing is handed out or given up, in
        /// milliseconds; 0 for any distance.
        clock_jump_guard_ms: u64 = 5_000,
        /// Sessions at most; a worker beyond is sent to another dispatcher.
        sessions_max: u32 = 2_000,
    }
}

/// A worker may answer this late and still be in time.
pub const ROUND_TRIP: Duration = Duration::from_secs(1);

/// The durations that dispatcher and workers agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Without a heartbeat for this long a worker is given up for dead.
    pub lease: Duration,
    /// Between two heartbeats.
    pub heartbeat: Duration,
    /// How long after its dispatcher's last committed renewal a worker may go on.
    pub self_deadline: Duration,
    /// Between a request to stop and a kill.
    pub kill_grace: Duration,
}

impl Terms {
    /// How long after a deadline a worker has its chance to stop and to report.
    pub fn stop_grace(&self) -> Duration {
        self.kill_grace + ROUND_TRIP
    }

    /// The relations without which two workers could have one run.
    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.heartbeat.is_zero() || self.heartbeat * 3 >= self.lease {
            let message =
                format!("{:?}: use more than zero and less than a third of lease_ms", self.heartbeat);
            problems.push(Problem::new("heartbeat_ms", message));
        }
        let stopped = self.self_deadline + self.kill_grace + ROUND_TRIP;
        if self.lease <= stopped {
            let message = format!(
                "{:?}: use more than self_deadline_ms + kill_grace_ms + {ROUND_TRIP:?}, which is {stopped:?}",
                self.lease
            );
            problems.push(Problem::new("lease_ms", message));
        }
        if self.self_deadline <= self.heartbeat {
            let message = format!("{:?}: use more than heartbeat_ms", self.self_deadline);
            problems.push(Problem::new("self_deadline_ms", message));
        }
        problems
    }
}

impl DispatcherConfig {
    /// The durations that dispatcher and workers agree on.
    pub fn terms(&self) -> Terms {
        Terms {
            lease: Duration::from_millis(self.lease_ms),
            heartbeat: Duration::from_millis(self.heartbeat_ms),
            self_deadline: Duration::from_millis(self.self_deadline_ms),
            kill_grace: Duration::from_millis(self.kill_grace_ms),
        }
    }

    /// How far the database's clock may jump; none when nobody minds.
    pub fn clock_jump_guard(&self) -> Option<Duration> {
        (self.clock_jump_guard_ms > 0).then(|| Duration::from_millis(self.clock_jump_guard_ms))
    }
}

impl Validate for DispatcherConfig {
    fn validate(&self, common: &Common) -> Vec<Problem> {
        let mut problems: Vec<_> = common.database_url().err().into_iter().collect();
        problems.extend(self.terms().problems());
        let mut least = |setting: &'static str, value: u64, least: u64| {
            if value < least {
                problems.push(Problem::new(setting, format!("{value}: use at least {least}")));
            }
        };
        least("claim_batch_max", self.claim_batch_max.into(), 1);
        least("commit_batch_max", self.commit_batch_max.into(), 1);
        least("reconcile_ms", self.reconcile_ms, 100);
        least("database_connections_max", self.database_connections_max.into(), 4);
        least("sessions_max", self.sessions_max.into(), 1);
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings_named(config: &DispatcherConfig) -> Vec<String> {
        config.terms().problems().into_iter().map(|problem| problem.setting).collect()
    }

    #[test]
    fn the_defaults_leave_a_worker_time_to_stop_before_its_runs_are_given_away() {
        assert_eq!(settings_named(&DispatcherConfig::default()), [""; 0]);
    }

    #[test]
    fn relations_that_would_let_two_workers_have_one_run_are_refused() {
        let slow = DispatcherConfig { heartbeat_ms: 5_000, ..DispatcherConfig::default() };
        assert_eq!(settings_named(&slow), ["heartbeat_ms"]);
        let long = DispatcherConfig { self_deadline_ms: 10_000, ..DispatcherConfig::default() };
        assert_eq!(settings_named(&long), ["lease_ms"]);
    }
}
