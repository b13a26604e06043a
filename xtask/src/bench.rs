//! `cargo xtask bench schedule|claims`: the benchmarks of `libs/schedule` and of `libs/store`, as tables of figures beside
//! what is wanted.
//!
//! Reads what criterion leaves in its folder (one call at a time) and the lines that the other benchmarks print. A
//! figure that misses its target fails the command. What is measured on a whole cell is in [`cell`].

mod cell;

use crate::criterion::{self, Call};
use std::collections::BTreeMap;
use std::process::Stdio;

const PACKAGE: &str = "escapement-schedule";
const ZONES: [&str; 3] = ["UTC", "Europe/Berlin", "America/New_York"];

/// The zone in which ours and theirs are compared.
const COMPARED: &str = "Europe/Berlin";

/// Nanoseconds that the median of a call may take; reading has no target of its own.
const fn target_ns(call: Verb, common: bool) -> Option<f64> {
    match (call, common) {
        (Verb::Parse, _) => None,
        (_, true) => Some(150.0),
        (_, false) => Some(1_000.0),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Parse,
    Next,
    Previous,
}

impl Verb {
    const ALL: [Self; 3] = [Self::Next, Self::Previous, Self::Parse];

    const fn name(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::Next => "next",
            Self::Previous => "previous",
        }
    }
}

/// A line `FIGURE`, what, how much, unit, target, between tabs.
#[derive(Debug, PartialEq)]
struct Figure {
    what: String,
    value: f64,
    unit: String,
    target: Target,
}

/// What is wanted of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Target {
    /// Written as the number alone; `inf` is none.
    AtMost(f64),
    /// Written with `>=` before the number.
    AtLeast(f64),
}

impl Target {
    fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix(">=") {
            Some(least) => least.parse().ok().map(Self::AtLeast),
            None => text.parse().ok().map(Self::AtMost),
        }
    }

    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    match arguments.first().map(String::as_str) {
        Some("schedule") => schedule(),
        Some("claims") => claims(),
        Some(name) if cell::NAMES.contains(&name) => cell::run(arguments),
        _ => Err(format!("say what to measure: cargo xtask bench schedule|claims|{}", cell::NAMES.join("|"))),
    }
}

fn schedule() -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let results = crate::root().join(target).join("bench-schedule");
    if results.exists() {
        std::fs::remove_dir_all(&results).map_err(|error| format!("{}: {error}", results.display()))?;
    }
    eprintln!("measuring calls, for about two minutes");
    let mut command = crate::cargo_command();
    command.args(["bench", "--package", PACKAGE, "--bench", "calls"]);
    // Its figures are read from the folder; what it prints is a thousand lines.
    let status = command.env("CRITERION_HOME", &results).stdout(Stdio::null()).status();
    if !status.map_err(|error| format!("cargo can't be started: {error}"))?.success() {
        return Err("the benchmark `calls` failed".to_owned());
    }
    let mut figures = Vec::new();
    for bench in ["worst", "million"] {
        figures.extend(printed(PACKAGE, bench)?);
    }

    let calls = criterion::read(&results)?;
    all_met(table_of_calls(&calls) + table_of_figures(&figures))
}

/// What slows a claim, beside an empty database in the same run.
fn claims() -> Result<(), String> {
    let figures = printed("escapement-store", "claims")?;
    all_met(table_of_figures(&figures))
}

fn all_met(missed: usize) -> Result<(), String> {
    match missed {
        0 => Ok(()),
        _ => Err(format!("{missed} figures miss their target")),
    }
}

/// Runs a benchmark that prints its figures, passes on the rest of what it prints.
fn printed(package: &str, bench: &str) -> Result<Vec<Figure>, String> {
    let output = crate::cargo_command()
        .args(["bench", "--package", package, "--bench", bench])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo can't be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("the benchmark `{bench}` failed"));
    }
    let figures = figures(&output.stdout);
    if figures.is_empty() { Err(format!("the benchmark `{bench}` printed no figure")) } else { Ok(figures) }
}

