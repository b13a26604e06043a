//! The slowest call that a search over odd schedules finds: sparse years, days that few months have, local times that
//! only a clock change removes, calendars that close years or nearly everything, from instants around clock changes
//! and at the ends of time.
//!
//! Each question is asked three times and the fastest answer counts, since an interrupted call says nothing; the
//! questions that look slowest are then asked 101 times, and the largest of their medians is the figure.

mod support;

use chrono::{DateTime, Datelike, NaiveDate, TimeDelta, Timelike, Utc};
use escapement_schedule::{DateSet, OpenDays, Schedule, Spec};
use model::policy::{CalendarRule, DstFold, DstGap};
use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::Numbers;

/// Expressions that are drawn, besides those written below.
const EXPRESSIONS: usize = 4_000;
/// Instants from which each is asked.
const INSTANTS: usize = 24;
/// How many of the slowest are measured again.
const AGAIN: usize = 200;
/// No call may take longer.
const TARGET_US: f64 = 100.0;

const ZONES: [&str; 12] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Europe/Dublin",
    "Africa/Casablanca",
    "Africa/Cairo",
    "America/Nuuk",
    "Antarctica/Troll",
    "Australia/Lord_Howe",
    "Asia/Gaza",
    "Pacific/Apia",
    "Pacific/Chatham",
];

/// What was thought of as hard.
const THOUGHT_OF: [&str; 16] = [
    "0 0 29 2 *",
    "0 0 29 2 1",
    "0 0 0 29 2 ? 2096-2099",
    "0 0 0 13 * 5#2 2090",
    "0 0 0 29 2 ? 2096",
    "59 59 23 31 12 ? 2099",
    "0 0 0 1 1 ? 1970",
    "0 0 0 29 2 ? 1972,2096",
    "0 0 31W 2,4 *",
    "0 0 ? 2 5#5",
    "0 0 0 ? 2 1#5 2044-2099/28",
    "30 2 29 3 *",
    "0 0 L-27 2 *",
    "* * * * * *",
    "@every 366d",
    "@at 2099-12-31T23:59:59",
];

/// The zone's clock changes, of which schedules are made and from which they are asked.
struct Place {
    zone: &'static str,
    changes: Vec<i64>,
}

/// A schedule's text and rules, of which one is slow.
#[derive(Debug, Clone)]
struct Odd {
    expression: String,
    zone: &'static str,
    gap: DstGap,
    fold: DstFold,
    days: Option<OpenDays>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Parse,
    Next,
    Previous,
}

/// A question and how long its answer took.
#[derive(Debug, Clone)]
struct Timed {
    took: Duration,
    odd: Odd,
    call: Call,
    at: DateTime<Utc>,
}

fn main() {
    let places = ZONES.map(|zone| Place { zone, changes: support::clock_changes(zone, 0, 7_258_000_000) });
    let mut numbers = Numbers(3);
    let sets = date_sets();
    let mut slow = Vec::new();
    let mut asked = 0;
    let drawn = (0..EXPRESSIONS).map(|_| None);
    for given in THOUGHT_OF.into_iter().flat_map(|text| [Some(text); ZONES.len()]).chain(drawn).enumerate() {
        let place = if given.1.is_some() { &places[given.0 % ZONES.len()] } else { numbers.pick(&places) };
        let odd = Odd {
            expression: given.1.map_or_else(|| expression(&mut numbers, place), str::to_owned),
            zone: place.zone,
            gap: *numbers.pick(DstGap::ALL),
            fold: *numbers.pick(DstFold::ALL),
            days: open_days(&mut numbers, &sets),
        };
        asked += ask(&odd, place, &mut numbers, &mut slow);
    }
    println!("{asked} questions asked");
    for (call, limited) in [
        (Call::Parse, false),
        (Call::Next, false),
        (Call::Previous, false),
        (Call::Next, true),
        (Call::Previous, true),
    ] {
        report(call, limited, &slow);
    }
}

