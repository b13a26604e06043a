use super::*;
use model::alert::on::On;
use model::job::Alert;
use model::job::{Exec, Http};
use model::severity::Severity;
use std::collections::BTreeMap;

fn smallest() -> v1::Job {
    v1::Job {
        name: "invoices".to_owned(),
        schedule: "0 9 * * 1-5".to_owned(),
        run: Some(work::write(&Work::Exec(Exec { argv: vec!["true".to_owned()], ..Exec::default() }))),
        ..v1::Job::default()
    }
}

fn errors(job: &v1::Job) -> Vec<String> {
    let mut fields: Vec<String> = read(job).errors.into_iter().map(|error| error.field).collect();
    fields.sort();
    fields
}

fn facts() -> Facts {
    let at = DateTime::from_timestamp(1_795_942_800, 0).expect("in range");
    Facts {
        id: JobId::random(),
        name: "invoices".to_owned(),
        generation: Generation(3),
        created_at: at,
        updated_at: at,
        next_fire_at: None,
        broken: None,
        paused: None,
    }
}

#[test]
fn what_is_unset_gets_the_documented_default() {
    let written = read(&smallest()).checked(Vec::new()).expect("nothing is wrong");
    let definition = written.definition;
    assert_eq!(written.generation, None);
    assert_eq!((definition.timezone.as_str(), definition.queue.as_str()), ("UTC", "default"));
    assert_eq!((definition.dst_gap, definition.dst_fold), (DstGap::RunAfter, DstFold::First));
    assert_eq!((definition.misfire.policy, definition.overlap), (MisfirePolicy::Once, OverlapPolicy::Forbid));
    assert_eq!(definition.misfire.grace, defaults::MISFIRE_GRACE);
    assert_eq!(definition.misfire.catch_up_limit, defaults::CATCH_UP_LIMIT);
    assert_eq!(definition.max_runtime, defaults::MAX_RUNTIME);
    assert_eq!((definition.retry.max_attempts, definition.retry.max_lost), (1, 3));
    assert_eq!(definition.retry.jitter_percent, defaults::RETRY_JITTER_PERCENT);
    assert_eq!(definition.retry.outcomes, model::job::retry::every());
    assert_eq!(definition.alert, Alert::default());
}

#[test]
fn a_definition_comes_back_as_it_was() {
    let text = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let definition = Definition {
        schedule: "*/5 * * * * *".to_owned(),
        timezone: "Europe/Berlin".to_owned(),
        dst_gap: DstGap::Skip,
        dst_fold: DstFold::Both,
        starts_at: None,
        ends_at: None,
        calendars: model::calendar::Calendars::default(),
        misfire: Misfire {
            policy: MisfirePolicy::CatchUp,
            grace: Duration::from_secs(11),
            catch_up_limit: 7,
            catch_up_window: Duration::from_secs(3_600),
            catch_up_per_second: 10,
        },
        overlap: OverlapPolicy::Allow,
        max_runtime: Duration::from_millis(1_500),
        retry: Retry {
            max_attempts: 4,
            backoff: Duration::from_secs(1),
            backoff_max: Duration::from_secs(2),
            jitter_percent: 0,
            max_lost: 5,
            outcomes: [Retried::Failed, Retried::Lost].into(),
            final_statuses: [2, 422].into(),
        },
        jitter: Duration::from_secs(9),
        queue: "billing".to_owned(),
        priority: 9,
        labels: text(&[("team", "billing")]),
        alert: Alert {
            success_within: Some(Duration::from_secs(45)),
            channels: vec!["oncall".to_owned()],
            disabled: true,
            on: On {
                failed: true,
                failures_in_row: Some(3),
                runtime_over: Some(Duration::from_secs(1)),
                skipped_by_overlap: true,
                recovered: true,
            },
            repeat: Some(Duration::ZERO),
            severity: Severity::Warning,
        },
        run: Work::Http(Http {
            method: "PUT".to_owned(),
            url: "https://billing.example/run".to_owned(),
            headers: text(&[("a", "b")]),
            body: "{}".to_owned(),
            timeout: Duration::from_secs(3),
            expected_status: vec![200, 404],
            secret_headers: Vec::new(),
        }),
    };
    let written = read(&write(&definition, facts())).checked(Vec::new()).expect("nothing is wrong");
    assert_eq!(written.definition, definition);
    assert_eq!(written.generation, Some(Generation(3)));
}

