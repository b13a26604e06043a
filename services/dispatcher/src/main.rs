//! The dispatcher's process.

use std::process::ExitCode;

fn main() -> ExitCode {
    service::runtime::main(
        "escapement-dispatcher",
        "Hands due runs to workers, and keeps their sessions and leases.",
        dispatcher::run,
    )
}
