//! Leadership, membership and the epoch mark: everything that Escapement keeps in etcd.
//!
//! The only crate that knows etcd. Its invariant: of the candidates for a role at most one trusts itself at any
//! moment, because each trusts its lease for less time than etcd keeps it, counted from before the request.
//! A leadership's number, the create revision of its key, rises with each leadership and is what `store` fences
//! with; this crate alone cannot stop a frozen leader from writing once it thaws, and doesn't try to.
//!
//! etcd's own election service is not used: a candidate whose lease lapses while it waits there can hang for
//! ever, and then return as a leader whose key is gone.

pub mod client;
pub mod error;
pub mod keys;
mod lease;
pub mod mark;
pub mod members;
mod queue;
pub mod term;
mod tls;

pub use client::{Client, Config, Credentials};
pub use error::ElectionError;
pub use keys::Role;
pub use lease::Validity;
pub use mark::Mark;
pub use members::{Member, MemberHandle, Registration, members, register};
pub use term::{Candidate, Leader, Leadership, campaign, leader, revision};
pub use tls::Tls;
