//! How a worker's process is told to end.

use std::future::Future;
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Resolves at the first SIGTERM or SIGINT from now on, for [`Worker::run`](crate::Worker::run): the worker takes nothing
/// more, and finishes what it has. A second signal then ends the process at once, with 128 + its number.
///
/// # Errors
/// When the system does not let the process listen for signals. Panics outside of a Tokio runtime.
pub fn termination() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let (name, _) = next(&mut terminate, &mut interrupt).await;
        tracing::info!(signal = name, "Stopping");
        tokio::spawn(async move {
            let (name, code) = next(&mut terminate, &mut interrupt).await;
            tracing::warn!(signal = name, "A second signal: ending at once");
            std::process::exit(code);
        });
    })
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> (&'static str, i32) {
    tokio::select! {
        _ = terminate.recv() => ("SIGTERM", 143),
        _ = interrupt.recv() => ("SIGINT", 130),
    }
}
