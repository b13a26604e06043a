//! The guard of a PostgreSQL database against zombie writers: two connections, each interleaving forced.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use fence::postgres::{GUARD, RAISE, SCHEMA, STALE_SQLSTATE};
use stack::testkit::{TestDatabase, shared_postgres};
use stack::wait::wait_for;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error, NoTls};

const LIMIT: Duration = Duration::from_secs(20);

/// The guard key of most tests.
const JOB: &str = "0b7c3c1e-5d0a-4f7e-9a51-0f5b8f1f2a77";

/// Tokens of an attempt and of the one after it: neighbours that doubles can't tell apart.
const OLDER: i64 = 1 << 53;
const NEWER: i64 = OLDER + 1;

/// A database with the guard and a table to write to.
struct Billing {
    database: TestDatabase,
    looker: Client,
}

impl Billing {
    async fn new() -> Self {
        let database = TestDatabase::create(shared_postgres().await, None).await.expect("a database");
        let looker = connect(database.url()).await;
        looker.batch_execute(SCHEMA).await.expect("the guard's schema");
        looker.batch_execute("CREATE TABLE invoice (writer bigint NOT NULL)").await.expect("a table");
        Self { database, looker }
    }

    async fn writer(&self) -> Writer {
        Writer { client: connect(self.database.url()).await }
    }

