//! Alerts about the system in words: what is wrong, since when, and what to do. Pure.

use crate::message::{EXAMPLES_MAX, Event, Message, Subject};
use chrono::{DateTime, Utc};
use model::ids::instant_text;
use model::severity::Severity;
use model::system_health::{Condition, Trouble};
use std::collections::BTreeMap;
use store::alert_group::Due;
use store::system_alert::Resolved;
use uuid::Uuid;

/// How grave a trouble is.
pub const fn severity(kind: Trouble) -> Severity {
    if kind.is_critical() { Severity::Critical } else { Severity::Warning }
}

/// How many there are of something, and some of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Many {
    /// How many.
    pub count: i64,
    /// Some of them.
    pub examples: Vec<String>,
}

/// Tells of a trouble. `deadlines` are the jobs with a deadline within the hour, for one that keeps runs from starting;
/// `others` are those that are told with it.
pub fn opened(
    condition: &Condition,
    alert_id: Uuid,
    deadlines: Option<&Many>,
    others: &[&Condition],
    at: DateTime<Utc>,
    runbooks: &str,
) -> Message {
    let Condition { kind, detail, since, count, .. } = condition;
    let (mut summary, mut many) = (sentence(detail, *since), Many { count: *count, examples: Vec::new() });
    if let Some(deadlines) = deadlines {
        summary.push_str(&format!("; {}", hour(deadlines)));
        many = deadlines.clone();
    }
    if !others.is_empty() {
        summary.push_str(&format!("; and {} others alike", others.len()));
        let named = std::iter::once(&condition).chain(others).map(|condition| condition.detail.clone());
        many = Many {
            count: i64::try_from(others.len() + 1).unwrap_or(i64::MAX),
            examples: named.take(EXAMPLES_MAX).collect(),
        };
    }
    let told = Told { kind: *kind, about: &condition.about, alert_id, since: *since, at };
    message(told, Event::Opened, summary, what_to_do(*kind), many, runbooks)
}

/// Tells that a trouble is over.
pub fn resolved((kind, about): &(Trouble, String), resolved: &Resolved, runbooks: &str) -> Message {
    let told = Told {
        kind: *kind,
        about,
        alert_id: resolved.id,
        since: resolved.opened_at,
        at: resolved.resolved_at,
    };
    let summary = format!("Over: {}", resolved.detail);
    let many = Many { count: resolved.count, examples: Vec::new() };
    message(told, Event::Resolved, summary, "Nothing.".to_owned(), many, runbooks)
}

/// Tells of the jobs that one trouble explains.
pub fn group(due: &Due, runbooks: &str) -> Message {
    let why = because(due.kind);
    let summary = format!("{} without success by their deadlines, because {why}", jobs(due.more.count));
    let told = Told { kind: due.kind, about: "", alert_id: due.more.alert, since: due.opened_at, at: due.at };
    let many = Many { count: due.more.count, examples: due.more.examples.clone() };
    message(told, Event::Opened, summary, what_to_do(due.kind), many, runbooks)
}

/// Tells that the jobs of a group have recovered.
pub fn group_resolved(kind: Trouble, resolved: &Resolved, runbooks: &str) -> Message {
    let summary = format!("{} recovered; {} no longer", jobs(resolved.count), because(kind));
    let told =
        Told { kind, about: "", alert_id: resolved.id, since: resolved.opened_at, at: resolved.resolved_at };
    let many = Many { count: resolved.count, examples: Vec::new() };
    message(told, Event::Resolved, summary, "Nothing.".to_owned(), many, runbooks)
}

/// Who tells of an outage of PostgreSQL, which has no row while it lasts.
#[derive(Debug, Clone, Copy)]
pub struct Outage<'a> {
    /// The identity that it will have.
    pub alert_id: Uuid,
    /// The same whoever tells.
    pub dedup_key: &'a str,
    /// Since when.
    pub since: DateTime<Utc>,
    /// When this is told.
    pub at: DateTime<Utc>,
}

/// Tells that PostgreSQL is gone; `soon` is what was last known.
pub fn database_gone(outage: Outage<'_>, soon: &Many, runbooks: &str) -> Message {
    let summary = format!("PostgreSQL unreachable since {}; {}", instant_text(outage.since), hour(soon));
    database(outage, Event::Opened, summary, what_to_do(Trouble::DatabaseUnreachable), soon.clone(), runbooks)
}

/// Tells that it is back.
pub fn database_back(outage: Outage<'_>, lasted_s: u64, runbooks: &str) -> Message {
    let summary = format!(
        "PostgreSQL is back after {lasted_s} seconds without an answer, since {}; what was due meanwhile is caught up with by \
         each job's misfire policy, and judged",
        instant_text(outage.since)
    );
    database(outage, Event::Resolved, summary, "Nothing.".to_owned(), Many::default(), runbooks)
}

