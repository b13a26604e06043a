//! A whole cell at rest, with every kind of process: what each uses.

use crate::cell::Cell;
use crate::{Common, figures, usage};
use serde_json::{Value, json};
use std::time::Duration;

/// From the start to the first round.
const SETTLE: Duration = Duration::from_secs(15);

/// Measures.
///
/// # Errors
/// Anything that keeps the cell from starting.
pub async fn run(common: &Common, seconds: u32) -> anyhow::Result<Value> {
    let change = |mut options: stack::dev::Options| {
        (options.tickers, options.watchdogs, options.agents) = (2, 1, 1);
        options
    };
    let mut cell = Cell::start(false, change).await?;
    let machine = cell.machine().await?;
    tokio::time::sleep(SETTLE).await;
    let length = Duration::from_secs(u64::from(seconds));
    let mut rounds = Vec::new();
    for round in 1..=common.rounds {
        let processes = cell.processes();
        let before = usage::of(&processes)?;
        tokio::time::sleep(length).await;
        let after = usage::of(&processes)?;
        let figure = |name: &String| {
            let spent = after[name].cpu.saturating_sub(before[name].cpu).as_secs_f64();
            json!({
                "core_percent": figures::rounded(100.0 * spent / length.as_secs_f64()),
                "rss_mb": figures::rounded(after[name].rss_mb),
            })
        };
        let all: serde_json::Map<_, _> = processes.keys().map(|name| (name.clone(), figure(name))).collect();
        let figures = json!({ "seconds": seconds, "processes": all });
        eprintln!("round {round}: {figures}");
        rounds.push(figures);
    }
    cell.stop().await?;
    let mut all = figures::medians(&rounds);
    all["benchmark"] = "idle".into();
    all["rounds"] = rounds.into();
    all["machine"] = machine;
    Ok(all)
}
