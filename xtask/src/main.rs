//! `cargo xtask up` and `cargo xtask test`: the two commands of the README, and what measures and fuzzes. Builds
//! without protoc or any crate, because it is what installs them.

mod bench;
mod criterion;
mod fuzz;
mod install;
mod tests;
mod up;

use install::Purpose;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
cargo xtask up [--yes] [FLAGS OF `escapement dev`]
    installs what is missing, builds, and starts a whole local stack under .escapement/
cargo xtask test [--yes] [ARGUMENTS OF `cargo test`]
    installs what is missing, builds, and runs every test of the project
cargo xtask install [--yes]
    installs what is missing for both: etcd, PostgreSQL, protoc, Redis and Python, from the distribution's packages
cargo xtask bench schedule
    measures schedules and prints each figure beside its target; fails when one misses it
cargo xtask bench herd|steady|life|idle|registry [--json FILE] [--rounds N]
    the same for a whole cell under load; `herd` takes --runs N and --tenants T, `--help` lists the rest
cargo xtask fuzz [schedule|timezone] [SECONDS]
    looks for text that breaks an invariant of schedules, for ten minutes unless told otherwise

--yes   do not ask before installing (nor is there a question without a terminal)";

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let yes = take_flag(&mut arguments, "--yes");
    let command = if arguments.is_empty() { "help".to_owned() } else { arguments.remove(0) };
    let result = match command.as_str() {
        "up" => install::missing(Purpose::Run, yes).and_then(|()| up::up(&arguments)),
        "test" => install::missing(Purpose::Test, yes).and_then(|()| tests::run(&arguments)),
        "install" => install::missing(Purpose::Test, yes),
        "bench" => bench::run(&arguments),
        "fuzz" => fuzz::run(&arguments),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        other => Err(format!("xtask has no command {other:?}\n\n{USAGE}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Removes `flag` from `arguments` and says whether it was there. What follows `--` belongs to somebody else.
fn take_flag(arguments: &mut Vec<String>, flag: &str) -> bool {
    let ours = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    match arguments[..ours].iter().position(|argument| argument == flag) {
        Some(index) => {
            arguments.remove(index);
            true
        }
        None => false,
    }
}

/// The workspace's folder, wherever the command was called from.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// Runs `cargo` with `arguments` in the workspace and fails when it does.
fn cargo(arguments: &[&str]) -> Result<(), String> {
    let status = cargo_command()
        .args(arguments)
        .status()
        .map_err(|error| format!("cargo can't be started: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`cargo {}` failed: {status}", arguments.join(" "))) }
}

/// `cargo` as if called from the shell: without what `cargo xtask` has told us of our own package, from which the
/// build scripts of others would conclude that they must build again.
fn cargo_command() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
            .iter()
            .any(|ours| text.starts_with(ours))
        {
            command.env_remove(&name);
        }
    }
    command
}

#[cfg(test)]
mod flags {
    use super::take_flag;

    #[test]
    fn a_flag_is_taken_but_not_from_behind_the_separator() {
        let mut arguments: Vec<String> = ["up", "--yes", "--", "--yes"].map(String::from).to_vec();
        assert!(take_flag(&mut arguments, "--yes"));
        assert!(!take_flag(&mut arguments, "--yes"));
        assert_eq!(arguments, ["up", "--", "--yes"]);
    }
}