    /// Who has written, in order.
    async fn invoices(&self) -> Vec<i64> {
        let rows = self.looker.query("SELECT writer FROM invoice ORDER BY ctid", &[]).await.expect("rows");
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Waits until a statement of another connection waits for a lock.
    async fn somebody_waits(&self) {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        wait_for(LIMIT, "a writer that waits for the other", async || {
            let row = self.looker.query_one(waiting, &[]).await.ok()?;
            (row.get::<_, i64>(0) == 1).then_some(())
        })
        .await;
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// One attempt's connection.
struct Writer {
    client: Client,
}

impl Writer {
    async fn run(&self, statement: &str) {
        self.client.batch_execute(statement).await.expect(statement);
    }

    async fn guard(&self, token: i64) -> Result<(), Error> {
        self.client.query_one(GUARD, &[&JOB, &token]).await.map(drop)
    }

    /// Whether the statement without the function lets `token` pass.
    async fn raise(&self, token: i64) -> bool {
        !self.client.query(RAISE, &[&JOB, &token]).await.expect("no error").is_empty()
    }

    async fn insert(&self, token: i64) -> Result<(), Error> {
        self.client.execute("INSERT INTO invoice VALUES ($1)", &[&token]).await.map(drop)
    }

    /// A whole transaction of an attempt.
    async fn write(&self, token: i64) -> Result<(), Error> {
        self.run("BEGIN").await;
        let written = async {
            self.guard(token).await?;
            self.insert(token).await
        };
        match written.await {
            Ok(()) => self.client.batch_execute("COMMIT").await,
            Err(error) => {
                self.run("ROLLBACK").await;
                Err(error)
            }
        }
    }

    /// The same on a task of its own, for when it has to wait.
    fn write_beside(self, token: i64) -> JoinHandle<(Self, Result<(), Error>)> {
        tokio::spawn(async move {
            let written = self.write(token).await;
            (self, written)
        })
    }
}

fn assert_stale(written: Result<(), Error>) {
    let error = written.expect_err("an older token was let pass");
    let database = error.as_db_error().unwrap_or_else(|| panic!("{error}"));
    assert_eq!(database.code().code(), STALE_SQLSTATE, "{database}");
    let said = format!("stale fencing token {OLDER}: token {NEWER} has written under guard key {JOB}");
    assert_eq!(database.message(), said);
}

#[tokio::test]
async fn a_zombie_is_refused_once_a_newer_attempt_has_written() {
    let billing = Billing::new().await;
    let (zombie, successor) = (billing.writer().await, billing.writer().await);
    zombie.write(OLDER).await.expect("alive");
    zombie.write(OLDER).await.expect("the same attempt writes as often as it likes");
    successor.write(NEWER).await.expect("newer");
    assert_stale(zombie.write(OLDER).await);
    successor.write(NEWER).await.expect("the zombie did not disturb it");
    assert_eq!(billing.invoices().await, [OLDER, OLDER, NEWER, NEWER]);
}

#[tokio::test]
async fn a_refused_transaction_can_only_roll_back_even_if_the_error_is_ignored() {
    let billing = Billing::new().await;
    let (zombie, successor) = (billing.writer().await, billing.writer().await);
    successor.write(NEWER).await.expect("newer");
    zombie.run("BEGIN").await;
    let _ignored = zombie.guard(OLDER).await;
    assert!(zombie.insert(OLDER).await.is_err(), "the transaction is aborted");
    zombie.run("COMMIT").await; // PostgreSQL answers ROLLBACK
    assert_eq!(billing.invoices().await, [NEWER]);
}

#[tokio::test]
async fn the_statement_without_the_function_answers_no_row_instead() {
    let billing = Billing::new().await;
    let writer = billing.writer().await;
    assert!(writer.raise(NEWER).await);
    assert!(writer.raise(NEWER).await);
    assert!(!writer.raise(OLDER).await);
    assert!(writer.raise(i64::MAX).await);
}

/// Both with a row of the key there and with none: two first writers meet in the index, not in the row.
async fn the_newer_one_locks_first(row_exists: bool, ends: &str) -> (Billing, Result<(), Error>) {
    let billing = Billing::new().await;
    let (zombie, successor) = (billing.writer().await, billing.writer().await);
    if row_exists {
        assert!(zombie.raise(OLDER - 1).await);
    }
    successor.run("BEGIN").await;
    successor.guard(NEWER).await.expect("first");
    let zombie = zombie.write_beside(OLDER);
    billing.somebody_waits().await;
    successor.insert(NEWER).await.expect("written");
    successor.run(ends).await;
    let (_, written) = zombie.await.expect("no panic");
    (billing, written)
}

#[tokio::test]
async fn a_zombie_that_waits_for_a_newer_writer_is_refused_when_that_one_commits() {
    for row_exists in [false, true] {
        let (billing, written) = the_newer_one_locks_first(row_exists, "COMMIT").await;
        assert_stale(written);
        assert_eq!(billing.invoices().await, [NEWER]);
    }
}

#[tokio::test]
async fn a_writer_that_waits_for_a_newer_one_passes_when_that_one_rolls_back() {
    for row_exists in [false, true] {
        let (billing, written) = the_newer_one_locks_first(row_exists, "ROLLBACK").await;
        written.expect("nothing newer has ever been written");
        assert_eq!(billing.invoices().await, [OLDER]);
    }
}

#[tokio::test]
async fn an_older_writer_that_locked_first_comes_before_the_newer_one_and_never_after_it() {
    for ends in ["COMMIT", "ROLLBACK"] {
        let billing = Billing::new().await;
        let (zombie, successor) = (billing.writer().await, billing.writer().await);
        zombie.run("BEGIN").await;
        zombie.guard(OLDER).await.expect("nothing newer yet");
        zombie.insert(OLDER).await.expect("written");
        let successor = successor.write_beside(NEWER);
        billing.somebody_waits().await;
        zombie.run(ends).await;
        let (_, written) = successor.await.expect("no panic");
        written.expect("newer");
        assert_stale(zombie.write(OLDER).await);
        let expected: &[i64] = if ends == "COMMIT" { &[OLDER, NEWER] } else { &[NEWER] };
        assert_eq!(billing.invoices().await, expected, "{ends}");
    }
}

#[tokio::test]
async fn a_transaction_that_began_before_the_newer_one_is_refused_at_every_isolation_level() {
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let billing = Billing::new().await;
        let (zombie, successor) = (billing.writer().await, billing.writer().await);
        zombie.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM escapement_fence")).await;
        successor.write(NEWER).await.expect("newer");
        let refused = zombie.guard(OLDER).await;
        if level == "READ COMMITTED" {
            assert_stale(refused);
        } else {
            let error = refused.expect_err("an older token was let pass");
            assert_eq!(error.code().map(|code| code.code()), Some("40001"), "{level}: {error}");
        }
        zombie.run("ROLLBACK").await;
        assert_stale(zombie.write(OLDER).await);
        assert_eq!(billing.invoices().await, [NEWER]);
    }
}

#[tokio::test]
async fn a_writer_that_freezes_inside_its_transaction_is_ended_and_holds_nobody_up() {
    let billing = Billing::new().await;
    let (zombie, successor) = (billing.writer().await, billing.writer().await);
    zombie.run("SET idle_in_transaction_session_timeout = '500ms'").await;
    zombie.run("BEGIN").await;
    zombie.guard(OLDER).await.expect("nothing newer yet");
    zombie.insert(OLDER).await.expect("written");
    // From here it says nothing more, as a frozen machine does.
    let written = tokio::time::timeout(LIMIT, successor.write(NEWER)).await;
    written.expect("the server ended the frozen transaction").expect("newer");
    assert!(zombie.client.batch_execute("COMMIT").await.is_err(), "its session is gone");
    assert_eq!(billing.invoices().await, [NEWER]);
}

#[tokio::test]
async fn keys_do_not_touch_each_other_and_what_is_no_token_is_refused() {
    let billing = Billing::new().await;
    let writer = billing.writer().await;
    assert!(writer.raise(NEWER).await);
    let other = "another-job";
    assert_eq!(writer.client.query(RAISE, &[&other, &OLDER]).await.expect("a row").len(), 1);
    for token in [Some(0), Some(-1), None::<i64>] {
        assert!(writer.client.query(GUARD, &[&other, &token]).await.is_err(), "{token:?}");
    }
    assert!(writer.client.query(GUARD, &[&"", &NEWER]).await.is_err());
    billing.looker.batch_execute(SCHEMA).await.expect("the schema can be run again");
    assert!(!writer.raise(OLDER).await, "and keeps what was seen");
}
