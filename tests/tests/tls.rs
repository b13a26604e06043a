//! TLS between real processes: who is refused, who gets through, and certificates that change under load.

use harness::authority::{Authority, Certified};
use harness::python::{WORKER_PACKAGE, virtual_environment};
use harness::{Api, Cell, PATIENCE, job, noop};
use reqwest::{Certificate, Client};
use serde_json::{Value, json};
use stack::dev::{Options, Role};
use stack::process::{ManagedChild, Spec};
use stack::wait::wait_for;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Those that listen.
const LISTENING: [Role; 4] = [Role::Registry, Role::Ticker, Role::Dispatcher, Role::Watchdog];
/// Changes of the certificate under load.
const CHANGES: usize = 3;

/// A client that trusts these only, with connections of its own.
fn client(trusted: &[&Authority], identity: Option<&Certified>) -> Client {
    let certificates = trusted.iter().map(|one| Certificate::from_pem(one.pem.as_bytes()).expect("PEM"));
    let mut builder = Client::builder().tls_certs_only(certificates).no_proxy().timeout(PATIENCE);
    if let Some(identity) = identity {
        builder = builder.identity(identity.identity());
    }
    builder.build().expect("a client")
}

/// Whether anything at all is answered there; a gRPC server answers such a question with an error.
async fn reaches(client: &Client, url: &str) -> bool {
    client.get(url).send().await.is_ok()
}

fn settings(certified: &Certified, folder: &Path) -> String {
    let (certificate, key) = certified.write(folder, "server");
    format!("tls_certificate_file = {certificate:?}\ntls_key_file = {key:?}\n")
}

fn of_all(options: Options, toml: &str) -> Options {
    LISTENING.into_iter().fold(options, |options, role| options.setting(role, toml))
}

/// As the administrator of a cell whose API takes only such a client.
fn api(cell: &Cell, client: Client) -> Api {
    let endpoints = cell.stack.endpoints();
    let token = std::fs::read_to_string(&endpoints.admin_token_file).expect("the administrator's token");
    Api::with_client(client, &endpoints.registry.rest, token.trim())
}

/// The addresses of every listener that has TLS.
fn addresses(cell: &Cell) -> Vec<String> {
    let of = |role| cell.stack.of(role).flat_map(|one| [one.endpoint("http"), one.endpoint("grpc")]);
    let all: Vec<String> = LISTENING.into_iter().flat_map(of).flatten().collect();
    assert!(all.len() >= 9 && all.iter().all(|address| address.starts_with("https://")), "{all:?}");
    all
}

#[tokio::test]
async fn over_mtls_workers_work_and_nobody_else_comes_in() {
    let (servers, clients, stranger) = (Authority::new(), Authority::new(), Authority::new());
    let certified = clients.issue();
    let mut cell = Cell::start_with(|options| {
        let folder = options.data.join("tls");
        let ca = clients.write(&folder, "clients.pem");
        let listening = settings(&servers.issue(), &folder);
        let listening = format!("{listening}tls_client_ca_file = {ca:?}\nlisten_probes = \"127.0.0.1:0\"\n");
        let ca = servers.write(&folder, "servers.pem");
        let (certificate, key) = certified.write(&folder, "client");
        let agent = format!(
            "dispatcher_ca_file = {ca:?}\ndispatcher_client_certificate_file = {certificate:?}\n\
             dispatcher_client_key_file = {key:?}\n"
        );
        of_all(options, &listening).setting(Role::Agent, &agent)
    })
    .await;
    cell.api = api(&cell, client(&[&servers], Some(&certified)));
    cell.api.create(job("secured", "* * * * * *", noop())).await;
    cell.api.wait_for_runs("secured", "SUCCEEDED", 2).await;
    let told = cell.sql("SELECT count(*) FROM dispatcher WHERE address NOT LIKE 'https://%'").await;
    assert_eq!(told, "0", "workers are told of dispatchers by https");

    let (right, without) = (client(&[&servers], Some(&certified)), client(&[&servers], None));
    let wrong = client(&[&servers], Some(&stranger.issue()));
    let distrustful = client(&[&stranger], Some(&certified));
    for address in addresses(&cell) {
        assert!(reaches(&right, &address).await, "{address}: refused who has everything");
        assert!(!reaches(&without, &address).await, "{address}: came in without a certificate");
        assert!(!reaches(&wrong, &address).await, "{address}: came in by another authority's certificate");
        assert!(!reaches(&distrustful, &address).await, "{address}: trusted another authority's certificate");
        let plain = address.replacen("https", "http", 1);
        assert!(!reaches(&right, &plain).await, "{address}: answered in the clear");
    }
    let probes = cell.stack.service("registry-1").expect("the registry").endpoint("probes");
    let probes = probes.expect("its probes");
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/metrics", 200), ("/v1/jobs", 404)] {
        let answer = without.get(format!("{probes}{path}")).send().await.expect("an answer in the clear");
        assert_eq!(answer.status(), status, "{path}");
    }
    types_over_mtls(&cell);
    types_by_a_context(&cell);
    works_in_python(&cell).await;
    cell.stop().await;
}

