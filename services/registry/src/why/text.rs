//! The whole answer as some lines for people.

use super::finding::{Answer, Finding};
use super::instant::Asked;
use chrono::{DateTime, SecondsFormat, Utc};
use model::ids::instant_text;
use model::job::Work;
use model::run::{MisfireCause, MisfireOutcome, Phase};
use schedule::{Explanation, Schedule, Verdict};
use store::history::PastAttempt;
use store::why::{Found, Missed, Record, Revision};

/// Runs from before the first leadership's number, and those that nobody's schedule asked for.
const NO_TERM: i64 = 0;

/// Characters of what an attempt said about its failure that are repeated.
const ERROR_SHOWN: usize = 300;

/// The instant on the clocks of the schedule's zone; of UTC when there is none.
pub fn local(schedule: Option<&Schedule>, at: DateTime<Utc>) -> String {
    let local = schedule.map_or_else(|| at.fixed_offset(), |schedule| schedule.local_time(at));
    local.to_rfc3339_opts(SecondsFormat::AutoSi, false)
}

/// All that there is to say, one sentence or two a line.
pub fn explain(name: &str, record: &Record, asked: &Asked, answer: &Answer<'_>) -> String {
    let mut lines: Vec<String> = asked.reading.iter().cloned().collect();
    lines.push(match &answer.schedule {
        Some(schedule) => {
            let local = local(Some(schedule), asked.at);
            format!("{name} is {local} in {}.", schedule.timezone())
        }
        None => format!("{name}:"),
    });
    match &answer.finding {
        Finding::Run(found) => run(found, calls(answer.revision), &mut lines),
        Finding::Missed(found) => missed(found, &mut lines),
        Finding::Not(explanation) => not(answer.schedule.as_ref(), explanation, asked.at, &mut lines),
        Finding::Paused { begun, ended } => paused(begun, *ended, record, asked.at, &mut lines),
        Finding::ToBePlanned { due_at, overdue } => to_be_planned(*due_at, *overdue, asked.at, &mut lines),
        Finding::NotYet => lines.push(not_yet(record)),
        Finding::Deleted => lines.extend(answer.revision.map(deleted)),
        Finding::Unusable(problem) => {
            lines.push(format!(
                "The definition in force then can't be used, so that nobody knows: {problem}."
            ));
        }
        Finding::TooOld => lines.push(format!(
            "The schedule names it, but the ledger keeps nothing before {}.",
            instant_text(record.floor)
        )),
        Finding::NotShown => lines.push(
            "The schedule names it, but what became of it lies further back than your tenant's history is shown."
                .to_owned(),
        ),
        Finding::Nothing => lines.push(
            "The schedule names it, and it should have been planned, but there is no record of it."
                .to_owned(),
        ),
    }
    if !matches!(answer.finding, Finding::Deleted) {
        lines.extend(answer.revision.map(|revision| in_force(record, revision, &answer.finding)));
    }
    lines.join("\n")
}

/// `by generation 3, in force since …, which was replaced at …`.
fn in_force(record: &Record, revision: &Revision, finding: &Finding<'_>) -> String {
    let verb = if matches!(finding, Finding::Run(_)) { "It executes" } else { "This is by" };
    let mut text = format!(
        "{verb} generation {}, in force since {} ({} by {})",
        revision.generation,
        instant_text(revision.in_force_from),
        action(revision),
        revision.author
    );
    if let Some(next) = record.revision(revision.generation.next()) {
        let at = instant_text(next.in_force_from);
        text.push_str(&format!(
            ", which was replaced at {at} by generation {} ({} by {})",
            next.generation,
            action(next),
            next.author
        ));
    }
    text.push('.');
    text
}

fn action(revision: &Revision) -> &'static str {
    match revision.action.as_str() {
        "CREATED" => "created",
        "DELETED" => "deleted",
        "PAUSED" => "paused",
        "RESUMED" => "resumed",
        "CALENDAR" => "a calendar changed",
        _ => "changed",
    }
}

/// True when the definition calls an HTTP address, so that its attempts' statuses are those of answers.
fn calls(revision: Option<&Revision>) -> bool {
    let definition = revision.and_then(|revision| revision.definition.as_ref().ok());
    definition.is_some_and(|definition| matches!(definition.run, Work::Http(_)))
}

/// What an attempt left: `HTTP 500` or `the status 3`, and what it said about its failure beyond that, on one line.
fn left(status: Option<i32>, error: &str, calls: bool) -> (Option<String>, Option<String>) {
    let repeated = status.is_some_and(|status| error == format!("exit status {status}"));
    let status = status.filter(|status| *status != 0).map(|status| match status {
        100..=599 if calls => format!("HTTP {status}"),
        _ => format!("the status {status}"),
    });
    let words: Vec<&str> = error.split_whitespace().collect();
    let error = words.join(" ");
    let cut = error.char_indices().nth(ERROR_SHOWN).map(|(at, _)| format!("{}…", &error[..at]));
    (status, Some(cut.unwrap_or(error)).filter(|error| !error.is_empty() && !repeated))
}

