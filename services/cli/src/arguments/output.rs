//! How results are printed, and which command has what to print in which way.
//!
//! Invariant: `-o` is honoured or refused, never ignored; it is refused before anything is done.

use super::{Arguments, Command, DevAction, FenceAction};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// The API's own JSON.
    Json,
    /// The same as YAML.
    Yaml,
    /// Names only, one a line.
    Name,
}

/// For whom results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Table,
    /// For programs: the API's own answer, in the format that was asked for.
    Json,
}

impl Arguments {
    /// What was typed. Ends the process with 2 when it can't be done so.
    pub fn read() -> Self {
        let arguments = Self::parse();
        if let Some(refusal) = arguments.command.refusal(arguments.output) {
            Self::command().error(ErrorKind::ArgumentConflict, refusal).exit()
        }
        arguments
    }
}

impl Command {
    /// Why this command can't print so, and what would be right; none when it can.
    fn refusal(&self, format: Format) -> Option<String> {
        match (format, self.prints()) {
            (Format::Table, _) | (_, Prints::All) | (Format::Json | Format::Yaml, Prints::NoNames(_)) => None,
            (Format::Name, Prints::NoNames(command)) => {
                Some(format!("`{command}` has no names to print: use -o json or -o yaml"))
            }
            (_, Prints::TextOnly(command, instead)) => {
                Some(format!("`{command}` prints no results: leave -o out; {instead}"))
            }
        }
    }

    fn prints(&self) -> Prints {
        match self {
            Self::Backfill(_) => Prints::NoNames("backfill"),
            Self::Completion(_) => Prints::TextOnly("completion", "what it prints is for the shell"),
            Self::Dev(dev) => match dev.action {
                Some(DevAction::Stop { .. }) => {
                    Prints::TextOnly("dev stop", "its exit status says how it went")
                }
                None => Prints::TextOnly("dev", "endpoints.json in the stack's folder is for programs"),
            },
            Self::Fence(fence) if matches!(fence.action, FenceAction::Raise) => {
                Prints::NoNames("fence raise")
            }
            Self::Logs(_) => Prints::NoNames("logs"),
            Self::Preview(_) => Prints::NoNames("preview"),
            Self::Schema => Prints::NoNames("schema"),
            Self::Status => Prints::NoNames("status"),
            Self::Why(_) => Prints::NoNames("why"),
            _ => Prints::All,
        }
    }
}

/// What a command has to print.
enum Prints {
    /// What every format can show.
    All,
    /// What has no names.
    NoNames(&'static str),
    /// What no program reads as a result; what one can go by instead.
    TextOnly(&'static str, &'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(typed: &str) -> Option<String> {
        let words = std::iter::once("escapement").chain(typed.split(' '));
        let arguments = Arguments::try_parse_from(words).expect(typed);
        arguments.command.refusal(arguments.output)
    }

    #[test]
    fn help_has_options_of_every_command_apart_from_a_command_s_own() {
        let mut command = Arguments::command();
        command.build();
        let runs = command.find_subcommand_mut("runs").expect("a command");
        let help = runs.render_help().to_string();
        let (own, global) = help.split_once("Global options:").expect("a heading");
        assert!(own.contains("--planned") && !own.contains("--server"), "{own}");
        for option in ["--server", "--ca-file", "--output", "--quiet"] {
            assert!(global.contains(option), "{option}: {global}");
        }
    }

    #[test]
    fn what_a_command_can_not_print_is_refused_with_what_would_be_right() {
        for honoured in [
            "get jobs -o name",
            "status -o yaml",
            "logs a@b -o json",
            "dev",
            "fence --database-url x show -o name",
        ] {
            assert_eq!(refusal(honoured), None, "{honoured}");
        }
        assert_eq!(
            refusal("status -o name").as_deref(),
            Some("`status` has no names to print: use -o json or -o yaml")
        );
        for refused in ["dev -o json", "dev stop -o yaml", "completion bash -o name"] {
            assert!(refusal(refused).is_some_and(|text| text.contains("leave -o out")), "{refused}");
        }
    }
}
