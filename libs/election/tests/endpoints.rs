//! A client finds an endpoint that works, keeps to it, and moves on when it fails.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use election::{Client, Config, Credentials, ElectionError, mark};
use etcd_client::{Permission, PermissionType};
use stack::ports::Port;
use stack::testkit::shared_etcd;
use support::{config, elect, own_etcd};

#[tokio::test]
async fn a_dead_endpoint_is_passed_over() {
    let dead = Port::reserve().unwrap();
    let mut endpoints = vec![format!("http://127.0.0.1:{}", dead.number())];
    endpoints.extend(shared_etcd().await.endpoints());
    let client = Client::connect(&config(endpoints)).await.unwrap();
    assert!(elect(&client, "leader").await.confirm().await.unwrap());
}

#[tokio::test]
async fn a_question_moves_on_when_its_endpoint_dies_or_freezes() {
    let ((mut first, _one), (second, _two)) = tokio::join!(own_etcd(), own_etcd());
    let endpoints = [first.endpoints(), second.endpoints()].concat();
    let client = Client::connect(&config(endpoints)).await.unwrap();
    assert_eq!(mark::read(&client).await.unwrap(), None);
    first.kill().unwrap();
    assert_eq!(mark::read(&client).await.unwrap(), None);
    first.start_again().await.unwrap();
    second.freeze().unwrap();
    assert_eq!(mark::read(&client).await.unwrap(), None);
}

#[tokio::test]
async fn without_any_endpoint_connecting_fails_as_a_doubt() {
    let dead = Port::reserve().unwrap();
    let config = config(vec![format!("http://127.0.0.1:{}", dead.number())]);
    assert!(Client::connect(&config).await.unwrap_err().is_doubt());
}

/// A user of one prefix, as the documentation recommends.
async fn protect(config: &Config) {
    let mut root = etcd_client::Client::connect(&config.endpoints, None).await.unwrap();
    root.role_add("root").await.unwrap();
    root.user_add("root", "root-secret", None).await.unwrap();
    root.user_grant_role("root", "root").await.unwrap();
    root.role_add("cell").await.unwrap();
    let prefix = format!("/escapement/{}/", config.cell);
    let permission = Permission::new(PermissionType::Readwrite, prefix).with_prefix();
    root.role_grant_permission("cell", permission).await.unwrap();
    root.user_add("escapement", "secret", None).await.unwrap();
    root.user_grant_role("escapement", "cell").await.unwrap();
    root.auth_enable().await.unwrap();
}

#[tokio::test]
async fn a_user_of_the_cells_prefix_suffices_and_others_are_refused() {
    let (etcd, _folder) = own_etcd().await;
    let open = config(etcd.endpoints());
    protect(&open).await;
    let with = |user: &str, password: &str| {
        let credentials = Credentials { user: user.into(), password: password.into() };
        Config { credentials: Some(credentials), ..open.clone() }
    };
    let client = Client::connect(&with("escapement", "secret")).await.unwrap();
    let leadership = elect(&client, "leader").await;
    assert!(leadership.confirm().await.unwrap());
    leadership.resign().await.unwrap();

    let wrong = Client::connect(&with("escapement", "guess")).await.unwrap_err();
    assert!(matches!(wrong, ElectionError::Refused { .. }), "{wrong:?}");
    let elsewhere = Config { cell: "other".into(), ..with("escapement", "secret") };
    let refused = Client::connect(&elsewhere).await.unwrap_err();
    assert!(matches!(refused, ElectionError::Refused { .. }), "{refused:?}");
}
