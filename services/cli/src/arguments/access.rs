//! What can be typed about tokens and tenants.

use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub enum TokenAction {
    /// Makes a token. Its secret is shown this once.
    Create {
        /// What it is called, in lists and in the audit trail.
        name: String,
        /// What it may do.
        #[arg(long, value_enum)]
        role: TokenRole,
        /// When it stops to count: an instant (RFC 3339), or how long from now, as 90d, 12h or 30m.
        #[arg(long, value_parser = expiry)]
        expires: Option<DateTime<Utc>>,
        /// Whose it is: your own tenant's without it. Operators only.
        #[arg(long)]
        tenant: Option<String>,
        /// A worker that takes runs of every tenant. Operators only.
        #[arg(long, conflicts_with = "tenant")]
        every_tenant: bool,
        /// Writes the secret into this new file, for its owner only, instead of showing it.
        #[arg(long)]
        secret_file: Option<PathBuf>,
    },
    /// Shows tokens, without their secrets.
    #[command(visible_alias = "get")]
    List {
        /// One of them, by name or id; all without it.
        name: Option<String>,
        /// Revoked ones too.
        #[arg(long)]
        revoked: bool,
        /// Whose: your own tenant's without it. Operators only.
        #[arg(long)]
        tenant: Option<String>,
    },
    /// Revokes a token: within a second it opens nothing any more, and what it has open is closed.
    Revoke {
        /// Its name or id.
        name: String,
        /// Whose it is: your own tenant's without it. Operators only.
        #[arg(long)]
        tenant: Option<String>,
    },
}

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TokenRole {
    /// Everything in the tenant, tokens and the audit trail included.
    Admin,
    /// Read, and change jobs, channels and calendars.
    Editor,
    /// Read.
    Viewer,
    /// Attach to a dispatcher and take runs; nothing else.
    Worker,
}

#[derive(Debug, Subcommand)]
pub enum TenantAction {
    /// Makes a tenant. Operators only; make it a token next.
    Create {
        /// Its name, for ever.
        name: String,
        #[command(flatten)]
        limits: TenantLimits,
    },
    /// Shows all tenants. Operators only.
    List,
    /// Shows one tenant with its limits and what it has of them.
    Get {
        /// Its name; your own without it.
        name: Option<String>,
    },
    /// Changes the limits that are named, and leaves the others. Operators only.
    Set {
        /// Its name.
        name: String,
        #[command(flatten)]
        limits: TenantLimits,
    },
}

/// Limits of a tenant; `none` takes one away.
#[derive(Debug, Args)]
pub struct TenantLimits {
    /// Its share of the workers while others have due runs too, 1 to 100.
    #[arg(long, value_name = "N")]
    pub weight: Option<i32>,
    /// Runs that workers may have at a time.
    #[arg(long, value_name = "N|none", value_parser = count)]
    pub max_running: Option<Limit<i32>>,
    /// Runs of a queue that workers may have at a time, as QUEUE=N or QUEUE=none. May be repeated.
    #[arg(long, value_name = "QUEUE=N", value_parser = queue)]
    pub queue: Vec<(String, Limit<i32>)>,
    /// Starts a second.
    #[arg(long, value_name = "N|none", value_parser = count)]
    pub max_starts_per_second: Option<Limit<i32>>,
    /// Jobs.
    #[arg(long, value_name = "N|none", value_parser = count)]
    pub max_jobs: Option<Limit<i32>>,
    /// The shortest time between two occurrences of a job, as 60s or 5m.
    #[arg(long, value_name = "TIME|none", value_parser = interval)]
    pub min_interval: Option<Limit<Duration>>,
    /// Bytes of what a job runs, as JSON.
    #[arg(long, value_name = "N|none", value_parser = count)]
    pub max_payload_bytes: Option<Limit<i32>>,
    /// Days back that runs are shown.
    #[arg(long, value_name = "N|none", value_parser = count)]
    pub history_days: Option<Limit<i32>>,
}

/// A limit, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit<T> {
    /// This many.
    Of(T),
    /// No limit.
    None,
}

fn count(text: &str) -> Result<Limit<i32>, String> {
    match text {
        "none" => Ok(Limit::None),
        _ => text.parse().map(Limit::Of).map_err(|_| format!("{text:?}: use a whole number, or none")),
    }
}

fn queue(text: &str) -> Result<(String, Limit<i32>), String> {
    let (queue, limit) =
        text.split_once('=').ok_or_else(|| format!("{text:?}: use QUEUE=N, or QUEUE=none"))?;
    Ok((queue.to_owned(), count(limit)?))
}

fn interval(text: &str) -> Result<Limit<Duration>, String> {
    match text {
        "none" => Ok(Limit::None),
        _ => span(text)
            .map(Limit::Of)
            .ok_or_else(|| format!("{text:?}: use a time as 60s, 5m, 1h or 1d, or none")),
    }
}

fn expiry(text: &str) -> Result<DateTime<Utc>, String> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let after = span(text).and_then(|span| TimeDelta::from_std(span).ok());
    let at = after.and_then(|after| Utc::now().checked_add_signed(after));
    at.ok_or_else(|| {
        format!("{text:?}: use an instant as 2027-01-31T00:00:00Z, or a time from now as 90d or 12h")
    })
}

/// A number with a unit: s, m, h or d.
fn span(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    number.checked_mul(seconds).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_times_or_none() {
        assert_eq!(count("12"), Ok(Limit::Of(12)));
        assert_eq!(count("none"), Ok(Limit::None));
        assert!(count("many").is_err());
        assert_eq!(queue("mail=2"), Ok(("mail".to_owned(), Limit::Of(2))));
        assert!(queue("mail").is_err());
        assert_eq!(interval("5m"), Ok(Limit::Of(Duration::from_secs(300))));
        assert!(interval("5").is_err());
    }

    #[test]
    fn an_expiry_is_an_instant_or_a_time_from_now() {
        assert!(expiry("2027-01-31T00:00:00Z").is_ok());
        let in_a_day = expiry("1d").expect("a time") - Utc::now();
        assert!((86_390..=86_400).contains(&in_a_day.num_seconds()));
        assert!(expiry("soon").is_err() && expiry("99999999999999999999d").is_err());
    }
}
