//! Check-ins: what runs elsewhere and says so. What is expected of one, and what its reports mean.
//!
//! Pure. Invariant: each expected check-in ends in exactly one of came in time and missed. A reported failure and a
//! start that nothing follows are complained of whatever else comes. When the next one is expected is the caller's to
//! say, who knows schedules.

use crate::alert::life::REPEAT_DEFAULT;
use crate::policy::named;
use crate::severity::Severity;
use chrono::{DateTime, Duration as Span, Utc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// How much later than expected it may come, unless its owner says otherwise.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(300);

/// Judged this long after a deadline, so that what was reported in time has been committed.
pub const SETTLE: Span = Span::seconds(3);

/// Characters of a message that are told.
const TOLD_CHARS_MAX: usize = 500;

/// What is expected of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// When it is expected; none when it has a period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// IANA name of the zone in which the schedule is read.
    pub timezone: String,
    /// How long after the last success the next one is expected; none when it has a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::job::millis_option")]
    pub period: Option<Duration>,
    /// How much later it may come.
    #[serde(with = "crate::job::millis")]
    pub grace: Duration,
    /// How long after a start success is expected.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::job::millis_option")]
    pub max_runtime: Option<Duration>,
    /// Names of the tenant's channels that are told.
    pub channels: Vec<String>,
    /// See [`crate::job::Alert::repeat`].
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::job::millis_option")]
    pub repeat: Option<Duration>,
    /// How grave it is when it stays away.
    #[serde(default)]
    pub severity: Severity,
    /// For finding check-ins, and for routes.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl Definition {
    /// How often its alert is told again; zero is never.
    pub fn repeat(&self) -> Duration {
        self.repeat.unwrap_or(REPEAT_DEFAULT)
    }

    /// Whether it is expected at other instants, or missed at others, than by `before`.
    pub fn retimes(&self, before: &Self) -> bool {
        let timing =
            |of: &Self| (of.schedule.clone(), of.timezone.clone(), of.period, of.grace, of.max_runtime);
        timing(self) != timing(before)
    }
}

named! {
    /// What is reported.
    Report {
        /// It begins.
        Start = "START",
        /// It is done.
        Success = "SUCCESS",
        /// It failed.
        Fail = "FAIL",
    }
}

named! {
    /// Why somebody should look after it.
    Cause {
        /// It did not come in time.
        NoCheckIn = "NO_CHECK_IN",
        /// It reported that it failed.
        ReportedFailure = "REPORTED_FAILURE",
        /// It began, and was not done within its maximum runtime.
        NotDone = "NOT_DONE",
    }
}

/// A report, and when it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// When.
    pub at: DateTime<Utc>,
    /// What.
    pub what: Report,
    /// What it said.
    pub message: String,
}

/// Where judging goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// What was to come through this is judged; a period counts from here.
    pub judged_through: DateTime<Utc>,
    /// Reports through this were looked at.
    pub looked_through: DateTime<Utc>,
    /// A start that nothing has followed.
    pub started_at: Option<DateTime<Utc>>,
}

/// Something to complain of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The instant for which it was expected, or at which it was reported.
    pub at: DateTime<Utc>,
    /// Since when it is wrong.
    pub since: DateTime<Utc>,
    /// Why.
    pub cause: Cause,
    /// The same in words.
    pub detail: String,
}

/// What judging came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Where it goes on.
    pub position: Position,
    /// What is complained of, in the order of time.
    pub complaints: Vec<Complaint>,
    /// When to look again; none when nothing more is expected.
    pub judge_at: Option<DateTime<Utc>>,
}

/// Judges at `at`, by all reports since the earlier of the position's two instants, in order. `next` is the first
/// instant after another at which it is expected; `max` expected ones are judged at most.
pub fn judge(
    definition: &Definition,
    position: Position,
    reports: &[Reported],
    at: DateTime<Utc>,
    next: impl Fn(DateTime<Utc>) -> Option<DateTime<Utc>>,
    max: usize,
) -> Judged {
    let mut complaints = Vec::new();
    let mut position = position;
    look(definition, &mut position, reports, at, &mut complaints);
    let mut judge_at = None;
    for turn in 0.. {
        let from = position.judged_through;
        let expected = match definition.period {
            Some(period) => from.checked_add_signed(span(period)),
            None => next(from),
        };
        let Some(expected) = expected else { break };
        let Some(deadline) = expected.checked_add_signed(span(definition.grace)) else { break };
        let (open, period) = (opening(definition, from, expected), definition.period.is_some());
        let came = reports
            .iter()
            .find(|report| report.what == Report::Success && report.at > open && report.at <= deadline);
        match came {
            // Of a period each success counts, the last one by itself: the next one is expected after that.
            Some(report) if period => position.judged_through = report.at,
            Some(_) if deadline <= at => position.judged_through = expected,
            _ if turn >= max || deadline + SETTLE > at => {
                judge_at = Some(deadline + SETTLE);
                break;
            }
            Some(_) => position.judged_through = expected,
            None => {
                let detail = "nothing was reported".to_owned();
                complaints.push(Complaint { at: expected, since: deadline, cause: Cause::NoCheckIn, detail });
                position.judged_through = expected;
            }
        }
    }
    if let (Some(started), Some(within)) = (position.started_at, definition.max_runtime) {
        let over = started + span(within) + SETTLE;
        judge_at = Some(judge_at.map_or(over, |judge_at| judge_at.min(over)));
    }
    complaints.sort_by_key(|complaint| complaint.since);
    Judged { position, complaints, judge_at }
}

