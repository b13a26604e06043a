//! The invariants of the fuzz targets, on every input that the fuzzer found worth keeping.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../fuzz/invariants.rs"]
mod invariants;

use std::path::Path;

/// Passes every file of a target's corpus to `check`; at least `count_min`, so that a lost corpus is noticed.
fn replay(target: &str, count_min: usize, check: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let file = entry.unwrap().path();
        let input = std::fs::read(&file).unwrap();
        let broken = std::panic::catch_unwind(|| check(&input)).is_err();
        assert!(!broken, "{} breaks an invariant: {:?}", file.display(), String::from_utf8_lossy(&input));
        count += 1;
    }
    assert!(count >= count_min, "{count} files in {}", folder.display());
}

#[test]
fn the_corpus_of_schedules_keeps_the_invariants() {
    replay("schedule", 400, invariants::schedule);
}

#[test]
fn the_corpus_of_timezones_keeps_the_invariants() {
    replay("timezone", 90, invariants::timezone);
}
