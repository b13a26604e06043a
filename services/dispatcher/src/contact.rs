//! This dispatcher's contact with the database, as its own renewals find it. Pure: time is an argument.
//!
//! Invariant: from the moment at which [`Contact::without_database`] is true, this dispatcher gives nobody's runs away
//! before it was in contact again for a whole lease. A worker relies on that when it goes on without a renewal.

use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug, Default)]
pub struct Contact {
    /// When the last committed renewal was sent.
    last: Option<Instant>,
    /// When the first of an unbroken row of committed renewals was answered.
    since: Option<Instant>,
    /// Whether runs are being given away.
    reaping: bool,
}

impl Contact {
    /// A renewal has committed that was sent at `asked`.
    pub fn renewed(&mut self, asked: Instant, answered: Instant) {
        self.last = Some(asked);
        // Not `asked`: a worker may have been told in between that we are without the database.
        self.since.get_or_insert(answered);
    }

    /// A renewal has failed. True when that is new.
    pub const fn lost(&mut self) -> bool {
        self.since.take().is_some()
    }

    /// Since when every renewal has committed; none while the last one failed.
    pub const fn since(&self) -> Option<Instant> {
        self.since
    }

    /// How long ago the last committed renewal was sent; for ever when there was none.
    pub fn renewal_age(&self, now: Instant) -> Duration {
        self.last.map_or(Duration::from_secs(86_400), |asked| now.saturating_duration_since(asked))
    }

    /// Whether a worker may be told that we are without the database.
    pub const fn without_database(&self) -> bool {
        self.since.is_none() && !self.reaping
    }

    /// Runs are about to be given away, by whoever has been in contact since `since`. False when that is over, or somebody
    /// is at it.
    pub fn begin_reaping(&mut self, since: Instant) -> bool {
        let may = self.since == Some(since) && !self.reaping;
        self.reaping |= may;
        may
    }

    /// They were, or not.
    pub const fn end_reaping(&mut self) {
        self.reaping = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn contact_counts_from_the_answer_and_a_failure_ends_it() {
        let (mut contact, start) = (Contact::default(), Instant::now());
        assert!(contact.without_database());
        contact.renewed(start, at(start, 2));
        contact.renewed(at(start, 3), at(start, 3));
        assert_eq!((contact.since(), contact.without_database()), (Some(at(start, 2)), false));
        assert_eq!(contact.renewal_age(at(start, 5)), Duration::from_secs(2));
        assert!(contact.lost() && !contact.lost());
        assert!(contact.without_database());
        contact.renewed(at(start, 6), at(start, 8));
        assert_eq!(contact.since(), Some(at(start, 8)));
    }

    #[test]
    fn whoever_is_giving_runs_away_is_not_without_the_database() {
        let (mut contact, start) = (Contact::default(), Instant::now());
        contact.renewed(start, start);
        assert!(contact.begin_reaping(start));
        assert!(!contact.begin_reaping(start), "one at a time");
        contact.lost();
        assert!(!contact.without_database(), "its commit may be under way");
        contact.end_reaping();
        assert!(contact.without_database());
        assert!(!contact.begin_reaping(start), "the contact that it was decided in is over");
    }
}
