//! What the benchmarks share: the expressions, the zones, and instants that are the same in every run.

#![allow(dead_code)]

use chrono::{DateTime, Utc};
use escapement_schedule::{Schedule, Spec, SpecError};
use model::policy::{DstFold, DstGap};

/// What most jobs say.
pub const COMMON: [&str; 5] = ["* * * * *", "*/5 * * * *", "0 9 * * *", "0 9 * * 1-5", "30 2 * * *"];

/// What is far apart, or hard to find.
pub const SPARSE: [&str; 6] =
    ["0 0 29 2 *", "0 0 29 2 1", "0 0 L * 5", "0 0 1 1 *", "0 0 0 29 2 ? 2096-2099", "0 0 0 13 * 5#2 2090"];

/// The zones in which each is asked.
pub const ZONES: [&str; 3] = ["UTC", "Europe/Berlin", "America/New_York"];

/// The job's identity that all benchmarks use.
pub const SEED: &str = "0190a6c2-7d1f-7c3e-9b56-5d1f8a2c4e10";

/// 2020-01-01T00:00:00Z.
pub const FIRST: i64 = 1_577_836_800;
/// 2104-12-31T00:00:00Z: past the eight years without a leap day.
pub const LAST: i64 = 4_260_211_200;

/// Numbers that look random and are the same in every run (SplitMix64).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of `first` to `last`.
    pub fn within(&mut self, first: i64, last: i64) -> i64 {
        first + (self.next() % (last - first + 1).unsigned_abs()) as i64
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[(self.next() % from.len() as u64) as usize]
    }
}

pub fn spec<'a>(expression: &'a str, timezone: &'a str, dst_gap: DstGap, dst_fold: DstFold) -> Spec<'a> {
    Spec { expression, timezone, dst_gap, dst_fold, seed: SEED, anchor: DateTime::UNIX_EPOCH }
}

/// The schedule with the default rules.
pub fn parse(expression: &str, timezone: &str) -> Result<Schedule, Vec<SpecError>> {
    Schedule::parse(&spec(expression, timezone, DstGap::RunAfter, DstFold::First))
}

pub fn instant(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(second, 0).unwrap_or(DateTime::UNIX_EPOCH)
}

/// The first seconds after the zone's clock changes of `first` to `last`.
pub fn clock_changes(timezone: &str, first: i64, last: i64) -> Vec<i64> {
    let Ok(schedule) = parse("* * * * *", timezone) else { return Vec::new() };
    let offset = |second: i64| schedule.local_time(instant(second)).offset().local_minus_utc();
    let days = (first..last - 86_400).step_by(86_400);
    let halved = |mut before: i64| {
        let mut after = before + 86_400;
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            if offset(middle) == offset(before) { before = middle } else { after = middle }
        }
        after
    };
    days.filter(|at| offset(*at) != offset(at + 86_400)).map(halved).collect()
}

/// Instants from which the zone's schedules are asked: three of four anywhere in 2020 to 2104, each fourth within
/// three hours of a clock change.
pub fn instants(timezone: &str) -> Vec<DateTime<Utc>> {
    let mut numbers = Numbers(timezone.len() as u64);
    let changes = clock_changes(timezone, FIRST, LAST);
    let draw = |number: usize| {
        if number.is_multiple_of(4) && !changes.is_empty() {
            return instant(*numbers.pick(&changes) + numbers.within(-10_800, 10_800));
        }
        instant(numbers.within(FIRST, LAST))
    };
    (0..1_024).map(draw).collect()
}

/// Prints a figure for `cargo xtask bench schedule`: what, how much, of what, and the most that is wanted.
pub fn figure(what: &str, value: f64, unit: &str, target: f64) {
    println!("FIGURE\t{what}\t{value:.3}\t{unit}\t{target}");
}
