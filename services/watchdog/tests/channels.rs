//! What each kind of channel is told, by receivers that are real or hold to what is published of them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;
mod telling;

use boon::{Compiler, Schemas};
use model::channel::{Email, MailTls, Target};
use serde_json::Value;
use service::egress::Policy;
use stack::process::{ManagedChild, Spec};
use stack::testkit::TempFolder;
use stack::wait::wait_for;
use std::path::Path;
use std::time::{Duration as Time, Instant};
use store::clock;
use support::{Cell, IMPATIENT, Receiver, rows};
use telling::{Alert, tell};
use watchdog::message::{Event, Message};

const LIMIT: Time = Time::from_secs(30);
const KEY: &str = "a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4";

/// Panics with what is wrong when `value` is not as the schema of this name says.
fn assert_valid(schema: &str, value: &Value) {
    let path = format!("{}/tests/schemas/{schema}.json", env!("CARGO_MANIFEST_DIR"));
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    let index = compiler.compile(&path, &mut schemas).expect("a sound schema");
    if let Err(error) = schemas.validate(value, index) {
        panic!("{error:#}\n{value:#}");
    }
}

async fn wait_until_told(cell: &Cell, count: i64) {
    let question = format!("SELECT (count(delivered_at) >= {count})::int::bigint FROM alert_delivery");
    wait_for(LIMIT, "the records", async || (cell.number(&question).await > 0).then_some(())).await;
}

