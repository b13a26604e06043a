//! The calendars that definitions name: each version is read once, for it never changes.

use schedule::{DateSetKey, DateSets};
use std::collections::BTreeSet;
use store::watch_cursor::Cursor;
use store::{StoreError, Transaction, calendar};

/// Versions that are kept at most; beyond that everything is read again.
const KEPT_MAX: usize = 10_000;

/// What is known of calendars.
#[derive(Debug, Default)]
pub struct Dates(DateSets);

impl Dates {
    /// The dates of every version that the definitions of `cursors` name; those that don't exist are missing.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub async fn of(&mut self, tx: &Transaction<'_>, cursors: &[Cursor]) -> Result<&DateSets, StoreError> {
        if !self.missing(cursors).is_empty() {
            self.0.limit(KEPT_MAX);
            for (version, dates) in calendar::dates(tx, &self.missing(cursors)).await? {
                self.0.add(version, dates);
            }
        }
        Ok(&self.0)
    }

    fn missing(&self, cursors: &[Cursor]) -> BTreeSet<DateSetKey> {
        let named = cursors.iter().flat_map(|cursor| {
            let definitions =
                cursor.revisions.iter().filter_map(|revision| revision.definition.as_ref().ok());
            definitions.map(|definition| (cursor.tenant_id, definition))
        });
        self.0.missing(named)
    }
}
