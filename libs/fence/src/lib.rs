//! The guard that a downstream system uses, so that an attempt which was given up for dead can't write.
//!
//! Escapement runs each occurrence once and attempts each run at least once. A machine that froze in the middle of a
//! job, and thaws after its run was given to another, does not know that yet: what it still writes has to be refused
//! where it arrives. So every attempt has a [`FencingToken`] and a [`GuardKey`]; of one key, a newer attempt has the
//! higher token; and whoever is written to remembers the highest token of each key and refuses lower ones.
//!
//! | what is written to | the guard |
//! | --- | --- |
//! | PostgreSQL | [`postgres`]: a table and one statement, first in the job's own transaction |
//! | Redis | [`redis`]: a Lua script that compares and writes in one step |
//! | an HTTP service | `http` (feature `http`): a [tower](https://docs.rs/tower) layer before the handlers |
//!
//! Invariant: of one guard key, nothing with a lower token takes effect after something with a higher one did. An equal token
//! passes: an attempt writes as often as it likes. Deliberately not here: a driver (the statements are text, for any language), and
//! applying an effect once, which is the idempotency key's matter; `docs/fencing.md` tells when which is needed.
//!
//! ```
//! use fence::{FencingToken, GuardKey};
//!
//! // As a job's process finds them in ESCAPEMENT_FENCING_TOKEN and ESCAPEMENT_GUARD_KEY.
//! let token: FencingToken = "17592186044418".parse()?;
//! let key: GuardKey = "0b7c3c1e-5d0a-4f7e-9a51-0f5b8f1f2a77".parse()?;
//! assert!(token < "17592186044419".parse()?);
//! assert_eq!(key.as_str().len(), 36);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "http")]
pub mod http;
pub mod postgres;
pub mod redis;
mod token;

pub use token::{FencingToken, GUARD_KEY_MAX_BYTES, GuardKey, InvalidGuardKey, InvalidToken};

/// The Rust examples of the page for people are tested with those of this crate.
#[cfg(all(doctest, feature = "http"))]
#[doc = include_str!("../../../docs/fencing.md")]
struct Docs;
