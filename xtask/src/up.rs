//! `cargo xtask up`: builds every binary and becomes `escapement dev`.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Builds, then replaces this process, so that Ctrl-C reaches `escapement dev` alone.
pub fn up(arguments: &[String]) -> Result<(), String> {
    println!("Building (the first time takes some minutes) …");
    crate::cargo(&["build", "--workspace", "--bins"])?;
    let program = target_folder().join("debug/escapement");
    let error = Command::new(&program).arg("dev").args(arguments).exec();
    Err(format!("{} can't be started: {error}", program.display()))
}

fn target_folder() -> std::path::PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), Into::into)
}
