//! The calendars that definitions name: each version is read once, for it never changes.

use schedule::{DateSetKey, DateSets};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use store::job_cursor::Cursor;
use store::{StoreError, Transaction, calendar};

/// Versions that are kept at most; beyond that everything is read again.
const KEPT_MAX: usize = 10_000;

/// What is known of calendars; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Dates(Arc<Mutex<Arc<DateSets>>>);

impl Dates {
    /// The dates of every version that the definitions of `cursors` name; those that don't exist are missing.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub async fn of(&self, tx: &Transaction<'_>, cursors: &[Cursor]) -> Result<Arc<DateSets>, StoreError> {
        let known = Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if missing(&known, cursors).is_empty() {
            return Ok(known);
        }
        let mut sets = DateSets::clone(&known);
        sets.limit(KEPT_MAX);
        for (version, dates) in calendar::dates(tx, &missing(&sets, cursors)).await? {
            sets.add(version, dates);
        }
        let sets = Arc::new(sets);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&sets);
        Ok(sets)
    }
}

fn missing(known: &DateSets, cursors: &[Cursor]) -> BTreeSet<DateSetKey> {
    let mut named = Vec::new();
    for cursor in cursors {
        let definitions = cursor.revisions.iter().filter_map(|revision| revision.definition.as_ref().ok());
        let with_calendars = definitions.filter(|definition| !definition.calendars.is_empty());
        named.extend(with_calendars.map(|definition| (cursor.tenant_id, definition)));
    }
    known.missing(named)
}