fn run(found: &Found, calls: bool, lines: &mut Vec<String>) {
    let run = &found.run;
    let on = |worker: &Option<String>| {
        worker.as_ref().map(|name| format!(" on worker {name}")).unwrap_or_default()
    };
    let attempt = format!("attempt {}{}", run.attempt, on(&run.worker));
    let since =
        |at: Option<DateTime<Utc>>| at.map(|at| format!(" since {}", instant_text(at))).unwrap_or_default();
    lines.push(match run.phase {
        Phase::Planned => format!("It is planned, and due at {}.", instant_text(run.due_at)),
        Phase::Waiting => format!(
            "It has been due since {} and waits to be handed out: for a free worker of its queue, for an earlier run of \
             the job, or for the end of a pause.",
            instant_text(run.due_at)
        ),
        Phase::Running => {
            format!("It is running: {attempt}{}.", since(run.accepted_at.or(run.claimed_at)))
        }
        Phase::Retrying => format!("Its {attempt} has ended, and another one follows."),
        ended => {
            let how = ended.as_str().to_lowercase().replace('_', " ");
            let at = run.finished_at.map(|at| format!(" at {}", instant_text(at))).unwrap_or_default();
            let with = if run.attempt > 0 { format!(", with {attempt}") } else { String::new() };
            let why = run.reason.as_deref().map(|reason| format!(": {}", because(reason))).unwrap_or_default();
            format!("It ended as {how}{at}{with}{why}.")
        }
    });
    let unserved = found.unserved.as_ref().filter(|_| run.phase == Phase::Waiting);
    lines.extend(unserved.map(|queue| {
        format!(
            "No worker that serves the queue {queue:?} is connected ({}): start one.",
            MisfireCause::NoWorker
        )
    }));
    lines.extend(found.cause.map(|cause| format!("It was not handed out in time: {}.", of_cause(cause))));
    if let Some(accepted) = run.accepted_at.filter(|_| run.attempt == 1) {
        let late = (accepted - run.due_at).num_milliseconds();
        lines.push(format!(
            "A worker accepted it {late} ms after it was due, at {}.",
            instant_text(run.due_at)
        ));
    }
    lines.extend(found.attempts.iter().map(|attempt| past(attempt, calls)));
    match left(run.exit_status, &run.error, calls) {
        (Some(status), Some(error)) => {
            lines.push(format!("Its last attempt left {status}, and said: {error}"));
        }
        (Some(status), None) => lines.push(format!("Its last attempt left {status}.")),
        (None, Some(error)) => lines.push(format!("Its last attempt said: {error}")),
        (None, None) => {}
    }
    lines.push(match run.origin.as_str() {
        "MANUAL" => "It was triggered, beside the schedule.".to_owned(),
        "BACKFILL" => "It was asked for afterwards, as a backfill.".to_owned(),
        "CATCH_UP" => {
            format!("It was missed and caught up with, as misfire policy CATCH_UP asks{}.", planned_by(found))
        }
        _ => format!("The schedule names it{}.", planned_by(found)),
    });
}

fn planned_by(found: &Found) -> String {
    match (&found.ticker, found.run.term) {
        (_, NO_TERM) => String::new(),
        (Some(ticker), term) => format!(": {ticker} planned it, in term {term}"),
        (None, term) => format!(": it was planned in term {term}"),
    }
}

fn past(attempt: &PastAttempt, calls: bool) -> String {
    let worker = attempt.worker.as_ref().map(|name| format!(" on worker {name}")).unwrap_or_default();
    let state = attempt.state.as_str().to_lowercase().replace('_', " ");
    let why =
        if attempt.reason.is_empty() { String::new() } else { format!(": {}", because(&attempt.reason)) };
    let (status, error) = left(attempt.exit_status, &attempt.error, calls);
    let left: Vec<String> = status.into_iter().chain(error).collect();
    let left = if left.is_empty() { String::new() } else { format!(" ({})", left.join(": ")) };
    let at = instant_text(attempt.finished_at);
    format!("Attempt {}{worker} ended as {state} at {at}{why}{left}.", attempt.attempt)
}

fn because(reason: &str) -> String {
    match reason {
        "MISSED" => "it was not handed out within its grace",
        "SUPERSEDED" => "a newer occurrence took its place",
        "OVERLAP" => "an earlier run of the job was still open",
        "DELETED" => "the job was deleted",
        "PAUSED" => "the job was paused",
        "REPLACED" => "a newer run replaced it",
        "REQUESTED" => "somebody cancelled it",
        "WORK_FAILED" => "the work reported failure",
        "NOT_STARTED" => "the worker could not start it",
        "MAX_RUNTIME" => "it ran longer than the job allows",
        "WORKER_LOST" => "its worker was given up for dead",
        "UNDELIVERABLE" => "it reached no worker, too often",
        other => other,
    }
    .to_owned()
}

