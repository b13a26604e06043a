//! The story that Escapement is for, played end to end: three schedulers would send every customer three invoices;
//! with Escapement it is one. Then it is broken twice, by a ticker and by a worker that freeze and thaw.
//!
//! Starts a whole local stack of its own in a temporary folder, prints a table, and exits with 1 when a number is
//! not as promised.

mod billing;
mod pause;
mod play;
mod report;
mod scheduler;
mod stage;
mod work;

use anyhow::Context;
use chrono::{DateTime, Utc};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Plays how many invoices are sent, with and without Escapement, and while things break.
#[derive(Debug, Parser)]
struct Arguments {
    /// Customers, at least 3: a worker freezes after its second invoice.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(3..=1000))]
    customers: u16,
    /// Print the numbers as JSON.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

/// The parts that the play starts as processes of their own.
#[derive(Debug, Subcommand)]
enum Part {
    /// A machine with a crontab.
    #[command(hide = true)]
    Scheduler {
        #[arg(long)]
        name: String,
        #[arg(long)]
        at: DateTime<Utc>,
        #[arg(long)]
        customers: usize,
    },
    /// A worker.
    #[command(hide = true)]
    Worker(work::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("invoices-example: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    service::runtime::install_crypto();
    let billing_url = || std::env::var(stage::BILLING_URL).context(stage::BILLING_URL);
    match arguments.part {
        None => tell(&play::play(arguments.customers.into()).await?, arguments.json),
        Some(Part::Scheduler { name, at, customers }) => {
            scheduler::run(&billing_url()?, &name, at, customers).await.map(|()| ExitCode::SUCCESS)
        }
        Some(Part::Worker(options)) => work::run(billing_url()?, options).await.map(|()| ExitCode::SUCCESS),
    }
}

fn tell(rows: &[report::Row], json: bool) -> anyhow::Result<ExitCode> {
    if json {
        println!("{}", serde_json::to_string_pretty(rows)?);
    } else {
        println!("\n{}", report::table(rows));
    }
    Ok(if rows.iter().all(|row| row.kept) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