/// Asks one schedule everything, and notes each question. A refused one is asked how fast it is refused.
fn ask(odd: &Odd, place: &Place, numbers: &mut Numbers, slow: &mut Vec<Timed>) -> usize {
    let mut note = |call, at, took| slow.push(Timed { took, odd: odd.clone(), call, at });
    note(Call::Parse, DateTime::UNIX_EPOCH, fastest(|| Schedule::parse(&odd.spec())));
    let Some(schedule) = odd.schedule() else { return 1 };
    for number in 0..INSTANTS {
        let second = match number {
            0 => -86_400,
            1 => 7_258_118_400,
            2 => support::LAST,
            number if number.is_multiple_of(2) && !place.changes.is_empty() => {
                *numbers.pick(&place.changes) + numbers.within(-7_200, 7_200)
            }
            _ => numbers.within(0, 7_258_000_000),
        };
        let at = support::instant(second);
        note(Call::Next, at, fastest(|| schedule.next(at)));
        note(Call::Previous, at, fastest(|| schedule.previous(at)));
    }
    1 + 2 * INSTANTS
}

/// Prints the call's slowest question to a schedule that is or isn't limited by calendars.
fn report(call: Call, limited: bool, slow: &[Timed]) {
    let asked = |timed: &&Timed| timed.call == call && timed.odd.days.is_some() == limited;
    let mut slowest: Vec<&Timed> = slow.iter().filter(asked).collect();
    slowest.sort_by_key(|timed| std::cmp::Reverse(timed.took));
    let again = slowest.into_iter().take(AGAIN).map(|timed| (timed.again(), timed));
    if let Some((took, timed)) = again.max_by_key(|(took, _)| *took) {
        let Odd { expression, zone, gap, fold, days } = &timed.odd;
        let days = days.as_ref().map_or_else(|| "all days".to_owned(), shown);
        println!(
            "slowest {call:?}: {took:?}: {expression:?} in {zone}, {gap}, {fold}, {days}, at {}",
            timed.at
        );
        let limits = if limited { " with calendars" } else { "" };
        let what = format!("slowest {}{limits}", format!("{call:?}").to_lowercase());
        support::figure(&what, took.as_secs_f64() * 1e6, "µs", TARGET_US);
    }
}

impl Odd {
    fn spec(&self) -> Spec<'_> {
        support::spec(&self.expression, self.zone, self.gap, self.fold)
    }

    /// None when it is refused.
    fn schedule(&self) -> Option<Schedule> {
        let schedule = Schedule::parse(&self.spec()).ok()?;
        match &self.days {
            Some(days) => schedule.with_calendars(days.clone()).ok(),
            None => Some(schedule),
        }
    }
}

impl Timed {
    /// The median of 101 answers.
    fn again(&self) -> Duration {
        let schedule = self.odd.schedule();
        let mut times: Vec<Duration> = (0..101)
            .map(|_| match (&schedule, self.call) {
                (Some(schedule), Call::Next) => time(|| schedule.next(self.at)),
                (Some(schedule), Call::Previous) => time(|| schedule.previous(self.at)),
                _ => time(|| Schedule::parse(&self.odd.spec())),
            })
            .collect();
        times.sort_unstable();
        times[times.len() / 2]
    }
}

fn time<T>(call: impl FnOnce() -> T) -> Duration {
    let begun = Instant::now();
    black_box(call());
    begun.elapsed()
}

fn fastest<T>(call: impl Fn() -> T) -> Duration {
    (0..3).map(|_| time(&call)).min().unwrap_or_default()
}

/// Sets of dates: none, one far away, a row longer than moves reach, all but each 40th day of eleven years, each second
/// day of 22 years, the leap days, and the first days of months, which `30W` or `L` never meet.
fn date_sets() -> Vec<Arc<DateSet>> {
    let days = |first: i32, count: usize| {
        let from = NaiveDate::from_ymd_opt(first, 1, 1).into_iter();
        from.flat_map(move |first| first.iter_days().take(count)).enumerate()
    };
    let dates = |name: &str, dates: Vec<NaiveDate>| Arc::new(DateSet::new(name, dates));
    vec![
        dates("none", Vec::new()),
        dates("one", days(2060, 1).map(|it| it.1).collect()),
        dates("row", days(2030, 4_000).map(|it| it.1).collect()),
        dates("nearly all", days(2030, 4_100).filter(|it| it.0 % 40 != 0).map(|it| it.1).collect()),
        dates("each second", days(2025, 8_000).step_by(2).map(|it| it.1).collect()),
        dates("leap", (1970..2200).filter_map(|year| NaiveDate::from_ymd_opt(year, 2, 29)).collect()),
        dates("firsts", days(1970, 84_000).map(|it| it.1).filter(|date| date.day() == 1).collect()),
    ]
}

