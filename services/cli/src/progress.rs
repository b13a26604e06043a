//! What standard error shows while something takes long.
//!
//! Invariant: only for people at a terminal who did not ask for quiet, and nothing of it stays on the screen.
//! Deliberately not here: results, which go to standard output.

use crate::arguments::Format;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

/// How often it moves while nothing is known of how far the work is.
const TICK: Duration = Duration::from_millis(100);
const WAITING: &str = "{spinner} {msg} {elapsed}";
const COUNTING: &str = "{msg} {wide_bar} {human_pos} of {human_len}, {elapsed}";

/// Whether progress is shown; chosen once, by the arguments.
static SHOWN: OnceLock<bool> = OnceLock::new();

/// Shows progress from now on, or does not.
pub fn choose(quiet: bool, format: Format) {
    SHOWN.get_or_init(|| !quiet && format == Format::Table && is_capable(&std::io::stderr()));
}

/// A terminal that can draw and go back over what it drew.
pub fn is_capable(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// Some long work, until it is dropped.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Of work of which nobody knows how far it is.
    pub fn waiting(what: String) -> Self {
        let progress = Self::new(WAITING, what, None);
        if progress.is_shown() {
            progress.bar.enable_steady_tick(TICK);
        }
        progress
    }

    /// Of `total` parts.
    pub fn of(total: u64, what: String) -> Self {
        Self::new(COUNTING, what, Some(total))
    }

    fn new(template: &str, what: String, total: Option<u64>) -> Self {
        let bar = match (SHOWN.get(), total) {
            (Some(true), Some(total)) => ProgressBar::new(total),
            (Some(true), None) => ProgressBar::new_spinner(),
            _ => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = bar.with_style(style).with_message(what);
        bar.tick(); // it is seen from the beginning
        Self { bar }
    }

    /// So many parts are done.
    pub fn reach(&self, parts: u64) {
        self.bar.set_position(parts);
    }

    /// Prints something else, which the bar does not get in the way of.
    pub fn aside(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Whether somebody sees it.
    pub fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_can_be_read() {
        for template in [WAITING, COUNTING] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn nothing_is_shown_until_it_is_chosen() {
        let progress = Progress::of(3, "runs".to_owned());
        progress.reach(2);
        let mut said = false;
        progress.aside(|| said = true);
        assert!(said && !progress.is_shown());
    }
}