/// The figures of an output; the rest of it is passed on.
fn figures(output: &[u8]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for line in String::from_utf8_lossy(output).lines() {
        match figure(line) {
            Some(figure) => figures.push(figure),
            None => println!("{line}"),
        }
    }
    figures
}

fn figure(line: &str) -> Option<Figure> {
    let mut parts = line.strip_prefix("FIGURE\t")?.split('\t');
    let (what, value, unit, target) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    Some(Figure {
        what: what.to_owned(),
        value: value.parse().ok()?,
        unit: unit.to_owned(),
        target: Target::parse(target)?,
    })
}

/// Prints a row for each call and expression, and counts the figures over their target.
fn table_of_calls(calls: &[Call]) -> usize {
    println!("\n| call | expression | {} | target | `cron` | `croner` |", ZONES.join(" | "));
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let known: BTreeMap<(&str, &str, &str, &str), f64> =
        calls.iter().map(|it| ((&*it.who, &*it.verb, &*it.zone, &*it.expression), it.nanoseconds)).collect();
    let mut missed = 0;
    for verb in Verb::ALL {
        let first_zone = |call: &&Call| call.who == "escapement" && call.verb == verb.name();
        let mut rows: Vec<(bool, &str)> =
            calls.iter().filter(first_zone).map(|it| (it.kind != "common", &*it.expression)).collect();
        rows.sort_unstable();
        rows.dedup();
        for (sparse, expression) in rows {
            let figure = |who, zone| known.get(&(who, verb.name(), zone, expression)).copied();
            let ours = ZONES.map(|zone| figure("escapement", zone).unwrap_or(f64::NAN));
            let target = target_ns(verb, !sparse);
            missed += ours.iter().filter(|ours| target.is_some_and(|target| **ours > target)).count();
            let ratio = |who| match (figure(who, COMPARED), figure("escapement", COMPARED)) {
                (Some(theirs), Some(ours)) => format!("{:.1} ×", theirs / ours),
                _ => "–".to_owned(),
            };
            println!(
                "| {} | `{expression}` | {} | {} | {} | {} |",
                verb.name(),
                ours.map(|ours| format!("{ours:.0} ns")).join(" | "),
                target.map_or_else(|| "–".to_owned(), |target| format!("{target:.0} ns")),
                ratio("cron"),
                ratio("croner"),
            );
        }
    }
    missed
}

/// Prints a row for each figure, and counts those that miss their target.
fn table_of_figures(figures: &[Figure]) -> usize {
    println!("\n| what | figure | target |\n| --- | --- | --- |");
    for Figure { what, value, unit, target } in figures {
        let target = match target {
            Target::AtMost(most) if most.is_infinite() => "–".to_owned(),
            Target::AtMost(most) => format!("{most} {unit}"),
            Target::AtLeast(least) => format!("≥ {least} {unit}"),
        };
        println!("| {what} | {value:.2} {unit} | {target} |");
    }
    figures.iter().filter(|figure| !figure.target.is_met(figure.value)).count()
}

#[cfg(test)]
mod tests {
    use super::{Figure, Target, figure, table_of_figures};

    #[test]
    fn a_figure_is_read_and_other_lines_are_not() {
        let read = figure("FIGURE\tslowest next\t5.889\tµs\t100");
        let (what, unit) = ("slowest next".to_owned(), "µs".to_owned());
        assert_eq!(read, Some(Figure { what, value: 5.889, unit, target: Target::AtMost(100.0) }));
        assert_eq!(figure("195184 questions asked"), None);
        assert_eq!(figure("FIGURE\tslowest next\tfast\tµs\t100"), None);
    }

    #[test]
    fn what_misses_its_target_counts() {
        let over = ["FIGURE\ta\t101\tµs\t100", "FIGURE\tb\t100\tµs\t100", "FIGURE\tc\t9\tMB\tinf"];
        assert_eq!(table_of_figures(&over.map(|line| figure(line).expect("a figure"))), 1);
        let under = ["FIGURE\ta\t99\truns/s\t>=100", "FIGURE\tb\t100\truns/s\t>=100"];
        assert_eq!(table_of_figures(&under.map(|line| figure(line).expect("a figure"))), 1);
    }
}
