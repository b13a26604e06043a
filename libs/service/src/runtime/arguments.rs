//! The arguments of every service, and a `--help` that lists all its settings.

use crate::config::{Common, Setting, Settings};
use clap::{CommandFactory, FromArgMatches, Parser};
use std::path::PathBuf;

/// The arguments of every service.
#[derive(Debug, Parser)]
pub(super) struct Arguments {
    /// The TOML file with the settings below.
    #[arg(long, env = "ESCAPEMENT_CONFIG", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Written once the service listens: its addresses as JSON, for a launcher that let it choose its ports.
    #[arg(long, env = "ESCAPEMENT_ENDPOINTS_FILE", value_name = "FILE")]
    pub(super) endpoints_file: Option<PathBuf>,
}

impl Arguments {
    /// The process's arguments; ends the process after `--help`, `--version` and wrong ones (exit code 2).
    pub(super) fn of_process<T: Settings>(name: &'static str, about: &'static str) -> Self {
        let command = command::<T>(name, about);
        let matches = command.get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

fn command<T: Settings>(name: &'static str, about: &'static str) -> clap::Command {
    Arguments::command().name(name).about(about).version(env!("CARGO_PKG_VERSION")).after_help(format!(
        "Settings, in the file by name; the variable in the environment wins:\n{}{}",
        listed(&T::describe()),
        listed(&Common::describe())
    ))
}

fn listed(settings: &[Setting]) -> String {
    let entry = |setting: &Setting| {
        let default = match setting.default.as_str() {
            "None" => "unset",
            default => default,
        };
        let (name, variable, about) = (setting.name, setting.variable(), &setting.about);
        format!("  {name} [{variable}] (default: {default})\n      {about}\n")
    };
    settings.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::settings! {
        struct Example {
            /// How far, in milliseconds.
            lookahead_ms: u64 = 60_000,
        }
    }

    #[test]
    fn help_lists_every_setting_with_variable_default_and_unit() {
        let help = command::<Example>("escapement-example", "An example.").render_help().to_string();
        assert!(help.contains("lookahead_ms [ESCAPEMENT_LOOKAHEAD_MS] (default: 60000)"), "{help}");
        assert!(help.contains("How far, in milliseconds."), "{help}");
        for setting in Common::describe() {
            assert!(help.contains(&setting.variable()), "{} is missing", setting.name);
        }
        assert!(help.contains("database_url [ESCAPEMENT_DATABASE_URL] (default: unset)"), "{help}");
    }
}
