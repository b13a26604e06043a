use super::*;
use chrono::TimeDelta;
use model::ids::{Generation, JobId, TenantId};
use model::policy::MisfirePolicy;
use model::run::{MisfireCause, MisfireOutcome};

fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect("an instant")
}

fn job() -> Stored {
    let run = rpc::v1::run::Kind::Handler(rpc::v1::Handler { name: "h".to_owned(), payload: String::new() });
    let job = rpc::v1::Job {
        name: "invoices".to_owned(),
        schedule: "0 9 * * 1-5".to_owned(),
        timezone: "Europe/Berlin".to_owned(),
        run: Some(rpc::v1::Run { kind: Some(run) }),
        ..rpc::v1::Job::default()
    };
    Stored {
        id: JobId(uuid::Uuid::nil()),
        tenant: TenantId::DEFAULT,
        generation: Generation(1),
        created_at: at("2026-11-01T00:00:00Z"),
        updated_at: at("2026-11-01T00:00:00Z"),
        deleted_at: None,
        name: "invoices".to_owned(),
        definition: rpc::convert::job::read(&job).written.definition,
        broken: None,
        paused: None,
        seen_at: at("2026-11-20T12:00:00Z"),
    }
}

/// Wednesday; nine in the morning.
const OCCURRENCE: &str = "2026-11-18T08:00:00Z";

fn revision(generation: i64, from: &str, action: &str) -> Revision {
    Revision {
        generation: Generation(generation),
        in_force_from: at(from),
        action: action.to_owned(),
        author: "admin".to_owned(),
        reason: String::new(),
        paused: action == "PAUSED",
        catches_up: false,
        definition: Ok(job().definition),
    }
}

/// As it is on Friday noon, when all through Monday is planned and nothing else is known.
fn record(revisions: Vec<Revision>, in_force: Option<i64>) -> Record {
    Record {
        now: at("2026-11-20T12:00:00Z"),
        floor: DateTime::UNIX_EPOCH,
        next_fire_at: Some(at("2026-11-23T08:00:00Z")),
        revisions,
        in_force: in_force.map(Generation),
        run: None,
        missed: None,
        dates: Vec::new(),
    }
}

fn created() -> Revision {
    revision(1, "2026-11-01T00:00:00Z", "CREATED")
}

fn finding(record: &Record, instant: &str) -> String {
    let answer = find(&job(), record, &DateSets::default(), at(instant));
    let text = format!("{:?}", answer.finding);
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

#[test]
fn before_the_creation_and_after_the_deletion_there_is_no_job() {
    assert_eq!(finding(&record(vec![created()], None), "2026-10-30T08:00:00Z"), "NotYet");
    let gone = vec![created(), revision(2, "2026-11-17T00:00:00Z", "DELETED")];
    assert_eq!(finding(&record(gone, Some(2)), OCCURRENCE), "Deleted");
}

#[test]
fn what_the_schedule_does_not_name_is_none_whatever_else_happened() {
    let paused = vec![created(), revision(2, "2026-11-17T00:00:00Z", "PAUSED")];
    assert_eq!(finding(&record(paused, Some(2)), "2026-11-18T08:00:01Z"), "Not");
    assert_eq!(finding(&record(vec![created()], Some(1)), "2026-11-18T08:00:00.5Z"), "Not");
}

#[test]
fn what_is_not_planned_is_to_come_and_what_was_planned_and_is_nowhere_is_lost() {
    let record = record(vec![created()], Some(1));
    assert_eq!(finding(&record, "2026-11-23T08:00:00Z"), "ToBePlanned");
    assert_eq!(finding(&record, OCCURRENCE), "Nothing");
    let planned_through_nothing = Record { next_fire_at: None, ..record.clone() };
    assert_eq!(finding(&planned_through_nothing, "2026-11-23T08:00:00Z"), "Nothing");
    let above = Record { floor: at("2026-11-19T00:00:00Z"), ..record };
    assert_eq!(finding(&above, OCCURRENCE), "TooOld");
}

#[test]
fn an_overdue_one_is_due_with_its_jitter() {
    let mut jittered = created();
    if let Ok(definition) = &mut jittered.definition {
        definition.jitter = std::time::Duration::from_secs(600);
    }
    let record = Record { next_fire_at: Some(at(OCCURRENCE)), ..record(vec![jittered], Some(1)) };
    let answer = find(&job(), &record, &DateSets::default(), at(OCCURRENCE));
    let Finding::ToBePlanned { due_at, overdue } = answer.finding else { panic!("{answer:?}") };
    assert!(overdue);
    assert!(due_at > at(OCCURRENCE) && due_at < at(OCCURRENCE) + TimeDelta::minutes(10), "{due_at}");
}

fn missed() -> Missed {
    Missed {
        first: at(OCCURRENCE),
        last: at(OCCURRENCE),
        count: 1,
        cause: MisfireCause::NoTicker,
        policy: MisfirePolicy::Once,
        outcome: MisfireOutcome::Superseded,
        term: 7,
        ticker: Some("ticker-1".to_owned()),
        recorded_at: at("2026-11-18T09:00:00Z"),
    }
}

#[test]
fn a_pause_that_counts_as_an_outage_is_none() {
    let pause = |ends: Option<Revision>| {
        let paused = revision(2, "2026-11-17T00:00:00Z", "PAUSED");
        let mut changed = revision(3, "2026-11-17T12:00:00Z", "CHANGED");
        changed.paused = true;
        let revisions: Vec<_> = [created(), paused, changed].into_iter().chain(ends).collect();
        record(revisions, Some(3))
    };
    let resumed = |catches_up: bool| {
        let resumed = revision(4, "2026-11-19T00:00:00Z", "RESUMED");
        Some(Revision { catches_up, ..resumed })
    };
    for record in [pause(None), pause(resumed(false))] {
        assert_eq!(finding(&record, OCCURRENCE), "Paused");
        let answer = find(&job(), &record, &DateSets::default(), at(OCCURRENCE));
        let Finding::Paused { begun, .. } = answer.finding else { panic!("{answer:?}") };
        assert_eq!(begun.generation, Generation(2), "a change in the pause does not begin it");
    }
    let outage = pause(resumed(true));
    assert_eq!(finding(&outage, OCCURRENCE), "Nothing");
    assert_eq!(finding(&Record { missed: Some(missed()), ..outage }, OCCURRENCE), "Missed");
}

#[test]
fn a_definition_that_can_not_be_read_is_not_guessed() {
    let mut broken = created();
    broken.definition = Err("unknown variant".to_owned());
    assert_eq!(finding(&record(vec![broken], Some(1)), OCCURRENCE), "Unusable");
}
