//! The guard of a Redis: one Lua script that compares the token and runs the write in one atomic step.
//!
//! ```text
//! EVAL <GUARD> 2 {report}:fence {report}  17592186044418 7776000  SET {report} "…"
//!              │ │               │        │              │        └ the write; none: only check and remember
//!              │ │               │        │              └ seconds until an unused guard key is forgotten; 0: never
//!              │ │               │        └ the token
//!              │ │               └ the keys that the write touches
//!              │ └ where the highest token is kept
//!              └ how many keys
//! ```
//!
//! Load it once with `SCRIPT LOAD` and call `EVALSHA`, as every client library does by itself. In a cluster all keys
//! must be in one slot, which the part in braces decides.
//!
//! A lower token is answered by an error whose first word is [`STALE`]; the write is then not run. The script keeps the
//! token as text and compares length, then letters: numbers in Lua are inexact beyond 2^53, and tokens get there.
//!
//! **Time to live.** A key without one is kept for ever, which suits the key of a job. Keys of runs (overlap `ALLOW`)
//! come anew with each occurrence: give them one, longer than any machine may stay frozen and come back. Each accepted write counts
//! it from the start. A key that was forgotten, or evicted (`maxmemory-policy` other than `noeviction` or
//! `volatile-*` with keys that live for ever), guards nothing.
//!
//! Not covered: a failover to a replica that had not got the last token yet. Redis replicates asynchronously;
//! `WAIT 1 100` after the script narrows that window and does not close it.

/// The script; see the module for its keys and arguments, its own head for its errors.
pub const GUARD: &str = include_str!("../redis/guard.lua");

/// First word of the error for a lower token. Not to be retried: this attempt was given up for dead.
pub const STALE: &str = "STALE";

/// First word of the error for a text that is no token.
pub const BAD_TOKEN: &str = "BADTOKEN";
