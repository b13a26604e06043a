//! A history under faults: processes of every kind are killed and frozen while jobs run each second. Afterwards the
//! ledger has one row for every second, none twice, none lost, and what reached the outside world is consistent.

use chrono::TimeDelta;
use harness::{Cell, PATIENCE, instant, job, shell};
use serde_json::json;
use stack::wait::wait_for;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What is done to whom, in this order; between two the cell gets a few seconds to show what it makes of it.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill(&'static str),
    Freeze(&'static str, Duration),
    RestartPostgres,
    RestartEtcd,
}

const FAULTS: [Fault; 8] = [
    Fault::Kill("dispatcher-1"),
    Fault::Kill("ticker-1"),
    Fault::Freeze("dispatcher-2", Duration::from_secs(3)),
    Fault::RestartPostgres,
    Fault::Kill("agent-1"),
    Fault::Freeze("ticker-2", Duration::from_secs(7)),
    Fault::RestartEtcd,
    Fault::Kill("dispatcher-2"),
];

#[tokio::test]
async fn no_second_is_lost_or_doubled_whatever_is_killed() {
    let mut cell = Cell::start_with(|options| stack::dev::Options { agents: 2, ..options }).await;
    cell.leader().await;
    let effects = cell.folder().join("effects");
    let line = format!(
        "echo \"$ESCAPEMENT_IDEMPOTENCY_KEY $ESCAPEMENT_ATTEMPT $ESCAPEMENT_FENCING_TOKEN\" >> {}",
        effects.display()
    );
    for (name, overlap) in [("alone", "FORBID"), ("beside", "ALLOW"), ("beside-too", "ALLOW")] {
        let mut each_second = job(name, "* * * * * *", shell(&line));
        each_second["overlap"] = json!(overlap);
        // A loss must not end a run here, nor may a long fault let one be missed.
        each_second["retry"] = json!({"maxLost": 50});
        each_second["misfire"] = json!({"policy": "CATCH_UP", "grace": "300s"});
        cell.api.create(each_second).await;
    }
    for fault in FAULTS {
        inflict(&mut cell, fault).await;
        let before = done(&mut cell).await;
        wait_for(PATIENCE, "runs after a fault", async || {
            (done(&mut cell).await >= before + 9).then_some(())
        })
        .await;
    }
    let until = cell.sql("SELECT date_trunc('second', esc_now())").await;
    let open = format!("SELECT count(*) FROM run WHERE scheduled_for <= '{until}' AND state = 'PLANNED'");
    wait_for(PATIENCE, "every run up to now to end", async || (cell.count(&open).await == 0).then_some(()))
        .await;

    assert_history_is_whole(&mut cell, &until).await;
    assert_effects_are_consistent(&cell, &std::fs::read_to_string(&effects).expect("effects")).await;
    for orphans in [
        "SELECT count(*) FROM run_queue q WHERE NOT EXISTS (SELECT 1 FROM run r WHERE r.job_id = q.job_id AND r.scheduled_for = q.scheduled_for AND r.state = 'PLANNED')",
        "SELECT count(*) FROM run_lease l WHERE NOT EXISTS (SELECT 1 FROM run r WHERE r.job_id = l.job_id AND r.scheduled_for = l.scheduled_for AND r.state = 'PLANNED')",
        "SELECT count(*) FROM run_lease l WHERE l.session_id IS NULL AND NOT EXISTS (SELECT 1 FROM run_queue q WHERE q.job_id = l.job_id AND q.scheduled_for = l.scheduled_for)",
    ] {
        assert_eq!(cell.count(orphans).await, 0, "{orphans}");
    }
    cell.stop().await;
}

async fn inflict(cell: &mut Cell, fault: Fault) {
    match fault {
        Fault::Kill(name) => {
            cell.stack.service(name).expect("of the cell").process().kill().expect("killed");
            cell.stack.restart(name).await.expect("it starts again");
        }
        Fault::Freeze(name, time) => {
            cell.stack.service(name).expect("of the cell").process().stop().expect("frozen");
            tokio::time::sleep(time).await; // the fault itself, not a wait for anything
            cell.stack.service(name).expect("of the cell").process().cont().expect("thawed");
        }
        Fault::RestartPostgres => {
            cell.stack.postgres().restart(stack::postgres::Stop::Immediate).await.expect("it starts again");
        }
        Fault::RestartEtcd => cell.stack.etcd().restart().await.expect("it starts again"),
    }
}

async fn done(cell: &mut Cell) -> i64 {
    cell.count("SELECT count(*) FROM run WHERE state <> 'PLANNED'").await
}

/// One row for each second of each job since its creation.
async fn assert_history_is_whole(cell: &mut Cell, until: &str) {
    let until: chrono::DateTime<chrono::Utc> =
        format!("{}:00", until.replace(' ', "T")).parse().expect("an instant");
    for name in ["alone", "beside", "beside-too"] {
        let mut runs = cell.api.runs(name).await;
        runs.retain(|run| instant(run, "scheduledFor") <= until);
        runs.reverse();
        let first = instant(&runs[0], "scheduledFor");
        for (index, run) in runs.iter().enumerate() {
            let expected = first + TimeDelta::seconds(i64::try_from(index).expect("few"));
            assert_eq!(instant(run, "scheduledFor"), expected, "{name} lost or doubled a second");
            let ended = ["SUCCEEDED", "SKIPPED"].contains(&run["state"].as_str().unwrap_or_default());
            assert!(ended, "{run}");
            assert!(name == "alone" || run["state"] == "SUCCEEDED", "only FORBID skips: {run}");
        }
        assert_eq!(instant(&runs[runs.len() - 1], "scheduledFor"), until, "{name}");
    }
}

/// What the jobs wrote: each success wrote at least once, an attempt wrote at most once, and tokens of the job whose
/// runs exclude each other rise in the order in which its attempts wrote.
async fn assert_effects_are_consistent(cell: &Cell, effects: &str) {
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut last_token: BTreeMap<&str, i64> = BTreeMap::new();
    let alone =
        cell.api.get("/v1/jobs/alone").await.expect("the job")["id"].as_str().expect("an id").to_owned();
    for line in effects.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [key, attempt, token] = words[..] else { panic!("{line:?}") };
        assert!(seen.insert((key, attempt)), "attempt {attempt} of {key} ran twice");
        let job = key.split('@').next().expect("a job");
        let token: i64 = token.parse().expect("a token");
        if job == alone {
            let before = last_token.insert(job, token).unwrap_or(0);
            assert!(token > before, "{line}: an older token wrote after {before}");
        }
    }
    for name in ["alone", "beside", "beside-too"] {
        for run in cell.api.runs(name).await.iter().filter(|run| run["state"] == "SUCCEEDED") {
            let (key, attempt) = (run["idempotencyKey"].as_str().expect("a key"), run["attempt"].to_string());
            assert!(
                seen.contains(&(key, attempt.as_str())),
                "{} is recorded and left no effect",
                run["name"]
            );
        }
    }
}
