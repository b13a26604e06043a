//! The rules that every transaction lives by, as far as the schema and the statements show them.

#![allow(clippy::expect_used, reason = "a test fails by a panic that names the cause")]

mod support;

use std::path::{Path, PathBuf};
use support::Cell;

/// A planner deadlocked with a registry through a foreign key on a hot table.
#[tokio::test]
async fn the_hot_tables_have_no_foreign_keys() {
    let cell = Cell::create().await;
    let keys = cell
        .connect()
        .await
        .query(
            "SELECT conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' \
             AND conrelid IN ('run'::regclass, 'run_queue'::regclass, 'run_lease'::regclass)",
            &[],
        )
        .await
        .expect("constraints");
    assert_eq!(keys.len(), 0);
}

/// Every session has its limits from its first statement on: a frozen process can't hold its locks for ever.
#[tokio::test]
async fn sessions_are_limited_from_their_first_packet_on() {
    let cell = Cell::create().await;
    let client = cell.store.client("look at the limits").await.expect("connected");
    for (setting, expected) in [
        ("statement_timeout", "10s"),
        ("lock_timeout", "3s"),
        ("idle_in_transaction_session_timeout", "2s"),
        ("search_path", "main"),
        ("TimeZone", "UTC"),
        ("transaction_isolation", "read committed"),
    ] {
        let rows =
            client.query("look at a limit", "SELECT current_setting($1)", &[&setting]).await.expect("set");
        assert_eq!(rows[0].get::<_, String>(0), expected, "{setting}");
    }
}

/// A transaction that stands still is ended by the server, and its locks are free.
#[tokio::test]
async fn a_transaction_that_stands_still_is_ended() {
    let cell = Cell::create().await;
    let mut settings = cell.settings();
    settings.idle_in_transaction_timeout = std::time::Duration::from_millis(100);
    let store = store::Store::new(settings).expect("sound settings");
    let mut frozen = store.client("freeze").await.expect("connected");
    let tx = frozen.begin("freeze").await.expect("begun");
    let term = store::fence::Term {
        role: store::fence::Role::Ticker,
        revision: 0,
        holder: model::ids::HolderId(uuid::Uuid::nil()),
    };
    store::fence::hold(&tx, term).await.expect("nobody has led yet");
    let other = cell.connect().await;
    let raised = other
        .execute("UPDATE fence SET revision = 7 WHERE role = 'ticker'", &[])
        .await
        .expect("not blocked for ever");
    assert_eq!(raised, 1);
    assert!(tx.commit().await.is_err(), "the frozen one has lost its transaction");
}

/// A connection to a primary that was demoted would fail every write for ever: it does not come back from the pool.
#[tokio::test]
async fn a_connection_that_turned_read_only_is_dropped() {
    let cell = Cell::create().await;
    let mut settings = cell.settings();
    settings.connections_max = 1; // the next one would get the same
    let store = store::Store::new(settings).expect("sound settings");
    let client = store.client("turn read-only").await.expect("connected");
    client.query("turn read-only", "SET default_transaction_read_only = on", &[]).await.expect("set");
    drop(client);
    let refused = store::clock::shift(&store, 0).await.expect_err("read-only");
    assert_eq!(refused.retry(), store::Retry::Later);
    store::clock::shift(&store, 0).await.expect("another connection");
}

/// A notification a run locks the whole database at commit.
#[test]
fn no_statement_notifies_or_listens() {
    for file in statements() {
        let text = std::fs::read_to_string(&file).expect("readable").to_uppercase();
        for word in ["NOTIFY", "LISTEN "] {
            assert!(!text.contains(word), "{} says {word}", file.display());
        }
    }
}

/// The time comes from one function, which tests can shift.
#[test]
fn no_statement_reads_another_clock() {
    for file in statements() {
        let text = std::fs::read_to_string(&file).expect("readable");
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
        // What the server says of its own activity is by its own clock, and so is an age of it; the watchdog compares clocks.
        let code = code
            .replace("clock_timestamp() - a.xact_start", "")
            .replace("clock_timestamp() AS server_clock", "");
        for clock in
            ["clock_timestamp()", "current_timestamp", "statement_timestamp()", " now()", "localtimestamp"]
        {
            assert!(!code.to_lowercase().contains(clock), "{} reads {clock}", file.display());
        }
    }
}

/// Each statement says what it is for; what no row means is said where it matters.
#[test]
fn every_statement_begins_with_its_purpose() {
    let files = statements();
    assert!(files.len() > 10, "only {} statements were found", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        assert!(text.starts_with("-- "), "{} has no header", file.display());
    }
}

/// A local time that is stored without its zone is two instants in each fold, and none at all for another machine.
#[tokio::test]
async fn every_instant_is_stored_with_its_zone() {
    let cell = Cell::create().await;
    let instants = "SELECT c.table_name || '.' || c.column_name, c.data_type FROM information_schema.columns c \
        WHERE c.table_schema = current_schema() AND (c.data_type LIKE 'time%' OR c.column_name LIKE '%\\_at')";
    let rows = cell.connect().await.query(instants, &[]).await.expect("columns");
    assert!(rows.len() > 50, "only {} columns were found", rows.len());
    for row in rows {
        let (column, kind): (String, String) = (row.get(0), row.get(1));
        assert_eq!(kind, "timestamp with time zone", "{column}");
    }
}

