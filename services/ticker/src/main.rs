//! The ticker's process.

use std::process::ExitCode;

fn main() -> ExitCode {
    service::runtime::main("escapement-ticker", "Plans runs ahead of their second.", ticker::run)
}
