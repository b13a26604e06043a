//! `@every 90s`: a steady interval, independent of clocks on walls.

use super::{Word, field::shown};

/// The longest interval: 366 days.
const DURATION_MAX: i64 = 366 * 86_400;

const UNITS: [(char, i64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Seconds of the interval.
pub(super) fn parse(arguments: &[Word<'_>]) -> Result<i64, String> {
    let &[word] = arguments else {
        return Err("@every takes one duration: write it like 90s, 5m, 1h30m or 7d".to_owned());
    };
    let refuse = |why: &str| {
        Err(format!(
            "@every {} (position {}): {why}: write it like 90s, 5m, 1h30m or 7d",
            shown(word.text),
            word.position
        ))
    };
    let mut rest = word.text;
    let mut units = UNITS.iter();
    let mut sum = 0_i64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let Ok(number) = number.parse::<i64>() else { return refuse("is no duration") };
        let Some(unit) = after.chars().next() else { return refuse("has no unit") };
        // Each unit is smaller than the one before, so that none comes twice.
        let Some((_, seconds)) = units.find(|(name, _)| unit.eq_ignore_ascii_case(name)) else {
            return refuse("is no duration in whole d, h, m and s, largest first");
        };
        sum = sum.saturating_add(number.saturating_mul(*seconds));
        rest = &after[1..];
    }
    match sum {
        1..=DURATION_MAX => Ok(sum),
        0 => refuse("is shorter than a second"),
        _ => refuse("is longer than 366 days"),
    }
}
