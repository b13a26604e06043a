//! The registry's process.

use std::process::ExitCode;

fn main() -> ExitCode {
    service::runtime::main(
        "escapement-registry",
        "Keeps definitions, answers for history and status: gRPC and REST.",
        registry::run,
    )
}
