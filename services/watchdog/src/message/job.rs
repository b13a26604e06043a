//! A job's alert in words: what it is about, and what to do about it.

use super::{Event, Message, Occurrences, Subject};
use chrono::{DateTime, Utc};
use model::alert::{Cause, Kind};
use model::ids::{JobId, instant_text};
use model::run::{MisfireCause, Reason};
use model::severity::Severity;
use std::collections::BTreeMap;
use store::alert::Resolution;
use store::verdict::Evidence;
use uuid::Uuid;

/// Characters of a cause in words.
const DETAIL_CHARS_MAX: usize = 1_000;

/// An alert as people see it.
#[derive(Debug, Clone)]
pub struct Alert<'a> {
    /// Its identity.
    pub id: Uuid,
    /// The job.
    pub job_id: JobId,
    /// The job's name.
    pub job_name: &'a str,
    /// What it is about, as stored: a later release may have opened it.
    pub kind: &'a str,
    /// Why the last occurrence had no success, as stored.
    pub cause: &'a str,
    /// How grave it is.
    pub severity: Severity,
    /// The job's labels.
    pub labels: &'a BTreeMap<String, String>,
    /// The first occurrence without success.
    pub first: DateTime<Utc>,
    /// The last one.
    pub last: DateTime<Utc>,
    /// How many.
    pub count: i64,
    /// Since when the first one is overdue: its deadline.
    pub since: DateTime<Utc>,
    /// The last one's deadline.
    pub deadline: DateTime<Utc>,
}

/// The message that tells of an alert's opening; `detail` is its cause in words, `queue` the job's.
pub fn opened(alert: &Alert<'_>, detail: &str, queue: &str, at: DateTime<Utc>) -> Message {
    let name = alert.job_name;
    let (first, last) = (instant_text(alert.first), instant_text(alert.last));
    let summary = match (alert.kind.parse().ok(), alert.count) {
        (Some(Kind::NoSuccess), 1) => {
            format!("{name}: no success of {last} by {}: {detail}", instant_text(alert.deadline))
        }
        (Some(Kind::Failed), 1) => format!("{name}: the run of {last} failed: {detail}"),
        (Some(Kind::FailuresInRow), _) => format!("{name}: failed again and again: {detail}"),
        (Some(Kind::Runtime), 1) => format!("{name}: the run of {last} takes too long: {detail}"),
        (Some(Kind::SkippedOverlap), 1) => format!("{name}: no run of {last}: {detail}"),
        (kind, count) => {
            format!("{name}: {count} {}, {first} to {last}; the last one: {detail}", what(kind, count))
        }
    };
    message(alert, Event::Opened, summary, what_to_do(alert.cause, name, queue), at)
}

/// The message that tells of an alert's end.
pub fn resolved(alert: &Alert<'_>, resolution: Resolution, at: DateTime<Utc>) -> Message {
    let name = alert.job_name;
    let why = match resolution {
        Resolution::Succeeded => "succeeded again",
        Resolution::JobDeleted => "was deleted",
        Resolution::JobPaused => "was paused",
        Resolution::NotWatched => "is no longer watched",
    };
    let (count, since) = (alert.count, instant_text(alert.since));
    let summary =
        format!("{name} {why}, after {count} {} since {since}", what(alert.kind.parse().ok(), count));
    message(alert, Event::Resolved, summary, "Nothing.".to_owned(), at)
}

/// What `count` of a kind are, in words; none is a kind of a later release.
fn what(kind: Option<Kind>, count: i64) -> &'static str {
    match (kind, count) {
        (Some(Kind::NoSuccess), 1) => "occurrence without success",
        (Some(Kind::NoSuccess), _) => "occurrences without success",
        (Some(Kind::Failed | Kind::FailuresInRow), 1) => "failed run",
        (Some(Kind::Failed | Kind::FailuresInRow), _) => "failed runs",
        (Some(Kind::Runtime), 1) => "run that took too long",
        (Some(Kind::Runtime), _) => "runs that took too long",
        (Some(Kind::SkippedOverlap), 1) => "skipped occurrence",
        (Some(Kind::SkippedOverlap), _) => "skipped occurrences",
        (None, 1) => "complaint",
        (None, _) => "complaints",
    }
}

