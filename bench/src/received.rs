//! What the workers noted: which run's second, and when it was received.

use anyhow::Context;
use std::path::PathBuf;

/// One run at one worker.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    /// The scheduled second.
    pub second: i64,
    /// Microseconds since 1970.
    pub at_us: i64,
}

impl Received {
    /// How long after its second, in milliseconds.
    pub fn lateness_ms(&self) -> f64 {
        (self.at_us - self.second * 1_000_000) as f64 / 1_000.0
    }
}

/// What was received of the seconds from `first` to before `end`, by all workers. A line that is being written is
/// left out; callers wait until every run is in the ledger and the notes are flushed.
///
/// # Errors
/// A file that can't be read.
pub fn between(files: &[PathBuf], first: i64, end: i64) -> anyhow::Result<Vec<Received>> {
    let mut all = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let whole = text.rfind('\n').map_or("", |last| &text[..last]);
        let notes = whole.lines().filter_map(|line| {
            let (second, at) = line.split_once(' ')?;
            Some(Received { second: second.parse().ok()?, at_us: at.parse().ok()? })
        });
        all.extend(notes.filter(|note| (first..end).contains(&note.second)));
    }
    Ok(all)
}
