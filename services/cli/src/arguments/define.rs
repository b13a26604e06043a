//! What can be typed to define jobs, and to look at them and their runs.

use super::Kind;
use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Apply {
    #[command(flatten)]
    pub set: Set,
    /// Says what would change and what that means to the coming runs, and changes nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// A set of definitions.
#[derive(Debug, Args)]
pub struct Set {
    /// A YAML file of documents with `kind: Job`, `kind: Channel` or `kind: Calendar`; `-` is standard input. May be
    /// repeated.
    #[arg(short, long = "file", required = true)]
    pub files: Vec<PathBuf>,
    /// Deletes the jobs that have the labels of --selector and are not in the files.
    #[arg(long, requires = "selector")]
    pub prune: bool,
    /// With --prune: a label as team=billing. May be repeated; all must hold.
    #[arg(short = 'l', long, value_name = "KEY=VALUE", requires = "prune")]
    pub selector: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Diff {
    #[command(flatten)]
    pub set: Set,
}

#[derive(Debug, Args)]
pub struct Create {
    /// A YAML file of documents as for `apply`; `-` is standard input. May be repeated. What exists is refused.
    #[arg(short, long = "file", required = true)]
    pub files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Get {
    #[arg(value_enum)]
    pub kind: Kind,
    /// One of them, by name or id; all without it.
    #[arg(conflicts_with_all = ["selector", "queue", "paused", "prefix", "order"])]
    pub name: Option<String>,
    /// Only jobs with this label: team=billing, or team for any value. May be repeated; all must hold.
    #[arg(short = 'l', long, value_name = "LABEL")]
    pub selector: Vec<String>,
    /// Only jobs of this queue.
    #[arg(long)]
    pub queue: Option<String>,
    /// Only paused jobs; with `--paused=false` only others.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub paused: Option<bool>,
    /// Only jobs whose name begins so.
    #[arg(long)]
    pub prefix: Option<String>,
    /// In which order jobs come; by name without it.
    #[arg(long, value_enum)]
    pub order: Option<Order>,
}

/// In which order jobs come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// By name.
    Name,
    /// The next one that is due first; others are left out.
    Next,
    /// The latest change first.
    Changed,
}

#[derive(Debug, Args)]
pub struct Describe {
    #[arg(value_enum)]
    pub kind: Kind,
    /// Its name or id.
    pub name: String,
}

#[derive(Debug, Args)]
pub struct Runs {
    /// The job's name or id; without it the runs of all jobs are shown.
    #[arg(conflicts_with = "all_jobs")]
    pub job: Option<String>,
    /// Shows the runs of all jobs, as without a job.
    #[arg(long)]
    pub all_jobs: bool,
    /// Shows those that are planned and not due yet, instead of those that are.
    #[arg(long, conflicts_with_all = ["state", "watch"])]
    pub planned: bool,
    /// Only runs in this state, for example failed or running. May be repeated.
    #[arg(long, value_name = "STATE")]
    pub state: Vec<String>,
    /// Only runs of this origin: schedule, catch_up, backfill or manual. May be repeated.
    #[arg(long, value_name = "ORIGIN", conflicts_with = "watch")]
    pub origin: Vec<String>,
    /// Only runs scheduled since then: 2026-11-29T09:00:00Z, or 90m, 2h, 7d ago.
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "watch")]
    pub since: Option<DateTime<Utc>>,
    /// Only runs scheduled before that; as --since.
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "watch")]
    pub until: Option<DateTime<Utc>>,
    /// Goes on to show what becomes of runs from now on, until it is interrupted. Nothing is missed while a registry is
    /// started anew.
    #[arg(short, long)]
    pub watch: bool,
    /// How many at most.
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
}

/// An instant, or how long ago it was.
fn moment(text: &str) -> Result<DateTime<Utc>, String> {
    if let Ok(instant) = DateTime::parse_from_rfc3339(text) {
        return Ok(instant.with_timezone(&Utc));
    }
    let wrong = || "use a time as 2026-11-29T09:00:00Z, or how long ago, as 90m, 2h or 7d".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let number: i64 = number.parse().map_err(|_| wrong())?;
    let ago = match unit {
        "s" => TimeDelta::try_seconds(number),
        "m" => TimeDelta::try_minutes(number),
        "h" => TimeDelta::try_hours(number),
        "d" => TimeDelta::try_days(number),
        _ => None,
    };
    ago.and_then(|ago| Utc::now().checked_sub_signed(ago)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_an_instant_or_how_long_ago() {
        let named = moment("2026-11-29T10:00:00+01:00").expect("an instant");
        assert_eq!(named.to_rfc3339(), "2026-11-29T09:00:00+00:00");
        let ago = Utc::now() - moment("2h").expect("a time ago");
        assert!((ago - TimeDelta::hours(2)).num_seconds().abs() < 5, "{ago}");
        for none in ["", "2", "h", "2w", "-2h", "yesterday", "99999999999999999999d", "9999999999999d"] {
            assert!(moment(none).is_err(), "{none}");
        }
    }
}
