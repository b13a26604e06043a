//! What can be typed to look ahead.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub struct Preview {
    /// As in a job: "0 9 * * 1-5".
    #[arg(required_unless_present_any = ["job", "herd"])]
    pub schedule: Option<String>,
    /// Shows a job's own schedule instead.
    #[arg(long, conflicts_with_all = ["schedule", "timezone", "dst_gap", "dst_fold", "starts_at", "ends_at", "exclude", "only", "rule"])]
    pub job: Option<String>,
    /// Shows the coming load of all jobs instead: how many runs are due, which jobs make the peaks, and what would spread
    /// them.
    #[arg(long, conflicts_with_all = ["schedule", "job", "timezone", "dst_gap", "dst_fold", "starts_at", "ends_at", "exclude", "only", "rule", "count", "previous"])]
    pub herd: bool,
    /// With --herd: how long, for example 6h, 1h30m or 7d; 24h without it.
    #[arg(long = "for", value_name = "DURATION", requires = "herd", conflicts_with_all = ["schedule", "job"], value_parser = crate::document::seconds)]
    pub span: Option<String>,
    /// With --herd: only jobs with this label: team=billing, or team for any value. May be repeated; all must hold.
    #[arg(short = 'l', long, value_name = "LABEL", requires = "herd", conflicts_with_all = ["schedule", "job"])]
    pub selector: Vec<String>,
    /// With --herd: only jobs of this queue.
    #[arg(long, requires = "herd", conflicts_with_all = ["schedule", "job"])]
    pub queue: Option<String>,
    /// IANA name; UTC without it.
    #[arg(long)]
    pub timezone: Option<String>,
    /// What becomes of a time that a clock change removes.
    #[arg(long, value_enum)]
    pub dst_gap: Option<DstGap>,
    /// Which pass of a time counts that a clock change repeats.
    #[arg(long, value_enum)]
    pub dst_fold: Option<DstFold>,
    /// No occurrence before this counts (RFC 3339).
    #[arg(long)]
    pub starts_at: Option<String>,
    /// No occurrence after this counts (RFC 3339).
    #[arg(long)]
    pub ends_at: Option<String>,
    /// A calendar whose dates are closed. May be repeated.
    #[arg(long, value_name = "CALENDAR")]
    pub exclude: Vec<String>,
    /// A calendar outside of whose dates days are closed. May be repeated.
    #[arg(long, value_name = "CALENDAR")]
    pub only: Vec<String>,
    /// What becomes of an occurrence on a closed day.
    #[arg(long, value_enum)]
    pub rule: Option<CalendarRule>,
    /// From when on (RFC 3339); now without it.
    #[arg(long)]
    pub from: Option<String>,
    /// How many.
    #[arg(short = 'n', long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub count: u16,
    /// Goes back in time.
    #[arg(long)]
    pub previous: bool,
}

/// What becomes of a time that a clock change removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DstGap {
    /// Once, at the first instant after the gap.
    RunAfter,
    /// Not at all.
    Skip,
}

/// Which pass of a time counts that a clock change repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DstFold {
    /// The first one.
    First,
    /// The second one.
    Second,
    /// Both.
    Both,
}

/// What becomes of an occurrence on a closed day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CalendarRule {
    /// It does not happen.
    Skip,
    /// It happens on the next open day.
    NextDay,
    /// It happens on the open day before.
    PreviousDay,
}
