//! How long a step that failed waits before it is tried again: longer each time up to a limit, so that a database in trouble
//! is left alone, and shorter by chance, so that dispatchers that failed together do not come back together. Pure but for
//! the chance.

use std::time::Duration;
use uuid::Uuid;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct Pause {
    next: Duration,
    least: Duration,
    most: Duration,
}

impl Pause {
    /// From `least` to `most`, doubled with each failure.
    pub const fn new(least: Duration, most: Duration) -> Self {
        Self { next: least, least, most }
    }

    /// The wait after a failure, up to a half of it shorter by chance.
    pub fn failed(&mut self) -> Duration {
        // Not for secrets.
        self.shortened(Uuid::new_v4().as_bytes()[0])
    }

    /// The same, `chance` of 256 parts of a half shorter.
    fn shortened(&mut self, chance: u8) -> Duration {
        let longest = self.next;
        self.next = (longest * 2).min(self.most);
        longest - longest / 2 * u32::from(chance) / 256
    }

    /// The next failure is a first one.
    pub const fn succeeded(&mut self) {
        self.next = self.least;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_differ_and_begin_anew_after_a_success() {
        let ms = Duration::from_millis;
        let mut pause = Pause::new(ms(100), ms(300));
        assert_eq!([0, 0, 0, 0].map(|chance| pause.shortened(chance)), [ms(100), ms(200), ms(300), ms(300)]);
        assert!(pause.shortened(255) > ms(150) && pause.shortened(255) < ms(152));
        assert!((ms(150)..=ms(300)).contains(&pause.failed()));
        pause.succeeded();
        assert_eq!(pause.shortened(0), ms(100));
    }
}
