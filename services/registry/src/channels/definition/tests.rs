use super::*;

fn channel(url: &str, secret: &str) -> v1::Channel {
    v1::Channel {
        name: "oncall".to_owned(),
        target: Some(Given::Webhook(v1::Webhook { url: url.to_owned(), secret: secret.to_owned() })),
        ..v1::Channel::default()
    }
}

fn wrong_fields(channel: &v1::Channel) -> Vec<String> {
    read(channel).err().unwrap_or_default().into_iter().map(|error| error.field).collect()
}

#[test]
fn every_wrong_field_is_named_and_no_secret_is_repeated() {
    let mut bad = channel("ftp://x", "hunter2");
    bad.name = "On Call".to_owned();
    assert_eq!(wrong_fields(&bad), ["name", "webhook.url", "webhook.secret"]);
    let errors = read(&bad).err().expect("wrong");
    assert!(errors.iter().all(|error| !error.message.contains("hunter2")), "{errors:?}");
    bad.target = None;
    assert_eq!(wrong_fields(&bad), ["name", "webhook"]);
}

#[test]
fn signing_secrets_are_whsec_and_24_to_64_bytes() {
    let secret = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
    for (text, sound) in [
        (secret(24), true),
        (secret(64), true),
        (secret(23), false),
        (secret(65), false),
        ("whsec_not base64".to_owned(), false),
    ] {
        assert_eq!(wrong_fields(&channel("http://x/", &text)).is_empty(), sound, "{text}");
    }
}

#[test]
fn a_secret_that_is_not_given_again_is_kept() {
    let at = chrono::DateTime::UNIX_EPOCH;
    let signed = channel("http://x/", &format!("whsec_{}", STANDARD.encode([7; 24])));
    let over = |channel: &v1::Channel, stored: Option<&Channel>| {
        read(channel).expect("sound").over(stored, TenantId::DEFAULT, at)
    };
    let stored = over(&signed, None).expect("complete");
    let again = over(&channel("http://y/", ""), Some(&stored)).expect("complete");
    assert_eq!((again.id, &again.secret), (stored.id, &stored.secret));
    let slack = v1::Channel { target: Some(Given::Slack(v1::Slack::default())), ..signed };
    assert_eq!(over(&slack, None).expect_err("no address").field, "slack.url");
    assert_eq!(over(&slack, Some(&stored)).expect_err("another kind's secret").field, "slack.url");
}

#[test]
fn every_kind_is_read_back_as_it_was_written_without_its_secret() {
    let email = v1::Email {
        host: "mail.example".to_owned(),
        username: "u".to_owned(),
        password: "hunter2".to_owned(),
        from: "a@example.com".to_owned(),
        to: vec!["b@example.com".to_owned()],
        ..v1::Email::default()
    };
    let alertmanager = v1::Alertmanager {
        url: "http://am:9093".to_owned(),
        username: "u".to_owned(),
        secret: "hunter2".to_owned(),
    };
    for given in [
        Given::Alertmanager(alertmanager),
        Given::Pagerduty(v1::Pagerduty { routing_key: "a1".repeat(16), url: String::new() }),
        Given::Slack(v1::Slack { url: "https://hooks.example/hunter2".to_owned() }),
        Given::Email(email),
    ] {
        let r#match = Some(v1::Match {
            labels: [("team".to_owned(), "billing".to_owned())].into(),
            severities: vec!["CRITICAL".to_owned()],
        });
        let name = "oncall".to_owned();
        let written = v1::Channel { name, target: Some(given), r#match, ..v1::Channel::default() };
        let stored = read(&written).expect("sound").over(None, TenantId::DEFAULT, DateTime::UNIX_EPOCH);
        let stored = stored.expect("complete");
        let shown = message(stored.clone(), Role::Editor);
        let text = format!("{shown:?}");
        assert!(!text.contains("hunter2") && !text.contains("a1a1"), "{text}");
        // What was read can be written back and changes nothing.
        let again = read(&shown).expect("sound").over(Some(&stored), TenantId::DEFAULT, stored.created_at);
        assert_eq!(again.expect("complete"), stored);
    }
}

#[test]
fn who_only_reads_sees_the_host_of_an_address() {
    for (url, shown) in [
        ("https://hooks.example/hunter2?key=hunter2", "https://hooks.example/…"),
        ("https://hooks.example:8443?key=hunter2", "https://hooks.example:8443/…"),
        ("http://am.example:9093", "http://am.example:9093"),
        ("http://am.example:9093/", "http://am.example:9093/"),
        (PAGERDUTY_URL, PAGERDUTY_URL),
    ] {
        let mut cut = url.to_owned();
        leave_out_path(&mut cut);
        assert_eq!(cut, shown);
    }
    let written = read(&channel("https://hooks.example/hunter2", "")).expect("sound");
    let stored = written.over(None, TenantId::DEFAULT, DateTime::UNIX_EPOCH).expect("complete");
    let read_back = |role| wrong_fields(&message(stored.clone(), role));
    assert_eq!(read_back(Role::Viewer), ["webhook.url"]);
    for role in [Role::Admin, Role::Editor] {
        assert_eq!(read_back(role), [""; 0], "{role}");
    }
}

#[test]
fn only_the_operators_channels_are_told_of_the_system() {
    let told = v1::Channel { system: Some(true), ..channel("http://x/", "") };
    let written = read(&told).expect("sound");
    let other = TenantId(Uuid::from_u128(1));
    assert!(written.over(None, TenantId::DEFAULT, DateTime::UNIX_EPOCH).is_ok());
    let refused = written.over(None, other, DateTime::UNIX_EPOCH).expect_err("not theirs");
    assert_eq!(refused.field, "system");
}

#[test]
fn differences_name_each_field_and_no_secret() {
    let stored = |channel: &v1::Channel| {
        let written = read(channel).expect("sound");
        written.over(None, TenantId::DEFAULT, DateTime::UNIX_EPOCH).expect("sound")
    };
    let secret = |byte: u8| format!("{SECRET_PREFIX}{}", STANDARD.encode([byte; 24]));
    let before = stored(&channel("http://x/", &secret(1)));
    let found = |after: &Channel| {
        let found = differences(&before, after).into_iter();
        let shown = |value: Option<String>| value.unwrap_or_default();
        let text = |one: Difference| format!("{} {} {}", one.field, shown(one.before), shown(one.after));
        found.map(text).collect::<Vec<_>>()
    };
    assert_eq!(found(&before), [""; 0]);
    assert_eq!(
        found(&stored(&channel("http://y/", &secret(2)))),
        ["webhook.secret … … (another one)", "webhook.url http://x/ http://y/"]
    );
    assert_eq!(found(&stored(&channel("http://x/", ""))), ["webhook.secret … "]);
}

#[test]
fn what_a_match_does_not_know_is_named() {
    let r#match = Some(v1::Match {
        severities: vec!["CRITICAL".to_owned(), "LOUD".to_owned()],
        ..v1::Match::default()
    });
    let bad = v1::Channel { r#match, ..channel("http://x/", "") };
    assert_eq!(wrong_fields(&bad), ["match.severities[1]"]);
}
