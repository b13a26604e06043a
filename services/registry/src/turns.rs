//! Turns at what keeps a processor busy for seconds: the coming load, and what a set would do to the coming runs.
//!
//! Invariants: so many are worked on at once in one registry, of one tenant one at a time; so many of a tenant wait, and so
//! many of all. Who comes then is told to try again, and who goes leaves his place in the line. Deliberately not here:
//! the work, which has its own limits.

use crate::failure::Failure;
use model::ids::TenantId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests that are worked on at once.
const AT_ONCE_MAX: usize = 2;
/// Requests of a tenant that wait or are worked on.
const OF_TENANT_MAX: usize = 8;
/// Requests of all tenants that wait or are worked on.
const OF_ALL_MAX: usize = 64;

/// The lines, one for each tenant, and the places to which they lead.
#[derive(Debug, Clone)]
pub struct Turns {
    places: Arc<Semaphore>,
    lines: Arc<Mutex<HashMap<TenantId, Line>>>,
}

#[derive(Debug)]
struct Line {
    head: Arc<Semaphore>,
    length: usize,
}

/// Whose turn it is, until this is dropped.
#[derive(Debug)]
pub struct Turn {
    _place: OwnedSemaphorePermit,
    _head: OwnedSemaphorePermit,
    _standing: Standing,
}

/// A place in a line.
#[derive(Debug)]
struct Standing {
    lines: Arc<Mutex<HashMap<TenantId, Line>>>,
    tenant: TenantId,
}

impl Default for Turns {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(AT_ONCE_MAX)), lines: Arc::default() }
    }
}

impl Turns {
    /// Waits for a turn of `tenant`.
    ///
    /// # Errors
    /// [`Failure::Crowded`] at once, when too many wait.
    pub async fn wait(&self, tenant: TenantId) -> Result<Turn, Failure> {
        let (standing, head) = self.stand(tenant)?;
        let broken = |_| Failure::Broken("waiting for a turn");
        let head = head.acquire_owned().await.map_err(broken)?;
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(broken)?;
        Ok(Turn { _place: place, _head: head, _standing: standing })
    }

    fn stand(&self, tenant: TenantId) -> Result<(Standing, Arc<Semaphore>), Failure> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = lines.values().map(|line| line.length).sum();
        let own = lines.get(&tenant).map_or(0, |line| line.length);
        if own >= OF_TENANT_MAX || all >= OF_ALL_MAX {
            return Err(Failure::Crowded);
        }
        let line =
            lines.entry(tenant).or_insert_with(|| Line { head: Arc::new(Semaphore::new(1)), length: 0 });
        line.length += 1;
        Ok((Standing { lines: Arc::clone(&self.lines), tenant }, Arc::clone(&line.head)))
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.get_mut(&self.tenant) {
            line.length -= 1;
            if line.length == 0 {
                lines.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    use uuid::Uuid;

    type Waiting = Pin<Box<dyn Future<Output = Result<Turn, Failure>>>>;

    fn tenant(number: usize) -> TenantId {
        TenantId(Uuid::from_u128(number as u128))
    }

    fn ask(turns: &Turns, number: usize) -> Waiting {
        let turns = turns.clone();
        Box::pin(async move { turns.wait(tenant(number)).await })
    }

    /// None while it waits.
    fn look(waiting: &mut Waiting) -> Option<Result<Turn, Failure>> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    fn turn(waiting: &mut Waiting) -> Option<Turn> {
        look(waiting).map(|outcome| outcome.expect("a turn"))
    }

    #[test]
    fn a_tenant_has_one_turn_at_a_time_and_another_goes_ahead() {
        let turns = Turns::default();
        let (mut first, mut second, mut other) = (ask(&turns, 1), ask(&turns, 1), ask(&turns, 2));
        let works = turn(&mut first).expect("free");
        assert!(turn(&mut second).is_none());
        let others = turn(&mut other).expect("another's line");
        let mut third = ask(&turns, 3);
        assert!(turn(&mut third).is_none(), "{AT_ONCE_MAX} are worked on");
        drop(others);
        assert!(turn(&mut third).is_some());
        assert!(turn(&mut second).is_none());
        drop(works);
        assert!(turn(&mut second).is_some());
        drop((first, second, third, other));
        assert!(turns.lines.lock().expect("whole").is_empty(), "nobody is remembered");
    }

    #[test]
    fn who_comes_when_many_wait_is_refused_and_who_leaves_makes_room() {
        let turns = Turns::default();
        let mut line: Vec<_> = (0..OF_TENANT_MAX).map(|_| ask(&turns, 1)).collect();
        let turn_of_first = turn(&mut line[0]);
        assert!(turn_of_first.is_some() && line[1..].iter_mut().all(|waiting| turn(waiting).is_none()));
        assert!(matches!(look(&mut ask(&turns, 1)), Some(Err(Failure::Crowded))));
        assert!(turn(&mut ask(&turns, 2)).is_some(), "another tenant's line is short");
        line.pop();
        assert!(look(&mut ask(&turns, 1)).is_none(), "it waits");
    }

    #[test]
    fn all_lines_together_have_an_end() {
        let turns = Turns::default();
        let mut waiting: Vec<_> = (0..OF_ALL_MAX).map(|number| ask(&turns, number)).collect();
        let taken: Vec<_> = waiting.iter_mut().filter_map(turn).collect();
        assert_eq!(taken.len(), AT_ONCE_MAX);
        assert!(matches!(look(&mut ask(&turns, OF_ALL_MAX)), Some(Err(Failure::Crowded))));
    }

    #[test]
    fn who_is_crowded_out_is_told_when_to_come_again() {
        let status = tonic::Status::from(Failure::Crowded);
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        assert!(rpc::status::retry_after(&status).is_some());
    }
}
