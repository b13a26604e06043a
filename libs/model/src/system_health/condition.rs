//! What is wrong with the system, from what was observed of it.

use super::{Subject, Trouble};
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use std::time::Duration;

/// The highest epoch that a fencing token has room for.
const EPOCH_MAX: i32 = (1 << 19) - 1;

/// The highest number within an epoch.
const SEQUENCE_MAX: i64 = (1 << crate::token::SEQUENCE_BITS) - 1;

/// From where on something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Without a finished cycle of a ticker.
    pub ticker_silence: Duration,
    /// Without a sign of life of any dispatcher.
    pub dispatcher_silence: Duration,
    /// Between the database's clock and ours.
    pub clock_offset: Duration,
    /// From due to accepted, for 99 of 100 runs.
    pub lateness: Duration,
    /// Fewer runs than this within five minutes have no 99th percentile.
    pub lateness_runs_min: i64,
    /// That a transaction may be open.
    pub transaction: Duration,
}

/// What is looked at each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The database's clock.
    pub at: DateTime<Utc>,
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
    /// Fences that refuse everybody.
    pub refused: Vec<Refused>,
    /// What is looked at less often; none when it was not this time.
    pub outlook: Option<Outlook>,
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
    /// The timezone database of this service, and that of the plans; none when nothing was planned.
    pub tzdata: Option<(String, String)>,
    /// The oldest transaction.
    pub transaction: Option<OldTransaction>,
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

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What.
    pub kind: Trouble,
    /// Of which queue, channel, job or role; empty for the whole system.
    pub about: String,
    /// Since when.
    pub since: DateTime<Utc>,
    /// How many runs, deliveries or the like it concerns; 0 when that says nothing.
    pub count: i64,
    /// The same in words.
    pub detail: String,
}

impl Condition {
    /// What it is about.
    pub fn subject(&self) -> Subject {
        (self.kind, self.about.clone())
    }

    /// Whether it is about `subject`.
    pub fn is_about(&self, subject: &Subject) -> bool {
        self.kind == subject.0 && self.about == subject.1
    }
}

/// What is wrong, and of which kinds that can be said.
pub fn conditions(observation: &Observation, limits: &Limits) -> (Vec<Trouble>, Vec<Condition>) {
    // While the clock is not believed nothing that is measured by it is judged.
    if observation.clock_jumped {
        return (vec![Trouble::ClockJumped], vec![clock_jumped(observation.at)]);
    }
    let mut looked =
        vec![Trouble::ClockJumped, Trouble::NoTicker, Trouble::NoDispatcher, Trouble::FenceRefused];
    let mut found: Vec<_> = observation.refused.iter().map(refused).collect();
    let at = observation.at;
    found.extend(silent(at, observation.ticker_cycle, limits.ticker_silence).map(|since| Condition {
        kind: Trouble::NoTicker,
        about: String::new(),
        since,
        count: 0,
        detail: "no ticker has finished a cycle: nothing new is planned".to_owned(),
    }));
    let no_dispatcher = silent(at, observation.dispatcher_seen, limits.dispatcher_silence);
    found.extend(no_dispatcher.map(|since| Condition {
        kind: Trouble::NoDispatcher,
        about: String::new(),
        since,
        count: 0,
        detail: "no dispatcher shows a sign of life: no run is handed out".to_owned(),
    }));
    // Without a dispatcher no worker is served, whether there is one or not.
    if no_dispatcher.is_none() {
        looked.push(Trouble::NoWorker);
        found.extend(observation.unserved.iter().map(unserved));
    }
    if let Some(offset) = observation.clock_offset {
        looked.push(Trouble::ClockOffset);
        found.extend(clock_offset(at, offset, limits.clock_offset));
    }
    if let Some(outlook) = &observation.outlook {
        looked.extend(OUTLOOK);
        outlook_conditions(at, outlook, limits, &mut found);
    }
    (looked, found)
}

/// The kinds that an [`Outlook`] speaks of.
const OUTLOOK: [Trouble; 8] = [
    Trouble::Late,
    Trouble::TokensRunOut,
    Trouble::TokenExpires,
    Trouble::PartitionMissing,
    Trouble::ChannelFails,
    Trouble::JobBroken,
    Trouble::TzdataDiffers,
    Trouble::OldTransaction,
];

/// Since when it was silent, if that is too long. What never spoke is not missed: it is being set up.
fn silent(at: DateTime<Utc>, last: Option<DateTime<Utc>>, limit: Duration) -> Option<DateTime<Utc>> {
    last.filter(|last| (at - *last).to_std().is_ok_and(|silence| silence > limit))
}

