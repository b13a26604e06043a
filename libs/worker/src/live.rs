//! What a running attempt shows while it runs: the end of its output, and how far it is.
//!
//! Shared between the work, which writes whenever it wants, and the keeper, which takes at most once a second what has
//! changed. Bounded: of the output only the end is kept, of a note only its beginning.

use crate::assignment::Attempt;
use rpc::v1;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most bytes of output that are shown: the last ones.
pub const LIVE_MAX_BYTES: usize = 16 * 1024;
/// The most characters of a note.
pub const NOTE_MAX_CHARS: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Live(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    tail: VecDeque<u8>,
    /// Bytes before the tail.
    offset: u64,
    fraction: Option<f64>,
    note: String,
    changed: bool,
    taken: bool,
}

/// What is to be shown now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown {
    pub offset: u64,
    pub tail: Vec<u8>,
    pub fraction: Option<f64>,
    pub note: String,
}

impl Shown {
    /// As the dispatcher is told of it.
    pub(crate) fn message(self, attempt: Attempt) -> v1::Live {
        let Self { offset, tail, fraction, note } = self;
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        v1::Live { run: Some(attempt.to_ref()), offset, tail, fraction, note }
    }
}

impl Live {
    /// More output.
    pub(crate) fn push(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut state = self.state();
        let kept = &bytes[bytes.len().saturating_sub(LIVE_MAX_BYTES)..];
        let surplus = (state.tail.len() + kept.len()).saturating_sub(LIVE_MAX_BYTES);
        state.tail.drain(..surplus);
        state.tail.extend(kept);
        state.offset += (surplus + bytes.len() - kept.len()) as u64;
        state.changed = true;
    }

    /// How far it is; what is no number between 0 and 1 is brought there.
    pub(crate) fn progress(&self, fraction: f64, note: &str) {
        let mut state = self.state();
        state.fraction = (!fraction.is_nan()).then(|| fraction.clamp(0.0, 1.0));
        state.note = note.chars().filter(|c| *c != '\0').take(NOTE_MAX_CHARS).collect();
        state.changed = true;
    }

    /// What is to be shown, if it has changed since the last time.
    pub(crate) fn take(&self) -> Option<Shown> {
        let mut state = self.state();
        if !std::mem::take(&mut state.changed) {
            return None;
        }
        state.taken = true;
        let tail = state.tail.iter().copied().collect();
        Some(Shown { offset: state.offset, tail, fraction: state.fraction, note: state.note.clone() })
    }

    /// The same at the end; only of what was shown before. The rest is in the report.
    pub(crate) fn take_last(&self) -> Option<Shown> {
        if self.state().taken { self.take() } else { None }
    }

    /// The output, and whether there was more.
    pub(crate) fn output(&self) -> (Vec<u8>, bool) {
        let state = self.state();
        (state.tail.iter().copied().collect(), state.offset > 0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_is_taken_once_with_its_place_in_the_output() {
        let live = Live::default();
        assert_eq!(live.take(), None);
        live.push(b"one\n");
        let shown = live.take().expect("changed");
        assert_eq!((shown.offset, shown.tail.as_slice()), (0, b"one\n".as_slice()));
        assert_eq!(live.take(), None);
        live.push(&vec![b'x'; LIVE_MAX_BYTES]);
        live.push(b"yz");
        let shown = live.take().expect("changed");
        assert_eq!((shown.offset, shown.tail.len()), (6, LIVE_MAX_BYTES));
        assert!(shown.tail.ends_with(b"xyz"));
        live.push(&vec![b'w'; LIVE_MAX_BYTES + 1]);
        assert_eq!(live.take().expect("changed").offset, 6 + LIVE_MAX_BYTES as u64 + 1);
        assert!(live.output().1);
    }

    #[test]
    fn progress_is_bounded() {
        let live = Live::default();
        live.progress(7.0, &"é\0".repeat(NOTE_MAX_CHARS));
        let shown = live.take().expect("changed");
        assert_eq!((shown.fraction, shown.note.chars().count()), (Some(1.0), NOTE_MAX_CHARS));
        live.progress(f64::NAN, "");
        assert_eq!(live.take().expect("changed").fraction, None);
    }

    #[test]
    fn the_end_is_shown_only_of_what_was_shown_before() {
        let live = Live::default();
        live.push(b"short");
        assert_eq!(live.take_last(), None);
        assert!(live.take().is_some());
        live.push(b" and more");
        assert_eq!(live.take_last().expect("shown before").tail, b"short and more");
    }
}