fn message(
    alert: &Alert<'_>,
    event: Event,
    summary: String,
    what_to_do: String,
    at: DateTime<Utc>,
) -> Message {
    Message {
        event,
        at,
        alert_id: alert.id,
        dedup_key: alert.id.to_string(),
        severity: alert.severity,
        subject: Subject::Job { id: alert.job_id, name: alert.job_name.to_owned() },
        kind: alert.kind.to_owned(),
        cause: alert.cause.to_owned(),
        summary,
        what_to_do,
        since: alert.since,
        count: alert.count,
        examples: Vec::new(),
        labels: alert.labels.clone(),
        link: None,
        occurrences: Some(Occurrences { first: alert.first, last: alert.last, deadline: alert.deadline }),
    }
}

/// Why an occurrence that was missed has no run, in words.
pub fn missed(cause: MisfireCause) -> String {
    let why = match cause {
        MisfireCause::NoTicker => "no ticker worked in that time",
        MisfireCause::NoDispatcher => "no dispatcher worked in that time",
        MisfireCause::NoWorker => "no worker served its queue in that time",
        MisfireCause::Limit => "a limit of its tenant held it back",
        MisfireCause::Database => "the database could not be reached in that time",
        MisfireCause::Paused => "the job was paused",
        MisfireCause::BeyondRetention => "it is older than what the ledger keeps",
        MisfireCause::Unknown => "the reason is not known",
    };
    format!("it was missed and gets no run by the job's misfire policy: {why}")
}

/// That what the ledger shows of an occurrence can't be read, in words.
pub fn unreadable(problem: &str) -> String {
    let text = format!("this version of the watchdog can't read what became of it: {problem}");
    text.chars().take(DETAIL_CHARS_MAX).collect()
}

/// Why an occurrence had no success, in words.
pub fn detail(cause: Cause, evidence: Option<&Evidence>) -> String {
    let Some(seen) = evidence else { return "it was never planned, the ledger does not know it".to_owned() };
    let at =
        |instant: Option<DateTime<Utc>>| instant.map_or_else(|| "an unknown time".to_owned(), instant_text);
    let reason = seen.reason.map_or("for no recorded reason", why);
    let text = match cause {
        Cause::NeverPlanned => "it was never planned".to_owned(),
        Cause::Waiting => format!("it waits for a worker since {}", instant_text(seen.due_at)),
        Cause::Running => format!("attempt {} runs since {}", seen.attempt, at(seen.claimed_at)),
        Cause::Retrying => format!("attempt {} ended without success, the next one waits", seen.attempt),
        Cause::SucceededLate => format!("it succeeded too late, at {}", at(seen.finished_at)),
        Cause::Failed => {
            let status = seen.exit_status.map(|status| format!(", status {status}")).unwrap_or_default();
            let said = seen.error.as_deref().filter(|error| !error.is_empty());
            let said = said.map(|error| format!(": {error}")).unwrap_or_default();
            format!("attempt {} failed at {}, {reason}{status}{said}", seen.attempt, at(seen.finished_at))
        }
        Cause::TimedOut => format!("attempt {} took longer than the job's maxRuntime", seen.attempt),
        Cause::Lost => format!("its workers were lost, {} times", seen.attempt),
        Cause::Cancelled => format!("it was cancelled, {reason}"),
        Cause::Skipped => format!("it was skipped, {reason}"),
        Cause::Unreadable => unreadable("its state is unknown"),
        Cause::Slow => format!(
            "attempt {} was taken at {} and takes longer than alert.on.runtimeOver allows",
            seen.attempt,
            at(seen.claimed_at)
        ),
    };
    text.chars().take(DETAIL_CHARS_MAX).collect()
}

fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::Missed => "because nothing released it within its grace",
        Reason::Superseded => "because a newer occurrence took its place",
        Reason::Overlap => "because an earlier run was still open",
        Reason::Deleted => "because the job was deleted",
        Reason::Paused => "because the job was paused",
        Reason::Replaced => "because a newer run replaced it",
        Reason::Requested => "because somebody asked for it",
        Reason::WorkFailed => "as the work itself reported",
        Reason::NotStarted => "because the worker could not start it",
        Reason::MaxRuntime => "because it took longer than maxRuntime",
        Reason::WorkerLost => "because its worker was lost",
        Reason::Undeliverable => "because no worker received it",
    }
}

