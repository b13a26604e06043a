use super::*;
use model::ids::TenantId;

fn minimal() -> v1::Job {
    v1::Job {
        name: "invoices".to_owned(),
        schedule: "0 9 * * 1-5".to_owned(),
        timezone: "Europe/Berlin".to_owned(),
        run: Some(v1::Run {
            kind: Some(v1::run::Kind::Handler(v1::Handler {
                name: "invoice".to_owned(),
                payload: String::new(),
            })),
        }),
        ..v1::Job::default()
    }
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect("an instant")
}

fn stored(job: &v1::Job) -> Stored {
    let written = read(job).expect("a sound job");
    Stored {
        id: JobId::random(),
        tenant: TenantId::DEFAULT,
        generation: Generation(4),
        created_at: at("2026-01-01T00:00:00Z"),
        updated_at: at("2026-01-01T00:00:00Z"),
        deleted_at: None,
        name: written.name,
        definition: written.definition,
        broken: None,
        paused: None,
        seen_at: at("2026-11-29T12:00:00Z"),
    }
}

fn wrong_fields(change: impl FnOnce(&mut v1::Job)) -> Vec<String> {
    let mut job = minimal();
    change(&mut job);
    read(&job).expect_err("wrong").into_iter().map(|error| error.field).collect()
}

#[test]
fn what_only_the_registry_can_judge_is_named_with_the_rest() {
    let fields = wrong_fields(|job| {
        job.schedule = "61 * * * *".to_owned();
        job.timezone = "Europe/Atlantis".to_owned();
        job.overlap = v1::overlap::Policy::Queue.into();
        job.priority = 12;
    });
    for field in ["schedule", "timezone", "overlap", "priority"] {
        assert!(fields.iter().any(|found| found == field), "{field} in {fields:?}");
    }
}

#[test]
fn a_name_that_reads_as_an_id_is_refused() {
    assert_eq!(wrong_fields(|job| job.name = JobId::random().to_string()), ["name"]);
}

#[test]
fn nul_is_refused_before_the_database_refuses_it() {
    let handler = |payload: &str| v1::Run {
        kind: Some(v1::run::Kind::Handler(v1::Handler { name: "a".to_owned(), payload: payload.to_owned() })),
    };
    assert_eq!(wrong_fields(|job| job.run = Some(handler("a\0b"))), ["run.handler.payload"]);
    let mut spelled = minimal();
    spelled.run = Some(handler("\"\\u0000\""));
    assert!(read(&spelled).is_ok(), "the escape is no NUL");
}

#[test]
fn writing_the_same_changes_nothing() {
    let job = stored(&minimal());
    assert_eq!(decide(&job, &read(&minimal()).expect("sound"), job.seen_at), Decision::Unchanged);
}

#[test]
fn a_new_schedule_begins_at_its_first_instant_after_the_change() {
    let job = stored(&minimal());
    let mut changed = minimal();
    changed.schedule = "30 7 * * *".to_owned();
    let decision = decide(&job, &read(&changed).expect("sound"), at("2026-11-29T06:30:00Z"));
    let first = Some(at("2026-11-30T06:30:00Z"));
    assert_eq!(decision, Decision::Change { generation: Generation(5), first, replans: true });
}

#[test]
fn labels_and_names_change_without_planning_anew() {
    let job = stored(&minimal());
    let mut renamed = minimal();
    renamed.name = "bills".to_owned();
    renamed.labels.insert("team".to_owned(), "billing".to_owned());
    let decision = decide(&job, &read(&renamed).expect("sound"), job.seen_at);
    assert!(matches!(decision, Decision::Change { replans: false, .. }), "{decision:?}");
}

#[test]
fn the_watchdog_looks_after_the_deadline_and_never_at_a_job_that_opted_out() {
    let mut job = minimal();
    job.alert = Some(v1::JobAlert { success_within: Some(prost_duration(60)), ..v1::JobAlert::default() });
    let definition = read(&job).expect("sound").definition;
    let occurrence = at("2026-11-29T12:00:00Z");
    assert_eq!(judge_at(&definition, occurrence), Some(at("2026-11-29T12:01:03Z")));
    job.alert = Some(v1::JobAlert { disabled: true, ..v1::JobAlert::default() });
    assert_eq!(judge_at(&read(&job).expect("sound").definition, occurrence), None);
}

fn prost_duration(seconds: u64) -> prost_types::Duration {
    rpc::convert::time::duration(Duration::from_secs(seconds))
}

#[test]
fn a_message_names_the_next_occurrence_after_it_was_read() {
    let message = message(&stored(&minimal()));
    let next = rpc::convert::time::timestamp(at("2026-11-30T08:00:00Z"));
    assert_eq!((message.next_fire_time, message.generation), (Some(next), 4));
}
