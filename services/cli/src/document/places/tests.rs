use super::*;

fn of(files: &[(&str, &str)]) -> Documents {
    let mut documents = Documents::none();
    files.iter().for_each(|(origin, text)| documents.add(origin, text));
    documents
}

fn wrong(text: &str) -> String {
    of(&[("jobs.yaml", text)]).sound().expect_err("wrong").to_string()
}

fn field(field: &str, message: &str) -> WrongField {
    WrongField { field: field.to_owned(), message: message.to_owned() }
}

#[test]
fn documents_are_sorted_by_kind() {
    let text = "kind: Job\nname: a\nmaxRuntime: 1h30m\n---\nkind: Channel\nname: c\n---\n\
                kind: Calendar\nname: holidays\ndates: [2026-12-25]\n---\n";
    assert_eq!(
        of(&[("jobs.yaml", text)]).sound().expect("sound documents"),
        json!({
            "jobs": [{"name": "a", "maxRuntime": "5400s"}],
            "channels": [{"name": "c"}],
            "calendars": [{"name": "holidays", "dates": ["2026-12-25"]}],
        })
    );
}

#[test]
fn a_wrong_document_is_named_with_its_place() {
    assert_eq!(
        wrong("kind: Job\nname: a\n---\nkind: Joob\n"),
        "jobs.yaml, document 2: kind \"Joob\": use Job, Channel, Calendar or CheckIn"
    );
    let error = wrong("kind: Job\nmaxRuntime: long\n");
    assert!(error.starts_with("jobs.yaml, document 1: maxRuntime: \"long\" is not a duration"), "{error}");
}

#[test]
fn everything_that_can_not_be_read_is_told_at_once() {
    let first = "kind: Job\nname: a\njitter: 1x\nretry: {backoff: soon}\n---\nkind: Joob\n---\nkind: CheckIn\nname: c\nperiod: '90'\n";
    let documents =
        of(&[("a.yaml", first), ("b.yaml", "- 1\n---\nname: x\n---\n{"), ("c.yaml", "kind: Job\nname: d\n")]);
    assert!(!documents.is_whole());
    let error = documents.sound().expect_err("wrong").to_string();
    let lines: Vec<_> = error.lines().skip(1).collect();
    let expected = [
        "  a.yaml, document 2: kind \"Joob\"",
        "  b.yaml, document 1: is not a mapping",
        "  b.yaml, document 2: kind is missing",
        "  b.yaml, document 3: is not YAML: ",
        "  a.yaml, document 1 (a): retry.backoff: \"soon\" is not a duration",
        "  a.yaml, document 1 (a): jitter: \"1x\" is not a duration",
        "  a.yaml, document 3 (c): period: \"90\" is not a duration",
    ];
    assert_eq!(lines.len(), expected.len(), "{error}");
    for (line, expected) in lines.into_iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}");
    }
}

#[test]
fn what_the_registry_says_of_a_document_is_said_of_where_it_stood() {
    let documents =
        of(&[("a.yaml", "kind: Job\nname: a\n"), ("b.yaml", "---\nkind: Job\n---\nkind: Job\nname: c\n")]);
    let found = ["jobs[0].schedule", "jobs[1]", "jobs[2].run.http.url", "jobs[20].name"];
    let stood = documents.stood(found.map(|name| field(name, "x")));
    let expected = [
        "a.yaml, document 1 (a): schedule",
        "b.yaml, document 1",
        "b.yaml, document 2 (c): run.http.url",
        "jobs[20].name",
    ];
    assert_eq!(stood, expected.map(|name| field(name, "x")));
}

#[test]
fn what_the_registry_says_is_told_in_the_order_of_the_documents() {
    let text = "kind: Channel\nname: c\n---\nkind: Job\nname: a\n---\nkind: Job\nname: b\n";
    let found = ["", "jobs[1].schedule", "jobs[0].name", "jobs[0].jitter", "channels[0].slack"];
    let stood = of(&[("j", text)]).stood(found.map(|name| field(name, "x")));
    let expected = [
        "j, document 1 (c): slack",
        "j, document 2 (a): name",
        "j, document 2 (a): jitter",
        "j, document 3 (b): schedule",
        "",
    ];
    assert_eq!(stood, expected.map(|name| field(name, "x")));
}

#[test]
fn what_the_registry_finds_stands_beside_what_was_found_here_document_by_document() {
    let text = "kind: Job\nname: a\njitter: soon\n---\nkind: Job\nname: b\n";
    let found = ["jobs[1].schedule", "jobs[0].jitter", "jobs[0].schedule", ""].map(|name| field(name, "x"));
    let told = of(&[("j", text)]).refused(Found { wrong: found.into(), ..Found::default() }).to_string();
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[1].starts_with("  j, document 1 (a): jitter: \"soon\" is not a duration"), "{told}");
    let rest = ["  j, document 1 (a): schedule: x", "  j, document 2 (b): schedule: x", "  x"];
    assert_eq!(lines[2..], rest);
}

#[test]
fn a_key_that_is_given_twice_is_named_with_its_place() {
    let twice = "kind: Job\nname: a\nrun:\n  exec: {argv: [a]}\n  exec: {argv: [b]}\nname: b\n";
    for (text, place) in [
        (twice.to_owned(), "jobs.yaml, document 1 (b)"),
        (format!("kind: Job\nname: z\n---\n{twice}"), "jobs.yaml, document 2 (b)"),
    ] {
        let once = "is given more than once: keep one";
        let expected =
            format!("several fields are wrong\n  {place}: name: {once}\n  {place}: run.exec: {once}");
        assert_eq!(wrong(&text), expected);
    }
}
