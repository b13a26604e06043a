//! What holds for any bytes: the invariants of parsing and of searching, as functions that panic.
//!
//! Shared by the fuzz targets, which look for bytes that break one, and by `tests/corpus.rs`, which replays the
//! bytes that the fuzzer found worth keeping. Deliberately not here: whether an answer is the right one; the
//! vectors, the brute-force scans and the comparisons with other implementations in `tests/` say that.

use chrono::{DateTime, Days, NaiveDate, TimeDelta, Utc};
use escapement_schedule::{DateSet, OpenDays, Schedule, Spec, SpecError, Verdict, Way};
use model::policy::{CalendarRule, DstFold, DstGap};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes before the expression.
const HEADER: usize = 8;

/// The zones that a header can name: every kind of clock change, and none at all.
const ZONES: [&str; 24] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Europe/London",
    "Europe/Dublin",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "America/Nuuk",
    "America/Santiago",
    "America/St_Johns",
    "America/Sao_Paulo",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Etc/GMT+12",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Easter",
    "Pacific/Kiritimati",
    "Pacific/Kwajalein",
];

/// The last instant that a schedule can name.
const LAST_INSTANT: i64 = 7_258_118_399;

/// Instants are drawn up to this far outside of what schedules can name.
const MARGIN: i64 = 400 * 86_400;

/// Instants near a clock change lie at most this far from it.
const NEAR: i64 = 2 * 3_600;

/// The longest text that a refusal may have.
const MESSAGE_BYTES_MAX: usize = 1_000;

/// How many occurrences are walked.
const STEPS: usize = 4;

/// How long one call may take. Generous, because a busy machine is not a finding: `benches/worst.rs` measures.
const CALL_MAX: Duration = Duration::from_millis(50);

/// How long a preview may take: it looks at thousands of closed days.
const PREVIEW_MAX: Duration = Duration::from_secs(1);

/// Asks everything about the schedule and the instant that `input` stands for: a header with the zone's number, the
/// rules, five bytes of instant and what these mean, and then the expression. Panics when an invariant is broken.
pub fn schedule(input: &[u8]) {
    let mut header = [0; HEADER];
    let given = input.len().min(HEADER);
    header[..given].copy_from_slice(&input[..given]);
    let [zone, rules, a, b, c, d, e, mode] = header;

    let timezone = ZONES[usize::from(zone) % ZONES.len()];
    let at = instant(i64::from_le_bytes([a, b, c, d, e, 0, 0, 0]), mode, timezone);
    let expression = String::from_utf8_lossy(input.get(HEADER..).unwrap_or_default());
    let Some(schedule) = read(&spec(&expression, timezone, rules)) else { return };
    assert!(
        schedule.next(at).is_some() || schedule.previous(at).is_some(),
        "accepted, and never due on either side of {at}"
    );
    check(&schedule, at);
    let Some(calendars) = calendars(rules, timezone) else { return };
    match schedule.with_calendars(calendars) {
        Ok(limited) => check(&limited, at),
        Err(error) => refused(&[error]),
    }
}

/// The same with `input` as the name of a timezone.
pub fn timezone(input: &[u8]) {
    let name = String::from_utf8_lossy(input);
    if let Some(schedule) = read(&spec("30 2 * * *", &name, 0)) {
        check(&schedule, DateTime::UNIX_EPOCH);
    }
}

/// The schedule; none when it is refused.
fn read(spec: &Spec<'_>) -> Option<Schedule> {
    timed("parse", || Schedule::parse(spec)).map_err(|errors| refused(&errors)).ok()
}

/// Both clock rules are in `rules`: the lowest bit, and the upper four.
fn spec<'a>(expression: &'a str, timezone: &'a str, rules: u8) -> Spec<'a> {
    Spec {
        expression,
        timezone,
        dst_gap: DstGap::ALL[usize::from(rules & 1)],
        dst_fold: DstFold::ALL[usize::from(rules >> 4) % DstFold::ALL.len()],
        seed: "fuzz",
        anchor: DateTime::UNIX_EPOCH,
    }
}

