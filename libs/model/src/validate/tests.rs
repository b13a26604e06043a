use super::*;
use crate::job::{Exec, Http, tests::definition};
use std::collections::BTreeMap;

fn fields(errors: &[FieldError]) -> Vec<&str> {
    errors.iter().map(|error| error.field.as_str()).collect()
}

#[test]
fn a_sound_definition_has_no_errors() {
    assert_eq!(super::definition(&definition()), []);
}

#[test]
fn every_wrong_field_is_named_at_once() {
    let mut bad = definition();
    bad.misfire.grace = Duration::from_secs(1);
    bad.priority = 12;
    bad.queue = "Büro".to_owned();
    bad.retry.max_attempts = 0;
    bad.retry.jitter_percent = 101;
    bad.retry.final_statuses.insert(0);
    assert_eq!(
        fields(&super::definition(&bad)),
        [
            "misfire.grace",
            "retry.maxAttempts",
            "retry.jitterPercent",
            "retry.finalStatuses",
            "queue",
            "priority"
        ]
    );
}

#[test]
fn no_time_at_all_is_shown_in_seconds() {
    let mut bad = definition();
    bad.max_runtime = Duration::ZERO;
    let expected = FieldError::new("maxRuntime", "0s: use at least 1s");
    assert_eq!(super::definition(&bad), [expected]);
}

#[test]
fn a_process_needs_argv_or_shell_and_not_both() {
    let mut bad = definition();
    bad.run = Work::Exec(Exec::default());
    assert_eq!(fields(&super::definition(&bad)), ["run.exec.argv"]);
    bad.run = Work::Exec(Exec { argv: vec!["true".to_owned()], shell: "true".to_owned(), ..Exec::default() });
    assert_eq!(fields(&super::definition(&bad)), ["run.exec.shell"]);
}

#[test]
fn addresses_are_absolute_and_carry_no_secret() {
    for (url, wrong) in [
        ("http://billing.example/run", false),
        ("https://billing.example:8443", false),
        ("ftp://billing.example", true),
        ("http:///run", true),
        ("http://user:secret@billing.example", true),
        ("http://billing.example/a b", true),
        ("http://h:99999/", true),
        ("http://[::1", true),
        ("http://[::1]:8080/", false),
    ] {
        assert_eq!(url_problem(url).is_some(), wrong, "{url}");
    }
    let mut bad = definition();
    bad.run = Work::Http(Http {
        method: "BREW".to_owned(),
        url: "x".to_owned(),
        headers: BTreeMap::new(),
        body: String::new(),
        timeout: Duration::from_secs(30),
        expected_status: vec![204, 0],
        secret_headers: Vec::new(),
    });
    assert_eq!(
        fields(&super::definition(&bad)),
        ["run.http.method", "run.http.url", "run.http.expectedStatus"]
    );
}

#[test]
fn headers_can_neither_break_the_message_nor_claim_to_be_the_run() {
    for (name, value, wrong) in [
        ("x-team", "billing", false),
        ("authorization", "Bearer a b", false),
        ("a b", "c", true),
        ("", "c", true),
        ("x-team", "b\r\nc: d", true),
        ("Content-Length", "5", true),
        ("Transfer-Encoding", "chunked", true),
        ("Escapement-Fencing-Token", "1", true),
    ] {
        assert_eq!(header_problem(name, value).is_some(), wrong, "{name:?}: {value:?}");
    }
}

#[test]
fn names_refuse_what_urls_and_shells_would_misread() {
    for bad in ["", "-a", "a-", "A", "a b", "a/b", "a@b", "ü", &"a".repeat(64)] {
        assert!(name("name", bad).is_some(), "{bad:?}");
    }
    for good in ["a", "0", "month-end.report_2", &"a".repeat(63)] {
        assert_eq!(name("name", good), None, "{good:?}");
    }
}
