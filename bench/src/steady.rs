//! A moderate load: as many jobs as runs a second, each due in every second, all at its beginning.
//!
//! They may overlap: a run that is recorded late must not have the next one skipped, and missing from the figures.

use crate::cell::{Cell, Jobs, until};
use crate::received::{self, Received};
use crate::{Common, figures, usage};
use anyhow::bail;
use chrono::{DurationRound, TimeDelta, Utc};
use serde_json::{Value, json};
use std::time::Duration;

/// From the first occurrence to the first round.
const WARM_UP: TimeDelta = TimeDelta::seconds(20);
/// Runs of a round are received, and noted, this long after it.
const SETTLED: Duration = Duration::from_secs(4);

/// Measures.
///
/// # Errors
/// Anything that keeps the runs from being received.
pub async fn run(common: &Common, per_second: u32, seconds: u32) -> anyhow::Result<Value> {
    let statements = common.statements.is_some();
    let mut cell = Cell::start(statements, |options| options).await?;
    let machine = cell.machine().await?;
    cell.start_workers()?;
    let first = Utc::now().duration_trunc(TimeDelta::seconds(1))? + TimeDelta::seconds(5);
    cell.make(&Jobs { count: per_second, tenants: 8, schedule: "* * * * * *", overlap: "ALLOW", first })
        .await?;
    let mut from = first + WARM_UP;
    let mut rounds = Vec::new();
    for round in 1..=common.rounds {
        until(from).await;
        cell.forget_statements(round == 1 && statements).await?;
        let processes = cell.processes();
        let before = usage::of(&processes)?;
        let end = from + TimeDelta::seconds(i64::from(seconds));
        until(end).await;
        let after = usage::of(&processes)?;
        tokio::time::sleep(SETTLED).await;
        let received = received::between(cell.notes(), from.timestamp(), end.timestamp())?;
        let expected = per_second as usize * seconds as usize;
        if received.len() != expected {
            bail!("{} runs were received, of {expected}", received.len());
        }
        let lateness = received.iter().map(Received::lateness_ms).collect();
        let figures = json!({
            "lateness_ms": figures::spread(lateness),
            "runs": expected,
            "seconds": seconds,
            "per_s": per_second,
            "cpu_s": usage::cpu_between(&before, &after),
        });
        eprintln!("round {round}: {figures}");
        rounds.push(figures);
        from = (Utc::now() + TimeDelta::seconds(1)).duration_trunc(TimeDelta::seconds(1))?;
    }
    cell.write_statements(common.statements.as_deref()).await?;
    cell.stop().await?;
    let mut all = figures::medians(&rounds);
    all["benchmark"] = "steady".into();
    all["rounds"] = rounds.into();
    all["machine"] = machine;
    Ok(all)
}
