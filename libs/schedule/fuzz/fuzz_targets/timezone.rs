//! Any bytes as the name of a timezone: found, or refused with a reason.

#![no_main]

#[allow(dead_code)]
#[path = "../invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| invariants::timezone(input));
