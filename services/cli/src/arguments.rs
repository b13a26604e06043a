//! What can be typed.

mod access;
mod alerting;
mod channels;
mod check_ins;
mod connection;
mod define;
mod files;
mod import;
mod operate;
mod output;
mod preview;
mod trust;

pub use access::{Limit, TenantAction, TenantLimits, TokenAction, TokenRole};
pub use alerting::{AlertAction, AlertList, AlertSilence, Alerts, Level};
pub use channels::{ChannelAction, ChannelCommon, ChannelDeliveries, ChannelTarget, Channels, Encryption};
pub use check_ins::{CheckInAction, CheckInDefinition, CheckIns};
use clap::{Args, Parser, Subcommand, ValueEnum};
pub use connection::{Completion, Connection, ContextAction, ContextSet, Shell};
pub use define::{Apply, Create, Describe, Diff, Get, Order, Runs, Set};
pub use files::{Defined, Export};
pub use import::{Import, ImportCommon, ImportSource};
pub use operate::{Backfill, Cancel, Pause, Rerun, Resume, RunName, Trigger};
pub use output::{Format, Output};
pub use preview::{CalendarRule, DstFold, DstGap, Preview};
use std::path::PathBuf;
pub use trust::{Trust, Trusted};

/// A distributed cron: each occurrence gets exactly one run.
#[derive(Debug, Parser)]
#[command(name = "escapement", version, propagate_version = true)]
#[command(after_help = crate::failure::HELP, next_help_heading = "Global options")]
pub struct Arguments {
    #[command(flatten)]
    pub connection: Connection,
    /// How results are printed.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    pub output: Format,
    /// Shows on standard error neither how far long work is, nor runs as they end.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Creates or changes the jobs, channels and calendars of YAML files, all or none.
    Apply(Apply),
    /// Shows what `apply` would change, and what that means to the coming runs. Changes nothing.
    Diff(Diff),
    /// Creates the jobs, channels and calendars of YAML files, and refuses what exists.
    Create(Create),
    /// Prints all channels, calendars and jobs as documents for `apply`; applied, they change nothing.
    Export(Export),
    /// Prints the JSON Schema of the files of `apply`, by which editors complete and check them.
    Schema,
    /// Takes over the schedules of cron or Kubernetes: prints documents for `apply`, and says what became of each.
    Import(Import),
    /// Shows jobs, channels, calendars or check-ins.
    Get(Get),
    /// Shows all of one: a job with what comes, what was, and who changed it.
    Describe(Describe),
    /// Deletes a job, channel, calendar or check-in.
    Delete(Delete),
    /// Shows what a schedule means and when it is due, with what rules move, double or drop; or the coming load of all
    /// jobs.
    Preview(Preview),
    /// Says what is or was to happen at an instant of a job, past or future, and why.
    Why(Why),
    /// Shows runs of a job or of all, the latest first, or as they happen.
    Runs(Runs),
    /// Shows what a run has written, or writes.
    Logs(Logs),
    /// Pauses a job: nothing of it is planned or handed out until it is resumed. What runs goes on.
    Pause(Pause),
    /// Resumes a paused job.
    Resume(Resume),
    /// Runs a job now, once, beside its schedule.
    Trigger(Trigger),
    /// Runs the past occurrences of a range that have no run yet.
    Backfill(Backfill),
    /// Runs an ended run again: a new attempt with the same idempotency key.
    Rerun(Rerun),
    /// Cancels a run: at once if it waits, else its worker is asked to stop.
    Cancel(Cancel),
    /// Shows alerts, and looks after them.
    Alerts(Alerts),
    /// Makes, lists, deletes and tests channels, and shows what was told to them.
    Channels(Channels),
    /// Watches what runs elsewhere and reports to us.
    #[command(name = "checkins", alias = "check-ins")]
    CheckIns(CheckIns),
    /// Shows whether the clockwork turns: leader, lateness, dispatchers, workers, queue.
    Status,
    /// Makes, shows and revokes tokens.
    #[command(subcommand, visible_alias = "token")]
    Tokens(TokenAction),
    /// Makes, shows and limits tenants.
    #[command(subcommand, visible_alias = "tenant")]
    Tenants(TenantAction),
    /// Chooses the registry that the other commands ask, and how.
    #[command(subcommand, visible_alias = "contexts")]
    Context(ContextAction),
    /// Prints the script by which a shell completes commands, options and names.
    Completion(Completion),
    /// Brings the database's schema to this release's version.
    Migrate(Database),
    /// Makes the first token of a new database, or makes a token that you have known to it.
    Bootstrap(Bootstrap),
    /// Shows the leaderships that the database knows and the epoch of its tokens; after a restore makes a new epoch, after
    /// a rebuild of etcd resets a leadership.
    Fence(Fence),
    /// Starts a whole local stack, or stops a detached one.
    Dev(Dev),
}

