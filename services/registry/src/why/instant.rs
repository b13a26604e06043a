//! The instant that somebody asks about: RFC 3339, or without an offset the local time of the job.

use chrono::{DateTime, NaiveDateTime, Utc};
use model::job::Definition;
use model::policy::{DstFold, DstGap};
use model::validate::FieldError;
use rpc::convert::time;
use schedule::{Schedule, Spec};

/// An instant, and how it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The instant.
    pub at: DateTime<Utc>,
    /// What there is to say about how it was read.
    pub reading: Option<String>,
}

/// Reads the instant of a question about a job with this definition.
///
/// # Errors
/// A [`FieldError`] at `time`.
pub fn read(text: &str, definition: &Definition) -> Result<Asked, FieldError> {
    if let Ok(at) = time::instant_of_text("time", text) {
        return Ok(Asked { at, reading: None });
    }
    let local = local(text).ok_or_else(|| {
        let rule = "use RFC 3339, for example 2026-11-29T09:00:00Z, or leave the offset out for the job's local time";
        FieldError::new("time", format!("{text:?}: {rule}"))
    })?;
    of_local(local, definition)
}

fn local(text: &str) -> Option<NaiveDateTime> {
    let formats = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"];
    formats.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
}

/// A local time is an instant by the rules that make one of `@at`; of two passes the one that the job's rule counts.
fn of_local(local: NaiveDateTime, definition: &Definition) -> Result<Asked, FieldError> {
    let (timezone, text) = (&definition.timezone, local.format("%Y-%m-%dT%H:%M:%S"));
    let passes = Schedule::parse(&Spec {
        expression: &format!("@at {text}"),
        timezone,
        dst_gap: DstGap::RunAfter,
        dst_fold: DstFold::Both,
        seed: "",
        anchor: DateTime::UNIX_EPOCH,
    });
    let first =
        passes.as_ref().ok().and_then(|passes| Some((passes, passes.first_from(DateTime::UNIX_EPOCH)?)));
    let (passes, first) = first.ok_or_else(|| {
        FieldError::new(
            "time",
            format!("{text} can't be read as local time in {timezone}: give it with its offset"),
        )
    })?;
    let read = format!("{text} was read as local time in {timezone}, the job's timezone");
    if passes.local_time(first).naive_local() != local {
        let reading = format!("{read}: it does not exist there, and this is the first instant after it.");
        return Ok(Asked { at: first, reading: Some(reading) });
    }
    let Some(second) = passes.next(first) else {
        return Ok(Asked { at: first, reading: Some(format!("{read}.")) });
    };
    let (at, pass, other) = match definition.dst_fold {
        DstFold::Second => (second, "second", first),
        DstFold::First | DstFold::Both => (first, "first", second),
    };
    let other = model::ids::instant_text(other);
    let reading =
        format!("{read}: it comes twice there, this is the {pass} pass, and the other one is {other}.");
    Ok(Asked { at, reading: Some(reading) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str, fold: DstFold) -> Result<Asked, FieldError> {
        let job = rpc::v1::Job { timezone: "Europe/Berlin".to_owned(), ..rpc::v1::Job::default() };
        let definition = rpc::convert::job::read(&job).written.definition;
        read(text, &Definition { dst_fold: fold, ..definition })
    }

    #[test]
    fn without_an_offset_it_is_the_jobs_local_time_and_that_is_said() {
        for (text, fold, expected, says) in [
            ("2026-11-29T09:00:00Z", DstFold::First, "2026-11-29T09:00:00Z", None),
            ("2026-11-29T10:00:00.5+01:00", DstFold::First, "2026-11-29T09:00:00.5Z", None),
            ("2026-11-29T10:00", DstFold::First, "2026-11-29T09:00:00Z", Some("local time in Europe/Berlin")),
            ("2026-07-01 10:00:30", DstFold::First, "2026-07-01T08:00:30Z", Some("local time")),
            ("2026-03-29T02:30", DstFold::First, "2026-03-29T01:00:00Z", Some("does not exist")),
            ("2026-10-25T02:30", DstFold::First, "2026-10-25T00:30:00Z", Some("first pass")),
            ("2026-10-25T02:30", DstFold::Second, "2026-10-25T01:30:00Z", Some("second pass")),
        ] {
            let asked = asked(text, fold).expect(text);
            assert_eq!(asked.at, expected.parse::<DateTime<Utc>>().expect(expected), "{text}");
            assert_eq!(asked.reading.is_some(), says.is_some(), "{text}");
            assert!(
                says.is_none_or(|says| asked.reading.is_some_and(|reading| reading.contains(says))),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_time_is_wrong_at_time() {
        for text in
            ["", "tomorrow", "2026-11-29", "2026-13-01T00:00", "1960-01-01T00:00", "2026-11-29T09:00\0"]
        {
            assert_eq!(asked(text, DstFold::First).expect_err(text).field, "time", "{text}");
        }
    }
}
