//! Timezone names as people write them: the exact name of the database, or an error that says which one it is.

use super::{Zone, source};
use std::sync::Arc;

/// Bytes that a name may have; the longest of the database has 32.
const NAME_BYTES_MAX: usize = 64;

/// Finds the zone, or says what is wrong with its name and what would be right.
pub(crate) fn find(name: &str) -> Result<Arc<Zone>, String> {
    if name.is_empty() {
        return Err("is missing: use an IANA name such as Europe/Berlin, or UTC".to_owned());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("has {} bytes: use an IANA name such as Europe/Berlin", name.len()));
    }
    if let Some(zone) = Zone::named(name) {
        return Ok(zone);
    }
    let shown = name.escape_debug();
    if matches!(name.to_ascii_lowercase().as_str(), "local" | "localtime" | "system" | "host") {
        return Err(format!(
            "\"{shown}\" depends on the machine that happens to plan: name the zone, such as Europe/Berlin"
        ));
    }
    if let Some(hint) = fixed_offset(name) {
        return Err(format!("\"{shown}\" is a fixed offset, which follows no clock changes: {hint}"));
    }
    Err(match nearest(name) {
        Some(known) => format!("\"{shown}\" is not in the timezone database: did you mean {known}?"),
        None => format!("\"{shown}\" is not in the timezone database: use a name such as Europe/Berlin"),
    })
}

/// What to write instead of `+02:00`, `UTC-5` or `GMT+1`, when `name` is one of these.
fn fixed_offset(name: &str) -> Option<String> {
    let upper = name.to_ascii_uppercase();
    let offset = upper.strip_prefix("UTC").or_else(|| upper.strip_prefix("GMT")).unwrap_or(&upper);
    let (west, digits) = match offset.split_at_checked(1)? {
        ("+", digits) => (false, digits),
        ("-", digits) => (true, digits),
        _ => return None,
    };
    let digits: String = digits.chars().filter(|c| *c != ':').collect();
    if digits.is_empty() || digits.len() > 6 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let hour_digits = if digits.len() <= 2 { digits.len() } else { digits.len() - digits.len() / 3 * 2 };
    let (hours, rest) = digits.split_at_checked(hour_digits)?;
    let hours: u32 = hours.parse().ok()?;
    let whole = rest.bytes().all(|byte| byte == b'0');
    let place = "name a place in that zone, such as Europe/Berlin";
    Some(match (whole, hours) {
        (true, 0) => "use UTC".to_owned(),
        // The names of the database count westwards: Etc/GMT-2 is two hours ahead of UTC.
        (true, 1..=12) => format!("{place}, or write Etc/GMT{}{hours}", if west { '+' } else { '-' }),
        _ => place.to_owned(),
    })
}

/// The most insertions, deletions and replacements of a near miss.
const NEAR_MISS_MAX: usize = 2;

/// The name that was probably meant: the same but for case and separators, the same city, or a near miss.
fn nearest(name: &str) -> Option<&'static str> {
    let (plain, city) = (plain(name), plain_city(name));
    if plain.len() < 3 {
        return None;
    }
    let same_city = |known: &str| {
        let known = plain_city(known);
        known == plain || known == city
    };
    // What differs by more letters than a near miss has is not compared: long nonsense is refused at once.
    let near_miss = |known: &'static str| {
        let letters = self::plain(known);
        let near = letters.len().abs_diff(plain.len()) <= NEAR_MISS_MAX;
        let distance = near.then(|| distance(&letters, &plain))?;
        (distance <= NEAR_MISS_MAX).then_some((distance, known))
    };
    source::names()
        .find(|known| self::plain(known) == plain)
        .or_else(|| {
            ABBREVIATIONS.iter().find(|(short, _)| short.eq_ignore_ascii_case(name)).map(|pair| pair.1)
        })
        .or_else(|| source::names().find(|known| same_city(known)))
        .or_else(|| source::names().filter_map(near_miss).min().map(|(_, known)| known))
}

/// Abbreviations that mean a zone to people but name none (or several) in the database.
const ABBREVIATIONS: [(&str, &str); 12] = [
    ("PST", "America/Los_Angeles"),
    ("PDT", "America/Los_Angeles"),
    ("PT", "America/Los_Angeles"),
    ("MDT", "America/Denver"),
    ("CST", "America/Chicago"),
    ("CDT", "America/Chicago"),
    ("EDT", "America/New_York"),
    ("BST", "Europe/London"),
    ("IST", "Asia/Kolkata"),
    ("JST", "Asia/Tokyo"),
    ("CEST", "Europe/Berlin"),
    ("AEST", "Australia/Sydney"),
];

fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn plain_city(name: &str) -> String {
    plain(name.rsplit('/').next().unwrap_or(name))
}

/// Insertions, deletions and replacements between two short texts.
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(left.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str) -> String {
        find(name).expect_err("no such zone")
    }

    #[test]
    fn names_and_aliases_of_the_database_are_found() {
        for name in ["UTC", "Europe/Berlin", "America/Montreal", "US/Pacific", "Asia/Calcutta", "Etc/GMT+12"]
        {
            assert_eq!(find(name).expect("a zone").name(), name);
        }
    }

    #[test]
    fn the_hosts_zone_is_refused_with_the_reason() {
        assert!(refused("local").contains("depends on the machine"), "{}", refused("local"));
        assert!(refused("localtime").contains("depends on the machine"));
    }

    #[test]
    fn a_fixed_offset_is_refused_with_what_to_write() {
        for (name, hint) in [
            ("+02:00", "Etc/GMT-2"),
            ("UTC+2", "Etc/GMT-2"),
            ("GMT-0500", "Etc/GMT+5"),
            ("-05", "Etc/GMT+5"),
            ("+0530", "name a place"),
            ("+00:00", "use UTC"),
        ] {
            let message = refused(name);
            assert!(message.contains("fixed offset") && message.contains(hint), "{name}: {message}");
        }
    }

    #[test]
    fn a_near_miss_names_what_was_meant() {
        for (name, meant) in [
            ("europe/berlin", "Europe/Berlin"),
            ("Berlin", "Europe/Berlin"),
            ("Europe/Berln", "Europe/Berlin"),
            ("America/New York", "America/New_York"),
            ("PST", "America/Los_Angeles"),
        ] {
            assert!(refused(name).ends_with(&format!("did you mean {meant}?")), "{name}: {}", refused(name));
        }
        assert!(refused("Middle-earth/Shire").contains("is not in the timezone database"));
    }

    #[test]
    fn hostile_names_are_refused() {
        for name in
            ["", "\0", "Factory", "posixrules", "Europe/Berlin\n", "٣", "+", "-", "UTC+", "../../etc/passwd"]
        {
            assert!(find(name).is_err(), "{name:?}");
        }
        assert!(find(&"x".repeat(100_000)).is_err());
    }
}
