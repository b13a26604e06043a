//! Sets of small numbers as the bits of a word.

/// The smallest member that is at least `from`.
pub(crate) const fn at_least(set: u64, from: u32) -> Option<u32> {
    if from > 63 {
        return None;
    }
    let rest = set & (u64::MAX << from);
    if rest == 0 { None } else { Some(rest.trailing_zeros()) }
}

/// The largest member that is at most `upto`.
pub(crate) const fn at_most(set: u64, upto: u32) -> Option<u32> {
    let upto = if upto > 63 { 63 } else { upto };
    let rest = set & (u64::MAX >> (63 - upto));
    if rest == 0 { None } else { Some(63 - rest.leading_zeros()) }
}

/// The set of `first` to `last`, by `step`.
pub(crate) fn range(first: u32, last: u32, step: u32) -> u64 {
    (first..=last.min(63)).step_by(step.max(1) as usize).fold(0, |set, value| set | 1 << value)
}

/// The members in order.
pub(crate) fn members(mut set: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let member = (set != 0).then(|| set.trailing_zeros())?;
        set &= set - 1;
        Some(member)
    })
}
