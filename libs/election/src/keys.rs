//! The names of all keys of a cell: `/escapement/<cell>/…`.
//!
//! ```text
//! election/<role>/<lease in hex>   a candidate; the oldest leads
//! members/<role>/<uuid>            a running process
//! epoch                            the mark of the database's tokens
//! ```
//! Every prefix ends with a slash, so that cell `a` never reads the keys of cell `ab`.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ElectionError;

const CELL_LENGTH_MAX: usize = 40;

/// What a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Plans runs; one leads.
    Ticker,
    /// Watches; one leads.
    Watchdog,
    /// Hands out runs.
    Dispatcher,
    /// Serves the API.
    Registry,
}

impl Role {
    /// Its name in keys, logs and the fence.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ticker => "ticker",
            Self::Watchdog => "watchdog",
            Self::Dispatcher => "dispatcher",
            Self::Registry => "registry",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names the keys of one cell.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    root: String,
}

impl Keys {
    /// Checks the name of the cell, which is part of every key.
    pub(crate) fn of_cell(cell: &str) -> Result<Self, ElectionError> {
        let well_formed = cell.starts_with(|first: char| first.is_ascii_lowercase())
            && cell.len() <= CELL_LENGTH_MAX
            && cell.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if well_formed {
            return Ok(Self { root: format!("/escapement/{cell}") });
        }
        let problem = format!(
            "{cell:?} is no name: use a lower-case letter, then letters, digits or _, at most {CELL_LENGTH_MAX}"
        );
        Err(ElectionError::Config { field: "cell", problem })
    }

    /// What all candidates for `role` have in common.
    pub(crate) fn candidates(&self, role: Role) -> String {
        format!("{}/election/{role}/", self.root)
    }

    /// The candidate with this lease.
    pub(crate) fn candidate(&self, role: Role, lease: i64) -> String {
        format!("{}{lease:x}", self.candidates(role))
    }

    /// What all members of `role` have in common.
    pub(crate) fn members(&self, role: Role) -> String {
        format!("{}/members/{role}/", self.root)
    }

    /// One member.
    pub(crate) fn member(&self, role: Role, uuid: Uuid) -> String {
        format!("{}{uuid}", self.members(role))
    }

    /// The mark.
    pub(crate) fn epoch(&self) -> String {
        format!("{}/epoch", self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_documented_layout() {
        let keys = Keys::of_cell("main").expect("a name");
        assert_eq!(keys.candidate(Role::Ticker, 0x2a), "/escapement/main/election/ticker/2a");
        assert_eq!(
            keys.member(Role::Dispatcher, Uuid::nil()),
            "/escapement/main/members/dispatcher/00000000-0000-0000-0000-000000000000"
        );
        assert_eq!(keys.epoch(), "/escapement/main/epoch");
    }

    #[test]
    fn a_role_has_one_spelling() {
        for role in [Role::Ticker, Role::Watchdog, Role::Dispatcher, Role::Registry] {
            let json = serde_json::to_string(&role).expect("encodes");
            assert_eq!(json, format!("\"{role}\""));
        }
    }

    #[test]
    fn one_cell_never_reads_another() {
        let (short, long) = (Keys::of_cell("a").expect("a name"), Keys::of_cell("ab").expect("a name"));
        assert!(!long.candidate(Role::Ticker, 1).starts_with(&short.candidates(Role::Ticker)));
        assert!(!long.epoch().starts_with(&short.epoch()));
    }

    #[test]
    fn a_cell_that_would_break_out_of_its_prefix_is_refused() {
        for cell in ["", "a/b", "..", "Main", "1a", &"a".repeat(41)] {
            assert!(Keys::of_cell(cell).is_err(), "{cell:?}");
        }
    }
}
