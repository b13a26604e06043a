//! The clock that deadlines are kept on: it runs on while the machine is suspended.
//!
//! `std::time::Instant` is CLOCK_MONOTONIC on Linux, which stands still during a suspend: a laptop or virtual
//! machine that slept for an hour would take its lease for fresh. CLOCK_BOOTTIME counts that hour. A hypervisor
//! that pauses a guest without telling it stops both clocks; there only the fencing token protects.

use nix::time::{ClockId, clock_gettime};
use std::ops::Add;
use std::time::Duration;

/// A point on that clock; meaningless outside this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    /// This moment.
    #[allow(clippy::expect_used, reason = "the call fails only for a clock that the kernel does not know")]
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has CLOCK_BOOTTIME since 2.6.39");
        Self(now.into())
    }

    /// How long after `earlier` it is; zero when it is before.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// That much earlier.
    pub(crate) fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }

    #[cfg(test)]
    pub(crate) const fn at(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}
