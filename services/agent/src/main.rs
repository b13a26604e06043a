//! The agent's process.

use std::process::ExitCode;

fn main() -> ExitCode {
    service::runtime::main(
        "escapement-agent",
        "The ready-made worker: starts processes and makes HTTP calls for runs.",
        agent::run,
    )
}