const fn of_cause(cause: MisfireCause) -> &'static str {
    match cause {
        MisfireCause::NoTicker => "no ticker led in that time",
        MisfireCause::NoDispatcher => "no dispatcher was alive between its due time and the end of its grace",
        MisfireCause::NoWorker => "no worker of its queue was connected",
        MisfireCause::Limit => "a limit held it back",
        MisfireCause::Database => "the database could not be reached",
        MisfireCause::Paused => "the job was paused, and its resumption counts the pause as an outage",
        MisfireCause::BeyondRetention => "it is older than what the ledger keeps",
        MisfireCause::Unknown => {
            "no evidence says why; with workers connected, the usual reason is that each slot was taken"
        }
    }
}

const fn of_outcome(outcome: MisfireOutcome) -> &'static str {
    match outcome {
        MisfireOutcome::Skipped => "runs none of them",
        MisfireOutcome::Superseded => "runs only a later one",
        MisfireOutcome::BeyondCatchUp => "reaches no further back than its limits",
        MisfireOutcome::BeyondRetention => "does not count: the ledger takes no run so old",
    }
}

fn missed(found: &Missed, lines: &mut Vec<String>) {
    lines.push(format!("It was missed and got no run: {} ({}).", of_cause(found.cause), found.cause));
    lines.push(format!("Misfire policy {} {} ({}).", found.policy, of_outcome(found.outcome), found.outcome));
    let by = found.ticker.as_deref().unwrap_or("a ticker");
    let recorded = format!("{by} recorded it at {} in term {}", instant_text(found.recorded_at), found.term);
    lines.push(match found.count {
        1 => format!("{recorded}."),
        count => format!(
            "{recorded}, as one of {count} from {} to {}.",
            instant_text(found.first),
            instant_text(found.last)
        ),
    });
}

fn not(schedule: Option<&Schedule>, explanation: &Explanation, at: DateTime<Utc>, lines: &mut Vec<String>) {
    let Some(schedule) = schedule else { return };
    lines.push(format!("It is not an occurrence of the schedule: {}.", schedule.describe()));
    if let Verdict::Not(reasons) = &explanation.verdict {
        lines.extend(reasons.iter().map(|reason| format!("- {reason}")));
    }
    let before = at.checked_sub_signed(chrono::TimeDelta::nanoseconds(1));
    let before = before.and_then(|before| schedule.previous(before));
    let neighbour = |which: &str, at: DateTime<Utc>| {
        format!("The occurrence {which} it is {}, {}.", instant_text(at), local(Some(schedule), at))
    };
    lines.extend(before.map(|before| neighbour("before", before)));
    lines.extend(schedule.next(at).map(|after| neighbour("after", after)));
}

fn paused(
    begun: &Revision,
    ended: Option<&Revision>,
    record: &Record,
    at: DateTime<Utc>,
    lines: &mut Vec<String>,
) {
    let verb = if ended.is_none() || at > record.now { "is" } else { "was" };
    let why = if begun.reason.is_empty() { String::new() } else { format!(", because {:?}", begun.reason) };
    let from = instant_text(begun.in_force_from);
    let mut text =
        format!("The schedule names it, but the job {verb} paused: by {} at {from}{why}", begun.author);
    match ended {
        Some(ended) if ended.action == "DELETED" => {
            let at = instant_text(ended.in_force_from);
            text.push_str(&format!(", until {} deleted it at {at}", ended.author));
        }
        Some(ended) => {
            let at = instant_text(ended.in_force_from);
            text.push_str(&format!(", until {} resumed it at {at}", ended.author));
        }
        None => text.push_str(", and has not been resumed"),
    }
    text.push_str(". What a pause leaves out is not missed.");
    lines.push(text);
}

fn to_be_planned(due_at: DateTime<Utc>, overdue: bool, at: DateTime<Utc>, lines: &mut Vec<String>) {
    let jitter = if due_at == at { "" } else { ", jitter included" };
    lines.push(if overdue {
        format!(
            "The schedule names it, and it was due at {}{jitter}; no ticker has planned it yet. One that leads runs it or \
             records it as missed, by the job's misfire policy.",
            instant_text(due_at)
        )
    } else {
        format!(
            "The schedule names it. It gets its run about a minute ahead, and is due at {}{jitter}.",
            instant_text(due_at)
        )
    });
}

fn not_yet(record: &Record) -> String {
    match record.revisions.first() {
        Some(first) => format!(
            "The job did not exist yet: {} created it at {}.",
            first.author,
            instant_text(first.in_force_from)
        ),
        None => "The job did not exist yet.".to_owned(),
    }
}

fn deleted(revision: &Revision) -> String {
    let at = instant_text(revision.in_force_from);
    format!("The job was deleted before it, by {} at {at}.", revision.author)
}
