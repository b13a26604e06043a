//! `cargo xtask test`: every test of the project, and one line at the end that counts them.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// What the `test result:` lines of a run add up to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// Builds every binary (the end-to-end tests start them), runs all tests, and prints the tally last.
pub fn run(arguments: &[String]) -> Result<(), String> {
    crate::cargo(&["build", "--workspace", "--bins"])?;
    let mut child = crate::cargo_command()
        .args(["test", "--workspace", "--no-fail-fast"])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cargo can't be started: {error}"))?;
    let mut tally = Tally::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(|error| format!("the tests' output can't be read: {error}"))?;
            println!("{line}");
            tally.add(&line);
        }
    }
    let status = child.wait().map_err(|error| format!("cargo can't be waited for: {error}"))?;
    println!("\n{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.ignored);
    match (status.success(), tally.passed) {
        (true, 0) => Err("no test ran".to_owned()),
        (true, _) => Ok(()),
        (false, _) => Err(format!("`cargo test` failed: {status}")),
    }
}

impl Tally {
    /// Adds a line like `test result: ok. 23 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out`.
    fn add(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result:").and_then(|rest| rest.split_once(". ")) else {
            return;
        };
        for part in counts.1.split(';') {
            let mut words = part.split_whitespace();
            let (Some(count), Some(kind)) =
                (words.next().and_then(|word| word.parse::<u64>().ok()), words.next())
            else {
                continue;
            };
            let counter: Option<&mut u64> = match kind {
                "passed" => Some(&mut self.passed),
                "failed" => Some(&mut self.failed),
                "ignored" => Some(&mut self.ignored),
                _ => None,
            };
            if let Some(counter) = counter {
                *counter += count;
            }
        }
    }
}

#[cfg(test)]
mod adds {
    use super::Tally;

    #[test]
    fn result_lines_add_up_and_others_do_not_count() {
        let mut tally = Tally::default();
        tally.add(
            "test result: ok. 23 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        );
        tally.add("test overlap ... ok");
        tally.add("test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 4 filtered out");
        assert_eq!(tally, Tally { passed: 25, failed: 3, ignored: 1 });
    }
}