/// Calendars of a third of the schedules.
fn open_days(numbers: &mut Numbers, sets: &[Arc<DateSet>]) -> Option<OpenDays> {
    let set = vec![Arc::clone(numbers.pick(sets))];
    let rule = *numbers.pick(CalendarRule::ALL);
    match numbers.within(0, 5) {
        0 => Some(OpenDays { exclude: set, only: Vec::new(), rule }),
        1 => Some(OpenDays { exclude: Vec::new(), only: set, rule }),
        _ => None,
    }
}

fn shown(days: &OpenDays) -> String {
    let names = |sets: &[Arc<DateSet>]| sets.iter().map(|set| set.name().to_owned()).collect::<Vec<_>>();
    format!("without {:?}, only {:?}, {}", names(&days.exclude), names(&days.only), days.rule)
}

/// An odd expression: one that names only local times around clock changes, or one of sparse fields.
fn expression(numbers: &mut Numbers, place: &Place) -> String {
    if numbers.within(0, 2) == 0 && !place.changes.is_empty() {
        return around_changes(numbers, place);
    }
    let time = format!("{} {} {}", numbers.within(0, 59), numbers.within(0, 59), numbers.within(0, 23));
    let day = match numbers.within(0, 9) {
        0 => "L".to_owned(),
        1 => format!("L-{}", numbers.within(1, 27)),
        2 => "LW".to_owned(),
        3 => format!("{}W", numbers.within(1, 31)),
        4 => "29,31".to_owned(),
        5 => "*".to_owned(),
        6 => "*/2".to_owned(),
        _ => numbers.within(26, 31).to_string(),
    };
    let month = match numbers.within(0, 3) {
        0 => "*".to_owned(),
        1 => numbers.within(1, 12).to_string(),
        _ => "2".to_owned(),
    };
    let weekday = match numbers.within(0, 5) {
        0 => format!("{}#{}", numbers.within(0, 6), numbers.within(4, 5)),
        1 => format!("{}L", numbers.within(0, 6)),
        2 => numbers.within(0, 6).to_string(),
        _ => "*".to_owned(),
    };
    format!("{time} {day} {month} {weekday} {}", years(numbers))
}

fn years(numbers: &mut Numbers) -> String {
    let (first, second) = (numbers.within(1970, 2099), numbers.within(1970, 2099));
    match numbers.within(0, 4) {
        0 => "*".to_owned(),
        1 => first.to_string(),
        2 => format!("{first},{second}"),
        3 => format!("{}-2099/{}", first.min(second), numbers.within(2, 40)),
        _ => "2096-2099".to_owned(),
    }
}

/// An expression that names local times near the clock changes of some years, and hardly anything else.
fn around_changes(numbers: &mut Numbers, place: &Place) -> String {
    let Ok(clock) = support::parse("* * * * *", place.zone) else { return "* * * * *".to_owned() };
    let change = support::instant(*numbers.pick(&place.changes));
    // Just before the change and a while further on the old clock: what a gap removes and a fold repeats.
    let before = clock.local_time(change - TimeDelta::seconds(1)) + TimeDelta::minutes(numbers.within(0, 59));
    let mut years = String::new();
    for year in (1970..=2099).filter(|year| (year - before.year()) % 28 == 0) {
        let _ = write!(years, "{}{year}", if years.is_empty() { "" } else { "," });
    }
    if numbers.within(0, 1) == 0 {
        "*".clone_into(&mut years);
    }
    let (day, month) = (before.day(), before.month());
    format!("0 {} {} {day} {month} * {years}", before.minute(), before.hour())
}
