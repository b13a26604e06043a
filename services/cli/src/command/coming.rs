//! What a change does to the coming runs, for people.

use crate::table::{self, say};
use serde_json::Value;

/// Prints what the API says of it.
pub fn print(coming: &Value) {
    for line in lines(coming) {
        say!("{line}");
    }
}

fn lines(coming: &Value) -> Vec<String> {
    let jobs = coming["jobs"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let mut lines = vec![String::new()];
    if jobs.is_empty() {
        lines.push("coming runs: the same in the next 24 h, and around the next clock change".to_owned());
    } else {
        lines.push("coming runs, in the next 24 h and around the next clock change:".to_owned());
    }
    for job in jobs {
        let count = |name: &str| job[name].as_i64().unwrap_or(0);
        let counts = [("added", count("added")), ("removed", count("removed")), ("moved", count("moved"))];
        let counts: Vec<_> =
            counts.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{n} {what}")).collect();
        let cut = if job["cut"] == true { ", and more than was looked at" } else { "" };
        lines.push(format!("  {}: {}{cut}", table::text(&job["name"]), counts.join(", ")));
        let changes = job["changes"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        lines.extend(changes.iter().map(change));
        let more = counts_of(job) - i64::try_from(changes.len()).unwrap_or(i64::MAX);
        if more > 0 {
            lines.push(format!("    … {more} more"));
        }
    }
    if let Some(more) = coming["moreJobs"].as_i64().filter(|more| *more > 0) {
        lines.push(format!("  … {more} more jobs"));
    }
    lines.push(format!(
        "busiest second of the next 24 h: {} before, {} after{}",
        peak(&coming["peakBefore"]),
        peak(&coming["peakAfter"]),
        if coming["cut"] == true { " (there was too much to look at all of it)" } else { "" }
    ));
    lines
}

fn counts_of(job: &Value) -> i64 {
    ["added", "removed", "moved"].iter().filter_map(|name| job[*name].as_i64()).sum()
}

fn change(change: &Value) -> String {
    let sign = match change["kind"].as_str() {
        Some("ADDED") => "+",
        Some("REMOVED") => "-",
        _ => "~",
    };
    let was = match change["was"].as_str() {
        Some(_) => format!(" (was {})", table::second(&change["was"])),
        None => String::new(),
    };
    let rule = match change["rule"].as_str() {
        None | Some("") => String::new(),
        Some(rule) => format!(": {rule}"),
    };
    format!("    {sign} {}{was}{rule}", table::text(&change["localTime"]))
}

fn peak(peak: &Value) -> String {
    match peak["runs"].as_i64() {
        None => "no run".to_owned(),
        Some(1) => format!("1 run at {}", table::second(&peak["time"])),
        Some(runs) => format!("{runs} runs at {}", table::second(&peak["time"])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_change_is_a_line_with_its_rule() {
        let coming = json!({
            "jobs": [{ "name": "a", "added": 1, "moved": 2, "removed": 0, "changes": [
                { "kind": "ADDED", "localTime": "2027-03-28T03:00:00+02:00", "rule": "the times do not exist" },
                { "kind": "MOVED", "localTime": "2027-01-02T10:00:00Z", "was": "2027-01-02T09:00:00Z", "rule": "" },
            ] }],
            "moreJobs": 3,
            "peakBefore": { "runs": 1, "time": "2027-01-02T09:00:00Z" },
        });
        let expected = "
coming runs, in the next 24 h and around the next clock change:
  a: 1 added, 2 moved
    + 2027-03-28T03:00:00+02:00: the times do not exist
    ~ 2027-01-02T10:00:00Z (was 2027-01-02T09:00:00Z)
    … 1 more
  … 3 more jobs
busiest second of the next 24 h: 1 run at 2027-01-02T09:00:00Z before, no run after";
        assert_eq!(lines(&coming).join("\n"), expected);
    }
}
