//! What the registry can be told.

use service::config::{Common, Problem, Validate};
use std::net::SocketAddr;

service::settings! {
    /// The registry's own settings.
    pub struct RegistryConfig {
        /// Where gRPC listens; port 0 takes a free one. REST is on `listen_http`.
        listen_grpc: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 0)),
        /// Connections to PostgreSQL at most.
        database_connections_max: usize = 16,
        /// How long to wait at start for PostgreSQL and a schema of this release, in milliseconds.
        database_wait_ms: u64 = 60_000,
        /// How long a token that was looked up counts without another look, in milliseconds, 500 at most: a
        /// revoked one is refused after that, and what it streams ends within 250 ms more.
        token_cache_ms: u64 = 500,
        /// Requests a second of one token to this process; 0 for any number. More are refused, and told when to try
        /// again.
        token_requests_per_second: u32 = 5_000,
        /// Requests of one token at once after a pause.
        token_requests_burst: u32 = 10_000,
        /// Unknown tokens a second from one address that are looked up; a hundred times as many at once after a pause.
        unknown_tokens_per_second: u32 = 10,
        /// Runs a second that a tenant triggers or runs again, in this process; 0 for any number. Four times as many
        /// at once after a pause; more are refused, and told when to try again.
        tenant_runs_per_second: u32 = 100,
        /// Backfills a second of a tenant, estimates of them too, limited alike.
        tenant_backfills_per_second: u32 = 5,
        /// A request's size at most, in bytes.
        request_bytes_max: usize = 8_388_608,
    }
}

/// A revoked token is to be refused, and its streams are to end, within a second.
const TOKEN_CACHE_MS_MAX: u64 = 500;

impl Validate for RegistryConfig {
    fn validate(&self, common: &Common) -> Vec<Problem> {
        let mut problems: Vec<_> = common.database_url().err().into_iter().collect();
        if self.token_cache_ms > TOKEN_CACHE_MS_MAX {
            let message = format!("{}: use at most {TOKEN_CACHE_MS_MAX}", self.token_cache_ms);
            problems.push(Problem::new("token_cache_ms", message));
        }
        if self.database_connections_max == 0 {
            problems.push(Problem::new("database_connections_max", "0: use at least 1"));
        }
        if self.token_requests_per_second > 0 && self.token_requests_burst == 0 {
            problems.push(Problem::new("token_requests_burst", "0: use at least 1"));
        }
        if self.unknown_tokens_per_second == 0 {
            problems.push(Problem::new("unknown_tokens_per_second", "0: use at least 1"));
        }
        if self.request_bytes_max == 0 {
            problems.push(Problem::new("request_bytes_max", "0: use at least 1"));
        }
        problems
    }
}
