//! The Rust worker of the tests of both SDKs; `tests/tests/worker_sdk/program.py` is the same in Python. Takes its name, its
//! queue, its token's file, a folder for marks, and the dispatchers as arguments.

use serde::Deserialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use worker::{BoxError, RunContext, Worker};

#[derive(Deserialize)]
struct Customer {
    number: u64,
}

#[derive(Deserialize)]
struct Invoice {
    customer: Customer,
}

/// What handlers leave behind and wait for.
#[derive(Clone)]
struct Marks(Arc<PathBuf>);

impl Marks {
    /// True for whoever asks first, in all processes.
    fn first(&self, what: &str) -> bool {
        std::fs::File::create_new(self.0.join(what)).is_ok()
    }

    async fn opened(&self) {
        while !Path::new(&*self.0).join("opened").exists() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn invoice(run: RunContext, invoice: Invoice) -> Result<(), BoxError> {
    let said = json!({
        "customer": invoice.customer.number, "job": run.job_name(), "scheduledFor": run.scheduled_for().to_rfc3339(),
        "token": run.fencing_token().to_string(), "guardKey": run.guard_key(), "idempotencyKey": run.idempotency_key(),
        "attempt": run.attempt(), "deadline": run.deadline().to_rfc3339(), "name": run.run_name(),
        "origin": run.origin(), "queue": run.queue()});
    run.log(said.to_string());
    Ok(())
}

async fn remind(run: RunContext, how: String) -> Result<(), BoxError> {
    tokio::time::sleep(Duration::from_millis(10)).await;
    run.log(format!("reminded {how}"));
    Ok(())
}

async fn fail(_: RunContext) -> Result<(), BoxError> {
    Err("out of paper".into())
}

async fn crash(run: RunContext) -> Result<(), BoxError> {
    assert!(run.attempt() == 0, "out of ink");
    Ok(())
}

/// Until it is told to stop.
async fn waits(run: RunContext, marks: Marks) -> Result<(), BoxError> {
    marks.first(&format!("{}-waits", run.job_name()));
    run.cancelled().await;
    marks.first(&format!("{}-told", run.job_name()));
    Err("told to stop".into())
}

async fn hangs_once(run: RunContext, marks: Marks) -> Result<(), BoxError> {
    if marks.first("hangs") {
        run.cancelled().await;
        return Err("told to stop".into());
    }
    Ok(())
}

async fn freezes_once(_: RunContext, marks: Marks) -> Result<(), BoxError> {
    if marks.first("freezes") {
        // Frozen at its last instruction: it has ended when the process thaws.
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP)?;
    }
    Ok(())
}

async fn until_opened(run: RunContext, marks: Marks) -> Result<(), BoxError> {
    run.log("waiting");
    run.progress(0.4, "at the door");
    marks.first("waits");
    tokio::select! {
        () = marks.opened() => {}
        () = run.cancelled() => return Err("told to stop".into()),
    }
    run.log("opened");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or(format!("argument missing: {what}"));
    let (name, queue, token_file) = (next("name")?, next("queue")?, next("token file")?);
    let marks = Marks(Arc::new(next("folder for marks")?.into()));
    let of_marks = |handler: fn(RunContext, Marks) -> Work| {
        let marks = marks.clone();
        move |run| handler(run, marks.clone())
    };
    let worker = Worker::builder()
        .dispatchers(arguments)
        .token(std::fs::read_to_string(token_file)?.trim())
        .name(name)
        .queue(queue)
        .slots(4)
        .label("language", "rust")
        .version("1.2.3")
        .typed_handler("invoice", invoice)
        .typed_handler("remind", remind)
        .handler("fail", fail)
        .handler("crash", crash)
        .handler("waits", of_marks(|run, marks| Box::pin(waits(run, marks))))
        .handler("hangs-once", of_marks(|run, marks| Box::pin(hangs_once(run, marks))))
        .handler("freezes-once", of_marks(|run, marks| Box::pin(freezes_once(run, marks))))
        .handler("until-opened", of_marks(|run, marks| Box::pin(until_opened(run, marks))))
        .build()?;
    let summary = worker.run(worker::termination()?).await;
    println!("finished={} unreported={}", summary.finished, summary.unreported);
    Ok(())
}

type Work = std::pin::Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;
