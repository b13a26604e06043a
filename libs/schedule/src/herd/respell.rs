//! The same schedule with `H` in place of the value at which its jobs meet.

use crate::local::Local;
use crate::parse::{self, Parsed};
use crate::schedule::{Kind, Schedule};
use std::sync::Arc;

/// An expression with `H`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Respelled {
    pub text: String,
    /// Seconds within which it moves a run, to either side.
    pub reach: i64,
}

/// The expression with `H` in its minute, or in its second when it is due each minute; none when there is nothing to draw.
pub(super) fn with_h(expression: &str) -> Option<Respelled> {
    let lower = expression.trim().to_ascii_lowercase();
    let written = parse::SHORTHANDS.iter().find(|(name, _)| *name == lower).map(|(_, fields)| *fields);
    let mut fields: Vec<&str> = written.unwrap_or(expression).split_ascii_whitespace().collect();
    // Seconds come first when there are more than five.
    let minute = match fields.len() {
        5 => 0,
        6 | 7 => 1,
        _ => return None,
    };
    let drawn = (drawn(fields[minute]), if minute == 1 { drawn(fields[0]) } else { None });
    let (place, text, reach) = match (drawn, fields[minute]) {
        ((Some(text), _), _) => (minute, text, 3_600),
        ((None, Some(text)), _) => (0, text, 60),
        ((None, None), "*") if minute == 0 => {
            fields.insert(0, "H");
            return Some(Respelled { text: fields.join(" "), reach: 60 });
        }
        _ => return None,
    };
    fields[place] = &text;
    Some(Respelled { text: fields.join(" "), reach })
}

/// `H` for a number, `H/n` for each n-th value; a list, a range or `*` means what it says.
fn drawn(field: &str) -> Option<String> {
    if field.parse::<u32>().is_ok() {
        return Some("H".to_owned());
    }
    let step: u32 = field.strip_prefix("*/")?.parse().ok()?;
    // Else the last stretch of the hour is shorter, and a drawn beginning would change how many there are.
    (step > 1 && step < 60 && 60 % step == 0).then(|| format!("H/{step}"))
}

impl Schedule {
    /// The schedule with another expression; none when it can't be read, or other rules for clock changes would apply.
    pub(super) fn respelled(&self, expression: &str, seed: &str) -> Option<Self> {
        let Kind::Wall { local, zone, rules } = &self.kind else { return None };
        let Ok(Parsed::Local { local: named, .. }) = parse::expression(expression, seed) else { return None };
        let respelled = Local { named, calendars: local.calendars.clone() };
        if respelled.is_elapsed() != local.is_elapsed() {
            return None;
        }
        let mut schedule = self.clone();
        schedule.kind = Kind::Wall { local: Arc::new(respelled), zone: Arc::clone(zone), rules: *rules };
        Some(schedule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_in_which_jobs_meet_is_drawn() {
        for (expression, expected) in [
            ("0 0 * * *", Some(("H 0 * * *", 3_600))),
            ("@daily", Some(("H 0 * * *", 3_600))),
            (" @Hourly ", Some(("H * * * *", 3_600))),
            ("*/5 * * * *", Some(("H/5 * * * *", 3_600))),
            ("*/7 * * * *", None),
            ("* * * * *", Some(("H * * * * *", 60))),
            ("0,30 9 * * *", None),
            ("15 0 9 * * *", Some(("15 H 9 * * *", 3_600))),
            ("30 * * * * *", Some(("H * * * * *", 60))),
            ("*/10 * * * * *", Some(("H/10 * * * * *", 60))),
            ("* * * * * *", None),
            ("H 0 * * *", None),
            ("0 0 0 1 1 * 2027", Some(("0 H 0 1 1 * 2027", 3_600))),
            ("@every 5m", None),
            ("@at 2026-12-24T18:00:00", None),
        ] {
            let respelled = with_h(expression);
            let found = respelled.as_ref().map(|respelled| (respelled.text.as_str(), respelled.reach));
            assert_eq!(found, expected, "{expression}");
        }
    }
}