#[tokio::test]
async fn pagerduty_gets_trigger_acknowledge_and_resolve_and_its_wait_is_kept() {
    let receiver = Receiver::start(&[429]).await;
    let cell = Cell::create().await;
    let target = Target::Pagerduty { url: receiver.url.clone() };
    let channel = telling::channel(&cell, "pager", target, Some(KEY)).await;
    let mut alert = Alert::open(&cell).await;
    alert.message.summary = "ä".repeat(2_000);
    for event in [Event::Opened, Event::Acknowledged, Event::Resolved] {
        tell(&cell, &alert, event, channel).await;
    }
    let delivering = cell.deliver(IMPATIENT);
    receiver.wait_for(1).await;
    let refused = Instant::now();
    receiver.wait_for(2).await;
    assert!(refused.elapsed() > Time::from_millis(900), "it asked for a second: {:?}", refused.elapsed());
    let received = receiver.wait_for(4).await;
    delivering.stop().await;
    let events: Vec<_> = received.iter().map(|received| received.json()).collect();
    let actions: Vec<_> = events.iter().map(|event| event["event_action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["trigger", "trigger", "acknowledge", "resolve"]);
    for event in &events {
        assert_valid("pagerduty-v2", event);
        assert_eq!((&event["routing_key"], &event["dedup_key"]), (&KEY.into(), &events[0]["dedup_key"]));
    }
    assert_eq!(events[0]["payload"]["severity"], "critical");
}

#[tokio::test]
async fn slack_gets_blocks_within_its_limits_and_nobody_is_mentioned() {
    let receiver = Receiver::start(&[]).await;
    let cell = Cell::create().await;
    let channel = telling::channel(&cell, "chat", Target::Slack, Some(&receiver.url)).await;
    let mut alert = Alert::open(&cell).await;
    alert.message.summary = format!("<!channel> & co {}", "<".repeat(5_000));
    alert.message.what_to_do = "&".repeat(5_000);
    alert.message.examples = vec!["invoices@2026-11-29T09:00:00Z".to_owned()];
    alert.message.link = Some("https://escapement.example/alerts?a=1&b=2".to_owned());
    for event in [Event::Opened, Event::Repeated, Event::Resolved] {
        tell(&cell, &alert, event, channel).await;
    }
    let delivering = cell.deliver(IMPATIENT);
    let received = receiver.wait_for(3).await;
    delivering.stop().await;
    for message in received.iter().map(|received| received.json()) {
        assert_valid("slack-blocks", &message);
        // Nothing begins what Slack would read as a mention or a link, but for ours.
        let others = message.to_string().replace("<https://escapement.example/", "");
        assert!(!others.contains('<'), "{message}");
    }
    let title =
        |index: usize| received[index].json()["blocks"][0]["text"]["text"].as_str().unwrap().to_owned();
    assert_eq!(
        [title(0), title(1), title(2)],
        ["Alert: invoices", "Still open: invoices", "Resolved: invoices"]
    );
}

/// Debian's Alertmanager, which tells `receiver` what it is told.
fn alertmanager(folder: &Path, port: u16, receiver: &Receiver) -> ManagedChild {
    let config = format!(
        "route: {{receiver: test, group_wait: 0s, group_interval: 1s, group_by: ['...']}}\n\
         receivers: [{{name: test, webhook_configs: [{{url: '{}', send_resolved: true}}]}}]\n",
        receiver.url
    );
    let path = folder.join("alertmanager.yml");
    std::fs::write(&path, config).expect("written");
    let spec = Spec::new("alertmanager", "/usr/bin/prometheus-alertmanager", folder.join("alertmanager.log"))
        .arg(format!("--config.file={}", path.display()))
        .arg(format!("--storage.path={}", folder.join(uuid::Uuid::new_v4().to_string()).display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg("--cluster.listen-address=");
    ManagedChild::spawn(&spec).expect("Alertmanager is installed: cargo xtask install")
}

async fn alerts_held(url: &str) -> Option<Vec<Value>> {
    let answer = reqwest::get(format!("{url}/api/v2/alerts")).await.ok()?;
    answer.json().await.ok()
}

#[tokio::test]
async fn alertmanager_holds_the_alert_over_its_own_restart_until_it_is_resolved() {
    let (receiver, folder) = (Receiver::start(&[]).await, TempFolder::create("alertmanager").unwrap());
    service::runtime::install_crypto();
    let port = stack::ports::Port::reserve().expect("a port");
    let url = format!("http://127.0.0.1:{}", port.number());
    let mut running = alertmanager(folder.path(), port.number(), &receiver);
    wait_for(LIMIT, "Alertmanager", async || alerts_held(&url).await).await;

    let cell = Cell::create().await;
    clock::shift(&cell.store, 0).await.expect("Alertmanager has the machine's clock");
    let target = Target::Alertmanager { url: url.clone(), username: String::new() };
    let channel = telling::channel(&cell, "am", target, None).await;
    let mut alert = Alert::open(&cell).await;
    alert.message.labels = [("team".to_owned(), "billing".to_owned())].into();
    tell(&cell, &alert, Event::Opened, channel).await;
    tell(&cell, &alert, Event::Acknowledged, channel).await;
    let delivering = cell.deliver(IMPATIENT);
    let held = async || alerts_held(&url).await.filter(|alerts| !alerts.is_empty());
    let alerts = wait_for(LIMIT, "the alert", held).await;
    assert_eq!(alerts.len(), 1);
    let labels = &alerts[0]["labels"];
    assert_eq!((&labels["job"], &labels["team"]), (&"invoices".into(), &"billing".into()));
    assert_eq!((&labels["severity"], &alerts[0]["status"]["state"]), (&"critical".into(), &"active".into()));
    let told = receiver.wait_for(1).await;
    assert_eq!(told[0].json()["status"], "firing");

    // It keeps nothing over a restart; within the minute it is told again. The minute is over now.
    running.kill().expect("killed");
    let _restarted = alertmanager(folder.path(), port.number(), &receiver);
    wait_for(LIMIT, "Alertmanager again", async || alerts_held(&url).await).await;
    wait_until_told(&cell, 2).await;
    rows!(cell, "UPDATE alert_delivery SET refresh_at = esc_now() WHERE refresh_at IS NOT NULL");
    assert_eq!(wait_for(LIMIT, "the alert again", held).await[0]["fingerprint"], alerts[0]["fingerprint"]);

    alert.resolve(&cell).await;
    tell(&cell, &alert, Event::Resolved, channel).await;
    let gone = async || alerts_held(&url).await.filter(Vec::is_empty);
    wait_for(LIMIT, "the alert's end", gone).await;
    let resolved = async || receiver.received().into_iter().find(|got| got.json()["status"] == "resolved");
    wait_for(LIMIT, "the resolution", resolved).await;
    rows!(cell, "UPDATE alert_delivery SET refresh_at = esc_now() WHERE refresh_at IS NOT NULL");
    let ended =
        async || (cell.number("SELECT count(refresh_at) FROM alert_delivery").await == 0).then_some(());
    wait_for(LIMIT, "the end of refreshing", ended).await;
    delivering.stop().await;
    assert_eq!(alerts_held(&url).await.expect("an answer").len(), 0);
}

/// A mail server, and the file in which it keeps what it gets.
struct MailServer {
    port: u16,
    kept: std::path::PathBuf,
    _process: ManagedChild,
}

impl MailServer {
    async fn start(folder: &Path, secure: &[&str]) -> Self {
        let kept = folder.join("mails");
        let script = format!("{}/tests/support/smtp.py", env!("CARGO_MANIFEST_DIR"));
        // The distribution's Python, which has the distribution's aiosmtpd.
        let spec = Spec::new("smtp", "/usr/bin/python3", folder.join("smtp.log"))
            .arg(script)
            .arg(&kept)
            .args(secure.iter().copied());
        let process = ManagedChild::spawn(&spec).expect("Python is installed: cargo xtask install");
        let file = folder.join("mails.port");
        let port = async || std::fs::read_to_string(&file).ok();
        let port = wait_for(LIMIT, "the mail server", port).await.parse().expect("a port");
        Self { port, kept, _process: process }
    }

    fn mails(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.kept).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    async fn wait_for(&self, count: usize) -> Vec<Value> {
        let mails = async || Some(self.mails()).filter(|mails| mails.len() >= count);
        wait_for(LIMIT, "mails", mails).await
    }

    fn target(&self, tls: MailTls) -> Target {
        Target::Email(Email {
            host: "localhost".to_owned(),
            port: self.port,
            tls,
            username: String::new(),
            from: "escapement@example.com".to_owned(),
            to: vec!["oncall@example.com".to_owned(), "ops@example.com".to_owned()],
        })
    }
}

/// The value of a header that is on one line.
fn header<'a>(mail: &'a Value, name: &str) -> Option<&'a str> {
    let text = mail["mail"].as_str().expect("a mail");
    let lines = text.lines().take_while(|line| !line.is_empty());
    lines.filter_map(|line| line.split_once(": ")).find(|(key, _)| *key == name).map(|(_, value)| value)
}

#[tokio::test]
async fn mails_of_one_alert_are_one_thread() {
    let folder = TempFolder::create("mail").unwrap();
    let server = MailServer::start(folder.path(), &[]).await;
    let cell = Cell::create().await;
    let channel = telling::channel(&cell, "mail", server.target(MailTls::None), None).await;
    let mut alert = Alert::open(&cell).await;
    alert.message.summary = "invoices: no success\r\nBcc: everybody@example.com".to_owned();
    for event in [Event::Opened, Event::Repeated, Event::Resolved] {
        tell(&cell, &alert, event, channel).await;
    }
    let delivering = cell.deliver(IMPATIENT);
    let mails = server.wait_for(3).await;
    wait_until_told(&cell, 3).await;
    delivering.stop().await;
    let first = header(&mails[0], "Message-ID").expect("an id");
    assert!(first.ends_with("@example.com>"), "{first}");
    assert_eq!(header(&mails[0], "In-Reply-To"), None);
    for mail in &mails[1..] {
        assert_eq!((header(mail, "In-Reply-To"), header(mail, "References")), (Some(first), Some(first)));
        assert_ne!(header(mail, "Message-ID"), Some(first));
    }
    assert_eq!(mails[0]["to"], serde_json::json!(["oncall@example.com", "ops@example.com"]));
    assert_eq!(header(&mails[0], "Bcc"), None);
    let subject = header(&mails[2], "Subject").expect("a subject");
    assert!(subject.starts_with("[Resolved] invoices"), "{subject}");
    assert!(mails[0]["mail"].as_str().unwrap().contains("What to do: "), "{}", mails[0]["mail"]);
    let statuses = rows!(cell, "SELECT DISTINCT last_status FROM alert_delivery");
    assert_eq!((statuses.len(), statuses[0].get::<_, i32>(0)), (1, 250));
}

/// What went wrong with the first try of a mail to `target`.
async fn mail_error(target: Target, policy: Policy) -> String {
    let cell = Cell::create().await;
    let channel = telling::channel(&cell, "mail", target, None).await;
    let alert = Alert::open(&cell).await;
    tell(&cell, &alert, Event::Opened, channel).await;
    let delivering = cell.deliver_with(IMPATIENT, policy);
    let error = async || {
        let rows = rows!(cell, "SELECT last_error FROM alert_delivery WHERE last_error IS NOT NULL");
        rows.first().map(|row| row.get::<_, String>(0))
    };
    let error = wait_for(LIMIT, "the failure", error).await;
    delivering.stop().await;
    error
}

#[tokio::test]
async fn a_server_that_offers_no_encryption_gets_nothing_and_one_that_is_not_permitted_neither() {
    let folder = TempFolder::create("mail").unwrap();
    let server = MailServer::start(folder.path(), &[]).await;
    let here = Policy { loopback: true, ..Policy::default() };
    let error = mail_error(server.target(MailTls::Starttls), here).await;
    assert!(error.to_uppercase().contains("STARTTLS"), "{error}");
    let error = mail_error(server.target(MailTls::None), Policy::default()).await;
    assert!(error.contains("allow_loopback"), "{error}");
    assert_eq!(server.mails().len(), 0);
}

/// A certificate of `localhost` that only itself vouches for, and its key.
fn certificate(folder: &Path) -> (String, String) {
    let path = |name: &str| folder.join(name).display().to_string();
    let (certificate, key) = (path("cert.pem"), path("key.pem"));
    let made = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "30",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", &key, "-out", &certificate])
        .output()
        .expect("openssl is installed: cargo xtask install");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (certificate, key)
}

#[tokio::test]
async fn mail_is_encrypted_and_signed_in_to_servers_that_the_machine_trusts_and_to_no_other() {
    assert_encrypted("STARTTLS", MailTls::Starttls).await;
}

#[tokio::test]
async fn mail_to_a_server_that_is_tls_from_the_first_byte_on_is_so_too() {
    assert_encrypted("TLS", MailTls::Tls).await;
}

/// The certificate is trusted by what is in the environment, which only another process can have of its own.
async fn assert_encrypted(mode: &str, tls: MailTls) {
    let folder = TempFolder::create("mail").unwrap();
    let (certificate, key) = certificate(folder.path());
    let server = MailServer::start(folder.path(), &[&certificate, &key, "us\u{e9}r", "s3cret", mode]).await;
    let here = Policy { loopback: true, ..Policy::default() };
    let error = mail_error(server.target(tls), here).await;
    assert!(error.to_lowercase().contains("certificate"), "{error}");

    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_sends_one_mail", "--ignored"])
        .env("SSL_CERT_FILE", &certificate)
        .env("TEST_MAIL_PORT", server.port.to_string())
        .env("TEST_MAIL_TLS", mode)
        .output()
        .expect("started");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    let mails = server.mails();
    assert_eq!(mails.len(), 1);
    assert_eq!((&mails[0]["tls"], &mails[0]["user"]), (&true.into(), &"us\u{e9}r".into()));
}

#[tokio::test]
#[ignore = "a part of another test, which starts it with an environment of its own"]
async fn child_sends_one_mail() {
    service::runtime::install_crypto();
    let port = std::env::var("TEST_MAIL_PORT").unwrap().parse().unwrap();
    let target = Target::Email(Email {
        host: "localhost".to_owned(),
        port,
        tls: if std::env::var("TEST_MAIL_TLS").unwrap() == "TLS" { MailTls::Tls } else { MailTls::Starttls },
        username: "us\u{e9}r".to_owned(),
        from: "escapement@example.com".to_owned(),
        to: vec!["oncall@example.com".to_owned()],
    });
    let policy = Policy { loopback: true, ..Policy::default() };
    let egress = service::egress::Egress::new(policy, "test").unwrap();
    let at = support::noon(0);
    let body = Message::test(uuid::Uuid::new_v4(), "mail", at).body();
    let id = uuid::Uuid::new_v4();
    let letter = watchdog::channel::Letter { id, body: &body, at, target: &target, secret: Some("s3cret") };
    let outcome = watchdog::channel::send(&egress, letter, LIMIT).await;
    assert_eq!(outcome, watchdog::channel::Outcome::Received { status: Some(250) });
}
