//! What there was before: a crontab on each machine. At the second, each one sends.

use crate::billing::{Billing, customers};
use chrono::{DateTime, Utc};

/// The invoices of the occurrence at this instant, in the naive schedulers' words.
pub fn occurrence(at: DateTime<Utc>) -> String {
    format!("crontab@{}", at.format("%Y-%m-%dT%H:%M:%SZ"))
}

/// Waits for the instant and sends every customer an invoice: it knows of no other machine.
pub async fn run(billing_url: &str, name: &str, at: DateTime<Utc>, count: usize) -> anyhow::Result<()> {
    let mut billing = Billing::connect(billing_url).await?;
    let wait = (at - Utc::now()).to_std().unwrap_or_default();
    tokio::time::sleep(wait).await;
    for customer in customers(count) {
        billing.send(None, &occurrence(at), &customer, name).await?;
    }
    Ok(())
}
