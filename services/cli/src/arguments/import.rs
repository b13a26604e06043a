//! What can be typed to take over the definitions of other schedulers.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Import {
    #[command(subcommand)]
    pub source: ImportSource,
}

#[derive(Debug, Subcommand)]
pub enum ImportSource {
    /// Of cron: what `crontab -l` prints, or with --system /etc/crontab and the files of /etc/cron.d.
    Crontab {
        #[command(flatten)]
        common: ImportCommon,
        /// A user stands before each command.
        #[arg(long)]
        system: bool,
    },
    /// Of Kubernetes: manifests of CronJobs, as `kubectl get cronjobs -o yaml` prints them.
    Kubernetes {
        #[command(flatten)]
        common: ImportCommon,
    },
}

#[derive(Debug, Args)]
pub struct ImportCommon {
    /// Where it is; standard input without it, or with `-`.
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// For what names no timezone of its own: an IANA name, such as Europe/Berlin.
    #[arg(long)]
    pub timezone: Option<String>,
    /// Begins each name.
    #[arg(long, default_value = "")]
    pub prefix: String,
    /// The queue whose workers take the runs.
    #[arg(long)]
    pub queue: Option<String>,
    /// A channel that is told when a run does not succeed in time. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub channel: Vec<String>,
    /// A label for each job. May be repeated.
    #[arg(short = 'l', long, value_name = "KEY=VALUE", value_parser = label)]
    pub label: Vec<(String, String)>,
    /// Stores the jobs at once, all or none, instead of printing them. Refused when a part of the source is.
    #[arg(long)]
    pub apply: bool,
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("use KEY=VALUE, such as team=billing")?;
    Ok((key.to_owned(), value.to_owned()))
}
