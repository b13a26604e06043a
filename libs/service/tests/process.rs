//! A service as a process: its exit codes, its endpoints, its health, and what signals do to it.
//!
//! This program is the test and, started again with `SCENARIO` set, the service under test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use escapement_service as service;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use service::config::{Common, Problem, Validate};
use service::runtime::{BoxError, Context};
use service::shutdown::Drain;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

service::settings! {
    /// What the service under test can be told.
    struct Example {
        /// How far, in milliseconds.
        lookahead_ms: u64 = 60_000,
    }
}

impl Validate for Example {
    fn validate(&self, _: &Common) -> Vec<Problem> {
        let short = self.lookahead_ms < 1_000;
        short.then(|| Problem::new("lookahead_ms", "use at least 1000")).into_iter().collect()
    }
}

/// The longest wait for a process to do something.
const LIMIT: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    if std::env::var_os("SCENARIO").is_some() {
        return service::runtime::main("escapement-example", "An example.", serve);
    }
    exit_codes_tell_success_failure_and_misconfiguration();
    help_lists_the_settings();
    log_lines_are_json_and_telemetry_that_nobody_takes_stops_nothing();
    tokens_in_the_clear_are_warned_of_but_not_on_loopback();
    half_of_tls_is_misconfigured();
    a_signal_drains_and_ends_with_0();
    a_second_signal_ends_at_once();
    ExitCode::SUCCESS
}

