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

/// What was written, when nothing is wrong with it.
fn sound(job: &v1::Job) -> Written {
    let given = read(job);
    assert_eq!(given.errors, []);
    given.written
}

fn stored(job: &v1::Job) -> Stored {
    let written = sound(job);
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
    read(&job).errors.into_iter().map(|error| error.field).collect()
}

#[test]
fn what_only_the_registry_can_judge_is_named_with_the_rest() {
    let fields = wrong_fields(|job| {
        job.schedule = "61 * * * *".to_owned();
        job.timezone = "Europe/Atlantis".to_owned();
        job.priority = 12;
    });
    for field in ["schedule", "timezone", "priority"] {
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
    assert_eq!(read(&spelled).errors, [], "the escape is no NUL");
}

#[test]
fn every_overlap_policy_is_accepted() {
    for policy in ["FORBID", "ALLOW", "QUEUE", "REPLACE"] {
        let overlap = v1::overlap::Policy::from_str_name(policy).expect(policy).into();
        assert_eq!(read(&v1::Job { overlap, ..minimal() }).errors, [], "{policy}");
    }
}

#[test]
fn writing_the_same_changes_nothing() {
    let job = stored(&minimal());
    assert!(change(&job, &sound(&minimal()), &DateSets::default(), job.seen_at).is_none());
}

#[test]
fn a_new_schedule_begins_at_its_first_instant_after_the_change() {
    let job = stored(&minimal());
    let written = sound(&v1::Job { schedule: "30 7 * * *".to_owned(), ..minimal() });
    let change = change(&job, &written, &DateSets::default(), at("2026-11-29T06:30:00Z")).expect("a change");
    let first = Some(at("2026-11-30T06:30:00Z"));
    assert_eq!((change.generation, change.first, change.replans), (Generation(5), first, true));
}

#[test]
fn labels_and_names_change_without_planning_anew() {
    let job = stored(&minimal());
    let mut renamed = minimal();
    renamed.name = "bills".to_owned();
    renamed.labels.insert("team".to_owned(), "billing".to_owned());
    let written = sound(&renamed);
    let change = change(&job, &written, &DateSets::default(), job.seen_at).expect("a change");
    assert!(!change.replans);
}

#[test]
fn other_dates_of_a_calendar_move_the_first_instant_and_plan_anew() {
    let closed = |dates: &[&str]| {
        let mut known = Known::new(TenantId::DEFAULT, &[], &[]);
        let dates: Vec<_> = dates.iter().map(|date| date.parse().expect("a date")).collect();
        known.add_calendar("holidays", 2, &dates);
        known
    };
    let calendars = v1::JobCalendars { exclude: vec!["holidays".to_owned()], ..v1::JobCalendars::default() };
    let job = stored(&v1::Job { calendars: Some(calendars), ..minimal() });
    for (dates, first) in [(vec!["2026-11-30"], "2026-12-01T08:00:00Z"), (vec![], "2026-11-30T08:00:00Z")] {
        let known = closed(&dates);
        let renewed = known.renewed(&job.definition);
        let change = renewal(&job, &renewed, known.dates(), job.seen_at);
        assert_eq!((change.first, change.replans), (Some(at(first)), true));
    }
}

fn never(job: &v1::Job, stored: Option<&Stored>) -> Option<FieldError> {
    let now = at("2026-11-29T12:00:00Z");
    never_again(&sound(job).definition, stored, new_owner(TenantId::DEFAULT, now), now)
}

#[test]
fn what_would_never_run_is_refused_where_the_fault_is() {
    let of = |schedule: &str| v1::Job { schedule: schedule.to_owned(), ..minimal() };
    let past = never(&of("0 0 9 * * 1-5 2020"), None).expect("the year is over");
    assert_eq!(past.field, "schedule");
    assert!(past.message.contains("the last one was 2020-12-31T08:00:00Z"), "{past:?}");
    assert_eq!(never(&of("@at 2026-11-29T12:00:00"), None).expect("it is 13:00 in Berlin").field, "schedule");
    assert_eq!(never(&of("@at 2026-11-29T13:00:01"), None), None);
    let ended = |ends: &str| {
        let ends_at = Some(rpc::convert::time::timestamp(at(ends)));
        never(&v1::Job { ends_at, ..minimal() }, None)
    };
    assert_eq!(ended("2026-11-27T12:00:00Z").expect("over").field, "endsAt");
    assert_eq!(ended("2026-11-30T08:00:00Z"), None, "its end still counts");
}

#[test]
fn a_job_that_has_run_its_course_may_still_be_labelled() {
    let over = v1::Job { schedule: "0 0 9 * * 1-5 2020".to_owned(), ..minimal() };
    let job = stored(&over);
    let mut labelled = over.clone();
    labelled.labels.insert("team".to_owned(), "billing".to_owned());
    assert_eq!(never(&labelled, Some(&job)), None);
    assert!(never(&v1::Job { schedule: "0 0 9 * * 1-5 2021".to_owned(), ..over }, Some(&job)).is_some());
}

#[test]
fn the_watchdog_looks_after_the_deadline_and_never_at_a_job_that_opted_out() {
    let mut job = minimal();
    job.alert = Some(v1::JobAlert { success_within: Some(prost_duration(60)), ..v1::JobAlert::default() });
    let definition = sound(&job).definition;
    let occurrence = at("2026-11-29T12:00:00Z");
    assert_eq!(judge_at(&definition, occurrence), Some(at("2026-11-29T12:01:03Z")));
    job.alert = Some(v1::JobAlert { disabled: true, ..v1::JobAlert::default() });
    assert_eq!(judge_at(&sound(&job).definition, occurrence), None);
}

fn prost_duration(seconds: u64) -> prost_types::Duration {
    rpc::convert::time::duration(Duration::from_secs(seconds))
}

#[test]
fn a_message_names_the_next_occurrence_after_it_was_read() {
    let message = message(&stored(&minimal()), &DateSets::default());
    let next = rpc::convert::time::timestamp(at("2026-11-30T08:00:00Z"));
    assert_eq!((message.next_fire_time, message.generation), (Some(next), 4));
}