/// The calendars that the remaining three bits of `rules` stand for; none with half of the values.
fn calendars(rules: u8, timezone: &'static str) -> Option<OpenDays> {
    let days = || vec![days_of_clock_changes(timezone)];
    let (exclude, only) = match rules >> 1 & 7 {
        0..4 => return None,
        4 => (Vec::new(), days()),
        _ => (days(), Vec::new()),
    };
    let rule = CalendarRule::ALL[usize::from(rules >> 1 & 3) % CalendarRule::ALL.len()];
    Some(OpenDays { exclude, only, rule })
}

/// The days on which clocks change, three days from each tenth of them on, and each first of a month.
fn days_of_clock_changes(timezone: &'static str) -> Arc<DateSet> {
    static KNOWN: LazyLock<Mutex<HashMap<&'static str, Arc<DateSet>>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let set = known.entry(timezone).or_insert_with(|| {
        let changes = clock_changes(timezone);
        let day = |at: &i64| DateTime::from_timestamp(*at, 0).unwrap_or_default().date_naive();
        let rows =
            changes.iter().step_by(10).flat_map(|at| (1..=3).map(move |later| day(at) + Days::new(later)));
        let first = |year, month| NaiveDate::from_ymd_opt(year, month, 1);
        let firsts = (1970..2200).flat_map(|year| (1..=12).filter_map(move |month| first(year, month)));
        Arc::new(DateSet::new("fuzz", changes.iter().map(day).chain(rows).chain(firsts)))
    });
    Arc::clone(set)
}

/// The instant that `number` stands for: anywhere, or close to a clock change of the zone.
fn instant(number: i64, mode: u8, timezone: &'static str) -> DateTime<Utc> {
    let nanoseconds = if mode & 1 == 0 { 0 } else { 500_000_000 };
    let second = match mode {
        254 => return DateTime::<Utc>::MIN_UTC,
        255 => return DateTime::<Utc>::MAX_UTC,
        0..128 => number % (LAST_INSTANT + 2 * MARGIN) - MARGIN,
        _ => {
            let changes = clock_changes(timezone);
            let count = i64::try_from(changes.len()).unwrap_or(1).max(1);
            let near = usize::try_from(number % count).ok().and_then(|index| changes.get(index));
            near.copied().unwrap_or(0) + (number / count) % (2 * NEAR + 1) - NEAR
        }
    };
    DateTime::from_timestamp(second, nanoseconds).unwrap_or(DateTime::UNIX_EPOCH)
}

/// The first seconds after a zone's clock changes, in order.
type Changes = Arc<[i64]>;

/// The zone's clock changes, found once.
fn clock_changes(timezone: &'static str) -> Changes {
    static KNOWN: LazyLock<Mutex<HashMap<&'static str, Changes>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(changes) = known.get(timezone) {
        return Arc::clone(changes);
    }
    let Ok(schedule) = Schedule::parse(&spec("* * * * *", timezone, 0)) else { return Arc::from([]) };
    let offset = |second: i64| {
        let at = DateTime::from_timestamp(second, 0).unwrap_or(DateTime::UNIX_EPOCH);
        schedule.local_time(at).offset().local_minus_utc()
    };
    let day = 86_400;
    let halved = |mut before: i64, mut after: i64| {
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            if offset(middle) == offset(before) { before = middle } else { after = middle }
        }
        after
    };
    let days = (0..LAST_INSTANT / day).map(|number| number * day);
    let changes: Changes =
        days.filter(|at| offset(*at) != offset(at + day)).map(|at| halved(at, at + day)).collect();
    known.insert(timezone, Arc::clone(&changes));
    changes
}

fn refused(errors: &[SpecError]) {
    assert!(!errors.is_empty(), "refused without a reason");
    for error in errors {
        let message = error.to_string();
        assert!(!message.trim().is_empty(), "an empty reason");
        assert!(message.len() < MESSAGE_BYTES_MAX, "a reason of {} bytes", message.len());
        assert!(!message.chars().any(char::is_control), "a reason with control characters: {message:?}");
    }
}

