//! Whether the system itself works: what is wrong with it ([`conditions`]), and what of that is news ([`judge`]).
//!
//! Pure. Invariants: a trouble is told once when it has lasted for its kind's hold, and once when it has been over for
//! its kind's settling time; what was not looked at neither opens nor resolves. Of troubles that follow from each other
//! only the first is told: with no dispatcher, that no worker is served is no news. How it is observed, whom it is told
//! and in which words is not known here.

mod condition;
mod explain;
mod observation;

pub use condition::{Condition, Limits, conditions, standing_conditions};
pub use explain::{Open, explain};
pub use observation::{
    BrokenJob, ExpiringToken, FailingChannel, Lateness, Observation, OldTransaction, Outlook, Refused,
    Standing, Tzdata, Unserved,
};

use crate::policy::named;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

named! {
    /// What can be wrong with the system.
    Trouble {
        /// No ticker has finished a cycle for a while.
        NoTicker = "NO_TICKER",
        /// No dispatcher shows a sign of life.
        NoDispatcher = "NO_DISPATCHER",
        /// Runs are due in a queue that no worker serves.
        NoWorker = "NO_WORKER",
        /// Runs start later than they may.
        Late = "RUNS_START_LATE",
        /// The database's clock and ours differ.
        ClockOffset = "CLOCK_OFFSET",
        /// The database's clock jumped.
        ClockJumped = "CLOCK_JUMPED",
        /// The fence refuses every leader: etcd was rebuilt.
        FenceRefused = "FENCE_REFUSED",
        /// Fencing tokens come to their end.
        TokensRunOut = "FENCING_TOKENS_RUN_OUT",
        /// An API token that was meant to last is about to expire.
        TokenExpires = "API_TOKEN_EXPIRES",
        /// The ledger has no partition for what is soon to be planned.
        PartitionMissing = "PARTITION_MISSING",
        /// A channel receives nothing.
        ChannelFails = "CHANNEL_FAILS",
        /// A job's definition can't be used.
        JobBroken = "JOB_BROKEN",
        /// Plans were made, or would be by a ticker that stands by, with another timezone database than this service has.
        TzdataDiffers = "TZDATA_DIFFERS",
        /// A transaction holds back the cleaning of hot tables.
        OldTransaction = "OLD_TRANSACTION",
        /// etcd can't be asked.
        EtcdUnreachable = "ETCD_UNREACHABLE",
        /// PostgreSQL can't be asked.
        DatabaseUnreachable = "POSTGRESQL_UNREACHABLE",
    }
}

impl Trouble {
    /// True when runs don't start, or nobody would notice that they don't, until somebody acts.
    pub const fn is_critical(self) -> bool {
        match self {
            Self::NoTicker
            | Self::NoDispatcher
            | Self::NoWorker
            | Self::ClockJumped
            | Self::FenceRefused
            | Self::PartitionMissing
            | Self::EtcdUnreachable
            | Self::DatabaseUnreachable => true,
            Self::Late
            | Self::ClockOffset
            | Self::TokensRunOut
            | Self::TokenExpires
            | Self::ChannelFails
            | Self::JobBroken
            | Self::TzdataDiffers
            | Self::OldTransaction => false,
        }
    }

    /// For how long it must have been seen before it is told; beyond the time that its condition asks for.
    pub const fn hold(self) -> Duration {
        match self {
            Self::NoTicker | Self::NoDispatcher | Self::NoWorker => Duration::from_secs(2),
            Self::FenceRefused => Duration::from_secs(3),
            Self::Late => Duration::from_secs(60),
            Self::ClockOffset => Duration::from_secs(30),
            // A ticker that begins to lead makes them.
            Self::PartitionMissing => Duration::from_secs(10),
            _ => Duration::ZERO,
        }
    }

    /// For how long it must have been over before that is told.
    pub const fn settle(self) -> Duration {
        match self {
            Self::Late => Duration::from_secs(60),
            Self::ClockOffset => Duration::from_secs(30),
            // A guard of its own waits before it says that all is well.
            Self::ClockJumped | Self::DatabaseUnreachable => Duration::ZERO,
            Self::EtcdUnreachable => Duration::from_secs(5),
            _ => Duration::from_secs(2),
        }
    }
}

/// What a trouble is about: its kind, and which queue, channel, job or role; empty for the whole system.
pub type Subject = (Trouble, String);

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transition {
    /// It is wrong now.
    Opened(Condition),
    /// It no longer is.
    Resolved(Subject),
}

/// What is known of one trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    /// Seen without a break since.
    seen: Option<Instant>,
    /// Not seen, without a break since.
    clear: Option<Instant>,
    /// It was told.
    open: bool,
}

/// What earlier looks have shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Previous(BTreeMap<Subject, Held>);

impl Previous {
    /// What a predecessor has told and not taken back.
    pub fn open(subjects: impl IntoIterator<Item = Subject>) -> Self {
        let mut previous = Self::default();
        previous.adopt(subjects);
        previous
    }

    /// Learns what is open, whoever opened it. What was told and is not open any more was resolved by somebody: if it
    /// goes on, that counts as seen from now on.
    pub fn adopt(&mut self, open: impl IntoIterator<Item = Subject>) {
        let open: BTreeSet<_> = open.into_iter().collect();
        self.0.retain(|subject, held| !held.open || open.contains(subject));
        for subject in open {
            self.0.entry(subject).or_insert(Held { seen: None, clear: None, open: true }).open = true;
        }
    }

    /// What was told and not taken back.
    pub fn is_open(&self, subject: &Subject) -> bool {
        self.0.get(subject).is_some_and(|held| held.open)
    }
}

/// What is news at `now`. `looked` are the kinds that `conditions` speaks of; the others stay as they were. What is to
/// be told is not yet `open` in `previous`: that is for [`settle`], once it is written.
pub fn judge(
    looked: &[Trouble],
    conditions: &[Condition],
    previous: &mut Previous,
    now: Instant,
) -> Vec<Transition> {
    let mut transitions = Vec::new();
    for condition in conditions.iter().filter(|condition| looked.contains(&condition.kind)) {
        let held =
            previous.0.entry(condition.subject()).or_insert(Held { seen: None, clear: None, open: false });
        held.clear = None;
        let seen = *held.seen.get_or_insert(now);
        if !held.open && now.saturating_duration_since(seen) >= condition.kind.hold() {
            transitions.push(Transition::Opened(condition.clone()));
        }
    }
    for (subject, held) in &mut previous.0 {
        let is_wrong = || conditions.iter().any(|condition| condition.is_about(subject));
        if !looked.contains(&subject.0) || is_wrong() {
            continue;
        }
        held.seen = None;
        let clear = *held.clear.get_or_insert(now);
        if held.open && now.saturating_duration_since(clear) >= subject.0.settle() {
            transitions.push(Transition::Resolved(subject.clone()));
        }
    }
    previous.0.retain(|_, held| held.open || held.seen.is_some());
    transitions
}

/// Remembers that `transitions` were written: they are not told again.
pub fn settle(previous: &mut Previous, transitions: &[Transition]) {
    for transition in transitions {
        match transition {
            Transition::Opened(condition) => {
                if let Some(held) = previous.0.get_mut(&condition.subject()) {
                    held.open = true;
                }
            }
            Transition::Resolved(subject) => {
                previous.0.remove(subject);
            }
        }
    }
}

#[cfg(test)]
mod tests;
