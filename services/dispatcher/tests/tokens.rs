//! Tokens at a dispatcher: who may work, and what becomes of a worker whose token is revoked.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use model::ids::TenantId;
use rpc::v1::worker_service_client::WorkerServiceClient;
use rpc::v1::{Hello, StandingRequest, to_worker};
use std::time::{Duration, Instant};
use store::api_token::{self, NewToken, Role};
use support::{Cell, Worker, attempt};
use tonic::{Code, Request};

/// A revoked token keeps nothing open after this.
const AT_ONCE: Duration = Duration::from_secs(1);

async fn token(cell: &Cell, tenant: Option<TenantId>, role: Role) -> String {
    let secret = api_token::new_secret().unwrap();
    let name = role.as_str().to_lowercase();
    api_token::create(&cell.store, NewToken { tenant, name: &name, role, secret: &secret }).await.unwrap();
    secret
}

fn hello() -> Hello {
    Hello { queues: vec!["default".to_owned()], slots: 1, ..Hello::default() }
}

/// Revokes every token of a role.
async fn revoke(cell: &Cell, role: Role) -> Instant {
    cell.meddle(&format!("UPDATE api_token SET revoked_at = esc_now() WHERE role = '{}'", role.as_str()))
        .await;
    Instant::now()
}

#[tokio::test]
async fn a_revoked_workers_connection_ends_within_a_second_and_its_run_is_handed_on() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let admin = token(&cell, Some(TenantId::DEFAULT), Role::Admin).await;
    let mut working = Worker::dial(&dispatcher.address, &admin, hello()).await.unwrap();
    let Some(to_worker::Message::Welcome(_)) = working.next().await else { panic!("no Welcome") };
    working.heartbeat(0, &[]).await;
    let key = cell.due(cell.job(100).await, 1).await;
    let (first, run) = attempt(&working.assignment().await);
    working.accept(&run).await;
    let (mut other, _) = dispatcher.worker(&cell, 1).await;

    let revoked = revoke(&cell, Role::Admin).await;
    while working.next().await.is_some() {}
    assert!(revoked.elapsed() < AT_ONCE, "{:?}", revoked.elapsed());
    let back = Worker::dial(&dispatcher.address, &admin, hello()).await.err().expect("refused");
    assert_eq!(back.code(), Code::Unauthenticated);
    let handed = other.beat_until((0, &[]), "the run", support::an_assignment).await;
    let (second, _) = attempt(&handed);
    assert_eq!((second.key, second.attempt), (key, 2));
    assert!(second.token > first.token);
    // The other one's token counts, and its connection is the same.
    assert_eq!(cell.count("SELECT count(*) FROM worker_session WHERE connection > 1").await, 0);
}

/// Also what a dispatcher remembers for the time without its database does not let a revoked token ask.
#[tokio::test]
async fn a_revoked_token_asks_for_no_standing() {
    let cell = Cell::create().await;
    let secret = token(&cell, None, Role::Worker).await;
    let dispatcher = cell.dispatcher("one").await;
    let mut client = WorkerServiceClient::connect(dispatcher.address.clone()).await.unwrap();
    let mut asked = async || {
        let mut request = Request::new(StandingRequest {});
        request.metadata_mut().insert("authorization", format!("Bearer {secret}").parse().unwrap());
        client.standing(request).await.map(drop).map_err(|status| status.code())
    };
    assert_eq!(asked().await, Ok(()));
    revoke(&cell, Role::Worker).await;
    assert_eq!(asked().await, Err(Code::Unauthenticated));
}

#[tokio::test]
async fn a_worker_whose_token_is_one_tenants_gets_no_run_of_another() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let tenant = TenantId(uuid::Uuid::new_v4());
    cell.meddle(&format!("INSERT INTO tenant (id, name) VALUES ('{tenant}', 'other')")).await;
    let secret = token(&cell, Some(tenant), Role::Worker).await;
    let two_slots = Hello { slots: 2, ..hello() };
    let mut worker = Worker::dial(&dispatcher.address, &secret, two_slots).await.unwrap();
    let Some(to_worker::Message::Welcome(_)) = worker.next().await else { panic!("no Welcome") };
    cell.due(cell.job(60_000).await, 2).await;
    let own = cell.due(cell.job(60_000).await, 1).await;
    let job = own.job_id;
    cell.meddle(&format!("UPDATE run_queue SET tenant_id = '{tenant}' WHERE job_id = '{job}'")).await;
    // Whatever it may take, one claim does.
    let assignment = worker.beat_until((0, &[]), "its run", support::an_assignment).await;
    assert_eq!(attempt(&assignment).0.key, own);
    assert_eq!(cell.count("SELECT count(*) FROM run_lease").await, 1);
}

/// The rows of docs/security.md that are dispatchers'.
#[tokio::test]
async fn the_workers_methods_answer_exactly_the_roles_of_the_matrix() {
    let page = include_str!("../../../docs/security.md");
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let other = TenantId(uuid::Uuid::new_v4());
    cell.meddle(&format!("INSERT INTO tenant (id, name) VALUES ('{other}', 'other')")).await;
    let columns = [
        (TenantId::DEFAULT, Role::Admin),
        (other, Role::Admin),
        (other, Role::Editor),
        (other, Role::Viewer),
        (other, Role::Worker),
    ];
    for method in ["Work", "Standing"] {
        let row = page.lines().find(|line| line.starts_with(&format!("| WorkerService/{method} "))).unwrap();
        let cells: Vec<&str> = row.trim_matches('|').split('|').skip(1).map(str::trim).collect();
        assert_eq!(cells.len(), columns.len(), "{row}");
        for (cell_text, (tenant, role)) in cells.into_iter().zip(columns) {
            let secret = token(&cell, Some(tenant), role).await;
            let answer = if method == "Work" {
                Worker::dial(&dispatcher.address, &secret, hello()).await.map(drop)
            } else {
                let mut client = WorkerServiceClient::connect(dispatcher.address.clone()).await.unwrap();
                let mut request = Request::new(StandingRequest {});
                request.metadata_mut().insert("authorization", format!("Bearer {secret}").parse().unwrap());
                client.standing(request).await.map(drop)
            };
            let code = answer.err().map(|status| status.code());
            let expected = if cell_text == "yes" { None } else { Some(Code::PermissionDenied) };
            assert_eq!(code, expected, "{method} as {role:?} of {tenant}");
        }
    }
}