fn what_to_do(cause: &str, job: &str, queue: &str) -> String {
    let runs = format!("`escapement runs {job}`");
    match cause.parse().unwrap_or(Cause::Unreadable) {
        Cause::NeverPlanned => {
            "Look at `escapement status`: a ticker must lead, with a last cycle seconds ago. If none does, start one; \
             if one does, look into its log for this job."
                .to_owned()
        }
        Cause::Waiting => format!(
            "Look at `escapement status`: dispatchers must be alive, and a worker with free slots must serve the queue \
             {queue}. If not, start one."
        ),
        Cause::Running => format!(
            "Look at {runs} for the worker, and there at what the work waits for. If it always takes this long, raise \
             alert.successWithin."
        ),
        Cause::Slow => format!(
            "Look at {runs} for the worker, and there at what the work waits for. If it always takes this long, raise \
             alert.on.runtimeOver."
        ),
        Cause::Failed | Cause::TimedOut | Cause::Retrying => {
            format!("Look at {runs} for what the work said, and repair that.")
        }
        Cause::Lost => format!(
            "Look at {runs} for the workers, and at their machines: they died or lost their connection during the work."
        ),
        Cause::SucceededLate => {
            format!("The work is done. If it always takes this long, raise alert.successWithin; else look at {runs}.")
        }
        Cause::Unreadable => format!(
            "Look at {runs} for what became of it, and bring all services to one release: a later one than the watchdog's \
             wrote it."
        ),
        Cause::Cancelled => format!("Look at {runs}. If the work is still wanted, start it."),
        Cause::Skipped => format!(
            "Look at {runs} for the reason. If earlier runs block later ones, the work takes longer than its schedule \
             allows."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::run::Phase;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_942_800 + second, 0).expect("in range")
    }

    static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

    fn alert(count: i64) -> Alert<'static> {
        Alert {
            id: Uuid::nil(),
            job_id: JobId(Uuid::nil()),
            job_name: "invoices",
            kind: Kind::NoSuccess.as_str(),
            cause: Cause::NeverPlanned.as_str(),
            severity: Severity::Critical,
            labels: &NO_LABELS,
            first: at(0),
            last: at(60 * (count - 1)),
            count,
            since: at(30),
            deadline: at(60 * (count - 1) + 30),
        }
    }

    #[test]
    fn the_body_is_what_receivers_were_promised() {
        let body = opened(&alert(1), &detail(Cause::NeverPlanned, None), "default", at(33)).body();
        let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(body["type"], "alert.opened");
        assert_eq!(body["timestamp"], "2026-11-29T09:00:33Z");
        let data = &body["data"];
        assert_eq!(data["job"]["name"], "invoices");
        assert_eq!(data["kind"], "NO_SUCCESS");
        assert_eq!(data["cause"], "NEVER_PLANNED");
        assert_eq!(data["firstOccurrence"], "2026-11-29T09:00:00Z");
        assert_eq!(data["since"], "2026-11-29T09:00:30Z");
        assert_eq!(
            data["summary"],
            "invoices: no success of 2026-11-29T09:00:00Z by 2026-11-29T09:00:30Z: it was never planned, the ledger \
             does not know it"
        );
        assert!(data["whatToDo"].as_str().is_some_and(|text| text.contains("escapement status")));
        assert_eq!(data.get("resolvedAt"), None);
    }

    #[test]
    fn a_resolution_says_what_ended_it() {
        let body = resolved(&alert(3), Resolution::Succeeded, at(200)).body();
        let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(body["type"], "alert.resolved");
        assert_eq!(body["data"]["resolvedAt"], "2026-11-29T09:03:20Z");
        let summary =
            "invoices succeeded again, after 3 occurrences without success since 2026-11-29T09:00:30Z";
        assert_eq!(body["data"]["summary"], summary);
    }

    #[test]
    fn a_failure_is_told_with_what_it_said_and_bounded() {
        let evidence = Evidence {
            phase: Phase::Failed,
            reason: Some(Reason::WorkFailed),
            finished_at: Some(at(7)),
            due_at: at(0),
            claimed_at: Some(at(0)),
            attempt: 2,
            exit_status: Some(3),
            error: Some("x".repeat(2_048)),
        };
        let text = detail(Cause::Failed, Some(&evidence));
        let told = "attempt 2 failed at 2026-11-29T09:00:07Z, as the work itself reported, status 3: xxx";
        assert!(text.starts_with(told), "{text}");
        assert_eq!(text.chars().count(), DETAIL_CHARS_MAX);
    }
}
