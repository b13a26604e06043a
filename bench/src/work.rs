//! The worker of the benchmarks: its handler does nothing but note when it began.
//!
//! Notes go to memory and from there, each half second, to a file: a line a run, the scheduled second and the instant
//! of receipt in microseconds. The handler never waits for the file.

use anyhow::Context;
use chrono::Utc;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use worker::{BoxError, RunContext, Worker};

const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// What the worker is told.
#[derive(clap::Args)]
pub struct Options {
    /// Addresses of dispatchers, the first to be tried first.
    #[arg(long, value_delimiter = ',')]
    dispatchers: Vec<String>,
    /// Holds the worker's token.
    #[arg(long)]
    token_file: PathBuf,
    /// The queue.
    #[arg(long)]
    queue: String,
    /// Runs at a time.
    #[arg(long)]
    slots: usize,
    /// Its name.
    #[arg(long)]
    name: String,
    /// Where the notes go.
    #[arg(long)]
    notes: PathBuf,
}

type Notes = Arc<Mutex<Vec<(i64, i64)>>>;

/// Works until it is told to stop.
///
/// # Errors
/// What is wrong with the options.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let token = std::fs::read_to_string(&options.token_file).context("reading the token")?;
    let file = std::fs::File::create(&options.notes).context("making the notes")?;
    let notes = Notes::default();
    tokio::spawn(flush(notes.clone(), file));
    let worker = Worker::builder()
        .dispatchers(options.dispatchers)
        .token(token.trim())
        .name(options.name)
        .queue(options.queue)
        .slots(options.slots)
        .handler(crate::cell::HANDLER, move |run: RunContext| {
            let received = Utc::now().timestamp_micros();
            let note = (run.scheduled_for().timestamp(), received);
            notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
            std::future::ready(Ok::<(), BoxError>(()))
        })
        .build()?;
    let _ = worker.run(std::future::pending()).await;
    Ok(())
}

async fn flush(notes: Notes, mut file: std::fs::File) {
    loop {
        tokio::time::sleep(FLUSH_EVERY).await;
        let taken = std::mem::take(&mut *notes.lock().unwrap_or_else(PoisonError::into_inner));
        let mut text = String::with_capacity(taken.len() * 28);
        for (second, received) in taken {
            text.push_str(&format!("{second} {received}\n"));
        }
        if let Err(error) = file.write_all(text.as_bytes()) {
            eprintln!("the notes can't be written: {error}");
        }
    }
}
