//! What attempts execute, remembered: a generation never changes. Read ahead of the second by [`crate::ahead`], so that a
//! claim in it need not. Invariant: so many at most, and so many bytes of them.

use model::ids::{Generation, JobId};
use model::validate::limits;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::job_revision::{self, Key, Spec};
use store::run_lease::assignment::Assignment;
use store::{Store, StoreError, Transaction};

/// Definitions that are remembered at most; past it, all are forgotten and read again.
pub const REMEMBERED_MAX: usize = 50_000;
/// Bytes of them, as JSON.
const BYTES_MAX: usize = 256 << 20;
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
pub struct Definitions(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    specs: HashMap<Key, Arc<Spec>>,
    bytes: usize,
}

impl Known {
    /// Room is made for one that takes so many `bytes`.
    fn remember(&mut self, key: Key, spec: Spec, bytes: usize) -> Arc<Spec> {
        if let Some(known) = self.specs.get(&key) {
            return known.clone();
        }
        if self.specs.len() >= REMEMBERED_MAX || self.bytes + bytes > BYTES_MAX {
            *self = Self::default();
        }
        self.bytes += bytes;
        let spec = Arc::new(spec);
        self.specs.insert(key, spec.clone());
        spec
    }
}

impl Definitions {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, key: Key, spec: Spec) -> Arc<Spec> {
        let bytes = serde_json::to_vec(&spec.definition).map_or(limits::WORK_BYTES, |text| text.len());
        self.known().remember(key, spec, bytes)
    }

    /// What is remembered of these, and what is not.
    fn parted(&self, keys: impl IntoIterator<Item = Key>) -> (HashMap<Key, Arc<Spec>>, HashSet<Key>) {
        let (mut found, mut missing) = (HashMap::new(), HashSet::new());
        let known = self.known();
        for key in keys {
            match known.specs.get(&key) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn what_is_remembered_has_an_end_in_number_and_in_bytes() {
        let lease = testing::lease(model::ids::SessionId::random(), 1);
        let spec = testing::assignment(&lease).spec;
        let remember = |known: &mut Known, bytes| {
            known.remember((JobId::random(), Generation::FIRST), spec.as_ref().clone(), bytes);
            (known.specs.len(), known.bytes)
        };
        let mut known = Known::default();
        assert_eq!(remember(&mut known, BYTES_MAX - 1), (1, BYTES_MAX - 1));
        assert_eq!(remember(&mut known, 1), (2, BYTES_MAX));
        assert_eq!(remember(&mut known, 1), (1, 1), "all are forgotten, and read again");
        let key = (JobId::random(), Generation::FIRST);
        for _ in 0..2 {
            known.remember(key, spec.as_ref().clone(), 7);
            assert_eq!((known.specs.len(), known.bytes), (2, 8), "once is enough");
        }
        while known.specs.len() < REMEMBERED_MAX {
            remember(&mut known, 1);
        }
        assert_eq!(remember(&mut known, 1), (1, 1));
    }
}
