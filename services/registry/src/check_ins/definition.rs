//! What is expected of a check-in: read from a request, with everything that is wrong with it, and when it is due.

use chrono::{DateTime, TimeDelta, Utc};
use model::check_in::{Definition, GRACE_DEFAULT, SETTLE};
use model::job::defaults;
use model::severity::Severity;
use model::validate::{self, FieldError, limits};
use prost_types::Duration as ProtoDuration;
use rpc::convert::time;
use rpc::fields::{self, Difference};
use rpc::v1;
use rpc::v1::alert_severity::Level;
use schedule::{Schedule, SpecField};
use std::time::Duration;
use store::check_in::{CheckIn, Expected};
use uuid::Uuid;

/// Of a period, and of a maximum runtime.
const LONGEST: Duration = Duration::from_secs(400 * 86_400);
/// Of a grace.
const GRACE_MAX: Duration = Duration::from_secs(7 * 86_400);
/// Of a period: more often than reports are taken makes no sense.
const PERIOD_MIN: Duration = Duration::from_secs(10);
/// Of a repetition.
const REPEAT_MIN: Duration = Duration::from_secs(60);

/// A check-in as a person wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// Its name.
    pub name: String,
    /// What is expected of it.
    pub definition: Definition,
    /// The generation that the writer changes, when it says so.
    pub generation: Option<i64>,
}

/// Reads a check-in and finds everything that is wrong with it.
///
/// # Errors
/// Every wrong field, as the API spells it.
pub fn read(check_in: &v1::CheckIn) -> Result<Written, Vec<FieldError>> {
    let mut errors: Vec<_> = validate::name("name", &check_in.name).into_iter().collect();
    let mut between = |field: &str, value: Option<&ProtoDuration>, least: Duration, most: Duration| {
        let read = time::duration_of(field, value?);
        let read = read.and_then(|value| match value {
            value if value < least => {
                Err(FieldError::new(field, format!("{value:?}: use at least {least:?}")))
            }
            value if value > most => Err(FieldError::new(field, format!("{value:?}: use at most {most:?}"))),
            value => Ok(value),
        });
        read.map_err(|error| errors.push(error)).ok()
    };
    let second = Duration::from_secs(1);
    let period = between("period", check_in.period.as_ref(), PERIOD_MIN, LONGEST);
    let grace = between("grace", check_in.grace.as_ref(), second, GRACE_MAX).unwrap_or(GRACE_DEFAULT);
    let max_runtime = between("maxRuntime", check_in.max_runtime.as_ref(), second, LONGEST);
    let never = check_in.repeat.as_ref().is_some_and(|repeat| repeat.seconds == 0 && repeat.nanos == 0);
    let repeat = match never {
        true => Some(Duration::ZERO),
        false => between("repeat", check_in.repeat.as_ref(), REPEAT_MIN, LONGEST),
    };
    let timezone = Some(check_in.timezone.as_str()).filter(|zone| !zone.is_empty());
    let definition = Definition {
        schedule: (!check_in.schedule.is_empty()).then(|| check_in.schedule.clone()),
        timezone: timezone.unwrap_or(defaults::TIMEZONE).to_owned(),
        period,
        grace,
        max_runtime,
        channels: check_in.channels.clone(),
        repeat,
        severity: severity(check_in.severity, &mut errors),
        labels: check_in.labels.clone().into_iter().collect(),
    };
    errors.extend(expectation_errors(check_in, &definition));
    errors.extend(list_errors(&definition));
    if check_in.generation < 0 {
        errors.push(FieldError::new("generation", "is negative: use the one that was read, or none"));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let generation = (check_in.generation > 0).then_some(check_in.generation);
    Ok(Written { name: check_in.name.clone(), definition, generation })
}

/// As the API answers it, without what became of it.
pub fn write(name: String, definition: Definition) -> v1::CheckIn {
    let severity = Level::from_str_name(definition.severity.as_str()).unwrap_or_default();
    v1::CheckIn {
        name,
        schedule: definition.schedule.unwrap_or_default(),
        timezone: definition.timezone,
        period: definition.period.map(time::duration),
        grace: Some(time::duration(definition.grace)),
        max_runtime: definition.max_runtime.map(time::duration),
        channels: definition.channels,
        repeat: definition.repeat.map(time::duration),
        severity: severity.into(),
        labels: definition.labels.into_iter().collect(),
        ..v1::CheckIn::default()
    }
}

/// The fields that differ between what was expected and what is, by path.
pub fn differences(before: &Definition, after: &Definition) -> Vec<Difference> {
    let of = |definition: &Definition| write(String::new(), definition.clone());
    fields::differences_of("escapement.v1.CheckIn", &of(before), &of(after))
}

fn severity(number: i32, errors: &mut Vec<FieldError>) -> Severity {
    if number == 0 {
        return Severity::default();
    }
    let read = Level::try_from(number).ok().and_then(|level| level.as_str_name().parse().ok());
    read.unwrap_or_else(|| {
        errors.push(FieldError::new("severity", format!("{number}: use INFO, WARNING or CRITICAL")));
        Severity::default()
    })
}

/// What is wrong with when it is expected.
fn expectation_errors(check_in: &v1::CheckIn, definition: &Definition) -> Vec<FieldError> {
    match (&definition.schedule, &check_in.period) {
        (Some(_), Some(_)) => {
            vec![FieldError::new("period", "is given beside schedule: use one of them")]
        }
        (None, None) => vec![FieldError::new("schedule", "is missing: give a schedule, or a period")],
        (None, Some(_)) if !check_in.timezone.is_empty() => {
            vec![FieldError::new("timezone", "is given beside period, which has none: leave it out")]
        }
        (None, Some(_)) => Vec::new(),
        (Some(_), None) => {
            let wrong = schedule(definition, Uuid::nil(), DateTime::UNIX_EPOCH).err().unwrap_or_default();
            let named = |(field, message)| FieldError::new(field, message);
            wrong.into_iter().map(named).collect()
        }
    }
}

fn list_errors(definition: &Definition) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if definition.channels.len() > limits::CHANNELS {
        let message = format!("{} channels: use at most {}", definition.channels.len(), limits::CHANNELS);
        errors.push(FieldError::new("channels", message));
    }
    for (index, channel) in definition.channels.iter().enumerate() {
        errors.extend(validate::name(&format!("channels[{index}]"), channel));
    }
    if definition.labels.len() > limits::LABELS {
        let message = format!("{} labels: use at most {}", definition.labels.len(), limits::LABELS);
        errors.push(FieldError::new("labels", message));
    }
    for (key, value) in &definition.labels {
        errors.extend(validate::name(&format!("labels.{key}"), key));
        if value.len() > limits::NAME_BYTES || value.chars().any(char::is_control) {
            let message = format!("value {value:?}: use at most {} printable bytes", limits::NAME_BYTES);
            errors.push(FieldError::new(format!("labels.{key}"), message));
        }
    }
    errors
}

