//! The end of an output, however long the output is, without secrets; and all of it shown while it comes.

use crate::redact::{Redactor, Secrets};
use std::collections::VecDeque;
use worker::RunContext;

/// Where the output of a run goes.
#[derive(Debug)]
pub struct Sink {
    run: RunContext,
    redactor: Redactor,
    tail: Tail,
}

impl Sink {
    /// Keeps the last `limit` bytes, without these secrets.
    pub fn new(run: RunContext, secrets: Secrets, limit: usize) -> Self {
        Self { run, redactor: Redactor::new(secrets), tail: Tail::new(limit) }
    }

    /// The next piece.
    pub fn push(&mut self, bytes: &[u8]) {
        let clean = self.redactor.push(bytes);
        self.keep(&clean);
    }

    /// Notes that there was more.
    pub const fn cut(&mut self) {
        self.tail.cut();
    }

    /// The end, and whether there was more before it.
    pub fn take(&mut self) -> (Vec<u8>, bool) {
        let rest = self.redactor.finish();
        self.keep(&rest);
        self.tail.take()
    }

    fn keep(&mut self, clean: &[u8]) {
        self.tail.push(clean);
        self.run.output(clean);
    }
}

/// Keeps the last bytes of what is pushed.
#[derive(Debug)]
pub struct Tail {
    limit: usize,
    bytes: VecDeque<u8>,
    truncated: bool,
}

impl Tail {
    /// Keeps `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, bytes: VecDeque::new(), truncated: false }
    }

    /// Appends, and forgets what is too long ago.
    pub fn push(&mut self, bytes: &[u8]) {
        let kept = &bytes[bytes.len().saturating_sub(self.limit)..];
        let surplus = (self.bytes.len() + kept.len()).saturating_sub(self.limit);
        self.bytes.drain(..surplus);
        self.bytes.extend(kept);
        self.truncated |= surplus > 0 || kept.len() < bytes.len();
    }

    /// Notes that there was more.
    pub const fn cut(&mut self) {
        self.truncated = true;
    }

    /// The bytes, and whether there were more. A cut text begins at a character: never with half of one.
    pub fn take(&mut self) -> (Vec<u8>, bool) {
        let mut bytes: Vec<u8> = std::mem::take(&mut self.bytes).into();
        if self.truncated {
            let is_inside = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
            let half = bytes.iter().take(3).take_while(is_inside).count();
            bytes.drain(..half);
        }
        (bytes, self.truncated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(limit: usize, pushes: &[&str]) -> (String, bool) {
        let mut tail = Tail::new(limit);
        for push in pushes {
            tail.push(push.as_bytes());
        }
        let (bytes, truncated) = tail.take();
        (String::from_utf8(bytes).expect("whole characters"), truncated)
    }

    #[test]
    fn the_last_bytes_are_kept_however_they_came() {
        assert_eq!(tail(4, &["ab", "cd"]), ("abcd".into(), false));
        assert_eq!(tail(4, &["ab", "cde"]), ("bcde".into(), true));
        assert_eq!(tail(4, &["a", "bcdefg"]), ("defg".into(), true));
        assert_eq!(tail(4, &["abcdefg", "h"]), ("efgh".into(), true));
        assert_eq!(tail(4, &[]), (String::new(), false));
    }

    #[test]
    fn a_cut_text_begins_with_a_whole_character() {
        assert_eq!(tail(3, &["aüb"]), ("üb".into(), true));
        assert_eq!(tail(2, &["aüb"]), ("b".into(), true));
        assert_eq!(tail(4, &["a€€"]), ("€".into(), true));
    }
}
