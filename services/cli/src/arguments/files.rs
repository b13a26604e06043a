//! What can be typed to write definitions into files.

use clap::{Args, ValueEnum};

/// What files define.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Defined {
    /// Jobs.
    #[value(alias = "job")]
    Jobs,
    /// Channels.
    #[value(alias = "channel")]
    Channels,
    /// Calendars.
    #[value(alias = "calendar")]
    Calendars,
    /// Check-ins.
    #[value(name = "checkins", alias = "check-ins", alias = "checkin")]
    CheckIns,
}

impl Defined {
    /// What a set of definitions calls them.
    pub const fn collection(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Channels => "channels",
            Self::Calendars => "calendars",
            Self::CheckIns => "checkIns",
        }
    }
}

#[derive(Debug, Args)]
pub struct Export {
    /// Only these; all without any.
    #[arg(value_enum, value_name = "KIND")]
    pub kinds: Vec<Defined>,
    /// Only jobs with this label: team=billing, or team for any value. May be repeated; all must hold.
    #[arg(short = 'l', long, value_name = "LABEL")]
    pub selector: Vec<String>,
}
