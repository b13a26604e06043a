//! Whether something that must always answer is gone: told after a while of silence, and once more when it is back for good.
//!
//! Pure. Invariant: a silence that is shorter than the limit is nobody's business, and one that is broken by a moment of
//! answers is one silence.

use std::time::{Duration, Instant};

/// For how long it must answer again before it counts as back.
const RETURN: Duration = Duration::from_secs(3);

/// What a look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Look {
    /// Nothing is news.
    Nothing,
    /// It has been silent for too long, since then.
    Gone {
        /// Its last answer.
        since: Instant,
    },
    /// It answers again.
    Back {
        /// From its last answer to the first that came again.
        lasted: Duration,
    },
}

/// Compares the looks at one thing.
#[derive(Debug, Clone)]
pub struct Outage {
    limit: Duration,
    /// Its last answer before the present silence, or of late.
    answered: Instant,
    /// The first answer after a silence that was told.
    returned: Option<Instant>,
    gone: bool,
}

impl Outage {
    /// It answered at `now`, and may be silent for `limit`.
    pub const fn new(limit: Duration, now: Instant) -> Self {
        Self { limit, answered: now, returned: None, gone: false }
    }

    /// Looked at `now`: whether it answered.
    pub fn look(&mut self, answers: bool, now: Instant) -> Look {
        match (answers, self.gone) {
            (true, false) => {
                self.answered = now;
                Look::Nothing
            }
            (false, false) => {
                self.gone = now.saturating_duration_since(self.answered) >= self.limit;
                if self.gone { Look::Gone { since: self.answered } } else { Look::Nothing }
            }
            (false, true) => {
                self.returned = None;
                Look::Nothing
            }
            (true, true) => {
                let returned = *self.returned.get_or_insert(now);
                if now.saturating_duration_since(returned) < RETURN {
                    return Look::Nothing;
                }
                let lasted = returned.saturating_duration_since(self.answered);
                *self = Self::new(self.limit, now);
                Look::Back { lasted }
            }
        }
    }

    /// Since when it has been silent, once that is told.
    pub fn since(&self) -> Option<Instant> {
        self.gone.then_some(self.answered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each second's look says.
    fn looks(answers: &str) -> Vec<(usize, Look)> {
        let start = Instant::now();
        let mut outage = Outage::new(Duration::from_secs(15), start);
        let mut news = Vec::new();
        for (second, answer) in answers.chars().enumerate() {
            match outage.look(answer == '+', start + Duration::from_secs(second as u64)) {
                Look::Nothing => {}
                look => news.push((second, look)),
            }
        }
        news
    }

    #[test]
    fn a_silence_of_less_than_15_seconds_is_nobodys_business() {
        assert_eq!(looks(&format!("+{}+++++", "-".repeat(14))), []);
        assert_eq!(looks(&format!("{}+++++", format!("+{}", "-".repeat(9)).repeat(9))), []);
    }

    #[test]
    fn a_longer_one_is_told_once_and_its_end_once_it_is_for_good() {
        let news = looks(&format!("+{}+--+++++++", "-".repeat(19)));
        assert!(matches!(news[0], (15, Look::Gone { .. })), "{news:?}");
        assert_eq!(news[1..], [(26, Look::Back { lasted: Duration::from_secs(23) })]);
    }
}
