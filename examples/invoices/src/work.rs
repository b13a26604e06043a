//! The worker: a program that links the SDK and sends the invoices of a run.
//!
//! The work looks what was sent already and goes on from there, so that a second attempt repeats nothing. What that
//! look can't know is a first attempt that is frozen, not dead: for it there is the guard.

use crate::billing::{Billing, BillingError, Guard, customers};
use crate::pause::Pause;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use worker::{BoxError, RunContext, Worker};

/// The name of the handler in a job's definition.
pub const HANDLER: &str = "invoices";

/// So many invoices a worker that pauses sends before.
pub const SENT_BEFORE_PAUSE: usize = 2;

/// What a job asks for: its payload.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Order {
    pub customers: usize,
    /// Whether the token goes to the billing system with each write.
    pub guarded: bool,
}

/// How a worker process is started.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// What it is called.
    #[arg(long)]
    pub name: String,
    /// Addresses of dispatchers.
    #[arg(long = "dispatcher", required = true)]
    pub dispatchers: Vec<String>,
    /// Holds the workers' token.
    #[arg(long)]
    pub token_file: PathBuf,
    /// Pause in the middle of each run until this folder says go.
    #[arg(long)]
    pub pause: Option<PathBuf>,
}

/// Works until SIGTERM.
pub async fn run(billing_url: String, options: Options) -> anyhow::Result<()> {
    let token = std::fs::read_to_string(&options.token_file)
        .with_context(|| format!("reading {}", options.token_file.display()))?;
    let shutdown = service::shutdown::signals()?;
    let desk =
        Arc::new(Desk { billing_url, name: options.name.clone(), pause: options.pause.map(Pause::new) });
    let worker = Worker::builder()
        .name(options.name)
        .dispatchers(options.dispatchers)
        .token(token.trim())
        .slots(4)
        .handler(HANDLER, move |run: RunContext| {
            let desk = Arc::clone(&desk);
            // A task of its own, which nobody stops: like code in a blocking call it does not notice that its run
            // was taken away.
            async move { tokio::spawn(async move { desk.work(&run).await }).await? }
        })
        .build()?;
    let _summary = worker.run(shutdown.cancelled()).await;
    Ok(())
}

struct Desk {
    billing_url: String,
    name: String,
    pause: Option<Pause>,
}

impl Desk {
    async fn work(&self, run: &RunContext) -> Result<(), BoxError> {
        let order: Order = run.payload()?;
        let worked = self.send_invoices(run, order).await;
        if let Some(pause) = &self.pause {
            pause.tell_end(run.job_name(), worked.is_ok())?;
        }
        worked
    }

    async fn send_invoices(&self, run: &RunContext, order: Order) -> Result<(), BoxError> {
        let guard = if order.guarded { Some(guard(run)?) } else { None };
        let mut billing = Billing::connect(&self.billing_url).await?;
        let sent = billing.sent(guard.as_ref(), run.idempotency_key()).await?;
        let left = customers(order.customers).filter(|customer| !sent.contains(customer));
        for (index, customer) in left.enumerate() {
            if index == SENT_BEFORE_PAUSE
                && let Some(pause) = &self.pause
            {
                pause.hold(run.job_name()).await?;
            }
            let written = billing.send(guard.as_ref(), run.idempotency_key(), &customer, &self.name).await;
            if let Err(BillingError::Stale { token, .. }) = &written {
                eprintln!("{}: {}, token {token}: refused, stopping", self.name, run.run_name());
            }
            written?;
        }
        Ok(())
    }
}

fn guard(run: &RunContext) -> Result<Guard, BoxError> {
    let token = fence::FencingToken::from_i64(run.fencing_token().as_i64())?;
    Ok(Guard { key: run.guard_key().parse()?, token })
}
