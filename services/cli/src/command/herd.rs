//! `escapement preview --herd`: the coming load as a picture, whose the peaks are, and what would spread them.

mod chart;

use crate::arguments::{Output, Preview};
use crate::client::Client;
use crate::number::grouped;
use crate::progress::{self, Progress};
use crate::table::{self, say};
use chart::{Chart, Column, Style};
use chrono::TimeDelta;
use serde_json::{Map, Value, json};

/// The width when it is not known, in columns.
const WIDTH_DEFAULT: usize = 80;
/// Lines wider than this are hard to follow.
const WIDTH_MAX: usize = 160;
/// What the API takes.
const BUCKETS: std::ops::RangeInclusive<usize> = 10..=1_000;

pub async fn run(client: &Client, preview: &Preview, output: Output) -> anyhow::Result<()> {
    let width = width();
    let progress = Progress::waiting("counting the coming runs".to_owned());
    let answer = client.post("/v1/schedule:herd", &request(preview, width)).await?;
    drop(progress);
    match output {
        Output::Json => table::print_json(&answer),
        Output::Table => {
            let style = if progress::is_capable(&std::io::stdout()) { Style::Blocks } else { Style::Plain };
            for line in lines(&answer, width, style) {
                say!("{line}");
            }
        }
    }
    Ok(())
}

/// Columns of the terminal.
fn width() -> usize {
    let known = console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    known.unwrap_or(WIDTH_DEFAULT).min(WIDTH_MAX)
}

fn request(preview: &Preview, width: usize) -> Value {
    let buckets = Chart::columns(width).clamp(*BUCKETS.start(), *BUCKETS.end());
    let given = [("from", &preview.from), ("span", &preview.span), ("queue", &preview.queue)];
    let given = given.into_iter().filter_map(|(field, text)| Some((field.to_owned(), json!(text.as_ref()?))));
    let mut request: Map<String, Value> = given.collect();
    request.insert("buckets".to_owned(), json!(buckets));
    if !preview.selector.is_empty() {
        request.insert("labels".to_owned(), json!(preview.selector));
    }
    Value::Object(request)
}

