//! What the dispatcher can be told, and what must hold between its settings.

use service::config::{Common, Problem, Validate};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

service::settings! {
    /// The dispatcher's settings.
    pub struct DispatcherConfig {
        /// Where workers connect; port 0 takes a free one.
        listen_grpc: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        /// The address that workers are told to use, when it is not the one listened on: http://host:port. Required when
        /// listen_grpc is an address of no machine, such as 0.0.0.0.
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
        claim_batch_max: u32 = 2_000,
        /// Reports of workers that one transaction records at most.
        commit_batch_max: u32 = 2_000,
        /// How long a transaction waits for more reports to record, in milliseconds.
        commit_wait_ms: u64 = 5,
        /// How often the leases of all sessions are compared with what their workers hold, in milliseconds.
        reconcile_ms: u64 = 5_000,
        /// Connections to PostgreSQL at most.
        database_connections_max: u32 = 8,
        /// How far the database's clock may jump from one second to the next before nothing is handed out or given up, in
        /// milliseconds; 0 for any distance.
        clock_jump_guard_ms: u64 = 5_000,
        /// How long this dispatcher has more than its share of the workers before it sends one at a time to another, in
        /// milliseconds, and at least 5000; 0 for never.
        spread_after_ms: u64 = 30_000,
        /// Sessions at most; a worker beyond is sent to another dispatcher.
        sessions_max: u32 = 2_000,
    }
}

/// A dispatcher that has died is listed in etcd for as long as its lease: none may be sent workers on the strength of that.
const SPREAD_AFTER_MIN_MS: u64 = 5_000;

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

    /// How long it has more than its share of the workers before one is sent away; none when none ever is.
    pub fn spread_after(&self) -> Option<Duration> {
        (self.spread_after_ms > 0).then(|| Duration::from_millis(self.spread_after_ms))
    }
}

impl DispatcherConfig {
    fn spread_problem(&self) -> Option<Problem> {
        let wait = self.spread_after_ms;
        let message = format!(
            "{wait}: use 0 for never, or at least {SPREAD_AFTER_MIN_MS}: a dispatcher that has died is listed for that long"
        );
        (1..SPREAD_AFTER_MIN_MS).contains(&wait).then(|| Problem::new("spread_after_ms", message))
    }

    /// An address that leads nowhere would be found out only when a worker has to move to it.
    fn address_problem(&self, common: &Common) -> Option<Problem> {
        const FORM: &str =
            "use http://host:port or https://host:port, under which every worker reaches this process";
        let message = match &self.advertise_grpc {
            None if self.listen_grpc.ip().is_unspecified() => {
                let listen = self.listen_grpc;
                format!(
                    "is missing, and listen_grpc, {listen}, is no address that workers could connect to: {FORM}"
                )
            }
            None => return None,
            Some(address) if !leads_somewhere(address) => format!("{address:?}: {FORM}"),
            // The other way round is sound: something in front of us may speak TLS.
            Some(address) if common.tls_certificate_file.is_some() && address.starts_with("http:") => {
                format!("{address:?}: tls_certificate_file is set, so workers need an address with https")
            }
            Some(_) => return None,
        };
        Some(Problem::new("advertise_grpc", message))
    }
}

/// Whether an address has a scheme, a host that can be connected to, and a port, and nothing after them.
fn leads_somewhere(address: &str) -> bool {
    let rest = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
    let Some((host, port)) = rest.and_then(|rest| rest.trim_end_matches('/').rsplit_once(':')) else {
        return false;
    };
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let specific = match plain.parse::<IpAddr>() {
        // An IPv6 address stands in brackets.
        Ok(ip) => !ip.is_unspecified() && ip.is_ipv6() == host.starts_with('['),
        Err(_) => {
            !host.is_empty()
                && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
        }
    };
    specific && port.parse::<u16>().is_ok_and(|port| port > 0)
}

impl Validate for DispatcherConfig {
    fn validate(&self, common: &Common) -> Vec<Problem> {
        let mut problems: Vec<_> = common.database_url().err().into_iter().collect();
        problems.extend(self.address_problem(common));
        problems.extend(self.terms().problems());
        problems.extend(self.spread_problem());
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
    fn workers_are_told_an_address_that_leads_somewhere_or_the_dispatcher_does_not_start() {
        let problem = |listen: &str, advertised: Option<&str>| {
            let config = DispatcherConfig {
                listen_grpc: listen.parse().expect("an address"),
                advertise_grpc: advertised.map(str::to_owned),
                ..DispatcherConfig::default()
            };
            config.address_problem(&Common::default()).map(|problem| (problem.setting, problem.message))
        };
        assert_eq!(problem("127.0.0.1:0", None), None);
        assert_eq!(problem("10.1.2.3:7443", None), None);
        for listen in ["0.0.0.0:7443", "[::]:7443"] {
            let (setting, message) = problem(listen, None).expect("it leads nowhere");
            assert_eq!(setting, "advertise_grpc");
            assert!(message.contains(listen) && message.contains("http://host:port"), "{message}");
        }
        for (address, wrong) in [
            ("http://dispatcher-1.dispatchers:7443", false),
            ("https://10.1.2.3:7443/", false),
            ("http://[fd00::1]:7443", false),
            ("http://0.0.0.0:7443", true),
            ("http://[::]:7443", true),
            ("http://dispatcher-1", true),
            ("dispatcher-1:7443", true),
            ("http://:7443", true),
            ("http://dispatcher-1:0", true),
            ("http://fd00::1:7443", true),
            ("http://dispatcher-1:7443/path", true),
        ] {
            assert_eq!(problem("0.0.0.0:7443", Some(address)).is_some(), wrong, "{address}");
        }
    }

    #[test]
    fn workers_are_not_sent_to_a_dispatcher_that_may_have_died() {
        let refused = |spread_after_ms| {
            let config = DispatcherConfig { spread_after_ms, ..DispatcherConfig::default() };
            config.spread_problem().map(|problem| problem.setting)
        };
        assert_eq!([0, 5_000, 30_000].map(refused), [None, None, None]);
        assert_eq!([1, 4_999].map(refused), [1, 4_999].map(|_| Some("spread_after_ms".to_owned())));
    }

    #[test]
    fn relations_that_would_let_two_workers_have_one_run_are_refused() {
        let slow = DispatcherConfig { heartbeat_ms: 5_000, ..DispatcherConfig::default() };
        assert_eq!(settings_named(&slow), ["heartbeat_ms"]);
        let long = DispatcherConfig { self_deadline_ms: 10_000, ..DispatcherConfig::default() };
        assert_eq!(settings_named(&long), ["lease_ms"]);
    }
}
