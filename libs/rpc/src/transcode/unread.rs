//! What of a request could not be read.
//!
//! Invariant: bounded, whatever is sent. Of the first fields it is said what is wrong with them; of the others only how many
//! they are.

use model::validate::FieldError;

/// Fields of which it is said what is wrong with them: no answer names more.
pub const NAMED_MAX: usize = 50;

/// The fields that could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unread {
    /// The first of them.
    pub errors: Vec<FieldError>,
    /// How many there are beside these.
    pub more: usize,
    /// Paths of fields that were not given, but seem to be meant by a misspelt one among the first.
    pub meant: Vec<String>,
}

impl Unread {
    /// Whether all could be read.
    pub const fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Adds a field; `message` is not asked for when there are enough.
    pub(super) fn add(&mut self, path: impl Into<String>, message: impl FnOnce() -> String) {
        if self.is_full() {
            self.more += 1;
        } else {
            self.errors.push(FieldError::new(path, message()));
        }
    }

    /// Whether further fields are only counted.
    pub(super) const fn is_full(&self) -> bool {
        self.errors.len() >= NAMED_MAX
    }

    /// All of it as wrong fields: when there are more, the last says how many.
    pub fn told(self) -> Vec<FieldError> {
        let Self { mut errors, more, meant: _ } = self;
        if more > 0 {
            errors.push(FieldError::new("", more_are_wrong(more)));
        }
        errors
    }
}

/// What is said of `more` wrong fields that are not named.
pub fn more_are_wrong(more: usize) -> String {
    format!("{more} more fields are wrong: they are named once these are right")
}