/// Two migrations at once: one does it, the other finds it done.
#[tokio::test]
async fn two_migrations_at_once_do_not_meet() {
    let database = stack::testkit::TestDatabase::create(stack::testkit::shared_postgres().await, None)
        .await
        .expect("a database");
    let settings = store::Settings::new(database.url(), "cell_two", "test");
    let (one, two) = tokio::join!(store::migrate(&settings), store::migrate(&settings));
    let (one, two) = (one.expect("migrated"), two.expect("migrated"));
    let steps =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).expect("readable").count();
    assert_eq!(one.len() + two.len(), steps);
    let last = one.last().or(two.last()).expect("some step");
    assert!(last.starts_with(&format!("V{}__", store::SCHEMA_VERSION)), "{last}");
    assert!(one.is_empty() || two.is_empty());
}

/// What can't be a schema's name never reaches SQL.
#[test]
fn a_cell_with_a_wrong_name_is_refused() {
    for cell in ["", "Main", "1a", "a-b", "a; DROP TABLE run", "pg_\0", &"a".repeat(49)] {
        let settings = store::Settings::new("postgres://localhost/x", cell, "test");
        let error = store::Store::new(settings).err().expect("refused").to_string();
        assert!(error.contains("cell") && error.contains("a-z"), "{cell:?}: {error}");
    }
}

/// Finishing writes a run in place: no index, nor anything of a predicate, is on what it changes, and half of each
/// page is free for it.
#[tokio::test]
async fn finishing_updates_stay_in_place() {
    let cell = Cell::create().await;
    let client = cell.connect().await;
    client
        .batch_execute(
            "SELECT esc_make_partitions('2026-01-01', '2026-01-01'); \
             INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin) \
             SELECT gen_random_uuid(), '00000000-0000-4000-8000-000000000001', '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z', 1, 1, 'SCHEDULE' \
             FROM generate_series(1, 5000); \
             UPDATE run SET state = 'SUCCEEDED', finished_at = esc_now(), attempt = 1, token = 1, worker = gen_random_uuid(), \
                            claimed_at = esc_now(), accepted_at = esc_now() WHERE scheduled_for = '2026-01-01T00:00:00Z'; \
             SELECT pg_stat_force_next_flush()",
        )
        .await
        .expect("filled");
    let row = client
        .query_one(
            "SELECT n_tup_hot_upd, n_tup_upd FROM pg_stat_user_tables WHERE relid = 'run_20260101'::regclass",
            &[],
        )
        .await
        .expect("statistics");
    let (hot, all): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!(all, 5000);
    assert!(hot * 100 >= all * 95, "{hot} of {all} in place");
}

/// The ledger refuses what is no life of a run.
#[tokio::test]
async fn the_schema_says_what_is_legal() {
    let cell = Cell::create().await;
    let client = cell.connect().await;
    client.execute("SELECT esc_make_partitions('2026-01-01', '2026-01-01')", &[]).await.expect("partitions");
    for (columns, values, constraint) in [
        ("state", "'SUCCEEDED'", "finished_iff_terminal"),
        ("finished_at", "esc_now()", "finished_iff_terminal"),
        ("state, finished_at", "'SUCCEEDED', esc_now()", "success_was_attempted"),
        ("state, finished_at", "'FAILED', esc_now()", "other_ends_have_one"),
        ("reason", "'OVERLAP'", "success_has_no_reason"),
    ] {
        assert_refused(&client, "2026-01-01T00:00:01Z", "SCHEDULE", columns, values, constraint).await;
    }
    let whole = "whole_seconds_unless_manual";
    assert_refused(&client, "2026-01-01T00:00:01.5Z", "SCHEDULE", "attempt", "0", whole).await;
    assert_refused(&client, "2026-01-01T00:00:01Z", "MANUAL", "attempt", "0", whole).await;
}

async fn assert_refused(
    client: &tokio_postgres::Client,
    scheduled_for: &str,
    origin: &str,
    columns: &str,
    values: &str,
    constraint: &str,
) {
    let statement = format!(
        "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin, {columns}) \
         VALUES (gen_random_uuid(), gen_random_uuid(), '{scheduled_for}', '{scheduled_for}', 1, 1, '{origin}', {values})"
    );
    let error = client.batch_execute(&statement).await.expect_err("illegal");
    let refused_by = error.as_db_error().and_then(|error| error.constraint()).unwrap_or_default();
    assert_eq!(refused_by, constraint, "{statement}");
}

fn statements() -> Vec<PathBuf> {
    fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            if entry.path().is_dir() { collect(&entry.path(), files) } else { files.push(entry.path()) }
        }
    }
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("sql"), &mut files);
    files
}