fn lines(answer: &Value, width: usize, style: Style) -> Vec<String> {
    let mut lines = summary(answer);
    if !answer["busiest"].is_object() {
        return lines;
    }
    let buckets = answer["buckets"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let columns = buckets.iter().filter_map(|bucket| {
        Some(Column { at: table::instant(&bucket["time"])?, runs: count(&bucket["peak"]) })
    });
    let columns: Vec<Column> = columns.collect();
    let bucket = seconds(&answer["bucket"]);
    lines.push(String::new());
    lines.extend(Chart { columns: &columns, bucket: TimeDelta::seconds(bucket), width, style }.lines());
    lines.push(format!("Each column is {} (UTC), as high as its busiest second.", length(bucket)));
    lines.push(String::new());
    let peaks = answer["peaks"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    if peaks.is_empty() {
        lines.push("No second stands out.".to_owned());
    } else {
        lines.push("Peaks:".to_owned());
        lines.extend(peaks.iter().flat_map(peak));
    }
    lines
}

fn summary(answer: &Value) -> Vec<String> {
    let (jobs, runs) = (count(&answer["jobs"]), count(&answer["runs"]));
    let (from, to) = (table::second(&answer["from"]), table::second(&answer["to"]));
    let busiest = match answer["busiest"].as_object() {
        Some(busiest) => format!(
            "{} in the busiest second, {}",
            grouped(count(&busiest["runs"])),
            table::second(&busiest["time"])
        ),
        None => "nothing is due".to_owned(),
    };
    let mut lines =
        vec![format!("{}, {} from {from} to {to}: {busiest}.", many(jobs, "job"), many(runs, "run"))];
    if answer["cut"] == true {
        lines.push(
            "There is too much to count for longer: -l or --queue take fewer jobs, --from shows what follows."
                .to_owned(),
        );
    }
    let left_out = names(&answer["leftOut"], count(&answer["moreLeftOut"]));
    if !left_out.is_empty() {
        lines.push(format!("Left out, because their definitions can't be used: {left_out}."));
    }
    lines
}

fn peak(peak: &Value) -> Vec<String> {
    let again = match count(&peak["times"]) {
        0 | 1 => String::new(),
        2 => ", and once more".to_owned(),
        times => format!(", and {} times more", grouped(times - 1)),
    };
    let runs = grouped(count(&peak["runs"]));
    let mut lines = vec![
        format!("  {}{again}: {runs} runs in one second", table::second(&peak["time"])),
        format!("    {}", names(&peak["jobs"], count(&peak["moreJobs"]))),
    ];
    let spreads = peak["spreads"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    for (spread, word) in spreads.iter().zip(std::iter::once("try").chain(std::iter::repeat("or"))) {
        let change = match spread["schedule"].as_str() {
            Some(schedule) => {
                format!("`schedule: {schedule}` instead of `{}`", table::text(&spread["insteadOf"]))
            }
            None => format!("`jitter: {}`", short(seconds(&spread["jitter"]))),
        };
        let jobs = many(count(&spread["jobs"]), "job");
        let then = grouped(count(&spread["peak"]));
        lines.push(format!("    {word} {change} in {jobs}: {then} in the busiest second then"));
    }
    lines
}

/// `a, b and 9,990 more`
fn names(names: &Value, more: u64) -> String {
    let names: Vec<&str> = names.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let more = if more == 0 { String::new() } else { format!(" and {} more", grouped(more)) };
    format!("{}{more}", names.join(", "))
}

fn many(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// A number, which JSON has as text when it is a long one, and not at all when it is 0.
fn count(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

/// Whole seconds of a duration such as `600s`.
fn seconds(value: &Value) -> i64 {
    value.as_str().and_then(|text| text.strip_suffix('s')?.parse().ok()).unwrap_or(0)
}

/// As a file has it: `10m`.
fn short(seconds: i64) -> String {
    match seconds {
        _ if seconds % 3_600 == 0 => format!("{}h", seconds / 3_600),
        _ if seconds % 60 == 0 => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

/// As a sentence has it: `20 minutes`.
fn length(seconds: i64) -> String {
    let (number, unit) = match seconds {
        _ if seconds % 86_400 == 0 => (seconds / 86_400, "day"),
        _ if seconds % 3_600 == 0 => (seconds / 3_600, "hour"),
        _ if seconds % 60 == 0 => (seconds / 60, "minute"),
        _ => (seconds, "second"),
    };
    many(number.unsigned_abs(), unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    fn asked(arguments: &str) -> Option<Value> {
        let words = std::iter::once("escapement").chain(arguments.split(' '));
        match Arguments::try_parse_from(words).ok()?.command {
            Command::Preview(preview) => Some(request(&preview, 80)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_what_is_given_is_asked() {
        let buckets = Chart::columns(80);
        assert_eq!(asked("preview --herd"), Some(json!({ "buckets": buckets })));
        assert_eq!(
            asked("preview --herd --from 2026-12-01T00:00:00Z --for 1h30m -l team=billing --queue reports"),
            Some(json!({
                "from": "2026-12-01T00:00:00Z", "span": "5400s", "labels": ["team=billing"], "queue": "reports",
                "buckets": buckets,
            }))
        );
        for wrong in [
            "preview --herd --job a",
            "preview --herd -n 3",
            "preview --herd --timezone UTC",
            "preview --for 6h",
            "preview --herd --for long",
            "preview --job a -l team",
        ] {
            assert_eq!(asked(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_peak_names_its_jobs_and_what_would_spread_it() {
        let answer = json!({
            "from": "2026-11-30T12:00:00Z", "to": "2026-11-30T12:20:00Z", "jobs": 10_001, "runs": "30000",
            "busiest": { "runs": 10_000, "time": "2026-11-30T12:10:00Z" }, "bucket": "60s", "leftOut": ["odd"],
            "buckets": [{ "time": "2026-11-30T12:10:00Z", "runs": "30000", "peak": 10_000 }],
            "peaks": [{
                "time": "2026-11-30T12:10:00Z", "runs": 10_000, "times": 3, "jobs": ["a", "b"], "moreJobs": 9_998,
                "spreads": [
                    { "jitter": "600s", "jobs": 10_000, "peak": 31 },
                    { "schedule": "H 0 * * *", "insteadOf": "0 0 * * *", "jobs": 9_000, "peak": 1_170 },
                ],
            }],
        });
        let lines = lines(&answer, 80, Style::Plain);
        assert_eq!(
            lines[..2],
            [
                "10,001 jobs, 30,000 runs from 2026-11-30T12:00:00Z to 2026-11-30T12:20:00Z: 10,000 in the busiest second, 2026-11-30T12:10:00Z.",
                "Left out, because their definitions can't be used: odd.",
            ]
        );
        let after: Vec<&str> =
            lines.iter().map(String::as_str).skip_while(|line| !line.starts_with("Each")).collect();
        assert_eq!(
            after,
            [
                "Each column is 1 minute (UTC), as high as its busiest second.",
                "",
                "Peaks:",
                "  2026-11-30T12:10:00Z, and 2 times more: 10,000 runs in one second",
                "    a, b and 9,998 more",
                "    try `jitter: 10m` in 10,000 jobs: 31 in the busiest second then",
                "    or `schedule: H 0 * * *` instead of `0 0 * * *` in 9,000 jobs: 1,170 in the busiest second then",
            ]
        );
    }

    #[test]
    fn what_was_not_counted_is_said() {
        let nothing = json!({ "from": "2026-11-30T12:00:00Z", "to": "2026-11-30T12:20:00Z" });
        let expected = "0 jobs, 0 runs from 2026-11-30T12:00:00Z to 2026-11-30T12:20:00Z: nothing is due.";
        assert_eq!(lines(&nothing, 80, Style::Plain), [expected]);
        let cut = json!({ "cut": true, "leftOut": ["a"], "moreLeftOut": 2 });
        let lines = summary(&cut);
        assert!(lines[1].contains("--from shows what follows"), "{lines:?}");
        assert!(lines[2].ends_with("a and 2 more."), "{lines:?}");
    }
}
