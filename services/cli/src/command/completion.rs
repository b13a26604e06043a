//! `escapement completion bash|zsh|fish`, and what its script asks: commands and options, and names from the registry.
//!
//! Invariant: a shell waits for names no longer than [`LIMIT`], and then completes without them; nothing is ever said on
//! standard error. The names are those that the words typed so far are about.

use crate::arguments::{Arguments, Connection, Shell};
use crate::client::encode;
use crate::context::Contexts;
use crate::table::say;
use anyhow::Context;
use clap::{CommandFactory, FromArgMatches};
use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::{ArgValueCompleter, CompletionCandidate};
use serde_json::Value;
use std::ffi::OsStr;
use std::sync::mpsc;
use std::time::Duration;

/// Set by the shell's script, when it asks.
const VARIABLE: &str = "ESCAPEMENT_COMPLETE";
/// How long a shell waits for names.
const LIMIT: Duration = Duration::from_secs(1);
/// Names that are offered at most.
const NAMES_MAX: usize = 100;

/// Prints the script that a shell reads at its start.
pub fn run(shell: Shell) -> anyhow::Result<()> {
    let shells = Shells::builtins();
    let completer = shells.completer(shell.name()).with_context(|| format!("no completion for {shell:?}"))?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, "escapement", "escapement", "escapement", &mut script)
        .context("writing the script")?;
    say!("{}", String::from_utf8_lossy(&script).trim());
    Ok(())
}

/// Answers the shell's script and ends the process, if it is the one who asks.
pub fn answer() {
    CompleteEnv::with_factory(|| with_names(Arguments::command(), &[])).var(VARIABLE).complete();
}

/// Lets every argument that names something complete by what there is.
fn with_names(command: clap::Command, path: &[String]) -> clap::Command {
    let path = path.to_vec();
    let of = path.clone();
    command
        .mut_args(move |arg| match named(&of, arg.get_id().as_str()) {
            Some(names) => arg.add(ArgValueCompleter::new(move |typed: &OsStr| candidates(names, typed))),
            None => arg,
        })
        .mut_subcommands(move |sub| {
            let inner = [&path[..], &[sub.get_name().to_owned()]].concat();
            with_names(sub, &inner)
        })
}

/// What an argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Jobs,
    Channels,
    Contexts,
    /// Of the kind that was typed before.
    OfKind,
}

fn named(path: &[String], argument: &str) -> Option<Names> {
    match (path.first().map(String::as_str)?, argument) {
        (_, "context") | ("context", "name") => Some(Names::Contexts),
        (_, "job" | "run") => Some(Names::Jobs),
        ("get" | "describe" | "delete", "name") => Some(Names::OfKind),
        ("channels", "name") => Some(Names::Channels),
        _ => None,
    }
}

fn candidates(names: Names, typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(prefix) = typed.to_str().map(str::to_owned) else { return Vec::new() };
    let (found, asked) = mpsc::channel();
    // What is not there in time is left behind; the process ends soon.
    std::thread::spawn(move || found.send(look_up(names, &prefix).unwrap_or_default()));
    let all = asked.recv_timeout(LIMIT).unwrap_or_default();
    all.into_iter().map(CompletionCandidate::new).collect()
}

fn look_up(names: Names, prefix: &str) -> Option<Vec<String>> {
    // The script puts `--` before the words that were typed.
    let words: Vec<String> = std::env::args().skip_while(|word| word != "--").skip(1).collect();
    let collection = match names {
        Names::Contexts => {
            let known = Contexts::read(&Contexts::path().ok()?).ok()?;
            return Some(known.contexts.into_keys().filter(|name| name.starts_with(prefix)).collect());
        }
        Names::Jobs => "jobs",
        Names::Channels => "channels",
        Names::OfKind => kind(&words),
    };
    let matches = Arguments::command().ignore_errors(true).try_get_matches_from(&words).ok()?;
    let client = Connection::from_arg_matches(&matches).ok()?.client().ok()?;
    let path = format!("/v1/{collection}?pageSize={NAMES_MAX}");
    let path = if collection == "jobs" { format!("{path}&namePrefix={}", encode(prefix)) } else { path };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let mut answer = runtime.block_on(client.get(&path)).ok()?;
    let field = if collection == "check-ins" { "checkIns" } else { collection };
    let Value::Array(items) = answer[field].take() else { return None };
    let text =
        |item: &Value| item["name"].as_str().filter(|name| name.starts_with(prefix)).map(str::to_owned);
    Some(items.iter().filter_map(text).collect())
}

/// The collection that is typed behind `get`, `describe` or `delete`.
fn kind(words: &[String]) -> &'static str {
    let typed = words.iter().find_map(|word| match word.as_str() {
        "channel" | "channels" => Some("channels"),
        "calendar" | "calendars" => Some("calendars"),
        "checkin" | "checkins" | "check-in" | "check-ins" => Some("check-ins"),
        "job" | "jobs" => Some("jobs"),
        _ => None,
    });
    typed.unwrap_or("jobs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_complete_by_what_they_name() {
        let names = |path: &str, argument| {
            let path: Vec<String> = path.split(' ').map(str::to_owned).collect();
            named(&path, argument)
        };
        assert_eq!(names("trigger", "job"), Some(Names::Jobs));
        assert_eq!(names("why", "run"), Some(Names::Jobs));
        assert_eq!(names("get", "name"), Some(Names::OfKind));
        assert_eq!(names("context use", "name"), Some(Names::Contexts));
        assert_eq!(names("channels test", "name"), Some(Names::Channels));
        assert_eq!(names("tokens create", "name"), None);
        assert_eq!(kind(&["escapement".to_owned(), "get".to_owned(), "calendars".to_owned()]), "calendars");
    }

    #[test]
    fn the_command_is_sound_with_what_completes_it() {
        with_names(Arguments::command(), &[]).debug_assert();
    }
}
