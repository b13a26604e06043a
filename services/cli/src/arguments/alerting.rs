//! What can be typed about alerts.

use crate::document;
use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
pub struct Alerts {
    #[command(subcommand)]
    pub action: AlertAction,
}

#[derive(Debug, Subcommand)]
pub enum AlertAction {
    /// Shows the alerts that are not resolved, the newest first.
    List(AlertList),
    /// Shows one alert with its history.
    Get(AlertGet),
    /// Says that you look after it: it is not told again.
    Ack(AlertDeed),
    /// Keeps it from being told again for a while.
    Silence(AlertSilence),
    /// Ends it by hand.
    Resolve(AlertDeed),
}

/// How grave an alert is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Good to know.
    Info,
    /// To be looked at in working hours.
    Warning,
    /// To be looked at now.
    Critical,
}

#[derive(Debug, Args)]
pub struct AlertList {
    /// Resolved ones too.
    #[arg(long)]
    pub all: bool,
    /// Of this job: its name or id.
    #[arg(long)]
    pub job: Option<String>,
    /// Of this check-in: its name.
    #[arg(long)]
    pub check_in: Option<String>,
    /// Only those that are so grave. May be repeated.
    #[arg(long, value_enum)]
    pub severity: Vec<Level>,
    /// How many at most.
    #[arg(short = 'n', long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
}

#[derive(Debug, Args)]
pub struct AlertGet {
    /// The alert's id.
    pub alert: String,
}

#[derive(Debug, Args)]
pub struct AlertDeed {
    /// The alert's id.
    pub alert: String,
    /// Why, for people.
    #[arg(long, default_value = "")]
    pub reason: String,
}

#[derive(Debug, Args)]
pub struct AlertSilence {
    /// The alert's id.
    pub alert: String,
    /// For how long: 30m, 1h30m, or seconds.
    #[arg(
        long = "for",
        value_name = "DURATION",
        required_unless_present = "until",
        conflicts_with = "until"
    )]
    #[arg(value_parser = document::length)]
    pub length: Option<String>,
    /// Until when, as 2026-11-29T09:00:00Z.
    #[arg(long)]
    pub until: Option<String>,
    /// Why, for people.
    #[arg(long, default_value = "")]
    pub reason: String,
}
