//! How many watch at a time, and until when: a stream that is open costs looks at the database for as long as it is.
//!
//! Invariants: no tenant takes more than its share, so that those of another find a place; all of them together look with
//! a quarter of the connections at most, so that however many watch, and however long their looks take, calls find one.

use model::ids::TenantId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// Those who watch at a time, in one process.
const WATCHING_MAX: usize = 500;
/// Those of one tenant.
const OF_TENANT_MAX: usize = 250;
/// After a refusal: streams are open for long.
const FULL_WAIT: Duration = Duration::from_secs(5);

/// Of the connections to the database one in so many is for looks, but one at least.
const LOOKS_SHARE: usize = 4;

/// The places of a process, and when all of them are given up.
#[derive(Clone)]
pub struct Watching {
    taken: Arc<Mutex<HashMap<TenantId, usize>>>,
    looks: Arc<Semaphore>,
    stop: CancellationToken,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    taken: Arc<Mutex<HashMap<TenantId, usize>>>,
    tenant: TenantId,
}

impl Watching {
    /// Until `stop`, with a share of so many connections.
    pub fn until(stop: CancellationToken, connections: usize) -> Self {
        let looks = Arc::new(Semaphore::new((connections / LOOKS_SHARE).max(1)));
        Self { taken: Arc::default(), looks, stop }
    }

    /// Waits for its turn to look at the database, which lasts until the permit is dropped. None would mean that nobody
    /// looks any more, which is never the case.
    pub async fn look(&self) -> Option<SemaphorePermit<'_>> {
        self.looks.acquire().await.ok()
    }

    /// A place for one more of `tenant`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED, with when to try again, when there is none.
    pub fn place(&self, tenant: TenantId) -> Result<Place, Status> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(&tenant).copied().unwrap_or_default();
        if own >= OF_TENANT_MAX {
            let text = format!(
                "{own} of your tenant's {OF_TENANT_MAX} streams are open here, and one has to be closed first"
            );
            return Err(rpc::status::try_later(&text, FULL_WAIT));
        }
        if taken.values().sum::<usize>() >= WATCHING_MAX {
            return Err(rpc::status::try_later("too many watch here", FULL_WAIT));
        }
        taken.insert(tenant, own + 1);
        Ok(Place { taken: self.taken.clone(), tenant })
    }

    /// Until when.
    pub fn stopped(&self) -> CancellationToken {
        self.stop.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tenant_takes_the_places_of_all_and_a_place_that_is_left_is_free_again() {
        let watching = Watching::until(CancellationToken::new(), 16);
        let [greedy, other, third] = [TenantId::random(), TenantId::random(), TenantId::random()];
        let mut places: Vec<_> =
            (0..OF_TENANT_MAX).map(|_| watching.place(greedy).expect("a place")).collect();
        let refused = watching.place(greedy).expect_err("its share is taken");
        assert!(refused.message().contains("250 of your tenant's 250"), "{refused:?}");
        places.extend((OF_TENANT_MAX..WATCHING_MAX).map(|_| watching.place(other).expect("a place")));
        assert!(watching.place(third).is_err(), "all are taken");
        places.truncate(1);
        assert!(watching.place(third).is_ok());
        drop(places);
        assert!(watching.taken.lock().expect("not poisoned").is_empty());
    }
}