fn database(
    outage: Outage<'_>,
    event: Event,
    summary: String,
    what_to_do: String,
    many: Many,
    runbooks: &str,
) -> Message {
    let Outage { alert_id, dedup_key, since, at } = outage;
    let told = Told { kind: Trouble::DatabaseUnreachable, about: "", alert_id, since, at };
    let message = message(told, event, summary, what_to_do, many, runbooks);
    Message { dedup_key: dedup_key.to_owned(), ..message }
}

/// What every message names.
struct Told<'a> {
    kind: Trouble,
    about: &'a str,
    alert_id: Uuid,
    since: DateTime<Utc>,
    at: DateTime<Utc>,
}

fn message(
    told: Told<'_>,
    event: Event,
    summary: String,
    what_to_do: String,
    many: Many,
    runbooks: &str,
) -> Message {
    let Told { kind, about, alert_id, since, at } = told;
    let part = part(kind);
    let name = if about.is_empty() { part.to_owned() } else { format!("{part}/{about}") };
    Message {
        event,
        at,
        alert_id,
        dedup_key: alert_id.to_string(),
        severity: severity(kind),
        subject: Subject::System { name },
        kind: kind.as_str().to_owned(),
        cause: kind.as_str().to_owned(),
        summary,
        what_to_do,
        since,
        count: many.count.max(1),
        examples: many.examples.into_iter().take(EXAMPLES_MAX).collect(),
        labels: BTreeMap::new(),
        link: (!runbooks.is_empty()).then(|| format!("{runbooks}#{}", anchor(kind))),
        occurrences: None,
    }
}

/// Capital letter first, since when last.
fn sentence(detail: &str, since: DateTime<Utc>) -> String {
    let mut chars = detail.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}, since {}", chars.as_str(), instant_text(since))
}

fn hour(soon: &Many) -> String {
    let who = match soon.count {
        0 => "no job has".to_owned(),
        1 => "1 job has".to_owned(),
        many => format!("{many} jobs have"),
    };
    format!("{who} a deadline within the next hour")
}

fn jobs(count: i64) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}

/// Where the runbook says more: the trouble's name, as headings are linked.
pub fn anchor(kind: Trouble) -> String {
    kind.as_str().to_ascii_lowercase()
}

/// The part of the system that a trouble is of.
const fn part(kind: Trouble) -> &'static str {
    match kind {
        Trouble::NoTicker | Trouble::TzdataDiffers => "ticker",
        Trouble::NoDispatcher | Trouble::Late => "dispatcher",
        Trouble::NoWorker => "queue",
        Trouble::ClockOffset | Trouble::ClockJumped => "clock",
        Trouble::FenceRefused => "fence",
        Trouble::TokensRunOut | Trouble::TokenExpires => "token",
        Trouble::ChannelFails => "channel",
        Trouble::JobBroken => "job",
        Trouble::EtcdUnreachable => "etcd",
        Trouble::PartitionMissing | Trouble::OldTransaction | Trouble::DatabaseUnreachable => "postgresql",
    }
}

/// Why a group's jobs have no success.
const fn because(kind: Trouble) -> &'static str {
    match kind {
        Trouble::NoTicker => "no ticker plans",
        Trouble::NoDispatcher => "no dispatcher hands out runs",
        Trouble::NoWorker => "no worker serves their queue",
        _ => "the system does not work",
    }
}

