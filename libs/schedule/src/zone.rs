//! A timezone as stretches of constant offset, from 1970 through 2199.
//!
//! Invariants: stretches are in order and without holes, neighbours differ in offset, and each lasts longer than
//! the clock changes at its ends (`every_zone_keeps_the_invariant` holds every zone of the database to that).
//! Tables are built at the first use of a zone, from data compiled into the program: the host's zone files and
//! its `TZ` are never read.

pub(crate) mod name;
mod posix;
mod source;
mod tzif;

pub(crate) use source::version;

use crate::civil::DAY;
use crate::way::Way;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

/// 1970-01-01T00:00:00Z, the first instant that a schedule can name.
pub(crate) const FIRST_INSTANT: i64 = 0;
/// 2199-12-31T23:59:59Z, the last instant that a schedule can name.
pub(crate) const LAST_INSTANT: i64 = 7_258_118_399;

/// Tables begin and end this much outside of the instants that schedules can name.
const MARGIN: i64 = 2 * DAY;

/// A time of constant offset; it ends where the next begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Its first second.
    pub start: i64,
    /// Seconds that local time is ahead of UTC.
    pub offset: i32,
}

/// A timezone's table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Zone {
    name: &'static str,
    stretches: Vec<Stretch>,
}

static TABLES: LazyLock<RwLock<HashMap<&'static str, Arc<Zone>>>> = LazyLock::new(RwLock::default);

impl Zone {
    /// The zone of exactly this name; none when the database has none, or no readable one.
    pub(crate) fn named(name: &str) -> Option<Arc<Self>> {
        let tables = TABLES.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(zone) = tables.get(name) {
            return Some(Arc::clone(zone));
        }
        drop(tables);
        let zone = Arc::new(source::load(name)?);
        let mut tables = TABLES.write().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(tables.entry(zone.name).or_insert(zone)))
    }

    /// A table of changes in order, cut to the supported time. None when nothing says how it begins.
    fn from_changes(name: &'static str, changes: impl IntoIterator<Item = Stretch>) -> Option<Self> {
        let first = FIRST_INSTANT - MARGIN;
        let mut stretches: Vec<Stretch> = Vec::new();
        for change in changes {
            if change.start > LAST_INSTANT + MARGIN {
                break;
            }
            let change = Stretch { start: change.start.max(first), ..change };
            match stretches.last_mut() {
                Some(last) if last.start == change.start => last.offset = change.offset,
                Some(last) if last.offset == change.offset => {}
                _ => stretches.push(change),
            }
        }
        // Changes before the first supported instant replaced one another and may have left equal neighbours.
        stretches.dedup_by_key(|stretch| stretch.offset);
        let begins_in_time = stretches.first().is_some_and(|stretch| stretch.start == first);
        begins_in_time.then_some(Self { name, stretches })
    }

    /// The name, as the database spells it.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// The stretch that `t` lies in.
    pub(crate) fn stretch_at(&self, t: i64) -> usize {
        self.stretches.partition_point(|stretch| stretch.start <= t).saturating_sub(1)
    }

    /// The last stretch.
    pub(crate) fn last(&self) -> usize {
        self.stretches.len() - 1
    }

    /// The first second of stretch `at`.
    pub(crate) fn start(&self, at: usize) -> i64 {
        self.stretches[at].start
    }

    /// Local time minus UTC in stretch `at`.
    pub(crate) fn offset(&self, at: usize) -> i64 {
        i64::from(self.stretches[at].offset)
    }

    /// The local time at which stretch `at` begins.
    pub(crate) fn local_start(&self, at: usize) -> i64 {
        self.start(at) + self.offset(at)
    }

    /// The local time that stretch `at` doesn't reach any more.
    pub(crate) fn local_end(&self, at: usize) -> i64 {
        match self.stretches.get(at + 1) {
            Some(next) => next.start + self.offset(at),
            None => i64::MAX,
        }
    }

    /// The instant next to stretch `at` that lies beyond it; the end of time when there is none.
    pub(crate) fn edge(&self, at: usize, way: Way) -> i64 {
        match way {
            Way::Forward => self.stretches.get(at + 1).map_or(i64::MAX, |next| next.start),
            Way::Backward => self.start(at) - 1,
        }
    }

    /// The local time of stretch `at` from which on the next stretch passes again; beyond everything when none is.
    pub(crate) fn repeats_from(&self, at: usize) -> i64 {
        if at < self.last() && self.local_start(at + 1) < self.local_end(at) {
            self.local_start(at + 1)
        } else {
            i64::MAX
        }
    }

    /// The first stretch, not before `from`, whose local end lies after `local`.
    pub(crate) fn first_ending_after(&self, local: i64, from: usize) -> Option<usize> {
        if from > self.last() {
            return None;
        }
        let guess = self.stretch_at(local - self.offset(from)).max(from);
        let earlier = (from..guess).rev().take_while(|at| self.local_end(*at) > local).last();
        if earlier.is_some() {
            return earlier;
        }
        (guess..=self.last()).find(|at| self.local_end(*at) > local)
    }

    /// The last stretch, not after `upto`, whose local start is at most `local`.
    pub(crate) fn last_starting_at_or_before(&self, local: i64, upto: usize) -> Option<usize> {
        let guess = self.stretch_at(local - self.offset(upto)).min(upto);
        let later = (guess + 1..=upto).take_while(|at| self.local_start(*at) <= local).last();
        if later.is_some() {
            return later;
        }
        (0..=guess).rev().find(|at| self.local_start(*at) <= local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_zone_keeps_the_invariant() {
        let mut zones = 0;
        for name in source::names() {
            let zone = Zone::named(name).unwrap_or_else(|| panic!("{name} is readable"));
            assert_eq!(zone.name(), name);
            for at in 1..zone.stretches.len() {
                let change = zone.offset(at) - zone.offset(at - 1);
                assert_ne!(change, 0, "{name} has equal neighbours");
                let before = zone.start(at) - zone.start(at - 1);
                assert!(before > 2 * change.abs(), "{name}: {before} s before a change of {change} s");
                if at < zone.last() {
                    let after = zone.start(at + 1) - zone.start(at);
                    assert!(after > 2 * change.abs(), "{name}: {after} s after a change of {change} s");
                }
            }
            zones += 1;
        }
        assert!(zones > 550, "{zones} zones");
    }
}
