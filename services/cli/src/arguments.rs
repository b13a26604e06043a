//! What can be typed.

use crate::client::Client;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// A distributed cron: each occurrence gets exactly one run.
#[derive(Debug, Parser)]
#[command(name = "escapement", version, propagate_version = true)]
#[command(
    after_help = "Exit status: 0 done, 1 refused or failed (the reason is on standard error), 2 wrong usage."
)]
pub struct Arguments {
    #[command(flatten)]
    pub connection: Connection,
    /// How results are printed.
    #[arg(short, long, global = true, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    #[command(subcommand)]
    pub command: Command,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// For programs: the API's own JSON.
    Json,
}

/// Where the registry is, and who asks.
#[derive(Debug, Args)]
pub struct Connection {
    /// The registry's REST address. Without it, the local stack under .escapement/ is asked, when there is one.
    #[arg(long, global = true, env = "ESCAPEMENT_SERVER")]
    server: Option<String>,
    /// The bearer token.
    #[arg(long, global = true, env = "ESCAPEMENT_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

impl Connection {
    /// A client of the registry that the arguments, the environment or the local stack name.
    pub fn client(&self) -> anyhow::Result<Client> {
        match (&self.server, &self.token) {
            (Some(server), token) => Client::new(server, token.clone()),
            (None, token) => Client::of_local_stack(&PathBuf::from(stack::dev::DATA_DEFAULT), token.clone()),
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Creates or changes the jobs and channels of YAML files, all or none.
    Apply(Apply),
    /// Shows jobs or channels.
    Get(Get),
    /// Deletes a job or channel.
    Delete(Delete),
    /// Shows a job's runs, the latest first.
    Runs(Runs),
    /// Shows whether the clockwork turns: leader, lateness, dispatchers, workers, queue.
    Status,
    /// Brings the database's schema to this release's version.
    Migrate(Database),
    /// Makes the first token of a new database, or makes a token that you have known to it.
    Bootstrap(Bootstrap),
    /// Shows the leaderships that the database knows, or resets one after etcd was rebuilt.
    Fence(Fence),
    /// Starts a whole local stack, or stops a detached one.
    Dev(Dev),
}

#[derive(Debug, Args)]
pub struct Apply {
    /// A YAML file of documents with `kind: Job` or `kind: Channel`; `-` is standard input. May be repeated.
    #[arg(short, long = "file", required = true)]
    pub files: Vec<PathBuf>,
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
}

#[derive(Debug, Args)]
pub struct Get {
    #[arg(value_enum)]
    pub kind: Kind,
    /// One of them, by name or id; all without it.
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct Delete {
    #[arg(value_enum)]
    pub kind: Kind,
    /// Its name or id.
    pub name: String,
}

#[derive(Debug, Args)]
pub struct Runs {
    /// The job's name or id.
    pub job: String,
    /// Shows those that are planned and not due yet, instead of those that are.
    #[arg(long)]
    pub planned: bool,
    /// How many at most.
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
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
    /// Shows the highest leadership of each role.
    Show,
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
    /// Does not show runs as they end: nobody looks at a detached stack, and asking for them costs.
    #[arg(long, hide = true)]
    pub quiet: bool,
}
