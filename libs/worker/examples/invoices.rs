//! Sends invoices: the Rust worker of docs/workers.md.

use serde::Deserialize;
use std::env::var;
use worker::{BoxError, RunContext, Worker};

#[derive(Deserialize)]
struct Item {
    cents: u64,
}

#[derive(Deserialize)]
struct Invoice {
    customer: String,
    items: Vec<Item>,
}

async fn invoice(run: RunContext, invoice: Invoice) -> Result<(), BoxError> {
    let total: u64 = invoice.items.iter().map(|item| item.cents).sum();
    // The receiver remembers the key: a second attempt of the same run sends nothing twice.
    run.log(format!("{} owes {total} cents, key {}", invoice.customer, run.idempotency_key()));
    Ok(())
}

async fn export(run: RunContext) -> Result<(), BoxError> {
    let days = 1..=30_u8;
    for day in days.clone() {
        if run.is_cancelled() {
            return Err(format!("stopped before day {day}").into());
        }
        run.progress(f64::from(day) / 30.0, format!("day {day}"));
    }
    run.log(format!("{} days, in time for {}", days.len(), run.deadline().format("%H:%M:%S")));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let worker = Worker::builder()
        .dispatchers(var("ESCAPEMENT_DISPATCHERS")?.split(',')) // http://host:port, more than one: runs survive the end of one
        .token(var("ESCAPEMENT_WORKER_TOKEN")?)
        .queue("billing")
        .slots(8) // runs at a time
        .name("billing-1")
        .version(env!("CARGO_PKG_VERSION"))
        .label("team", "billing")
        .typed_handler("invoice", invoice)
        .handler("export", export)
        .build()?;
    let summary = worker.run(worker::termination()?).await; // until SIGTERM or Ctrl-C, then finishes what is in hand
    println!("{} attempts, {} not reported", summary.finished, summary.unreported);
    Ok(())
}