/// What `get` and `delete` are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
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
    #[value(name = "checkins", aliases = ["checkin", "check-ins", "check-in"])]
    CheckIns,
}

impl Kind {
    /// Where the API has them.
    pub const fn collection(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Channels => "channels",
            Self::Calendars => "calendars",
            Self::CheckIns => "check-ins",
        }
    }

    /// What the API calls a list of them.
    pub const fn field(self) -> &'static str {
        match self {
            Self::CheckIns => "checkIns",
            other => other.collection(),
        }
    }
}

#[derive(Debug, Args)]
pub struct Delete {
    #[arg(value_enum)]
    pub kind: Kind,
    /// Its name or id.
    pub name: String,
}

#[derive(Debug, Args)]
pub struct Why {
    /// JOB@TIME: the job's name or id, and the instant as 2026-11-29T09:00:00Z, or without an offset in the job's local
    /// time.
    #[arg(value_name = "JOB@TIME")]
    pub run: String,
}

#[derive(Debug, Args)]
pub struct Logs {
    /// JOB@TIME: the job's name or id, and the instant as 2026-11-29T09:00:00Z.
    #[arg(value_name = "JOB@TIME")]
    pub run: String,
    /// Goes on until the run has ended; its end decides how this command ends.
    #[arg(short, long)]
    pub follow: bool,
}

#[derive(Debug, Args)]
pub struct Database {
    /// The PostgreSQL address, of a role that may create the schema.
    #[arg(long, env = "ESCAPEMENT_DATABASE_URL", hide_env_values = true)]
    pub database_url: String,
    /// The cell: the schema's name.
    #[arg(long, env = "ESCAPEMENT_CELL", default_value = "main")]
    pub cell: String,
}

#[derive(Debug, Args)]
pub struct Bootstrap {
    #[command(flatten)]
    pub database: Database,
    /// What the token may do.
    #[arg(long, value_enum)]
    pub role: Role,
    /// What it is called in the audit trail.
    #[arg(long)]
    pub name: String,
    /// Holds the token; written, for its owner only, when it is missing.
    #[arg(long)]
    pub token_file: PathBuf,
}

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Everything.
    Admin,
    /// Change jobs and channels.
    Editor,
    /// Look.
    Viewer,
    /// Attach to a dispatcher and take runs, of every tenant.
    Worker,
}

#[derive(Debug, Args)]
pub struct Fence {
    #[command(flatten)]
    pub database: Database,
    #[command(subcommand)]
    pub action: FenceAction,
}

#[derive(Debug, Subcommand)]
pub enum FenceAction {
    /// Shows the highest leadership of each role, and the epoch of the fencing tokens.
    Show,
    /// Makes a new epoch, so that every fencing token from here on is higher than any before. After a restore of the
    /// database, whichever way; a dispatcher must run. Nothing is handed out until it has been made, seconds later.
    Raise,
    /// Lets a lower revision lead again. Only after etcd was rebuilt and every old service was stopped: from here
    /// on an old leader that still runs is no longer refused.
    Reset {
        /// ticker or watchdog.
        role: String,
        /// Says that the old services are stopped.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Dev {
    #[command(subcommand)]
    pub action: Option<DevAction>,
    #[command(flatten)]
    pub start: DevStart,
}

#[derive(Debug, Subcommand)]
pub enum DevAction {
    /// Stops a stack that was started with --detach.
    Stop {
        /// Its folder.
        #[arg(long, default_value = stack::dev::DATA_DEFAULT)]
        data: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct DevStart {
    /// Where data, logs and endpoints.json are; a second start finds the data again.
    #[arg(long, default_value = stack::dev::DATA_DEFAULT)]
    pub data: PathBuf,
    /// Tickers; one leads.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub tickers: u8,
    /// Dispatchers; all active.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub dispatchers: u8,
    /// Agents.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=9))]
    pub agents: u8,
    /// Applies none of the sample jobs.
    #[arg(long)]
    pub no_sample_jobs: bool,
    /// Returns once all is ready; `escapement dev stop` stops it.
    #[arg(long)]
    pub detach: bool,
}
