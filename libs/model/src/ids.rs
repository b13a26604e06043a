//! Identities as types, so that a session is never passed where a job is meant.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! uuid_id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new random identity.
            pub fn random() -> Self { Self(Uuid::new_v4()) }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { self.0.fmt(f) }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> { text.parse().map(Self) }
        }
    };
}

uuid_id! {
    /// A job; never reused, and unchanged when the job is renamed.
    JobId
}
uuid_id! {
    /// A tenant.
    TenantId
}
uuid_id! {
    /// A worker's session with the dispatchers.
    SessionId
}
uuid_id! {
    /// One dispatcher process, drawn at its start.
    DispatcherId
}
uuid_id! {
    /// One claim: the batch of runs that a dispatcher took in one transaction.
    ClaimId
}
uuid_id! {
    /// Who holds a leadership, drawn at process start.
    HolderId
}

impl TenantId {
    /// The tenant that every cell has from its first migration.
    pub const DEFAULT: Self = Self(Uuid::from_u128(0x0000_0000_0000_4000_8000_0000_0000_0001));
}

/// Which definition of a job, counted from 1; each change of it counts one up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub i64);

impl Generation {
    /// The definition that a job is created with.
    pub const FIRST: Self = Self(1);

    /// The one that replaces this.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl std::fmt::Display for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The ledger's key: one occurrence of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunKey {
    /// The job.
    pub job_id: JobId,
    /// The occurrence: the instant that the schedule names, never moved by jitter.
    pub scheduled_for: DateTime<Utc>,
}

impl RunKey {
    /// The key of `scheduled_for` of `job_id`.
    pub const fn new(job_id: JobId, scheduled_for: DateTime<Utc>) -> Self {
        Self { job_id, scheduled_for }
    }

    /// What a downstream system remembers in order to apply an effect once: the immutable job identity and the
    /// instant, so that renaming a job, or deleting and creating it again, neither repeats nor swallows one.
    pub fn idempotency_key(&self) -> String {
        format!("{}@{}", self.job_id, instant_text(self.scheduled_for))
    }
}

/// The run's name for people: `invoices@2026-11-29T09:00:00Z`.
pub fn run_name(job_name: &str, scheduled_for: DateTime<Utc>) -> String {
    format!("{job_name}@{}", instant_text(scheduled_for))
}

/// An instant in RFC 3339 with `Z`, with as many fractional digits as it needs.
pub fn instant_text(instant: DateTime<Utc>) -> String {
    instant.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idempotency_key_names_the_job_by_uuid_and_the_instant() {
        let key =
            RunKey::new(JobId(Uuid::nil()), DateTime::from_timestamp(1_795_942_800, 0).expect("in range"));
        assert_eq!(key.idempotency_key(), "00000000-0000-0000-0000-000000000000@2026-11-29T09:00:00Z");
    }
}