/// Goes through the reports that were not looked at yet: failures, and starts that nothing followed in time.
fn look(
    definition: &Definition,
    position: &mut Position,
    reports: &[Reported],
    at: DateTime<Utc>,
    complaints: &mut Vec<Complaint>,
) {
    let within = definition.max_runtime.map(span);
    let not_done = |started: DateTime<Utc>, until: DateTime<Utc>| {
        let since = started.checked_add_signed(within?)?;
        let detail = "it began, and was not done within its maximum runtime".to_owned();
        (since < until).then_some(Complaint { at: started, since, cause: Cause::NotDone, detail })
    };
    for report in reports.iter().filter(|report| report.at > position.looked_through) {
        if let Some(started) = position.started_at {
            complaints.extend(not_done(started, report.at));
        }
        position.started_at = (report.what == Report::Start).then_some(report.at);
        if report.what == Report::Fail {
            let said: String = report.message.chars().take(TOLD_CHARS_MAX).collect();
            let detail = if said.trim().is_empty() {
                "it reported a failure".to_owned()
            } else {
                format!("it reported a failure: {said}")
            };
            let cause = Cause::ReportedFailure;
            complaints.push(Complaint { at: report.at, since: report.at, cause, detail });
        }
    }
    if let Some(last) = reports.last() {
        position.looked_through = position.looked_through.max(last.at);
    }
    if let Some(complaint) = position.started_at.and_then(|started| not_done(started, at - SETTLE)) {
        complaints.push(complaint);
        position.started_at = None;
    }
}

/// From when on a success counts for `expected`, exclusive: a clock that is a little fast makes no false alarm, so one
/// that comes early by no more than the grace, and is nearer to it than to the one before, counts.
fn opening(definition: &Definition, before: DateTime<Utc>, expected: DateTime<Utc>) -> DateTime<Utc> {
    if definition.period.is_some() {
        return before;
    }
    let early = span(definition.grace).min((expected - before) / 2);
    expected - early
}

