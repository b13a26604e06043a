//! Whole lives of runs: planned, claimed, delivered, accepted, completed, as many a second as the cell can have, and
//! then the same statements by plain SQL in the same database.
//!
//! More is due than can be had, so that nothing waits for a clock. What counts is the smaller of what was planned and
//! what ended in the ledger: neither lives off what was done before the round.

use crate::cell::{Cell, Jobs, until};
use crate::{Common, figures, limit, usage};
use chrono::{DurationRound, TimeDelta, Utc};
use serde_json::{Value, json};
use stack::dev::Role;

/// From the first occurrence to the first round.
const WARM_UP: TimeDelta = TimeDelta::seconds(20);
/// Short, so that planning goes on evenly and a round sees its share of it.
const LOOKAHEAD_MS: u64 = 5_000;

/// Measures.
///
/// # Errors
/// Anything that keeps the cell from working.
pub async fn run(common: &Common, offered: u32, seconds: u32) -> anyhow::Result<Value> {
    let statements = common.statements.is_some();
    let ticker = format!("lookahead_ms = {LOOKAHEAD_MS}");
    let mut cell = Cell::start(statements, |options| options.setting(Role::Ticker, &ticker)).await?;
    let machine = cell.machine().await?;
    cell.start_workers()?;
    let first = Utc::now().duration_trunc(TimeDelta::seconds(1))? + TimeDelta::seconds(10);
    cell.make(&Jobs { count: offered, tenants: 8, schedule: "* * * * * *", overlap: "ALLOW", first }).await?;
    until(first + WARM_UP).await;
    let mut rounds = Vec::new();
    for round in 1..=common.rounds {
        cell.forget_statements(round == 1 && statements).await?;
        let figures = one(&mut cell, seconds).await?;
        eprintln!("round {round}: {figures}");
        rounds.push(figures);
    }
    cell.write_statements(common.statements.as_deref()).await?;
    cell.stop_services().await?;
    let url = cell.database_url();
    for (number, round) in rounds.iter_mut().enumerate() {
        let limit = limit::per_second(&mut cell, &url, number).await?;
        eprintln!("plain SQL: {limit:.0} a second");
        round["sql_limit_per_s"] = figures::rounded(limit).into();
    }
    cell.stop().await?;
    let mut all = figures::medians(&rounds);
    let ratio =
        all["per_s"].as_f64().unwrap_or(0.0) / all["sql_limit_per_s"].as_f64().unwrap_or(f64::INFINITY);
    all["ratio"] = figures::rounded(ratio).into();
    all["benchmark"] = "life".into();
    all["rounds"] = rounds.into();
    all["machine"] = machine;
    Ok(all)
}

async fn one(cell: &mut Cell, seconds: u32) -> anyhow::Result<Value> {
    let processes = cell.processes();
    let before = usage::of(&processes)?;
    let (planned_before, ended_before) = progress(cell).await?;
    let from = Utc::now();
    until(from + TimeDelta::seconds(i64::from(seconds))).await;
    let elapsed = (Utc::now() - from).as_seconds_f64();
    let after = usage::of(&processes)?;
    let (planned, ended) = progress(cell).await?;
    let (planned, ended) = (planned - planned_before, ended - ended_before);
    let runs = planned.min(ended);
    Ok(json!({
        "runs": runs,
        "seconds": figures::rounded(elapsed),
        "per_s": figures::rounded(runs as f64 / elapsed),
        "planned_per_s": figures::rounded(planned as f64 / elapsed),
        "ended_per_s": figures::rounded(ended as f64 / elapsed),
        "cpu_s": usage::cpu_between(&before, &after),
    }))
}

/// How many runs were planned so far, and how many of them have ended: both in the ledger.
async fn progress(cell: &mut Cell) -> anyhow::Result<(i64, i64)> {
    let counts = cell.sql("SELECT count(*), count(*) FILTER (WHERE state = 'SUCCEEDED') FROM run").await?;
    let (planned, ended) = counts.trim().split_once('|').unwrap_or_default();
    Ok((planned.parse()?, ended.parse()?))
}
