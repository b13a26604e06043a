//! The definitions that attempts execute, remembered: a generation never changes.

use model::ids::{Generation, JobId};
use model::job::Definition;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use store::{StoreError, Transaction, job_revision};

/// Definitions that are remembered at most; past it, all are forgotten and read again.
const REMEMBERED_MAX: usize = 50_000;

type Key = (JobId, Generation);

/// See the module.
#[derive(Debug, Default)]
pub struct Definitions(Mutex<HashMap<Key, Arc<Definition>>>);

impl Definitions {
    /// Remembers one.
    pub fn remember(&self, key: Key, definition: &Definition) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX && !known.contains_key(&key) {
            known.clear();
        }
        known.entry(key).or_insert_with(|| Arc::new(definition.clone()));
    }

    /// All of these; what is not remembered is read.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Corrupt`] also when one does not exist.
    pub async fn all(
        &self,
        tx: &Transaction<'_>,
        keys: impl IntoIterator<Item = Key>,
    ) -> Result<HashMap<Key, Arc<Definition>>, StoreError> {
        let mut found = HashMap::new();
        let mut missing = Vec::new();
        {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            for key in keys {
                match known.get(&key) {
                    Some(definition) => drop(found.insert(key, definition.clone())),
                    None => missing.push(key),
                }
            }
        }
        if missing.is_empty() {
            return Ok(found);
        }
        for (key, definition) in job_revision::definitions(tx, &missing).await? {
            self.remember(key, &definition);
            found.insert(key, Arc::new(definition));
        }
        let lacking = missing.iter().find(|key| !found.contains_key(key));
        lacking.map_or(Ok(found), |(job, generation)| {
            Err(StoreError::Corrupt {
                what: "job_revision",
                problem: format!("generation {generation} of job {job} is missing"),
            })
        })
    }
}
