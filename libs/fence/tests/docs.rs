//! The recipes of `docs/fencing.md`, in the order in which they stand there, against real servers. Its Rust examples are
//! compiled as this crate's doc tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use fence::postgres::{SCHEMA, STALE_SQLSTATE};
use stack::testkit::{TestDatabase, shared_postgres};
use support::redis::{Redis, Reply};

const DOCS: &str = include_str!("../../../docs/fencing.md");

/// The blocks of a language, such as `sql` or `sql refused`.
fn blocks(language: &str) -> Vec<&'static str> {
    let start = format!("\n```{language}\n");
    let pieces = DOCS.split(start.as_str()).skip(1);
    pieces.map(|piece| piece.split("\n```").next().expect("a first part")).collect()
}

#[tokio::test]
async fn the_sql_recipes_work_as_they_are_written() {
    let database = TestDatabase::create(shared_postgres().await, None).await.expect("a database");
    let connected = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await;
    let (client, connection) = connected.expect("a connection");
    tokio::spawn(connection);
    let tables = "CREATE TABLE invoice (customer text, idempotency_key text PRIMARY KEY);
        CREATE TABLE balance (customer text, cents integer); INSERT INTO balance VALUES ('acme', 0)";
    client.batch_execute(&format!("{SCHEMA}; {tables}")).await.expect("the tables");

    let (passing, refused) = (blocks("sql"), blocks("sql refused"));
    assert_eq!((passing.len(), refused.len()), (2, 1));
    for block in passing {
        client.batch_execute(block).await.expect(block);
    }
    let error = client.batch_execute(refused[0]).await.expect_err("an older token was let pass");
    assert_eq!(error.code().map(|code| code.code()), Some(STALE_SQLSTATE));
    assert!(DOCS.contains(STALE_SQLSTATE));
    client.batch_execute("ROLLBACK").await.expect("the rest");
    let cents = async || {
        let row = client.query_one("SELECT cents FROM balance", &[]).await.expect("a row");
        row.get::<_, i32>(0)
    };
    assert_eq!(cents().await, 100);

    let script = blocks("sh")[0];
    assert!(!shell(script, database.url(), "17592186044418"), "the script of an older attempt was let pass");
    assert_eq!(cents().await, 100);
    assert!(shell(script, database.url(), "17592186044419"));
    assert_eq!(cents().await, 200);
}

/// Whether the script ends well for an attempt with this token.
fn shell(script: &str, billing_url: &str, token: &str) -> bool {
    let psql = stack::binary::postgres().expect("PostgreSQL is installed").psql;
    let folder = psql.parent().expect("a folder").display();
    let status = std::process::Command::new("/bin/sh")
        .args(["-c", script])
        .env("PATH", format!("{folder}:/usr/bin:/bin"))
        .env("BILLING_URL", billing_url)
        .env("ESCAPEMENT_GUARD_KEY", "0b7c3c1e-5d0a-4f7e-9a51-0f5b8f1f2a77")
        .env("ESCAPEMENT_FENCING_TOKEN", token)
        .output()
        .expect("a shell");
    status.status.success()
}

#[test]
fn the_redis_recipe_answers_as_it_is_written() {
    let redis = Redis::start();
    let mut connection = redis.connect();
    let blocks = blocks("redis");
    assert_eq!(blocks.len(), 1);
    let mut calls = 0;
    let mut lines = blocks[0].lines();
    while let Some(command) = lines.next() {
        let words = command.strip_prefix("> ").expect("a command").split(' ');
        let words: Vec<&str> =
            words.map(|word| if word == "<guard.lua>" { fence::redis::GUARD } else { word }).collect();
        let answer = match connection.call(&words) {
            Reply::Text(text) => text,
            Reply::Error(text) => format!("(error) {text}"),
            other => panic!("{command}: {other:?}"),
        };
        assert_eq!(Some(answer.as_str()), lines.next(), "{command}");
        calls += 1;
    }
    assert_eq!(calls, 4);
}
