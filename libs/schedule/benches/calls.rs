//! One call at a time: parse, next and previous, and the same questions to the crates `cron` and `croner`.
//!
//! Each measurement walks a ring of 1,024 instants, so that its figure is the mean over these of one sample, and the
//! median over samples. `cargo xtask bench schedule` makes a table of them. Groups are named `who/call`, functions `kind|zone|expression`.

mod support;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use croner::parser::{CronParser, Seconds, Year};
use std::hint::black_box;
use std::str::FromStr;
use std::time::Duration;
use support::{COMMON, SPARSE, ZONES};

/// The instants, in the form in which who is asked wants them.
struct Ring<T> {
    instants: Vec<T>,
    at: usize,
}

impl<T> Ring<T> {
    fn new(timezone: &str, form: impl Fn(DateTime<Utc>) -> T) -> Self {
        Self { instants: support::instants(timezone).into_iter().map(form).collect(), at: 0 }
    }

    fn next(&mut self) -> &T {
        self.at = (self.at + 1) % self.instants.len();
        &self.instants[self.at]
    }
}

fn questions() -> impl Iterator<Item = (&'static str, &'static str)> {
    let expressions = COMMON.into_iter().chain(SPARSE);
    expressions.flat_map(|expression| ZONES.map(|zone| (zone, expression)))
}

fn id(zone: &str, expression: &str) -> BenchmarkId {
    let kind = if COMMON.contains(&expression) { "common" } else { "sparse" };
    BenchmarkId::from_parameter(format!("{kind}|{zone}|{expression}"))
}

fn ours(criterion: &mut Criterion) {
    for (zone, expression) in questions() {
        let Ok(schedule) = support::parse(expression, zone) else { panic!("{expression} is refused") };
        let mut ring = Ring::new(zone, |at| at);
        criterion.benchmark_group("escapement/parse").bench_function(id(zone, expression), |bencher| {
            bencher.iter(|| support::parse(black_box(expression), black_box(zone)));
        });
        criterion.benchmark_group("escapement/next").bench_function(id(zone, expression), |bencher| {
            bencher.iter(|| schedule.next(*black_box(ring.next())));
        });
        criterion.benchmark_group("escapement/previous").bench_function(id(zone, expression), |bencher| {
            bencher.iter(|| schedule.previous(*black_box(ring.next())));
        });
    }
}

/// The expression as the `cron` crate wants it: seconds first, Sunday is 1. It has no `L` and no `#`, and wants both
/// day fields to match, so that it is not asked where both are restricted.
fn for_cron(expression: &str) -> Option<cron::Schedule> {
    if expression.contains(['L', '#']) || expression == "0 0 29 2 1" {
        return None;
    }
    let expression = expression.replace("1-5", "MON-FRI");
    let seconds = if expression.split(' ').count() == 5 { "0 " } else { "" };
    cron::Schedule::from_str(&format!("{seconds}{expression}")).ok()
}

fn cron_crate(criterion: &mut Criterion) {
    for (zone, expression) in questions() {
        let (Some(schedule), Ok(tz)) = (for_cron(expression), zone.parse::<Tz>()) else { continue };
        let mut ring = Ring::new(zone, |at| at.with_timezone(&tz));
        criterion.benchmark_group("cron/parse").bench_function(id(zone, expression), |bencher| {
            bencher.iter(|| for_cron(black_box(expression)));
        });
        criterion.benchmark_group("cron/next").bench_function(id(zone, expression), |bencher| {
            bencher.iter(|| schedule.after(black_box(ring.next())).next());
        });
        criterion.benchmark_group("cron/previous").bench_function(id(zone, expression), |bencher| {
            bencher.iter(|| schedule.after(black_box(ring.next())).next_back());
        });
    }
}

fn croner_crate(criterion: &mut Criterion) {
    let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Optional).build();
    for (zone, expression) in questions() {
        let (Ok(schedule), Ok(tz)) = (parser.parse(expression), zone.parse::<Tz>()) else { continue };
        let mut ring = Ring::new(zone, |at| at.with_timezone(&tz));
        criterion.benchmark_group("croner/parse").bench_function(id(zone, expression), |bencher| {
            bencher.iter(|| parser.parse(black_box(expression)));
        });
        criterion.benchmark_group("croner/next").bench_function(id(zone, expression), |bencher| {
            bencher.iter(|| schedule.find_next_occurrence(black_box(ring.next()), false));
        });
        criterion.benchmark_group("croner/previous").bench_function(id(zone, expression), |bencher| {
            bencher.iter(|| schedule.find_previous_occurrence(black_box(ring.next()), true));
        });
    }
}

/// Short, because there are 300 of them, and medians of 20 samples are steady to some percent.
fn settings() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .nresamples(1_001)
        .warm_up_time(Duration::from_millis(50))
        .measurement_time(Duration::from_millis(200))
        .without_plots()
}

criterion_group! { name = all; config = settings(); targets = ours, cron_crate, croner_crate }
criterion_main!(all);