type Wrong = Vec<(&'static str, String)>;

/// When it is expected, of one with a schedule.
fn schedule(definition: &Definition, id: Uuid, created_at: DateTime<Utc>) -> Result<Option<Schedule>, Wrong> {
    let field = |field| match field {
        SpecField::Timezone => "timezone",
        SpecField::Expression | SpecField::Calendars => "schedule",
    };
    Schedule::of_check_in(definition, id, created_at)
        .map_err(|errors| errors.into_iter().map(|error| (field(error.field), error.message)).collect())
}

/// By when success is expected that counts from `from`, grace included.
pub fn deadline(
    definition: &Definition,
    id: Uuid,
    created_at: DateTime<Utc>,
    from: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    let expected = match definition.period {
        Some(period) => from.checked_add_signed(TimeDelta::from_std(period).ok()?)?,
        None => schedule(definition, id, created_at).ok()??.next(from)?,
    };
    expected.checked_add_signed(TimeDelta::from_std(definition.grace).ok()?)
}

/// When the watchdog looks at one of which nothing is expected until `from`.
pub fn judge_at(
    definition: &Definition,
    id: Uuid,
    created_at: DateTime<Utc>,
    from: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    deadline(definition, id, created_at, from)?.checked_add_signed(SETTLE)
}

/// What becomes of what is due with the change of `stored` at `at` into one with this definition: it is forgotten only if
/// the change says so, by another timing, a pause, a resumption or a deletion.
pub fn expected(
    stored: &CheckIn,
    definition: &Definition,
    paused: bool,
    deleted: bool,
    at: DateTime<Utc>,
) -> Expected {
    if !deleted && paused == stored.paused_at.is_some() && !definition.retimes(&stored.definition) {
        return Expected::AsBefore;
    }
    let judge_at = judge_at(definition, stored.id, stored.created_at, at).filter(|_| !paused && !deleted);
    Expected::Anew { judge_at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_fields(check_in: &v1::CheckIn) -> Vec<String> {
        read(check_in).err().unwrap_or_default().into_iter().map(|error| error.field).collect()
    }

    fn seconds(seconds: i64) -> Option<ProtoDuration> {
        Some(ProtoDuration { seconds, nanos: 0 })
    }

    fn daily() -> v1::CheckIn {
        v1::CheckIn { name: "backup".to_owned(), schedule: "@daily".to_owned(), ..v1::CheckIn::default() }
    }

    #[test]
    fn every_wrong_field_is_named() {
        assert_eq!(wrong_fields(&daily()), [] as [&str; 0]);
        let bad = v1::CheckIn {
            name: "Back Up".to_owned(),
            schedule: "61 * * * *".to_owned(),
            timezone: "Mars/Olympus".to_owned(),
            grace: seconds(0),
            max_runtime: seconds(-1),
            repeat: seconds(1),
            severity: 9,
            channels: vec!["On Call".to_owned()],
            generation: -1,
            ..v1::CheckIn::default()
        };
        let mut wrong = wrong_fields(&bad);
        wrong.sort();
        assert_eq!(
            wrong,
            [
                "channels[0]",
                "generation",
                "grace",
                "maxRuntime",
                "name",
                "repeat",
                "schedule",
                "severity",
                "timezone"
            ]
        );
    }

    #[test]
    fn it_is_expected_by_a_schedule_or_a_period() {
        let neither = v1::CheckIn { schedule: String::new(), ..daily() };
        assert_eq!(wrong_fields(&neither), ["schedule"]);
        assert_eq!(wrong_fields(&v1::CheckIn { period: seconds(60), ..daily() }), ["period"]);
        let zoned = v1::CheckIn { period: seconds(60), timezone: "UTC".to_owned(), ..neither.clone() };
        assert_eq!(wrong_fields(&zoned), ["timezone"]);
        assert_eq!(wrong_fields(&v1::CheckIn { period: seconds(9), ..neither }), ["period"]);
    }

    #[test]
    fn the_deadline_has_the_grace_in_it() {
        let period =
            v1::CheckIn { schedule: String::new(), period: seconds(60), grace: seconds(5), ..daily() };
        let definition = read(&period).expect("sound").definition;
        let at = DateTime::UNIX_EPOCH;
        assert_eq!(deadline(&definition, Uuid::nil(), at, at), DateTime::from_timestamp(65, 0));
        assert_eq!(judge_at(&definition, Uuid::nil(), at, at), DateTime::from_timestamp(68, 0));
    }

    #[test]
    fn only_another_timing_a_pause_a_resumption_and_a_deletion_forget_what_is_due() {
        let definition = read(&daily()).expect("sound").definition;
        let labelled =
            Definition { labels: [("team".to_owned(), "ops".to_owned())].into(), ..definition.clone() };
        let graced = Definition { grace: Duration::from_secs(1), ..definition.clone() };
        let at = DateTime::UNIX_EPOCH;
        let stored = |paused: bool| CheckIn {
            id: Uuid::nil(),
            tenant_id: model::ids::TenantId::DEFAULT,
            name: "backup".to_owned(),
            definition: definition.clone(),
            generation: 1,
            created_at: at,
            updated_at: at,
            paused_at: paused.then_some(at),
            judged_through: at,
            last: [None; 3],
            missing: false,
        };
        let (never, then) = (Expected::Anew { judge_at: None }, |definition: &Definition| Expected::Anew {
            judge_at: judge_at(definition, Uuid::nil(), at, at),
        });
        let due = |before: bool, after: &Definition, paused, deleted| {
            expected(&stored(before), after, paused, deleted, at)
        };
        assert_eq!(due(false, &labelled, false, false), Expected::AsBefore);
        assert_eq!(due(true, &labelled, true, false), Expected::AsBefore);
        assert_eq!(due(false, &graced, false, false), then(&graced));
        assert_eq!(due(true, &graced, true, false), never);
        assert_eq!(due(false, &definition, true, false), never);
        assert_eq!(due(true, &definition, false, false), then(&definition));
        assert_eq!(due(false, &definition, false, true), never);
    }
}
