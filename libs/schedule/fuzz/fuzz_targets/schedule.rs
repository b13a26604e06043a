//! Any bytes as an expression, rules and an instant: nothing panics, nothing is slow, both directions agree.

#![no_main]

#[allow(dead_code)]
#[path = "../invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| invariants::schedule(input));
