//! What can be typed to pause, run, fill and cancel.

use chrono::{DateTime, Utc};
use clap::Args;
use std::str::FromStr;

#[derive(Debug, Args)]
pub struct Pause {
    /// The job's name or id.
    pub job: String,
    /// Why, for whoever wonders.
    #[arg(long, default_value = "")]
    pub reason: String,
}

#[derive(Debug, Args)]
pub struct Resume {
    /// The job's name or id.
    pub job: String,
    /// Counts the pause as an outage: what was due in it follows the job's misfire policy.
    #[arg(long)]
    pub catch_up: bool,
}

#[derive(Debug, Args)]
pub struct Trigger {
    /// The job's name or id.
    pub job: String,
    /// Waits for an open run of a job that forbids overlap, instead of failing.
    #[arg(long)]
    pub wait: bool,
    #[command(flatten)]
    pub repeat: Repeat,
}

/// What makes a command safe to repeat.
#[derive(Debug, Args)]
pub struct Repeat {
    /// Repeated with the same key within 24 h, the command does nothing more and answers the same.
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Args)]
pub struct Backfill {
    /// The job's name or id.
    pub job: String,
    /// The first instant that counts, for example 2026-11-01T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub from: DateTime<Utc>,
    /// The last instant that counts; not in the future.
    #[arg(long, value_name = "TIME")]
    pub to: DateTime<Utc>,
    /// Says what would happen, and changes nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Between the starts of two runs, for example 2s or 500ms; the job's own pace of catching up without it.
    #[arg(long, value_name = "DURATION", value_parser = pace)]
    pub pace: Option<String>,
    /// Shows how many runs are left, until there are none.
    #[arg(long, conflicts_with = "dry_run")]
    pub follow: bool,
    #[command(flatten)]
    pub repeat: Repeat,
}

#[derive(Debug, Args)]
pub struct Rerun {
    /// The run: JOB@TIME, as `runs` and the API name it.
    pub run: RunName,
    #[command(flatten)]
    pub repeat: Repeat,
}

#[derive(Debug, Args)]
pub struct Cancel {
    /// The run: JOB@TIME, as `runs` and the API name it.
    pub run: RunName,
}

/// A run as people name it: `invoices@2026-11-29T09:00:00Z`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunName {
    /// The job's name or id.
    pub job: String,
    /// The occurrence, RFC 3339.
    pub time: String,
}

impl FromStr for RunName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (job, time) = text.rsplit_once('@').unwrap_or_default();
        if job.is_empty() || DateTime::parse_from_rfc3339(time).is_err() {
            return Err("use JOB@TIME, for example invoices@2026-11-29T09:00:00Z".to_owned());
        }
        Ok(Self { job: job.to_owned(), time: time.to_owned() })
    }
}

/// A duration in the API's form: whole and thousandths of seconds.
fn pace(text: &str) -> Result<String, String> {
    let wrong = || "use a number with ms, s, m or h, for example 2s".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let millis = number.checked_mul(factor).ok_or_else(wrong)?;
    Ok(format!("{}.{:03}s", millis / 1_000, millis % 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_by_its_job_and_instant() {
        let name = "invoices@2026-11-29T09:00:00Z".parse::<RunName>();
        let expected = RunName { job: "invoices".to_owned(), time: "2026-11-29T09:00:00Z".to_owned() };
        assert_eq!(name, Ok(expected));
        for none in ["invoices", "@2026-11-29T09:00:00Z", "invoices@", "invoices@tomorrow"] {
            assert!(none.parse::<RunName>().is_err(), "{none}");
        }
    }

    #[test]
    fn a_pace_is_a_number_with_its_unit() {
        for (text, expected) in
            [("2s", "2.000s"), ("500ms", "0.500s"), ("1m", "60.000s"), ("1h", "3600.000s")]
        {
            assert_eq!(pace(text).as_deref(), Ok(expected));
        }
        for none in ["", "2", "s", "-2s", "2.5s", "2d", "99999999999999999999s", "18446744073709551615h"] {
            assert!(pace(none).is_err(), "{none}");
        }
    }
}