fn span(duration: Duration) -> Span {
    Span::from_std(duration).unwrap_or(Span::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).expect("in range")
    }

    fn definition(period: Option<u64>, max_runtime: Option<u64>) -> Definition {
        Definition {
            schedule: period.is_none().then(|| "0 * * * *".to_owned()),
            timezone: "UTC".to_owned(),
            period: period.map(Duration::from_secs),
            grace: Duration::from_secs(60),
            max_runtime: max_runtime.map(Duration::from_secs),
            channels: Vec::new(),
            repeat: None,
            severity: Severity::Critical,
            labels: BTreeMap::new(),
        }
    }

    fn reported(what: Report, second: i64) -> Reported {
        Reported { at: at(second), what, message: String::new() }
    }

    fn from(second: i64) -> Position {
        Position { judged_through: at(second), looked_through: at(second), started_at: None }
    }

    /// Each hour.
    fn hourly(after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp((after.timestamp().div_euclid(3_600) + 1) * 3_600, 0)
    }

    fn causes(judged: &Judged) -> Vec<(i64, Cause)> {
        judged.complaints.iter().map(|complaint| (complaint.at.timestamp(), complaint.cause)).collect()
    }

    fn by_schedule(reports: &[Reported], now: i64) -> Judged {
        judge(&definition(None, None), from(0), reports, at(now), hourly, 100)
    }

    #[test]
    fn one_that_comes_within_its_grace_is_no_alarm_and_a_missing_one_is() {
        for second in [3_541, 3_600, 3_660] {
            let judged = by_schedule(&[reported(Report::Success, second)], 3_663);
            assert_eq!(causes(&judged), [], "{second}");
            assert_eq!(judged.judge_at, Some(at(7_263)), "{second}");
        }
        for second in [3_540, 3_661] {
            let judged = by_schedule(&[reported(Report::Success, second)], 3_663);
            assert_eq!(causes(&judged), [(3_600, Cause::NoCheckIn)], "{second}");
        }
        assert_eq!(
            causes(&by_schedule(&[], 3_662)),
            [],
            "what was reported in time may not be committed yet"
        );
    }

    #[test]
    fn only_what_says_when_it_is_missed_retimes_it() {
        let before = definition(Some(600), Some(100));
        let is_other = |change: fn(&mut Definition)| {
            let mut after = before.clone();
            change(&mut after);
            after.retimes(&before)
        };
        assert!(!is_other(|it| it.labels = [("team".to_owned(), "ops".to_owned())].into()));
        assert!(!is_other(|it| it.channels = vec!["oncall".to_owned()]));
        assert!(!is_other(|it| (it.severity, it.repeat) = (Severity::Info, Some(Duration::ZERO))));
        assert!(is_other(|it| (it.schedule, it.period) = (Some("@daily".to_owned()), None)));
        assert!(is_other(|it| it.timezone = "Europe/Berlin".to_owned()));
        assert!(is_other(|it| it.period = Some(Duration::from_secs(601))));
        assert!(is_other(|it| it.grace = Duration::from_secs(61)));
        assert!(is_other(|it| it.max_runtime = None));
    }

    #[test]
    fn each_one_that_was_missed_while_nobody_looked_counts() {
        let judged = by_schedule(&[reported(Report::Success, 7_200)], 4 * 3_600);
        assert_eq!(causes(&judged), [(3_600, Cause::NoCheckIn), (10_800, Cause::NoCheckIn)]);
        assert_eq!(judged.position.judged_through, at(10_800));
    }

    #[test]
    fn no_more_are_judged_at_once_than_allowed() {
        let judged = judge(&definition(None, None), from(0), &[], at(1_000_000), hourly, 10);
        assert_eq!(judged.complaints.len(), 10);
        assert!(judged.judge_at.is_some_and(|judge_at| judge_at < at(1_000_000)), "the rest is due");
    }

    #[test]
    fn a_period_counts_from_the_last_success() {
        let daily = |reports: &[Reported], now| {
            judge(&definition(Some(600), None), from(0), reports, at(now), |_| None, 100)
        };
        let judged = daily(&[reported(Report::Success, 100), reported(Report::Success, 500)], 663);
        assert_eq!((causes(&judged), judged.judge_at), (vec![], Some(at(500 + 600 + 60 + 3))));
        assert_eq!(causes(&daily(&[], 663)), [(600, Cause::NoCheckIn)]);
        // Late: missed, and from then on the next one counts from it.
        let judged = daily(&[reported(Report::Success, 700)], 800);
        assert_eq!((causes(&judged), judged.judge_at), (vec![(600, Cause::NoCheckIn)], Some(at(1_363))));
    }

    #[test]
    fn a_start_that_nothing_follows_is_told_once() {
        let slow = definition(None, Some(100));
        let started = [reported(Report::Start, 10)];
        let judged = judge(&slow, from(0), &started, at(20), hourly, 100);
        assert_eq!((causes(&judged), judged.judge_at), (vec![], Some(at(113))));
        let later = judge(&slow, judged.position, &started, at(114), hourly, 100);
        assert_eq!(causes(&later), [(10, Cause::NotDone)]);
        let again = judge(&slow, later.position, &started, at(120), hourly, 100);
        assert_eq!(causes(&again), []);
    }

    #[test]
    fn one_that_was_done_in_time_is_no_alarm_and_one_that_was_not_is_even_when_looked_at_late() {
        let slow = definition(None, Some(100));
        for (done, expected) in [(110, vec![]), (111, vec![(10, Cause::NotDone)])] {
            let reports = [reported(Report::Start, 10), reported(Report::Success, done)];
            assert_eq!(causes(&judge(&slow, from(0), &reports, at(1_000), hourly, 100)), expected, "{done}");
        }
    }

    #[test]
    fn a_reported_failure_is_told_at_once_and_once_with_what_it_said() {
        let failed = Reported { message: "disk full".to_owned(), ..reported(Report::Fail, 10) };
        let judged = by_schedule(std::slice::from_ref(&failed), 11);
        assert_eq!(causes(&judged), [(10, Cause::ReportedFailure)]);
        assert_eq!(judged.complaints[0].detail, "it reported a failure: disk full");
        let again = judge(&definition(None, None), judged.position, &[failed], at(12), hourly, 100);
        assert_eq!(causes(&again), []);
    }
}
