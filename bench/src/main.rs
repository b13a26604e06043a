//! Measures a whole cell under load: PostgreSQL that syncs to disk, etcd, tickers, dispatchers and workers, each a
//! process of its own, all on this machine.
//!
//! `herd`, `steady` and `life` put a load on and write their figures as JSON; `idle` watches a cell at rest; `registry` asks
//! the API. Lateness is taken by the workers themselves, when a handler begins, against the scheduled second: one machine, one clock.
//! Nothing here judges; `cargo xtask bench` prints figures beside their targets.

mod apply;
mod cell;
mod figures;
mod gets;
mod herd;
mod idle;
mod life;
mod limit;
mod machine;
mod received;
mod registry;
mod steady;
mod targets;
mod usage;
mod work;

use clap::{Args, Parser, Subcommand};
use serde_json::Value;
use std::path::PathBuf;

#[derive(Parser)]
#[command(name = "escapement-bench")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Many runs due in one second.
    Herd {
        #[command(flatten)]
        common: Common,
        /// Runs due in the second.
        #[arg(long, default_value_t = 33_000)]
        runs: u32,
        /// Tenants that they belong to.
        #[arg(long, default_value_t = 8)]
        tenants: u32,
        /// Seconds between two herds; a divisor of 60.
        #[arg(long, default_value_t = 20, value_parser = divisor)]
        every: u32,
    },
    /// A moderate load, for a minute a round.
    Steady {
        #[command(flatten)]
        common: Common,
        /// Runs due in each second.
        #[arg(long, default_value_t = 500)]
        per_second: u32,
        /// A round's length, in seconds.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
    /// As many whole lives of runs as there can be, beside plain SQL.
    Life {
        #[command(flatten)]
        common: Common,
        /// Runs due in each second: a little more than can be had, for planning what is never reached costs, too.
        #[arg(long, default_value_t = 9_000)]
        offered_per_second: u32,
        /// A round's length, in seconds.
        #[arg(long, default_value_t = 30)]
        seconds: u32,
    },
    /// What each process of a resting cell uses.
    Idle {
        #[command(flatten)]
        common: Common,
        /// A round's length, in seconds.
        #[arg(long, default_value_t = 30)]
        seconds: u32,
    },
    /// Many jobs applied in one call, and single ones read at a steady rate.
    Registry {
        #[command(flatten)]
        common: Common,
        /// Jobs of one call.
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        jobs: u32,
        /// Gets a second.
        #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=5_000))]
        gets_per_second: u32,
        /// For how long in a round, over gRPC and then over REST.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
        seconds: u32,
    },
    /// A worker whose handlers do nothing; started by the others.
    #[command(hide = true)]
    Work(work::Options),
}

/// What every benchmark is told.
#[derive(Args, Clone)]
pub struct Common {
    /// Where the figures go.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Rounds; the figures are their medians.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// Also writes the statements that took PostgreSQL longest to this file.
    #[arg(long)]
    statements: Option<PathBuf>,
}

fn divisor(text: &str) -> Result<u32, String> {
    let fits = |every: &u32| (15..=60).contains(every) && 60 % every == 0;
    text.parse().ok().filter(fits).ok_or_else(|| "use 15, 20, 30 or 60".to_owned())
}

fn main() -> anyhow::Result<()> {
    let command = Arguments::parse().command;
    // A worker whose handlers do nothing has nothing to spread, and four of them share the machine with what is measured.
    let threads = match command {
        Command::Work(_) => tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        _ => tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?,
    };
    threads.block_on(run(command))
}

async fn run(command: Command) -> anyhow::Result<()> {
    service::runtime::install_crypto();
    let (json, figures) = match command {
        Command::Work(options) => return work::run(options).await,
        Command::Herd { common, runs, tenants, every } => {
            (common.json.clone(), herd::run(&common, runs, tenants, every).await?)
        }
        Command::Steady { common, per_second, seconds } => {
            (common.json.clone(), steady::run(&common, per_second, seconds).await?)
        }
        Command::Life { common, offered_per_second, seconds } => {
            (common.json.clone(), life::run(&common, offered_per_second, seconds).await?)
        }
        Command::Idle { common, seconds } => (common.json.clone(), idle::run(&common, seconds).await?),
        Command::Registry { common, jobs, gets_per_second, seconds } => {
            let load = registry::Load { jobs, per_second: gets_per_second, seconds };
            (common.json.clone(), registry::run(&common, load).await?)
        }
    };
    targets::print(&figures);
    write(json, &figures)
}

fn write(json: Option<PathBuf>, figures: &Value) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(figures)?;
    match json {
        Some(path) => std::fs::write(path, text + "\n")?,
        None => println!("{text}"),
    }
    Ok(())
}
