//! A PostgreSQL server keeps its data, port and password over stops, crashes and second launchers.

#![allow(clippy::unwrap_used)]

use stack::StackError;
use stack::postgres::{Options, Postgres, Stop};
use stack::testkit::{TempFolder, TestDatabase, shared_postgres};

async fn count_after(server: &Postgres) -> String {
    server.psql("postgres", "SELECT count(*) FROM kept").await.unwrap()
}

#[tokio::test]
async fn data_and_port_survive_each_way_of_stopping() {
    let folder = TempFolder::create("pg-restart").unwrap();
    let mut server = Postgres::start(folder.path(), Options::for_tests()).await.unwrap();
    server.psql("postgres", "CREATE TABLE kept AS SELECT 1").await.unwrap();
    let url = server.url();
    server.restart(Stop::Fast).await.unwrap();
    server.restart(Stop::Immediate).await.unwrap();
    server.kill().unwrap();
    server.start_again().await.unwrap();
    assert_eq!(server.url(), url);
    assert_eq!(count_after(&server).await, "1");
}

#[tokio::test]
async fn a_stopped_server_answers_nothing() {
    let folder = TempFolder::create("pg-stopped").unwrap();
    let mut server = Postgres::start(folder.path(), Options::for_tests()).await.unwrap();
    server.stop(Stop::Fast).await.unwrap();
    assert!(matches!(server.psql("postgres", "SELECT 1").await, Err(StackError::Sql { .. })));
    assert_eq!(server.pid(), None);
}

#[tokio::test]
async fn a_second_launcher_finds_data_and_password_again() {
    let folder = TempFolder::create("pg-again").unwrap();
    let first = Postgres::start(folder.path(), Options::durable()).await.unwrap();
    first.psql("postgres", "CREATE TABLE kept AS SELECT 1").await.unwrap();
    let password = first.url().split(['@', ':']).nth(2).unwrap().to_owned();
    drop(first);
    let second = Postgres::start(folder.path(), Options::durable()).await.unwrap();
    assert_eq!(count_after(&second).await, "1");
    assert!(password.len() >= 64 && second.url().contains(&password));
    assert_eq!(second.psql("postgres", "SHOW fsync").await.unwrap(), "on");
}

#[tokio::test]
async fn a_durable_server_refuses_clients_without_the_password() {
    let folder = TempFolder::create("pg-password").unwrap();
    let server = Postgres::start(folder.path(), Options::durable()).await.unwrap();
    let file = folder.path().join("password");
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let psql = stack::binary::postgres().unwrap().psql;
    let attempt = std::process::Command::new(psql)
        .args(["-w", "-X", "-h", "127.0.0.1", "-U", "escapement", "-d", "postgres", "-c", "SELECT 1"])
        .args(["-p", &server.port().to_string()])
        .env_remove("PGPASSWORD")
        .output()
        .unwrap();
    assert!(!attempt.status.success());
    assert!(String::from_utf8_lossy(&attempt.stderr).contains("no password supplied"));
}

#[tokio::test]
async fn settings_reach_the_server_and_a_bad_one_is_explained() {
    let folder = TempFolder::create("pg-settings").unwrap();
    let options = Options::for_tests().setting("deadlock_timeout", "123ms");
    let server = Postgres::start(folder.path(), options).await.unwrap();
    assert_eq!(server.psql("postgres", "SHOW deadlock_timeout").await.unwrap(), "123ms");
    drop(server);
    let bad = Postgres::start(folder.path(), Options::for_tests().setting("fsync", "maybe")).await;
    assert!(bad.unwrap_err().to_string().contains("parameter \"fsync\" requires a Boolean value"));
}

#[tokio::test]
async fn an_initdb_that_was_cut_short_is_not_taken_for_data() {
    let folder = TempFolder::create("pg-cut-short").unwrap();
    let unfinished = folder.path().join("data.unfinished");
    std::fs::create_dir_all(&unfinished).unwrap();
    std::fs::write(unfinished.join("PG_VERSION"), "15\n").unwrap();
    let server = Postgres::start(folder.path(), Options::for_tests()).await.unwrap();
    assert_eq!(server.psql("postgres", "SELECT 1").await.unwrap(), "1");
    assert!(!unfinished.exists());
}

#[tokio::test]
async fn a_test_database_is_fresh_or_a_copy() {
    let server = shared_postgres().await;
    let template = TestDatabase::create(server, None).await.unwrap();
    server.psql(template.name(), "CREATE TABLE copied AS SELECT 7 AS seven").await.unwrap();
    let copy = TestDatabase::create(server, Some(template.name())).await.unwrap();
    let fresh = TestDatabase::create(server, None).await.unwrap();
    assert_eq!(server.psql(copy.name(), "SELECT seven FROM copied").await.unwrap(), "7");
    assert!(server.psql(fresh.name(), "SELECT seven FROM copied").await.is_err());
    assert!(copy.url().ends_with(copy.name()));
}

#[tokio::test]
async fn tests_of_one_process_share_one_server() {
    let (one, two) = tokio::join!(shared_postgres(), shared_postgres());
    assert_eq!(one.pid(), two.pid());
}