/// The command line gets through with its three files, and says what it lacks without them.
fn types_over_mtls(cell: &Cell) {
    let endpoints = cell.stack.endpoints();
    let token = std::fs::read_to_string(&endpoints.admin_token_file).expect("the administrator's token");
    let folder = cell.folder().join("tls");
    let escapement = |with: &[(&str, &str)]| {
        let mut command = Command::new(Options::for_tests(cell.folder()).binaries.join("escapement"));
        command.args(["get", "jobs", "-o", "name"]).env("ESCAPEMENT_TOKEN", token.trim());
        command.env("ESCAPEMENT_SERVER", &endpoints.registry.rest);
        for (argument, file) in with {
            command.arg(argument).arg(folder.join(file));
        }
        command.output().expect("the command line starts")
    };
    let all = [
        ("--ca-file", "servers.pem"),
        ("--client-certificate", "client.pem"),
        ("--client-key", "client.key"),
    ];
    let got = escapement(&all);
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    assert!(String::from_utf8_lossy(&got.stdout).contains("secured"), "{got:?}");
    assert!(!escapement(&all[..1]).status.success(), "without a certificate");
    assert!(!escapement(&all[1..]).status.success(), "without the authority");
    assert!(String::from_utf8_lossy(&escapement(&all[..2]).stderr).contains("needs --client-key"));
}

/// A context keeps where the three files are, and nothing of what they hold; then nothing more has to be typed.
fn types_by_a_context(cell: &Cell) {
    let endpoints = cell.stack.endpoints();
    let (folder, config) = (cell.folder().join("tls"), cell.folder().join("contexts.yaml"));
    let escapement = |arguments: &[&str]| {
        let mut command = Command::new(Options::for_tests(cell.folder()).binaries.join("escapement"));
        command.args(arguments).env_clear().env("ESCAPEMENT_CONFIG", &config).current_dir(&folder);
        command.output().expect("the command line starts")
    };
    let set = |more: &[&str]| {
        let token_file = endpoints.admin_token_file.to_str().expect("a text");
        let known =
            ["context", "set", "prod", "--server", &endpoints.registry.rest, "--token-file", token_file];
        escapement(&[&known, more].concat())
    };
    let half = set(&["--client-certificate", "client.pem"]);
    assert!(String::from_utf8_lossy(&half.stderr).contains("needs --client-key"), "{half:?}");
    assert!(set(&["--ca-file", "servers.pem"]).status.success());
    let refused = escapement(&["get", "jobs"]);
    assert_eq!(refused.status.code(), Some(6), "the registry asks for a certificate: {refused:?}");
    let whole = set(&["--client-certificate", "client.pem", "--client-key", "client.key"]);
    assert!(whole.status.success(), "{whole:?}");
    let got = escapement(&["get", "jobs", "-o", "name"]);
    assert!(String::from_utf8_lossy(&got.stdout).contains("secured"), "{got:?}");

    let stored = std::fs::read_to_string(&config).expect("the contexts");
    assert!(stored.contains("client.key") && !stored.contains("-----BEGIN"), "{stored}");
    let mode = std::fs::metadata(&config).expect("the contexts").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{stored}");
    std::fs::rename(folder.join("servers.pem"), folder.join("elsewhere.pem")).expect("moved");
    let missing = String::from_utf8_lossy(&escapement(&["get", "jobs"]).stderr).into_owned();
    assert!(missing.contains("context prod: --ca-file: reading "), "{missing}");
    std::fs::rename(folder.join("elsewhere.pem"), folder.join("servers.pem")).expect("moved back");
}

const PROGRAM: &str = r#"
import pathlib, sys
from escapement_worker import Worker

