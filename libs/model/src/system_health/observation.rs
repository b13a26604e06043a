//! What is observed of the system.

use crate::ids::TenantId;
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use std::time::Duration;

/// What is looked at each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The database's clock.
    pub at: DateTime<Utc>,
    /// Looked at without a break since, by the database's clock.
    pub watched_since: DateTime<Utc>,
    /// When a ticker finished its last cycle; none when none ever did.
    pub ticker_cycle: Option<DateTime<Utc>>,
    /// When a dispatcher last showed a sign of life; none when there is none.
    pub dispatcher_seen: Option<DateTime<Utc>>,
    /// Queues with due runs and without a worker.
    pub unserved: Vec<Unserved>,
    /// The database's clock minus ours; none when a look took too long to tell.
    pub clock_offset: Option<TimeDelta>,
    /// The database's clock jumped and is not believed yet.
    pub clock_jumped: bool,
    /// What is looked at less often; none when it was not this time.
    pub outlook: Option<Outlook>,
}

/// What every watchdog sees for itself, leading or not: without etcd, or refused by the fence, none leads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Since when etcd does not answer, if that is too long.
    pub etcd_silent: Option<DateTime<Utc>>,
    /// Fences that refuse everybody; none when etcd could not be asked.
    pub refused: Option<Vec<Refused>>,
}

/// What changes slowly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// Of the last five minutes.
    pub lateness: Lateness,
    /// The epoch of the fencing tokens, and the last number drawn within it.
    pub token: (i32, i64),
    /// API tokens that expire soon.
    pub expiring: Vec<ExpiringToken>,
    /// The first day that is soon to be planned and has no partition.
    pub day_missing: Option<NaiveDate>,
    /// Channels that receive nothing.
    pub failing: Vec<FailingChannel>,
    /// Jobs that can't be planned.
    pub broken: Vec<BrokenJob>,
    /// The timezone databases by which is planned and judged.
    pub tzdata: Tzdata,
    /// The oldest transaction.
    pub transaction: Option<OldTransaction>,
}

/// The versions of timezone databases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tzdata {
    /// That of this service.
    pub ours: String,
    /// That of the plans; none when nothing was planned.
    pub plans: Option<String>,
    /// Those of the tickers, by name, as far as they say; none when they could not be asked for.
    pub tickers: Option<Vec<(String, String)>>,
}

/// Runs that wait for a worker, and nobody serves their queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unserved {
    /// The tenant's name.
    pub tenant: String,
    /// The queue.
    pub queue: String,
    /// Since when the first of them is due.
    pub since: DateTime<Utc>,
    /// How many.
    pub runs: i64,
}

/// How late runs start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lateness {
    /// How many were accepted.
    pub runs: i64,
    /// The 99th percentile from due to accepted.
    pub p99: Duration,
}

/// A fence that no leadership of this etcd can raise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Whose.
    pub role: String,
    /// What it has.
    pub stored: i64,
    /// How far etcd has counted.
    pub etcd: i64,
    /// Since when the fence has it.
    pub raised_at: DateTime<Utc>,
}

/// An API token that expires soon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiringToken {
    /// Its identity.
    pub id: String,
    /// Whose it is; none: every tenant's.
    pub tenant: Option<TenantId>,
    /// Its name.
    pub name: String,
    /// When.
    pub expires_at: DateTime<Utc>,
}

/// A channel that receives nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailingChannel {
    /// Its identity.
    pub id: String,
    /// Whose it is; none: every tenant's.
    pub tenant: Option<TenantId>,
    /// Its name.
    pub name: String,
    /// Since when the oldest delivery waits.
    pub since: DateTime<Utc>,
    /// How many wait.
    pub deliveries: i64,
    /// What the last try met.
    pub error: String,
}

/// A job that can't be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenJob {
    /// Its identity.
    pub id: String,
    /// Whose it is; none: every tenant's.
    pub tenant: Option<TenantId>,
    /// Its name.
    pub name: String,
    /// Why.
    pub why: String,
    /// When its definition came.
    pub since: DateTime<Utc>,
}

/// A transaction that is open for long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldTransaction {
    /// Whose: application, user, process.
    pub who: String,
    /// Since when.
    pub since: DateTime<Utc>,
}
