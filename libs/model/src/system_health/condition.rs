//! What is wrong with the system, from what was observed of it.

use super::{
    FailingChannel, Lateness, Observation, Outlook, Refused, Standing, Subject, Trouble, Tzdata, Unserved,
};
use crate::ids::TenantId;
use chrono::{DateTime, TimeDelta, Utc};
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

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What.
    pub kind: Trouble,
    /// Of which queue, channel, job or role; empty for the whole system.
    pub about: String,
    /// Whose business it is; none: that of whoever runs the system.
    pub tenant: Option<TenantId>,
    /// Since when.
    pub since: DateTime<Utc>,
    /// How many runs, deliveries or the like it concerns; 0 when that says nothing.
    pub count: i64,
    /// The same in words.
    pub detail: String,
}

impl Condition {
    /// Of the whole system.
    fn new(kind: Trouble, since: DateTime<Utc>, detail: String) -> Self {
        Self { kind, about: String::new(), tenant: None, since, count: 0, detail }
    }

    /// Of this queue, channel, job or role.
    fn about(self, about: impl Into<String>) -> Self {
        Self { about: about.into(), ..self }
    }

    /// Of this tenant.
    fn of(self, tenant: Option<TenantId>) -> Self {
        Self { tenant, ..self }
    }

    /// So many.
    fn counting(self, count: i64) -> Self {
        Self { count, ..self }
    }

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
    let mut looked = vec![Trouble::ClockJumped, Trouble::NoDispatcher, Trouble::FenceRefused];
    let mut found = Vec::new();
    let at = observation.at;
    let no_ticker = no_ticker(observation, limits.ticker_silence);
    if observation.ticker_cycle.is_some() || no_ticker.is_some() {
        looked.push(Trouble::NoTicker);
    }
    found.extend(no_ticker);
    let no_dispatcher = silent(at, observation.dispatcher_seen, limits.dispatcher_silence);
    found.extend(no_dispatcher.map(|since| {
        Condition::new(
            Trouble::NoDispatcher,
            since,
            "no dispatcher shows a sign of life: no run is handed out".to_owned(),
        )
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
        let differs = tzdata_differs(at, &outlook.tzdata);
        // While the tickers can't be asked for, it can't be said that all is well.
        if differs.is_some() || outlook.tzdata.tickers.is_some() {
            looked.push(Trouble::TzdataDiffers);
        }
        found.extend(differs);
        outlook_conditions(observation, outlook, limits, &mut found);
    }
    (looked, found)
}

/// What every watchdog sees to be wrong, and of which kinds that can be said. `at` is the database's clock.
pub fn standing_conditions(standing: &Standing, at: DateTime<Utc>) -> (Vec<Trouble>, Vec<Condition>) {
    let mut looked = vec![Trouble::EtcdUnreachable];
    let silent = standing.etcd_silent.map(|since| {
        let detail =
            "etcd does not answer: nobody can lead, so nothing new is planned and no deadline is judged";
        Condition::new(Trouble::EtcdUnreachable, since.min(at), detail.to_owned())
    });
    let mut found: Vec<_> = silent.into_iter().collect();
    if let Some(fences) = &standing.refused {
        looked.push(Trouble::FenceRefused);
        found.extend(fences.iter().map(refused));
    }
    (looked, found)
}

/// The kinds that an [`Outlook`] speaks of.
const OUTLOOK: [Trouble; 7] = [
    Trouble::Late,
    Trouble::TokensRunOut,
    Trouble::TokenExpires,
    Trouble::PartitionMissing,
    Trouble::ChannelFails,
    Trouble::JobBroken,
    Trouble::OldTransaction,
];

/// Since when it was silent, if that is too long. What never spoke is not missed.
fn silent(at: DateTime<Utc>, last: Option<DateTime<Utc>>, limit: Duration) -> Option<DateTime<Utc>> {
    last.filter(|last| (at - *last).to_std().is_ok_and(|silence| silence > limit))
}

/// A ticker that never finished a cycle is missed once the system has been watched for as long as one may be silent. Until
/// then nothing can be said of it.
fn no_ticker(observation: &Observation, limit: Duration) -> Option<Condition> {
    let since = silent(observation.at, observation.ticker_cycle.or(Some(observation.watched_since)), limit)?;
    let detail = match observation.ticker_cycle {
        Some(_) => "no ticker has finished a cycle: nothing new is planned",
        None => "no ticker has ever led: nothing is planned",
    };
    Some(Condition::new(Trouble::NoTicker, since, detail.to_owned()))
}

fn outlook_conditions(
    observation: &Observation,
    outlook: &Outlook,
    limits: &Limits,
    found: &mut Vec<Condition>,
) {
    let at = observation.at;
    found.extend(late(at, outlook.lateness, limits));
    found.extend(tokens_run_out(at, outlook.token));
    found.extend(outlook.expiring.iter().map(|token| {
        let detail = format!("the API token {} expires at {}", token.name, text(token.expires_at));
        Condition::new(Trouble::TokenExpires, at, detail).about(&token.id).of(token.tenant)
    }));
    // Before the first ticker has led there is none: it is being set up.
    let day_missing = outlook.day_missing.filter(|_| observation.ticker_cycle.is_some());
    found.extend(day_missing.map(|day| {
        Condition::new(
            Trouble::PartitionMissing,
            at,
            format!("the ledger has no partition for {day}, which is soon to be planned"),
        )
    }));
    found.extend(outlook.failing.iter().map(failing));
    found.extend(outlook.broken.iter().map(|job| {
        let detail = format!("the job {} can't be planned: {}", job.name, job.why);
        Condition::new(Trouble::JobBroken, job.since, detail).about(&job.id).of(job.tenant)
    }));
    let old = outlook.transaction.as_ref();
    let old = old.filter(|old| silent(at, Some(old.since), limits.transaction).is_some());
    found.extend(old.map(|old| {
        Condition::new(
            Trouble::OldTransaction,
            old.since,
            format!("a transaction of {} is open since {}", old.who, text(old.since)),
        )
    }));
}

/// The plans, and the tickers that will make them next, have the timezone database by which is judged.
fn tzdata_differs(at: DateTime<Utc>, tzdata: &Tzdata) -> Option<Condition> {
    let Tzdata { ours, plans, tickers } = tzdata;
    let plans = plans.iter().filter(|plans| *plans != ours);
    let mut others: Vec<_> = plans.map(|plans| format!("plans were made with {plans}")).collect();
    let tickers = tickers.iter().flatten().filter(|(_, version)| version != ours);
    others.extend(tickers.map(|(name, version)| format!("the ticker {name} has {version}")));
    (!others.is_empty()).then(|| {
        let detail =
            format!("timezone databases differ: the watchdog judges by {ours}, {}", others.join(", "));
        Condition::new(Trouble::TzdataDiffers, at, detail)
    })
}

fn clock_jumped(at: DateTime<Utc>) -> Condition {
    Condition::new(Trouble::ClockJumped, at, "the database's clock jumped: nothing is planned, handed out or judged until it has been steady for 10 \
                 seconds"
            .to_owned())
}

fn failing(channel: &FailingChannel) -> Condition {
    let FailingChannel { id, tenant, name, since, deliveries, error } = channel;
    let detail = format!(
        "the channel {name} has received nothing, {deliveries} deliveries wait; the last try: {error}"
    );
    Condition::new(Trouble::ChannelFails, *since, detail).about(id).of(*tenant).counting(*deliveries)
}

fn refused(refused: &Refused) -> Condition {
    let Refused { role, stored, etcd, raised_at } = refused;
    let detail = format!(
        "the {role}'s fence has revision {stored}, and etcd has counted to {etcd} only: no {role} can lead"
    );
    Condition::new(Trouble::FenceRefused, *raised_at, detail).about(role)
}

fn unserved(unserved: &Unserved) -> Condition {
    let Unserved { tenant, queue, since, runs } = unserved;
    let detail = match runs {
        1 => format!("1 run of tenant {tenant} waits in the queue {queue}, which no worker serves"),
        _ => format!("{runs} runs of tenant {tenant} wait in the queue {queue}, which no worker serves"),
    };
    Condition::new(Trouble::NoWorker, *since, detail).about(format!("{tenant}/{queue}")).counting(*runs)
}

fn clock_offset(at: DateTime<Utc>, offset: TimeDelta, limit: Duration) -> Option<Condition> {
    let millis = offset.num_milliseconds();
    let over = u128::from(millis.unsigned_abs()) > limit.as_millis();
    let word = if millis > 0 { "ahead of" } else { "behind" };
    over.then(|| {
        Condition::new(
            Trouble::ClockOffset,
            at,
            format!("the database's clock is {} ms {word} the watchdog's", millis.unsigned_abs()),
        )
    })
}

fn late(at: DateTime<Utc>, lateness: Lateness, limits: &Limits) -> Option<Condition> {
    let over = lateness.runs >= limits.lateness_runs_min && lateness.p99 > limits.lateness;
    over.then(|| {
        let detail = format!(
            "of {} runs of the last five minutes, one in a hundred started {} ms or more after it was due; the objective is \
             {} ms",
            lateness.runs,
            lateness.p99.as_millis(),
            limits.lateness.as_millis()
        );
        Condition::new(Trouble::Late, at, detail).counting(lateness.runs)
    })
}

/// Nine tenths of what a token has room for leave years to act on.
fn tokens_run_out(at: DateTime<Utc>, (epoch, sequence): (i32, i64)) -> Option<Condition> {
    let over = epoch > EPOCH_MAX / 10 * 9 || sequence > SEQUENCE_MAX / 10 * 9;
    over.then(|| Condition::new(Trouble::TokensRunOut, at, format!(
            "fencing tokens come to their end: epoch {epoch} of {EPOCH_MAX}, number {sequence} of {SEQUENCE_MAX} within it"
        )))
}

fn text(at: DateTime<Utc>) -> String {
    crate::ids::instant_text(at)
}
