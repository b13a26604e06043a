//! Slow runs are looked for in a share of the jobs at a time, and work that takes too long keeps no other from being done.

#![allow(clippy::expect_used, reason = "a test fails by a panic that names the cause")]

mod support;

use model::alert::on::On;
use model::ids::JobId;
use std::time::Duration as Time;
use store::fence::Term;
use support::{Cell, LIMITS, check_in, definition, noon, rows};
use watchdog::check::{self, Memory, Share};

const HOUR: i64 = 3_600;

async fn cell() -> (Cell, Term) {
    let cell = Cell::create().await;
    cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
    let term = cell.lead(1).await;
    (cell, term)
}

/// A job whose owner is told of what `on` names, and of no deadline for now.
async fn asking(cell: &Cell, name: &str, on: On) -> JobId {
    let mut definition = definition("* * * * *", 2 * HOUR.unsigned_abs());
    definition.alert.on = on;
    cell.job(name, &definition).await
}

fn slow() -> On {
    On { runtime_over: Some(Time::from_secs(30)), ..On::default() }
}

/// A run that has ended well, after as many seconds.
async fn took(cell: &Cell, job: JobId, second: i64, seconds: i64) {
    cell.success(job, second, second + seconds).await;
    rows!(cell, "UPDATE run SET accepted_at = scheduled_for WHERE job_id = $1", job.0);
}

/// As when it runs into its limit of time: inserting such rows into a table fails with what that fails with.
async fn out_of_time(cell: &Cell, table: &str, rows: &str) {
    rows!(
        cell,
        "CREATE OR REPLACE FUNCTION out_of_time() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'query_canceled', MESSAGE = 'canceling statement due to statement timeout'; END $$"
    );
    let trap = format!(
        "CREATE TRIGGER out_of_time BEFORE INSERT ON {table} FOR EACH ROW WHEN ({rows}) EXECUTE FUNCTION out_of_time()"
    );
    rows!(cell, &trap);
}

/// Everything that a cycle does is to be done; the kinds of alerts that are open after it, and whether it succeeded.
async fn whole_cycle(table: &str, rows: &str) -> (Vec<String>, bool, Cell, Term) {
    let (cell, term) = cell().await;
    check_in(&cell, "backup").await;
    let late = cell.job("late", &definition("0 * * * *", 10)).await;
    let done = asking(&cell, "done", On { failed: true, ..On::default() }).await;
    cell.end(done, 60, "FAILED", "WORK_FAILED", 65).await;
    assert_eq!(cell.check(term, 66).await.opened, 1);
    cell.success(done, 120, 125).await;
    let failed = asking(&cell, "failed", On { failed: true, ..On::default() }).await;
    cell.end(failed, HOUR + 60, "FAILED", "WORK_FAILED", HOUR + 61).await;
    let slow = asking(&cell, "slow", slow()).await;
    took(&cell, slow, HOUR, 60).await;
    cell.run(late, HOUR, "PLANNED", None, None).await;
    out_of_time(&cell, table, rows).await;
    cell.clock_to(HOUR + 64).await;
    let cycle = check::run_once(&cell.store, term, LIMITS, &mut Memory::default(), || true, &|| None).await;
    let open = rows!(cell, "SELECT kind FROM alert WHERE resolved_at IS NULL ORDER BY kind");
    (open.iter().map(|row| row.get(0)).collect(), cycle.is_ok(), cell, term)
}

#[tokio::test]
async fn work_that_runs_out_of_time_keeps_no_other_from_being_done() {
    for (table, rows, open) in [
        ("verdict", "NEW.kind = 'RUNTIME'", ["CHECK_IN", "FAILED", "NO_SUCCESS"]),
        ("verdict", "NEW.kind = 'NO_SUCCESS'", ["CHECK_IN", "FAILED", "RUNTIME"]),
        ("verdict", "NEW.kind = 'FAILED'", ["CHECK_IN", "NO_SUCCESS", "RUNTIME"]),
        ("alert", "NEW.kind = 'CHECK_IN'", ["FAILED", "NO_SUCCESS", "RUNTIME"]),
    ] {
        let (found, is_ok, cell, term) = whole_cycle(table, rows).await;
        assert_eq!((found.as_slice(), is_ok), (open.map(str::to_owned).as_slice(), false), "{rows}");
        rows!(cell, &format!("DROP TRIGGER out_of_time ON {table}"));
        assert_eq!(cell.check(term, HOUR + 70).await.opened, 1, "{rows}: it is tried again");
    }
}

#[tokio::test]
async fn a_database_that_is_too_slow_for_two_kinds_of_work_is_not_asked_for_all_of_them() {
    let (found, is_ok, ..) = whole_cycle("verdict", "NEW.kind IN ('NO_SUCCESS', 'FAILED')").await;
    assert_eq!((found, is_ok), (vec!["FAILED".to_owned()], false), "the one that was open");
}

/// Each look has a share of the jobs; what ends between two looks at one is found, however long the others took.
#[tokio::test]
async fn jobs_are_looked_at_for_slow_runs_in_turn_and_nothing_between_two_looks_is_lost() {
    let (cell, term) = cell().await;
    let mut jobs = Vec::new();
    for number in 0..5 {
        jobs.push(asking(&cell, &format!("job-{number}"), slow()).await);
        asking(&cell, &format!("other-{number}"), On { failed: true, ..On::default() }).await;
    }
    jobs.sort();
    let mut memory = Memory::with(Share { read: 3, looked_at: 1 });
    // Each job is looked at each 15 minutes at most; its next run ends right after it was looked at.
    let mut told = Vec::new();
    for cycle in 1..=30_i64 {
        let second = cycle * 90;
        cell.clock_to(second).await;
        let before = cell.number("SELECT count(*) FROM verdict").await;
        check::run_once(&cell.store, term, LIMITS, &mut memory, || true, &|| None).await.expect("a cycle");
        told.push(cell.number("SELECT count(*) FROM verdict").await - before);
        if cycle == 1 || cycle == 9 {
            for job in &jobs {
                took(&cell, *job, second - 40, 40 + 1).await;
            }
        }
    }
    assert!(told.iter().all(|told| (0..=1).contains(told)), "one job each: {told:?}");
    assert_eq!(told.iter().sum::<i64>(), 10, "{told:?}");
}

#[tokio::test]
async fn a_new_leader_finds_slow_runs_that_the_one_before_had_not_come_to() {
    let (cell, term) = cell().await;
    let job = asking(&cell, "invoices", slow()).await;
    assert_eq!(cell.check(term, 100).await.opened, 0);
    // Whoever leads looks at ends meanwhile, and has the position written.
    took(&cell, job, 110, 40).await;
    rows!(cell, "UPDATE outcome_watch SET through = $1", noon(700));
    let successor = cell.lead(2).await;
    assert_eq!(cell.check(successor, 701).await.opened, 1);
    assert_eq!(cell.check(successor, 702).await.opened, 0);
}
