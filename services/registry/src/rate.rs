//! How fast one token may ask, a tenant or an address: a bucket for each, in this process only, so that a token has as many
//! requests a second as there are registries times the limit.
//!
//! Invariant: however many ask, no more than [`BUCKETS_MAX`] buckets are kept. Pure: time is an argument.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Buckets that are kept at most; past it, the full ones, which say nothing, are forgotten, and all if that makes no room.
const BUCKETS_MAX: usize = 10_000;

/// Buckets of requests, by who makes them.
#[derive(Debug)]
pub struct Buckets<By = Uuid> {
    per_second: u32,
    burst: f64,
    buckets: HashMap<By, Bucket>,
}

/// What somebody had left, and when.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl<By: Copy + Eq + Hash> Buckets<By> {
    /// `per_second` requests, and `burst` at once after a pause.
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self { per_second, burst: f64::from(burst.max(1)), buckets: HashMap::new() }
    }

    /// Requests a second.
    pub const fn per_second(&self) -> u32 {
        self.per_second
    }

    /// Takes a request of `by`.
    ///
    /// # Errors
    /// How long to wait, when there is none left.
    pub fn take(&mut self, by: By, now: Instant) -> Result<(), Duration> {
        let rate = f64::from(self.per_second);
        let (burst, full) = (self.burst, Bucket { left: self.burst, at: now });
        if self.buckets.len() >= BUCKETS_MAX && !self.buckets.contains_key(&by) {
            self.buckets.retain(|_, bucket| bucket.at(now, rate, burst) < burst);
            if self.buckets.len() >= BUCKETS_MAX {
                self.buckets.clear();
            }
        }
        let bucket = self.buckets.entry(by).or_insert(full);
        let left = bucket.at(now, rate, burst);
        if left < 1.0 {
            *bucket = Bucket { left, at: now };
            return Err(Duration::from_secs_f64((1.0 - left) / rate.max(1.0)));
        }
        *bucket = Bucket { left: left - 1.0, at: now };
        Ok(())
    }

    /// Gives back a request that was taken and does not count.
    pub fn give_back(&mut self, by: By) {
        if let Some(bucket) = self.buckets.get_mut(&by) {
            bucket.left = (bucket.left + 1.0).min(self.burst);
        }
    }
}

impl Bucket {
    /// What is left at `now`.
    fn at(&self, now: Instant, rate: f64, burst: f64) -> f64 {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        since.mul_add(rate, self.left).min(burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_its_burst_then_its_rate_and_others_have_their_own() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let (mut buckets, begin) = (Buckets::new(10, 3), Instant::now());
        for _ in 0..3 {
            assert_eq!(buckets.take(one, begin), Ok(()));
        }
        assert_eq!(buckets.take(one, begin), Err(Duration::from_millis(100)));
        assert_eq!(buckets.take(other, begin), Ok(()));
        let half = begin + Duration::from_millis(50);
        let wait = buckets.take(one, half).expect_err("half a request");
        assert!((wait.as_secs_f64() - 0.05).abs() < 1e-6, "{wait:?}");
        assert_eq!(buckets.take(one, begin + Duration::from_millis(101)), Ok(()));
        let later = begin + Duration::from_secs(60);
        let taken = (0..10).filter(|_| buckets.take(one, later).is_ok()).count();
        assert_eq!(taken, 3, "no more than the burst is saved");
    }

    #[test]
    fn full_buckets_are_forgotten_when_there_are_too_many() {
        let (mut buckets, begin) = (Buckets::new(10, 3), Instant::now());
        for token in 0..BUCKETS_MAX {
            assert_eq!(buckets.take(Uuid::from_u128(token as u128), begin), Ok(()));
        }
        assert_eq!(buckets.take(Uuid::max(), begin + Duration::from_secs(1)), Ok(()));
        assert_eq!(buckets.buckets.len(), 1);
    }

    #[test]
    fn there_are_never_too_many_buckets_even_if_none_is_full() {
        let (mut buckets, begin) = (Buckets::new(1, 3), Instant::now());
        for by in 0..3 * BUCKETS_MAX {
            assert_eq!(buckets.take(by, begin), Ok(()));
            assert!(buckets.buckets.len() <= BUCKETS_MAX);
        }
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_is_no_more_than_the_burst() {
        let (mut buckets, begin) = (Buckets::new(1, 1), Instant::now());
        assert_eq!(buckets.take(7, begin), Ok(()));
        buckets.give_back(7);
        buckets.give_back(7);
        assert_eq!(buckets.take(7, begin), Ok(()));
        assert!(buckets.take(7, begin).is_err());
    }
}
