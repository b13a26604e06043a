//! Tokens and tenants of a whole cell, as an operator handles them at the command line: a revoked token opens nothing
//! after a second, on any registry and any dispatcher; limits hold from the moment they are set.

use harness::{Api, Cell, PATIENCE, job, noop};
use rpc::v1::worker_service_client::WorkerServiceClient;
use rpc::v1::{FromWorker, Hello, ToWorker, from_worker};
use serde_json::{Value, json};
use stack::dev::Role;
use stack::wait::wait_for;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status, Streaming};

/// A revoked token opens nothing after this.
const AT_ONCE: Duration = Duration::from_secs(1);

async fn cell() -> Cell {
    Cell::start_with(|mut options| {
        (options.tickers, options.agents, options.watchdogs) = (1, 0, 0);
        options
    })
    .await
}

/// A worker's connection; dropping the sender ends it.
async fn connect(
    address: &str,
    secret: &str,
) -> Result<(mpsc::Sender<FromWorker>, Streaming<ToWorker>), Status> {
    let mut client = WorkerServiceClient::connect(address.to_owned()).await.expect("the dispatcher answers");
    let (outbound, messages) = mpsc::channel(8);
    let hello = Hello { queues: vec!["default".to_owned()], slots: 1, ..Hello::default() };
    outbound.try_send(FromWorker { message: Some(from_worker::Message::Hello(hello)) }).expect("room");
    let mut request = Request::new(ReceiverStream::new(messages));
    request.metadata_mut().insert("authorization", format!("Bearer {secret}").parse().expect("a header"));
    let inbound = client.work(request).await?.into_inner();
    Ok((outbound, inbound))
}

/// Why a connection ended, and when.
async fn end(mut inbound: Streaming<ToWorker>) -> (Option<Code>, Instant) {
    loop {
        match inbound.message().await {
            Ok(Some(_)) => {}
            Ok(None) => return (None, Instant::now()),
            Err(status) => return (Some(status.code()), Instant::now()),
        }
    }
}

fn refusal(cell: &Cell, arguments: &[&str]) -> String {
    let output = cell.escapement(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn a_revoked_token_opens_nothing_after_a_second_on_any_registry_or_dispatcher() {
    let mut cell = cell().await;
    let second = cell.stack.add(Role::Registry).await.expect("a second registry");
    let second = second.endpoint("rest").expect("its address");
    let secret = cell.prints(&["tokens", "create", "ci", "--role", "viewer"]).trim().to_owned();
    let hand: Value =
        serde_json::from_str(&cell.prints(&["tokens", "create", "hand", "--role", "worker", "-o", "json"]))
            .expect("JSON");
    let registries =
        [cell.stack.endpoints().registry.rest, second].map(|address| Api::new(&address, &secret));
    for registry in &registries {
        registry.get("/v1/jobs").await.expect("the token counts");
    }
    let dispatchers: Vec<String> =
        cell.stack.of(Role::Dispatcher).filter_map(|service| service.endpoint("grpc")).collect();
    assert_eq!(dispatchers.len(), 2);
    let hand = hand["secret"].as_str().expect("a secret");
    let mut streams = Vec::new();
    for dispatcher in &dispatchers {
        streams.push(connect(dispatcher, hand).await.expect("welcomed"));
    }

    cell.prints(&["tokens", "revoke", "ci"]);
    let revoked = Instant::now();
    for registry in &registries {
        wait_for(PATIENCE, "the refusal", async || {
            let refused = registry.get("/v1/jobs").await.err()?;
            (refused.status == 401).then_some(())
        })
        .await;
    }
    assert!(revoked.elapsed() < AT_ONCE, "{:?}", revoked.elapsed());

    cell.prints(&["tokens", "revoke", "hand"]);
    let revoked = Instant::now();
    for (_outbound, inbound) in streams {
        let (code, at) = tokio::time::timeout(PATIENCE, end(inbound)).await.expect("it ends");
        assert_eq!(code, Some(Code::Unauthenticated));
        assert!(at - revoked < AT_ONCE, "{:?}", at - revoked);
    }
    for dispatcher in &dispatchers {
        assert_eq!(
            connect(dispatcher, hand).await.err().map(|status| status.code()),
            Some(Code::Unauthenticated)
        );
    }
    cell.stop().await;
}

#[tokio::test]
async fn an_operator_manages_tokens_and_tenants_at_the_command_line() {
    let cell = cell().await;
    let made = cell.escapement(&["tenants", "create", "acme", "--max-jobs", "1", "--queue", "mail=2"]);
    let (printed, hint) = (String::from_utf8_lossy(&made.stdout), String::from_utf8_lossy(&made.stderr));
    assert!(printed.contains("jobs") && printed.contains("running of queue mail"), "{printed}");
    assert!(hint.contains("escapement tokens create NAME --role admin --tenant acme"), "{hint}");
    let file = cell.folder().join("acme-token");
    let path = file.display().to_string();
    cell.prints(&[
        "tokens",
        "create",
        "root",
        "--role",
        "admin",
        "--tenant",
        "acme",
        "--secret-file",
        &path,
        "--expires",
        "90d",
    ]);
    let secret = std::fs::read_to_string(&file).expect("the secret");
    let acme = Api::new(&cell.stack.endpoints().registry.rest, secret.trim());
    acme.create(job("one", "@daily", noop())).await;
    let refused = acme.post("/v1/jobs", job("two", "@daily", noop())).await.expect_err("full");
    assert_eq!(refused.status, 429);
    assert!(
        refused.problem["detail"]
            .as_str()
            .is_some_and(|text| text.starts_with("tenant \"acme\" has 1 of 1 jobs"))
    );

    let set =
        cell.prints(&["tenants", "set", "acme", "--max-jobs", "2", "--min-interval", "5m", "-o", "json"]);
    let set: Value = serde_json::from_str(&set).expect("JSON");
    assert_eq!(set["limits"]["maxRunningByQueue"], json!({ "mail": 2 }), "what is not named stays");
    assert_eq!((&set["limits"]["maxJobs"], &set["limits"]["minInterval"]), (&json!(2), &json!("300s")));
    acme.create(job("two", "@daily", noop())).await;
    let often = acme.put("/v1/jobs/two", job("two", "* * * * *", noop())).await.expect_err("too often");
    assert_eq!(often.status, 422);

    assert_eq!(cell.prints(&["tenants", "list", "-o", "name"]), "acme\ndefault\n");
    let table = cell.prints(&["tenants", "list"]);
    assert!(table.contains("2 of 2"), "{table}");
    let listed = cell.prints(&["tokens", "list", "--tenant", "acme", "-o", "yaml"]);
    assert!(listed.starts_with("tokens:\n") && listed.contains("name: root"), "{listed}");
    assert!(!listed.contains(secret.trim()), "{listed}");
    let table = cell.prints(&["tokens", "list"]);
    assert!(table.starts_with("TOKEN") && table.contains("worker (every tenant)"), "{table}");
    let last = cell.prints(&["tokens", "list", "-o", "name"]);
    let admin = last.lines().find(|name| name.contains("admin")).expect("the administrator's").to_owned();
    let advice = refusal(&cell, &["tokens", "revoke", &admin]);
    assert!(advice.contains("make one first, with role admin"), "{advice}");
    let wrong = refusal(&cell, &["tokens", "create", "C I", "--role", "viewer"]);
    assert!(wrong.contains("name:") && wrong.contains("a-z"), "{wrong}");
    let again = refusal(&cell, &["tenants", "create", "acme"]);
    assert!(again.contains("there is a tenant \"acme\" already"), "{again}");
    cell.stop().await;
}
