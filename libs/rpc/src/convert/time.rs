//! Instants and durations.

use chrono::{DateTime, Datelike, Utc};
use model::validate::FieldError;
use prost_types::{Duration as ProtoDuration, Timestamp};
use std::time::Duration;

/// An instant as a message.
pub fn timestamp(instant: DateTime<Utc>) -> Timestamp {
    // `timestamp_subsec_nanos` exceeds a second only in a leap second, which no clock of ours shows.
    let nanos = instant.timestamp_subsec_nanos().min(999_999_999) as i32;
    Timestamp { seconds: instant.timestamp(), nanos }
}

/// Years that JSON's timestamps and the database both know.
const YEARS: std::ops::RangeInclusive<i32> = 1..=9999;

/// Reads an instant.
///
/// # Errors
/// A [`FieldError`] at `field` when it is unset or out of range.
pub fn instant(field: &str, timestamp: Option<&Timestamp>) -> Result<DateTime<Utc>, FieldError> {
    let Some(timestamp) = timestamp else {
        return Err(FieldError::new(field, "is missing: give an instant"));
    };
    let nanos = u32::try_from(timestamp.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    let instant = nanos.and_then(|nanos| DateTime::from_timestamp(timestamp.seconds, nanos));
    instant.filter(|instant| YEARS.contains(&instant.year())).ok_or_else(|| {
        FieldError::new(field, "is out of range: use 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z")
    })
}

/// Reads an instant from RFC 3339 text, as it stands in a run's name and path.
///
/// # Errors
/// A [`FieldError`] at `field`.
pub fn instant_of_text(field: &str, text: &str) -> Result<DateTime<Utc>, FieldError> {
    let instant = DateTime::parse_from_rfc3339(text).ok().map(|instant| instant.with_timezone(&Utc));
    // An offset can carry the text's year 1 or 9999 over the edge.
    instant.filter(|instant| YEARS.contains(&instant.year())).ok_or_else(|| {
        FieldError::new(field, format!("{text:?}: use RFC 3339, for example 2026-11-29T09:00:00Z"))
    })
}

/// A duration as a message.
pub fn duration(duration: Duration) -> ProtoDuration {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    ProtoDuration { seconds, nanos: duration.subsec_nanos() as i32 }
}

/// Reads a duration: not negative, whole milliseconds.
///
/// # Errors
/// A [`FieldError`] at `field`.
pub fn duration_of(field: &str, value: &ProtoDuration) -> Result<Duration, FieldError> {
    let wrong =
        |problem: &str| Err(FieldError::new(field, format!("{problem}: use seconds, for example \"90s\"")));
    if value.seconds < 0 || value.nanos < 0 {
        return wrong("is negative");
    }
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(value.seconds), u32::try_from(value.nanos)) else {
        return wrong("is out of range");
    };
    if nanos >= 1_000_000_000 || seconds > i64::MAX as u64 / 1_000 {
        return wrong("is out of range");
    }
    if nanos % 1_000_000 != 0 {
        return wrong("is finer than a millisecond");
    }
    Ok(Duration::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_come_back_as_they_were() {
        let at = DateTime::from_timestamp(1_795_942_800, 123_456_789).expect("in range");
        assert_eq!(instant("at", Some(&timestamp(at))), Ok(at));
        assert_eq!(
            instant_of_text("at", "2026-11-29T10:00:00.123456789+01:00").map(timestamp),
            Ok(timestamp(at))
        );
    }

    #[test]
    fn instants_that_are_none_name_their_field() {
        for wrong in [
            None,
            Some(Timestamp { seconds: i64::MAX, nanos: 0 }),
            Some(Timestamp { seconds: -62_135_596_801, nanos: 0 }), // the second before year 1
            Some(Timestamp { seconds: 253_402_300_800, nanos: 0 }), // year 10000
            Some(Timestamp { seconds: 0, nanos: -1 }),
            Some(Timestamp { seconds: 0, nanos: 1_000_000_000 }),
        ] {
            assert_eq!(instant("at", wrong.as_ref()).expect_err("wrong").field, "at");
        }
        for wrong in
            ["tomorrow", "0000-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
        {
            assert_eq!(instant_of_text("at", wrong).expect_err(wrong).field, "at");
        }
    }

    #[test]
    fn only_durations_that_can_be_stored_are_read() {
        let proto = |seconds, nanos| ProtoDuration { seconds, nanos };
        assert_eq!(duration_of("d", &proto(90, 500_000_000)), Ok(Duration::from_millis(90_500)));
        assert_eq!(duration(Duration::from_millis(90_500)), proto(90, 500_000_000));
        for wrong in [proto(-1, 0), proto(0, -1), proto(i64::MAX, 0), proto(0, 1_000_000_000), proto(1, 1)] {
            assert!(duration_of("d", &wrong).is_err(), "{wrong:?}");
        }
    }
}
