//! What can be typed about check-ins.

use crate::document;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct CheckIns {
    #[command(subcommand)]
    pub action: CheckInAction,
}

#[derive(Debug, Subcommand)]
pub enum CheckInAction {
    /// Stores a new one, and shows its token, this once.
    Create(CheckInDefinition),
    /// Replaces what is expected of one; what is not given gets its default.
    Update(CheckInDefinition),
    /// Shows all of them.
    List,
    /// Shows one, with its newest reports.
    Get(CheckInName),
    /// Deletes one: its token is refused from then on.
    Delete(CheckInName),
    /// Expects nothing of one until it is resumed.
    Pause(CheckInName),
    /// Expects what it is to report again, from now on.
    Resume(CheckInName),
    /// Gives one another token and shows that, this once; the one before is refused from then on.
    Rotate(CheckInName),
}

#[derive(Debug, Args)]
pub struct CheckInName {
    /// Its name.
    pub name: String,
}

#[derive(Debug, Args)]
pub struct CheckInDefinition {
    /// Its name.
    pub name: String,
    /// When success is expected, as a job's schedule.
    #[arg(long, required_unless_present = "period", conflicts_with = "period")]
    pub schedule: Option<String>,
    /// The IANA timezone of the schedule.
    #[arg(long, conflicts_with = "period")]
    pub timezone: Option<String>,
    /// How long after the last success the next one is expected: 1d, 1h30m, or seconds.
    #[arg(long, value_name = "DURATION", value_parser = document::length)]
    pub period: Option<String>,
    /// How much later it may come, likewise.
    #[arg(long, value_name = "DURATION", value_parser = document::length)]
    pub grace: Option<String>,
    /// How long after a start success is expected, likewise.
    #[arg(long, value_name = "DURATION", value_parser = document::length)]
    pub max_runtime: Option<String>,
    /// A channel that is told. May be repeated.
    #[arg(long = "channel")]
    pub channels: Vec<String>,
}