#[test]
fn every_value_of_the_model_has_its_name_in_the_contract() {
    for gap in DstGap::ALL {
        assert!(v1::dst_gap::Rule::from_str_name(gap.as_str()).is_some(), "{gap}");
    }
    for fold in DstFold::ALL {
        assert!(v1::dst_fold::Rule::from_str_name(fold.as_str()).is_some(), "{fold}");
    }
    for policy in MisfirePolicy::ALL {
        assert!(v1::misfire::Policy::from_str_name(policy.as_str()).is_some(), "{policy}");
    }
    for severity in Severity::ALL {
        assert!(v1::alert_severity::Level::from_str_name(severity.as_str()).is_some(), "{severity}");
    }
    for outcome in Retried::ALL {
        assert!(v1::retry::Outcome::from_str_name(outcome.as_str()).is_some(), "{outcome}");
    }
    for policy in OverlapPolicy::ALL {
        assert!(v1::overlap::Policy::from_str_name(policy.as_str()).is_some(), "{policy}");
    }
}

#[test]
fn everything_that_is_wrong_is_named_at_once_by_its_path() {
    let minus = Some(ProtoDuration { seconds: -1, nanos: 0 });
    let endless = Some(ProtoDuration { seconds: i64::MAX, nanos: 0 });
    let job = v1::Job {
        name: "Invoices!".to_owned(),
        dst_gap: 17,
        dst_fold: -1,
        misfire: Some(v1::Misfire {
            policy: 9,
            grace: minus,
            catch_up_limit: -3,
            catch_up_window: endless,
            ..v1::Misfire::default()
        }),
        overlap: 99,
        max_runtime: endless,
        retry: Some(v1::Retry {
            max_attempts: 70_000,
            backoff: minus,
            backoff_max: minus,
            max_lost: -1,
            jitter_percent: Some(-1),
            outcomes: vec![1, 0, 9],
            final_statuses: vec![2, -2],
        }),
        jitter: minus,
        queue: "Büro".to_owned(),
        priority: 70_000,
        alert: Some(v1::JobAlert { success_within: minus, ..v1::JobAlert::default() }),
        run: None,
        generation: -1,
        ..v1::Job::default()
    };
    let all = [
        "alert.successWithin",
        "dstFold",
        "dstGap",
        "generation",
        "jitter",
        "maxRuntime",
        "misfire.catchUpLimit",
        "misfire.catchUpWindow",
        "misfire.grace",
        "misfire.policy",
        "name",
        "overlap",
        "priority",
        "queue",
        "retry.backoff",
        "retry.backoffMax",
        "retry.finalStatuses[1]",
        "retry.jitterPercent",
        "retry.maxAttempts",
        "retry.maxLost",
        "retry.outcomes[1]",
        "retry.outcomes[2]",
        "run",
    ];
    assert_eq!(errors(&job), all);
}

#[test]
fn a_run_without_a_kind_and_a_call_with_a_wrong_timeout_are_named() {
    let empty = v1::Run { kind: None };
    assert_eq!(errors(&v1::Job { run: Some(empty), ..smallest() }), ["run"]);
    let http = v1::Http {
        url: "http://billing.example".to_owned(),
        timeout: Some(ProtoDuration { seconds: 0, nanos: -5 }),
        ..v1::Http::default()
    };
    let run = v1::Run { kind: Some(v1::run::Kind::Http(http)) };
    assert_eq!(errors(&v1::Job { run: Some(run), ..smallest() }), ["run.http.timeout"]);
}

#[test]
fn a_longest_wait_below_the_default_wait_shortens_it() {
    let retry =
        v1::Retry { backoff_max: Some(ProtoDuration { seconds: 5, nanos: 0 }), ..v1::Retry::default() };
    let written =
        read(&v1::Job { retry: Some(retry), ..smallest() }).checked(Vec::new()).expect("nothing is wrong");
    assert_eq!(written.definition.retry.backoff, Duration::from_secs(5));
}

#[test]
fn what_stands_in_for_a_wrong_field_is_no_second_error() {
    let retry = v1::Retry {
        backoff: Some(ProtoDuration { seconds: 700, nanos: 0 }),
        backoff_max: Some(ProtoDuration { seconds: -1, nanos: 0 }),
        ..v1::Retry::default()
    };
    assert_eq!(errors(&v1::Job { retry: Some(retry), ..smallest() }), ["retry.backoffMax"]);
}

#[test]
fn further_errors_come_with_those_of_reading() {
    let reading = read(&v1::Job { priority: 12, ..smallest() });
    let errors = reading.checked(vec![FieldError::new("schedule", "is odd")]).expect_err("two are wrong");
    assert_eq!(errors.iter().map(|error| error.field.as_str()).collect::<Vec<_>>(), ["schedule", "priority"]);
}
