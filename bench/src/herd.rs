//! The herd: tens of thousands of runs due in one second, planned ahead.
//!
//! The jobs are due several times a minute, and planned while those before rest: each time is a herd, of which the first is
//! for warming up. In between the hot tables are vacuumed, as autovacuum does long before the next midnight.

use crate::cell::{Cell, Jobs, until};
use crate::received::{self, Received};
use crate::{Common, figures, usage};
use anyhow::bail;
use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use serde_json::{Value, json};
use stack::dev::Role;
use std::time::Duration;

/// Copying the jobs and planning them for the first herd takes less.
const TO_PLAN: TimeDelta = TimeDelta::seconds(15);
/// The database is left alone until a herd should be over.
const QUIET: TimeDelta = TimeDelta::seconds(5);
/// Notes are on disk after this.
const FLUSHED: Duration = Duration::from_millis(1_500);

/// Measures.
///
/// # Errors
/// Anything that keeps the herd from being planned in time or from ending.
pub async fn run(common: &Common, runs: u32, tenants: u32, every_s: u32) -> anyhow::Result<Value> {
    let statements = common.statements.is_some();
    // Once the herd before is over, and in time for this one.
    let ticker = format!("lookahead_ms = {}", every_s * 600);
    let mut cell = Cell::start(statements, |options| options.setting(Role::Ticker, &ticker)).await?;
    let machine = cell.machine().await?;
    cell.start_workers()?;
    let interval = TimeDelta::seconds(every_s.into());
    let mut due = (Utc::now() + TO_PLAN).duration_trunc(interval)? + interval;
    let schedule = format!("*/{every_s} * * * * *");
    cell.make(&Jobs { count: runs, tenants, schedule: &schedule, overlap: "FORBID", first: due }).await?;
    let mut rounds = Vec::new();
    for round in 0..=common.rounds {
        let figures = one(&mut cell, due, i64::from(runs), round == 1 && statements).await?;
        eprintln!("round {round}: {figures}");
        if round > 0 {
            rounds.push(figures);
        }
        due += interval;
    }
    cell.write_statements(common.statements.as_deref()).await?;
    cell.stop().await?;
    let mut all = figures::medians(&rounds);
    all["benchmark"] = "herd".into();
    all["tenants"] = tenants.into();
    all["rounds"] = rounds.into();
    all["machine"] = machine;
    Ok(all)
}

async fn one(cell: &mut Cell, due: DateTime<Utc>, runs: i64, forget: bool) -> anyhow::Result<Value> {
    until(due - TimeDelta::seconds(5)).await;
    let at = due.to_rfc3339();
    let planned = cell.count(&format!("SELECT count(*) FROM run WHERE scheduled_for = '{at}'")).await?;
    if planned < runs {
        bail!("only {planned} of {runs} runs were planned five seconds before");
    }
    cell.forget_statements(forget).await?;
    let processes = cell.processes();
    let before = usage::of(&processes)?;
    until(due + QUIET).await;
    let succeeded = format!("SELECT count(*) FROM run WHERE scheduled_for = '{at}' AND state = 'SUCCEEDED'");
    cell.wait_for_count("runs succeeded", &succeeded, runs).await?;
    let after = usage::of(&processes)?;
    cell.vacuum("run_queue, run_lease").await?;
    tokio::time::sleep(FLUSHED).await;
    let recorded = format!(
        "SELECT round(extract(epoch FROM max(finished_at) - '{at}') * 1000) FROM run WHERE scheduled_for = '{at}'"
    );
    let recorded = cell.count(&recorded).await?;
    let second = due.timestamp();
    let received = received::between(cell.notes(), second, second + 1)?;
    if received.len() as i64 != runs {
        bail!("{} runs were received, of {runs}", received.len());
    }
    let lateness: Vec<f64> = received.iter().map(Received::lateness_ms).collect();
    let seconds = lateness.iter().copied().fold(0.0, f64::max) / 1_000.0;
    Ok(json!({
        "lateness_ms": figures::spread(lateness),
        "runs": runs,
        "seconds": figures::rounded(seconds),
        "per_s": figures::rounded(runs as f64 / seconds),
        "recorded_seconds": recorded as f64 / 1_000.0,
        "cpu_s": usage::cpu_between(&before, &after),
    }))
}