token, folder, *dispatchers = sys.argv[1:]
read = lambda name: (pathlib.Path(folder) / name).read_bytes()
worker = Worker(
    dispatchers, pathlib.Path(token).read_text().strip(), queues=["python"],
    tls_ca=read("servers.pem"), tls_certificate=read("client.pem"), tls_key=read("client.key"),
)

@worker.handler("greet")
def greet(run):
    return "hello"

worker.run()
"#;

/// A worker of the Python SDK gets through with its three files.
async fn works_in_python(cell: &Cell) {
    let python = virtual_environment(&cell.folder().join("python"), WORKER_PACKAGE).await;
    let endpoints = cell.stack.endpoints();
    let spec = Spec::new("python worker", python, cell.folder().join("python.log"))
        .args(["-c", PROGRAM])
        .arg(&endpoints.worker_token_file)
        .arg(cell.folder().join("tls"))
        .args(cell.stack.of(Role::Dispatcher).filter_map(|dispatcher| dispatcher.endpoint("grpc")));
    let worker = ManagedChild::spawn(&spec).expect("python starts");
    let mut greet = job("greet", "* * * * * *", json!({"handler": {"name": "greet"}}));
    greet["queue"] = json!("python");
    cell.api.create(greet).await;
    cell.api.wait_for_runs("greet", "SUCCEEDED", 1).await;
    drop(worker);
}

/// Calls for as long as the test goes on, over a connection that stays and over new ones in turn.
async fn keep_calling(
    standing: Api,
    fresh: impl Fn() -> Api,
    over: &AtomicBool,
    calls: &AtomicU64,
) -> Vec<Value> {
    let mut failures = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let fresh = fresh();
        for api in [&standing, &fresh] {
            match api.get("/v1/jobs").await {
                Ok(_) => drop(calls.fetch_add(1, Ordering::Relaxed)),
                Err(refused) => failures.push(json!([refused.status, refused.problem])),
            }
        }
    }
    failures
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_change_under_load_without_a_failed_call() {
    let authorities = Arc::new([Authority::new(), Authority::new()]);
    let mut cell = Cell::start_with(|mut options| {
        (options.tickers, options.dispatchers, options.agents) = (1, 1, 0);
        let toml = settings(&authorities[0].issue(), &options.data.join("tls"));
        options.setting(Role::Registry, &toml)
    })
    .await;
    let folder = cell.folder().join("tls");
    let both = || client(&[&authorities[0], &authorities[1]], None);
    cell.api = api(&cell, both());
    let (over, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let caller = || keep_calling(cell.api.clone(), || api(&cell, both()), &over, &calls);
    let changing = async {
        for change in 1..=CHANGES {
            let (next, last) = (&authorities[change % 2], &authorities[(change + 1) % 2]);
            next.issue().write(&folder, "server");
            wait_for(PATIENCE, "the next certificate", async || {
                api(&cell, client(&[next], None)).get("/v1/jobs").await.ok()
            })
            .await;
            let before = api(&cell, client(&[last], None)).get("/v1/jobs").await;
            assert!(before.is_err(), "the last certificate is still shown");
        }
        // A pair that does not fit changes nothing.
        authorities[0].issue().write(&folder, "unfit");
        std::fs::copy(folder.join("unfit.key"), folder.join("server.key")).expect("copied");
        wait_for(PATIENCE, "the refusal of a key of another certificate", async || {
            let metrics =
                both().get(format!("{}/metrics", cell.stack.endpoints().registry.rest)).send().await;
            let text = metrics.ok()?.text().await.ok()?;
            let unusable = text.lines().find(|line| line.starts_with("tls_files_unusable"))?;
            unusable.ends_with(" 1").then_some(())
        })
        .await;
        assert!(api(&cell, client(&[&authorities[1]], None)).get("/v1/jobs").await.is_ok());
        over.store(true, Ordering::Relaxed);
    };
    let limited = tokio::time::timeout(PATIENCE + Duration::from_secs(30), changing);
    let (ended, first, second, third) = tokio::join!(limited, caller(), caller(), caller());
    ended.expect("the changes take too long");
    let failures = [first, second, third].concat();
    let calls = calls.load(Ordering::Relaxed);
    assert!(failures.is_empty() && calls > 100, "{} of {calls} calls failed: {failures:?}", failures.len());
    let log = cell.log("registry-1");
    assert!(
        log.contains("The new TLS files can't be used") && !log.contains("Tokens travel in the clear"),
        "{log}"
    );
    cell.stop().await;
}
