//! From wall-clock times to instants: the search over a zone's stretches of constant offset.
//!
//! Owns the meaning of the odd days. A local time that exists once is that instant. One that exists twice (a fold)
//! is the first, the second or both passes, by rule. One that does not exist (a gap) is the first instant after
//! the gap, or nothing, by rule. A schedule that follows elapsed time takes every instant whose local time
//! matches, and nothing else. Two local times that land on one instant are one occurrence.
//!
//! Relies on [`Zone`]'s invariant: a stretch lasts longer than the clock changes at its ends, so that a local
//! time exists at most twice, and the local ends of stretches rise.

use crate::local::Local;
use crate::way::Way;
use crate::zone::Zone;
use model::policy::{DstFold, DstGap};

/// Which of the possible instants count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    /// A missing local time counts as the first instant after the gap.
    pub after_gap: bool,
    /// Which pass of a repeated local time counts.
    pub fold: DstFold,
}

impl Rules {
    /// The rules in force for a schedule: those of the job, or those of elapsed time.
    pub(crate) fn new(gap: DstGap, fold: DstFold, elapsed: bool) -> Self {
        if elapsed {
            Self { after_gap: false, fold: DstFold::Both }
        } else {
            Self { after_gap: gap == DstGap::RunAfter, fold }
        }
    }
}

/// The first instant that is at least `t`.
pub(crate) fn at_or_after(local: &Local, zone: &Zone, rules: Rules, t: i64) -> Option<i64> {
    let mut at = zone.stretch_at(t);
    let mut from = t + zone.offset(at);
    if rules.after_gap && t == zone.start(at) && named_in_gap(local, zone, at) {
        return Some(t);
    }
    loop {
        // What the previous stretch already passed, or the next one passes again, doesn't count here.
        if rules.fold == DstFold::First && at > 0 {
            from = from.max(zone.local_end(at - 1));
        }
        let repeats_from = zone.repeats_from(at);
        if rules.fold == DstFold::Second && from >= repeats_from {
            at += 1;
            from = zone.local_start(at);
            continue;
        }
        let found = local.at_or_after(from);
        if let Some(found) = found
            && found < zone.local_end(at)
        {
            let pass = if rules.fold == DstFold::Second && found >= repeats_from { at + 1 } else { at };
            return Some(found - zone.offset(pass));
        }
        if at == zone.last() {
            return None;
        }
        // The second pass begins before what was searched: the times in between are still to come.
        if rules.fold == DstFold::Both && zone.local_start(at + 1) < from {
            at += 1;
            from = zone.local_start(at);
            continue;
        }
        // Nothing up to `found`: go straight to the stretch that has it, or that follows the gap it fell into.
        let found = found?;
        at = zone.first_ending_after(found, at + 1)?;
        if found < zone.local_start(at) {
            if rules.after_gap {
                return Some(zone.start(at));
            }
            from = zone.local_start(at);
        } else {
            from = found;
        }
    }
}

/// The last instant that is at most `t`.
pub(crate) fn at_or_before(local: &Local, zone: &Zone, rules: Rules, t: i64) -> Option<i64> {
    let mut at = zone.stretch_at(t);
    let mut upto = t + zone.offset(at);
    loop {
        let passed_before = if at > 0 { zone.local_end(at - 1) } else { i64::MIN };
        if rules.fold == DstFold::First && upto < passed_before {
            at -= 1;
            upto = zone.local_end(at) - 1;
            continue;
        }
        if rules.fold == DstFold::Second {
            upto = upto.min(zone.repeats_from(at).saturating_sub(1));
        }
        let found = local.at_or_before(upto);
        if let Some(found) = found
            && found >= zone.local_start(at)
        {
            let pass = if rules.fold == DstFold::First && found < passed_before { at - 1 } else { at };
            return Some(found - zone.offset(pass));
        }
        if at == 0 {
            return None;
        }
        // The first pass ends after what was searched: the times in between are still to come.
        if rules.fold == DstFold::Both && upto < passed_before {
            at -= 1;
            upto = zone.local_end(at) - 1;
            continue;
        }
        // Nothing down to `found`: go straight to the stretch that has it, or that the gap it fell into follows.
        let found = found?;
        at = zone.last_starting_at_or_before(found, at - 1)?;
        if found >= zone.local_end(at) {
            if rules.after_gap {
                return Some(zone.start(at + 1));
            }
            upto = zone.local_end(at) - 1;
        } else {
            upto = found;
        }
    }
}

/// The nearest instant in either way.
pub(crate) fn find(local: &Local, zone: &Zone, rules: Rules, t: i64, way: Way) -> Option<i64> {
    match way {
        Way::Forward => at_or_after(local, zone, rules, t),
        Way::Backward => at_or_before(local, zone, rules, t),
    }
}

/// True when a local time that the gap before stretch `at` removed is one of `local`.
pub(crate) fn named_in_gap(local: &Local, zone: &Zone, at: usize) -> bool {
    at > 0 && local.at_or_after(zone.local_end(at - 1)).is_some_and(|found| found < zone.local_start(at))
}