fn what_to_do(kind: Trouble) -> String {
    let text = match kind {
        Trouble::NoTicker => {
            "Look at `escapement status`. If no ticker runs, start one; if one does, its log and /readyz say why it does not lead."
        }
        Trouble::NoDispatcher => {
            "Start a dispatcher; if one runs, its log and /readyz say why it can't reach PostgreSQL. Workers find it by themselves."
        }
        Trouble::NoWorker => {
            "Look at `escapement status` for workers of this queue. Start one; or, if the queue's name is a mistake, correct the \
             job's."
        }
        Trouble::Late => {
            "Look at `escapement status`: with runs waiting there are too few workers or slots; without, PostgreSQL is slow, look \
             for old transactions and load."
        }
        Trouble::ClockOffset => {
            "Let the machines of PostgreSQL and of this watchdog take their time from the same source (chrony, NTP). Runs follow \
             the database's clock."
        }
        Trouble::ClockJumped => {
            "Look at the time service of PostgreSQL's machine. Planning goes on by itself once the clock has been steady for 10 \
             seconds."
        }
        Trouble::FenceRefused => {
            "If etcd was rebuilt: stop every old service of this role, then run `escapement fence reset` with the role's name and \
             `--yes`."
        }
        Trouble::TokensRunOut => "Plan a new cell: tokens of this one will be used up. There are years left.",
        Trouble::TokenExpires => {
            "Make a new token, give it to whoever uses this one, and revoke this one: after that second its user is refused."
        }
        Trouble::PartitionMissing => {
            "Look into the leading ticker's log for why it can't make partitions: a long lock on the ledger, a full disk, or a \
             missing right."
        }
        Trouble::ChannelFails => {
            "Run `escapement channels test` with its name, and repair the receiver or the channel's address. What waits is \
             delivered then."
        }
        Trouble::JobBroken => "Correct the job's definition: `escapement apply` says what is wrong with it.",
        Trouble::TzdataDiffers => "Let all services be of the same release, the tickers first.",
        Trouble::OldTransaction => {
            "Find out what this process does, and end it if nobody needs it: `SELECT pg_terminate_backend(pid)`. Until then claims \
             get slower and slower."
        }
        Trouble::EtcdUnreachable => {
            "Start etcd, or repair the way there; its own log says whether it has a quorum. Services go on by themselves."
        }
        Trouble::DatabaseUnreachable => {
            "Start PostgreSQL, or repair the way there. Services go on by themselves; runs in hand go on while their dispatchers \
             answer."
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_942_800 + second, 0).unwrap_or_default()
    }

    fn condition(kind: Trouble, about: &str, detail: &str) -> Condition {
        Condition {
            kind,
            about: about.to_owned(),
            tenant: None,
            since: at(0),
            count: 7,
            detail: detail.to_owned(),
        }
    }

    fn named(count: i64) -> Many {
        Many { count, examples: (0..count.min(5)).map(|job| format!("job-{job}")).collect() }
    }

    #[test]
    fn a_page_says_what_is_wrong_since_when_and_what_it_endangers() {
        let silent = condition(Trouble::NoTicker, "", "no ticker has finished a cycle");
        let id = Uuid::from_u128(7);
        let page = opened(&silent, id, Some(&named(10_000)), &[], at(17), "https://docs.test/runbooks");
        assert_eq!(
            page.summary,
            "No ticker has finished a cycle, since 2026-11-29T09:00:00Z; 10000 jobs have a deadline within the next hour"
        );
        assert_eq!((page.count, page.examples.len()), (10_000, 5));
        assert_eq!(page.subject.name(), "ticker");
        assert_eq!(page.severity, Severity::Critical);
        assert_eq!(page.dedup_key, id.to_string());
        assert_eq!(page.link.as_deref(), Some("https://docs.test/runbooks#no_ticker"));
        assert!(page.what_to_do.contains("escapement status"));
    }

    #[test]
    fn many_alike_are_one_page_with_examples() {
        let queues: Vec<_> = (0..9)
            .map(|queue| {
                condition(Trouble::NoWorker, &format!("default/q{queue}"), &format!("q{queue} waits"))
            })
            .collect();
        let others: Vec<_> = queues.iter().skip(1).collect();
        let page = opened(&queues[0], Uuid::nil(), None, &others, at(40), "");
        assert_eq!(page.summary, "Q0 waits, since 2026-11-29T09:00:00Z; and 8 others alike");
        assert_eq!((page.count, page.examples.len()), (9, 5));
        assert_eq!(page.link, None);
    }

    #[test]
    fn the_loss_of_the_database_is_told_under_its_own_key() {
        let outage = Outage {
            alert_id: Uuid::from_u128(3),
            dedup_key: "escapement-main-postgresql-4",
            since: at(0),
            at: at(15),
        };
        let gone = database_gone(outage, &named(1), "");
        assert_eq!(
            gone.summary,
            "PostgreSQL unreachable since 2026-11-29T09:00:00Z; 1 job has a deadline within the next hour"
        );
        let back = database_back(outage, 42, "");
        assert_eq!((gone.dedup_key, gone.alert_id), (back.dedup_key.clone(), back.alert_id));
        assert!(back.summary.contains("after 42 seconds") && back.is_end(), "{}", back.summary);
    }

    #[test]
    fn each_trouble_has_its_words_and_a_heading_in_the_runbooks() {
        let runbooks = include_str!("../../../../docs/runbooks.md");
        for kind in Trouble::ALL {
            assert!(!what_to_do(*kind).is_empty());
            assert!(runbooks.contains(&format!("\n## {kind}\n")), "docs/runbooks.md has no heading {kind}");
        }
    }
}
