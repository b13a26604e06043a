//! What attempts execute, remembered: a generation never changes. Read ahead of the second by [`crate::ahead`], so that a
//! claim in it need not.

use model::ids::{Generation, JobId};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::job_revision::{self, Key, Spec};
use store::run_lease::assignment::Assignment;
use store::{Store, StoreError, Transaction};

/// Definitions that are remembered at most; past it, all are forgotten and read again.
pub const REMEMBERED_MAX: usize = 50_000;
/// So many are read by one statement.
const READ_MAX: usize = 2_000;

/// A run with all that its worker is to be told.
#[derive(Debug, Clone)]
pub struct Handout {
    /// The lease, and what is special to this run.
    pub assignment: Assignment,
    /// What it executes.
    pub spec: Arc<Spec>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Definitions(Mutex<HashMap<Key, Arc<Spec>>>);

impl Definitions {
    fn known(&self) -> MutexGuard<'_, HashMap<Key, Arc<Spec>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, key: Key, spec: Spec) -> Arc<Spec> {
        let mut known = self.known();
        if known.len() >= REMEMBERED_MAX && !known.contains_key(&key) {
            known.clear();
        }
        known.entry(key).or_insert_with(|| Arc::new(spec)).clone()
    }

    /// What is remembered of these, and what is not.
    fn parted(&self, keys: impl IntoIterator<Item = Key>) -> (HashMap<Key, Arc<Spec>>, HashSet<Key>) {
        let (mut found, mut missing) = (HashMap::new(), HashSet::new());
        let known = self.known();
        for key in keys {
            match known.get(&key) {
                Some(spec) => drop(found.insert(key, spec.clone())),
                None => drop(missing.insert(key)),
            }
        }
        (found, missing)
    }

    /// All of these; what is not remembered is read.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Corrupt`] also when one does not exist.
    pub async fn all(
        &self,
        tx: &Transaction<'_>,
        keys: impl IntoIterator<Item = Key>,
    ) -> Result<HashMap<Key, Arc<Spec>>, StoreError> {
        let (mut found, missing) = self.parted(keys);
        let missing: Vec<Key> = missing.into_iter().collect();
        if missing.is_empty() {
            return Ok(found);
        }
        for (key, spec) in job_revision::specs_within(tx, &missing).await? {
            found.insert(key, self.remember(key, spec));
        }
        missing.iter().find(|key| !found.contains_key(key)).map_or(Ok(found), |key| Err(absent(key)))
    }

    /// Reads what is not remembered of these, so that it need not be read later; how many that were.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn read_ahead(
        &self,
        store: &Store,
        keys: impl IntoIterator<Item = Key>,
    ) -> Result<usize, StoreError> {
        let missing: Vec<Key> = self.parted(keys).1.into_iter().collect();
        for some in missing.chunks(READ_MAX) {
            for (key, spec) in job_revision::specs(store, some).await? {
                self.remember(key, spec);
            }
        }
        Ok(missing.len())
    }

    /// What the workers are to be told of these.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Corrupt`] also when a definition does not exist.
    pub async fn handouts(
        &self,
        store: &Store,
        assignments: Vec<Assignment>,
    ) -> Result<Vec<Handout>, StoreError> {
        let (mut found, missing) = self.parted(assignments.iter().map(key));
        let missing: Vec<Key> = missing.into_iter().collect();
        for some in missing.chunks(READ_MAX) {
            for (key, spec) in job_revision::specs(store, some).await? {
                found.insert(key, self.remember(key, spec));
            }
        }
        let handout = |assignment: Assignment| {
            let key = key(&assignment);
            let spec = found.get(&key).cloned().ok_or_else(|| absent(&key))?;
            Ok(Handout { assignment, spec })
        };
        assignments.into_iter().map(handout).collect()
    }
}

fn key(assignment: &Assignment) -> Key {
    (assignment.lease.key.job_id, assignment.lease.generation)
}

fn absent((job, generation): &(JobId, Generation)) -> StoreError {
    StoreError::Corrupt {
        what: "job_revision",
        problem: format!("generation {generation} of job {job} is missing"),
    }
}
