//! Waiting for a condition instead of sleeping and hoping.

use std::panic::Location;
use std::time::{Duration, Instant};

/// How often a condition is looked at.
pub const POLL_EVERY: Duration = Duration::from_millis(20);

/// A condition that did not come true in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("waited {limit:?} in vain for {what}")]
pub struct WaitError {
    /// What was awaited.
    pub what: String,
    /// For how long.
    pub limit: Duration,
}

/// Looks at `condition` until it yields a value. A look that hangs counts against the limit too.
///
/// # Errors
/// [`WaitError`] with the name of what was awaited.
pub async fn try_wait_for<T>(
    limit: Duration,
    what: &str,
    mut condition: impl AsyncFnMut() -> Option<T>,
) -> Result<T, WaitError> {
    let began = Instant::now();
    loop {
        let left = limit.saturating_sub(began.elapsed());
        match tokio::time::timeout(left, condition()).await {
            Ok(Some(value)) => return Ok(value),
            Ok(None) if began.elapsed() < limit => tokio::time::sleep(POLL_EVERY).await,
            Ok(None) | Err(_) => return Err(WaitError { what: what.to_owned(), limit }),
        }
    }
}

/// [`try_wait_for`] for tests: panics at the caller's line with the name of what was awaited.
#[track_caller]
pub fn wait_for<T>(
    limit: Duration,
    what: &str,
    condition: impl AsyncFnMut() -> Option<T>,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        match try_wait_for(limit, what, condition).await {
            Ok(value) => value,
            Err(error) => panic!("{error}, at {caller}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_value_comes_back_once_it_is_there() {
        let mut looks = 0;
        let value = wait_for(Duration::from_secs(5), "the third look", async || {
            looks += 1;
            (looks == 3).then_some("there")
        })
        .await;
        assert_eq!((value, looks), ("there", 3));
    }

    #[tokio::test]
    async fn the_error_names_what_was_awaited() {
        let error = try_wait_for(Duration::from_millis(30), "a leader", async || None::<()>).await;
        assert_eq!(error.expect_err("never").to_string(), "waited 30ms in vain for a leader");
    }

    #[tokio::test]
    async fn a_look_that_hangs_ends_with_the_limit() {
        let hung = try_wait_for(Duration::from_millis(30), "an answer", async || {
            std::future::pending::<Option<()>>().await
        });
        assert!(hung.await.is_err());
    }
}