fn check(schedule: &Schedule, at: DateTime<Utc>) {
    assert!(!timed("describe", || schedule.describe()).is_empty(), "nothing to say");
    let next = timed("next", || schedule.next(at));
    let previous = timed("previous", || schedule.previous(at));
    if let Some(next) = next {
        after(schedule, at, next);
        assert_eq!(schedule.previous(next - TimeDelta::nanoseconds(1)), previous, "the one before the next");
    }
    if let Some(previous) = previous {
        assert!(previous <= at, "previous {previous} lies after {at}");
        assert_eq!(
            schedule.next(previous - TimeDelta::seconds(1)),
            Some(previous),
            "forward to the previous"
        );
        assert_eq!(schedule.next(previous), next, "the one after the previous");
        answers(schedule, previous);
    }
    let explained = timed("explain", || schedule.explain(at));
    assert!(!explained.to_string().is_empty(), "no explanation");
    let is_due = matches!(explained.verdict, Verdict::Occurrence(_));
    assert_eq!(is_due, previous == Some(at), "explained as {explained}");
    steps(schedule, at);
}

/// `next` is the first occurrence after `at`.
fn after(schedule: &Schedule, at: DateTime<Utc>, next: DateTime<Utc>) {
    assert!(next > at, "next {next} lies not after {at}");
    assert_eq!(schedule.previous(next), Some(next), "back to the next");
    assert_eq!(schedule.first_from(next), Some(next), "the first from the next on");
    assert_eq!(schedule.next(next - TimeDelta::nanoseconds(1)), Some(next), "just before the next");
    answers(schedule, next);
}

/// An occurrence is a whole second within bounds, and can be told about.
fn answers(schedule: &Schedule, due: DateTime<Utc>) {
    assert_eq!(due.timestamp_subsec_nanos(), 0, "{due} is no whole second");
    assert!((0..=LAST_INSTANT).contains(&due.timestamp()), "{due} lies outside of the horizon");
    assert_eq!(schedule.local_time(due), due, "local time is another instant");
    let explained = timed("explain", || schedule.explain(due));
    assert!(matches!(explained.verdict, Verdict::Occurrence(_)), "due, and explained as {explained}");
}

/// A few steps forward rise, the same steps lead back, and a preview lists them.
fn steps(schedule: &Schedule, from: DateTime<Utc>) {
    let mut walked = Vec::new();
    let mut reached = from;
    for _ in 0..STEPS {
        let Some(next) = timed("next", || schedule.next(reached)) else { break };
        assert!(next > reached, "{next} follows {reached}");
        let back = timed("previous", || schedule.previous(next - TimeDelta::seconds(1)));
        assert_eq!(back, schedule.previous(reached), "the step back from {next}");
        walked.push(next);
        reached = next;
    }
    let preview = within(PREVIEW_MAX, "preview", || schedule.preview(from, STEPS, Way::Forward));
    let listed: Vec<_> =
        preview.entries.iter().filter(|entry| !entry.is_dropped()).map(|entry| entry.at).collect();
    assert_eq!(listed, walked, "the preview");
    assert_eq!(preview.exhausted, walked.len() < STEPS, "the preview's end");
    let back = within(PREVIEW_MAX, "preview", || schedule.preview(from, STEPS, Way::Backward));
    let last = back.entries.iter().find(|entry| !entry.is_dropped()).map(|entry| entry.at);
    assert_eq!(last, schedule.previous(from), "the preview backward");
}

/// What `call` answers. Panics when that takes longer than [`CALL_MAX`].
fn timed<T>(what: &str, call: impl Fn() -> T) -> T {
    within(CALL_MAX, what, call)
}

/// What `call` answers. Panics when it takes longer than `limit`, and again when only its own time counts.
fn within<T>(limit: Duration, what: &str, call: impl Fn() -> T) -> T {
    let begun = Instant::now();
    let answer = call();
    if begun.elapsed() < limit {
        return answer;
    }
    // On a busy machine the thread waits within a call: ask again, and count what it worked.
    let before = worked();
    let answer = call();
    let took = worked().saturating_sub(before);
    assert!(took < limit, "{what} takes {took:?}");
    answer
}

/// How long this thread has worked; nothing where the kernel doesn't say.
fn worked() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}
