//! Standbys, backups and dumps of a server hold what it had, each in its own way.

#![allow(clippy::unwrap_used)]

use stack::postgres::{Options, Postgres};
use stack::testkit::TempFolder;
use stack::wait::wait_for;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

const IDENTITY: &str = "SELECT system_identifier FROM pg_control_system()";
const TIMELINE: &str = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)";

async fn server(folder: &TempFolder, options: Options) -> Postgres {
    let server = Postgres::start(&folder.path().join("one"), options).await.unwrap();
    server.psql("postgres", "CREATE TABLE kept AS SELECT 1 AS n").await.unwrap();
    server
}

async fn count(server: &Postgres) -> String {
    server.psql("postgres", "SELECT count(*) FROM kept").await.unwrap()
}

#[tokio::test]
async fn a_standby_replays_and_takes_over_the_address() {
    let folder = TempFolder::create("pg-standby").unwrap();
    let mut first = server(&folder, Options::durable()).await;
    let (url, identity) = (first.url(), first.psql("postgres", IDENTITY).await.unwrap());
    let mut standby = first.standby(&folder.path().join("two")).await.unwrap();
    first.psql("postgres", "INSERT INTO kept VALUES (2)").await.unwrap();
    wait_for(LIMIT, "the second row", async || (count(&standby).await == "2").then_some(())).await;
    assert!(standby.psql("postgres", "INSERT INTO kept VALUES (3)").await.is_err(), "it only reads");

    standby.take_over(&mut first).await.unwrap();
    assert_eq!(first.pid(), None);
    assert_eq!(standby.url(), url);
    standby.psql("postgres", "INSERT INTO kept VALUES (3)").await.unwrap();
    assert_eq!(standby.psql("postgres", IDENTITY).await.unwrap(), identity);
    assert_eq!(standby.psql("postgres", TIMELINE).await.unwrap(), "00000002");
}

#[tokio::test]
async fn a_restored_backup_has_forgotten_what_came_after_and_looks_the_same() {
    let folder = TempFolder::create("pg-backup").unwrap();
    let mut server = server(&folder, Options::for_tests()).await;
    let (url, identity) = (server.url(), server.psql("postgres", IDENTITY).await.unwrap());
    server.back_up(&folder.path().join("copy")).await.unwrap();
    server.psql("postgres", "INSERT INTO kept VALUES (2)").await.unwrap();
    server.restore(&folder.path().join("copy")).await.unwrap();
    assert_eq!((count(&server).await.as_str(), server.url()), ("1", url));
    assert_eq!(server.psql("postgres", IDENTITY).await.unwrap(), identity);
    assert_eq!(server.psql("postgres", TIMELINE).await.unwrap(), "00000001");
}

#[tokio::test]
async fn a_dump_is_run_in_place() {
    let folder = TempFolder::create("pg-dump").unwrap();
    let server = server(&folder, Options::durable()).await;
    let script = folder.path().join("dump.sql");
    server.dump("postgres", "public", &script).await.unwrap();
    server.psql("postgres", "INSERT INTO kept VALUES (2)").await.unwrap();
    server.psql("postgres", "DROP SCHEMA public CASCADE").await.unwrap();
    server.run_script("postgres", &script).await.unwrap();
    assert_eq!(count(&server).await, "1");
    assert!(server.run_script("postgres", &script).await.is_err(), "the schema is there already");
}
