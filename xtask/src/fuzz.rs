//! `cargo xtask fuzz`: a fuzz target of `libs/schedule` for some time, from its corpus.
//!
//! Needs cargo-fuzz; the compiler is the project's own, since no sanitizer is asked for: the library has no unsafe
//! code, and its invariants are assertions.

const FOLDER: &str = "libs/schedule/fuzz";

/// The targets, and the most bytes of an input.
const TARGETS: [(&str, u32); 2] = [("schedule", 320), ("timezone", 96)];

/// How long a run takes unless told otherwise.
const SECONDS: u32 = 600;

pub fn run(arguments: &[String]) -> Result<(), String> {
    let name = arguments.first().map_or("schedule", String::as_str);
    let names = TARGETS.map(|(name, _)| name).join(" or ");
    let (name, length_max) = TARGETS
        .into_iter()
        .find(|(target, _)| *target == name)
        .ok_or_else(|| format!("there is no fuzz target {name:?}: use {names}"))?;
    let seconds: u32 = match arguments.get(1) {
        Some(text) => text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?,
        None => SECONDS,
    };
    let installed = crate::cargo_command().args(["fuzz", "--version"]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        return Err("cargo-fuzz is missing: cargo install --locked cargo-fuzz".to_owned());
    }
    let folder = crate::root().join(FOLDER).display().to_string();
    crate::cargo(&[
        "fuzz",
        "run",
        "--sanitizer=none",
        "--fuzz-dir",
        &folder,
        name,
        "--",
        &format!("-max_total_time={seconds}"),
        &format!("-max_len={length_max}"),
        &format!("-dict={folder}/{name}.dict"),
        "-timeout=5",
        "-print_final_stats=1",
    ])
}
