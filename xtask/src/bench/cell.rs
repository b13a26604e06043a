//! `cargo xtask bench herd|steady|life|idle|registry`: a whole cell of optimised processes under load, its figures
//! beside what is wanted.
//!
//! Builds, and leaves the rest to the crate `escapement-bench`, whose lines `FIGURE` are printed as a table.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What is measured here.
pub(super) const NAMES: [&str; 5] = ["herd", "steady", "life", "idle", "registry"];

const PACKAGES: [&str; 7] = [
    "escapement-bench",
    "escapement-registry",
    "escapement-ticker",
    "escapement-dispatcher",
    "escapement-watchdog",
    "escapement-agent",
    "escapement-cli",
];

/// Builds and measures; `arguments` begin with the name.
pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let mut build = vec!["build", "--release", "--bins"];
    build.extend(PACKAGES.iter().flat_map(|package| ["--package", package]));
    crate::cargo(&build)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let program = crate::root().join(target).join("release/escapement-bench");
    let output = Command::new(&program)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{} can't be started: {error}", program.display()))?;
    let figures = super::figures(&output.stdout);
    if !output.status.success() {
        return Err(format!("{} failed", program.display()));
    }
    match super::table_of_figures(&figures) {
        0 => Ok(()),
        missed => Err(format!("{missed} figures miss their target")),
    }
}
