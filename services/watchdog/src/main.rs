//! The watchdog's process.

use std::process::ExitCode;

fn main() -> ExitCode {
    service::runtime::main(
        "escapement-watchdog",
        "Notices what should have succeeded and did not, and tells the people on call.",
        watchdog::run,
    )
}