fn outlook_conditions(at: DateTime<Utc>, outlook: &Outlook, limits: &Limits, found: &mut Vec<Condition>) {
    found.extend(late(at, outlook.lateness, limits));
    found.extend(tokens_run_out(at, outlook.token));
    found.extend(outlook.expiring.iter().map(|token| Condition {
        kind: Trouble::TokenExpires,
        about: token.id.clone(),
        since: at,
        count: 0,
        detail: format!("the API token {} expires at {}", token.name, text(token.expires_at)),
    }));
    found.extend(outlook.day_missing.map(|day| Condition {
        kind: Trouble::PartitionMissing,
        about: String::new(),
        since: at,
        count: 0,
        detail: format!("the ledger has no partition for {day}, which is soon to be planned"),
    }));
    found.extend(outlook.failing.iter().map(|channel| Condition {
        kind: Trouble::ChannelFails,
        about: channel.id.clone(),
        since: channel.since,
        count: channel.deliveries,
        detail: format!(
            "the channel {} has received nothing, {} deliveries wait; the last try: {}",
            channel.name, channel.deliveries, channel.error
        ),
    }));
    found.extend(outlook.broken.iter().map(|job| Condition {
        kind: Trouble::JobBroken,
        about: job.id.clone(),
        since: job.since,
        count: 0,
        detail: format!("the job {} can't be planned: {}", job.name, job.why),
    }));
    let differing = outlook.tzdata.as_ref().filter(|(ours, plans)| ours != plans);
    found.extend(differing.map(|(ours, plans)| Condition {
        kind: Trouble::TzdataDiffers,
        about: String::new(),
        since: at,
        count: 0,
        detail: format!("plans were made with timezone database {plans}, the watchdog judges by {ours}"),
    }));
    let old = outlook.transaction.as_ref();
    let old = old.filter(|old| silent(at, Some(old.since), limits.transaction).is_some());
    found.extend(old.map(|old| Condition {
        kind: Trouble::OldTransaction,
        about: String::new(),
        since: old.since,
        count: 0,
        detail: format!("a transaction of {} is open since {}", old.who, text(old.since)),
    }));
}

fn clock_jumped(at: DateTime<Utc>) -> Condition {
    Condition {
        kind: Trouble::ClockJumped,
        about: String::new(),
        since: at,
        count: 0,
        detail: "the database's clock jumped: nothing is planned, handed out or judged until it has been steady for 10 \
                 seconds"
            .to_owned(),
    }
}

fn refused(refused: &Refused) -> Condition {
    Condition {
        kind: Trouble::FenceRefused,
        about: refused.role.clone(),
        since: refused.raised_at,
        count: 0,
        detail: format!(
            "the {0}'s fence has revision {1}, and etcd has counted to {2} only: no {0} can lead",
            refused.role, refused.stored, refused.etcd
        ),
    }
}

fn unserved(unserved: &Unserved) -> Condition {
    let Unserved { tenant, queue, since, runs } = unserved;
    Condition {
        kind: Trouble::NoWorker,
        about: format!("{tenant}/{queue}"),
        since: *since,
        count: *runs,
        detail: format!("{runs} runs of tenant {tenant} wait in the queue {queue}, which no worker serves"),
    }
}

fn clock_offset(at: DateTime<Utc>, offset: TimeDelta, limit: Duration) -> Option<Condition> {
    let millis = offset.num_milliseconds();
    let over = u128::from(millis.unsigned_abs()) > limit.as_millis();
    let word = if millis > 0 { "ahead of" } else { "behind" };
    over.then(|| Condition {
        kind: Trouble::ClockOffset,
        about: String::new(),
        since: at,
        count: 0,
        detail: format!("the database's clock is {} ms {word} the watchdog's", millis.unsigned_abs()),
    })
}

fn late(at: DateTime<Utc>, lateness: Lateness, limits: &Limits) -> Option<Condition> {
    let over = lateness.runs >= limits.lateness_runs_min && lateness.p99 > limits.lateness;
    over.then(|| Condition {
        kind: Trouble::Late,
        about: String::new(),
        since: at,
        count: lateness.runs,
        detail: format!(
            "of {} runs of the last five minutes, one in a hundred started {} ms or more after it was due; the objective is \
             {} ms",
            lateness.runs,
            lateness.p99.as_millis(),
            limits.lateness.as_millis()
        ),
    })
}

/// Nine tenths of what a token has room for leave years to act on.
fn tokens_run_out(at: DateTime<Utc>, (epoch, sequence): (i32, i64)) -> Option<Condition> {
    let over = epoch > EPOCH_MAX / 10 * 9 || sequence > SEQUENCE_MAX / 10 * 9;
    over.then(|| Condition {
        kind: Trouble::TokensRunOut,
        about: String::new(),
        since: at,
        count: 0,
        detail: format!(
            "fencing tokens come to their end: epoch {epoch} of {EPOCH_MAX}, number {sequence} of {SEQUENCE_MAX} within it"
        ),
    })
}

fn text(at: DateTime<Utc>) -> String {
    crate::ids::instant_text(at)
}