/// Serves until the signal, then drains for as long as the scenario says.
async fn serve(context: Context<Example>) -> Result<(), BoxError> {
    let scenario = std::env::var("SCENARIO")?;
    if scenario == "fail" {
        return Err(Box::new(std::io::Error::other("disk full")));
    }
    if scenario == "clear" {
        context.listen("listen_grpc", SocketAddr::from(([0, 0, 0, 0], 0))).await?;
        context.listen("listen_grpc", SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        return Ok(());
    }
    let server = context.serve_http(axum::Router::new()).await?;
    let ready = context.health.condition("database");
    ready.met();
    context.publish(serde_json::json!({"http": format!("http://{}", server.address)}))?;
    if scenario == "once" {
        return Ok(());
    }
    context.shutdown.cancelled().await;
    context.health.drain();
    let drain = Drain::within(context.common.drain());
    if scenario == "linger" {
        let _ = drain.stage("for ever", std::future::pending()).await;
    }
    server.stop().await?;
    Ok(())
}

fn tokens_in_the_clear_are_warned_of_but_not_on_loopback() {
    let clear = run("clear", &[]);
    let text = String::from_utf8_lossy(&clear.stderr).into_owned();
    assert_eq!(clear.status.code(), Some(0), "{text}");
    let warnings: Vec<_> = text.lines().filter(|line| line.contains("Tokens travel in the clear")).collect();
    assert!(warnings.len() == 1 && warnings[0].contains("0.0.0.0"), "{text}");
}

fn half_of_tls_is_misconfigured() {
    let half = run("once", &[("ESCAPEMENT_TLS_KEY_FILE", "/nowhere/x.key")]);
    let text = String::from_utf8_lossy(&half.stderr).into_owned();
    assert_eq!(half.status.code(), Some(2), "{text}");
    assert!(text.contains("tls_certificate_file: is missing, and tls_key_file is set"), "{text}");
    let absent = [
        ("ESCAPEMENT_TLS_CERTIFICATE_FILE", "/nowhere/x.pem"),
        ("ESCAPEMENT_TLS_KEY_FILE", "/nowhere/x.key"),
    ];
    let absent = run("once", &absent);
    let text = String::from_utf8_lossy(&absent.stderr).into_owned();
    assert_eq!(absent.status.code(), Some(2), "{text}");
    assert!(text.contains("tls_certificate_file: cannot read /nowhere/x.pem"), "{text}");
}

fn exit_codes_tell_success_failure_and_misconfiguration() {
    assert_eq!(run("once", &[]).status.code(), Some(0));
    let failed = run("fail", &[]);
    assert_eq!(
        (failed.status.code(), last_line(&failed)),
        (Some(1), "escapement-example: disk full".to_owned())
    );
    let wrong = run("once", &[("ESCAPEMENT_LOOKAHEAD_MS", "5"), ("ESCAPEMENT_LOOKAHED", "5")]);
    let text = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(wrong.status.code(), Some(2), "{text}");
    assert!(text.contains("lookahed: is no setting"), "{text}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("it has one").to_string();
    let refused = run("once", &[("ESCAPEMENT_LISTEN_HTTP", &address)]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(last_line(&refused).contains("(listen_http): Address"), "{}", last_line(&refused));
}

fn help_lists_the_settings() {
    let output = command("once").arg("--help").output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("ESCAPEMENT_LOOKAHEAD_MS") && text.contains("ESCAPEMENT_DATABASE_URL"), "{text}");
}

fn log_lines_are_json_and_telemetry_that_nobody_takes_stops_nothing() {
    let output =
        run("once", &[("ESCAPEMENT_OTLP_ENDPOINT", "http://127.0.0.1:1"), ("ESCAPEMENT_CELL", "blue")]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let first: serde_json::Value =
        serde_json::from_str(text.lines().next().unwrap_or_default()).expect("JSON");
    assert_eq!((&first["message"], &first["cell"]), (&"Starting".into(), &"blue".into()));
}

fn a_signal_drains_and_ends_with_0() {
    let mut running = Running::start("wait");
    assert!(running.get("/readyz").starts_with("HTTP/1.1 200"), "{}", running.get("/readyz"));
    assert!(running.get("/healthz").starts_with("HTTP/1.1 200"));
    assert!(running.get("/metrics").contains("target_info"), "{}", running.get("/metrics"));
    running.signal(Signal::SIGTERM);
    assert_eq!(running.end(), Some(0));
}

fn a_second_signal_ends_at_once() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let mut running = Running::start("linger");
        running.signal(Signal::SIGTERM);
        wait_for("the drain", || running.get("/readyz").contains("shutdown: stopping"));
        assert!(running.child.try_wait().expect("it is ours").is_none(), "one signal lets it drain");
        running.signal(signal);
        assert_eq!(running.end(), Some(code));
    }
}

fn command(scenario: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env("SCENARIO", scenario).stdin(Stdio::null());
    command
}

fn run(scenario: &str, environment: &[(&str, &str)]) -> Output {
    command(scenario).envs(environment.iter().copied()).output().expect("it starts")
}

fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()
}

/// A service that listens; killed with the test.
struct Running {
    child: Child,
    address: String,
    file: PathBuf,
}

impl Running {
    fn start(scenario: &str) -> Self {
        let file = std::env::temp_dir().join(format!("escapement-process-{}-{scenario}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let child = command(scenario).arg("--endpoints-file").arg(&file).stderr(Stdio::null()).spawn();
        let mut running = Self { child: child.expect("it starts"), address: String::new(), file };
        wait_for("the endpoints", || running.file.exists());
        let text = std::fs::read_to_string(&running.file).expect("it is whole");
        let endpoints: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(endpoints["pid"], running.child.id());
        let url = endpoints["http"].as_str().expect("an address");
        running.address = url.strip_prefix("http://").expect("HTTP").to_owned();
        running
    }

    fn get(&self, path: &str) -> String {
        let mut stream = std::net::TcpStream::connect(&self.address).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers");
        text
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("it lives");
    }

    fn end(&mut self) -> Option<i32> {
        let mut code = None;
        wait_for("the end", || {
            code = self.child.try_wait().expect("it is ours").map(|status| status.code());
            code.is_some()
        });
        code.flatten()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Asks until `condition` holds; panics after [`LIMIT`].
fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "waited {LIMIT:?} for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
