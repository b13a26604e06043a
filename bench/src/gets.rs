//! Gets at a steady rate, however long the earlier ones take. A latency counts from the moment at which the request was
//! meant to be sent: a registry that stands still is seen by everyone who would have asked meanwhile.

use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Asks `per_second` times a second for so many seconds, and waits for all answers: their latencies in milliseconds. The
/// runtime's timer is a millisecond coarse, which counts, too.
///
/// # Errors
/// The first that a request met.
pub async fn at_a_rate<F, Asking>(per_second: u32, seconds: u32, mut ask: F) -> anyhow::Result<Vec<f64>>
where
    F: FnMut(u32) -> Asking,
    Asking: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let (begin, gap) = (Instant::now(), Duration::from_secs(1) / per_second.max(1));
    let mut asked: JoinSet<anyhow::Result<f64>> = JoinSet::new();
    for number in 0..per_second * seconds {
        let meant = begin + gap * number;
        tokio::time::sleep_until(meant.into()).await;
        let asking = ask(number);
        asked.spawn(async move {
            asking.await?;
            Ok(meant.elapsed().as_secs_f64() * 1_000.0)
        });
    }
    let mut latencies = Vec::with_capacity(asked.len());
    while let Some(latency) = asked.join_next().await {
        latencies.push(latency??);
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_answer_is_no_reason_to_ask_less_and_a_failed_one_is_told() {
        let slow = Duration::from_millis(30);
        let latencies = at_a_rate(100, 1, |_| async move {
            tokio::time::sleep(slow).await;
            Ok(())
        });
        let latencies = latencies.await.expect("answers");
        assert_eq!(latencies.len(), 100);
        assert!(latencies.iter().all(|latency| *latency >= 30.0), "{latencies:?}");
        let failing = at_a_rate(100, 1, |number| async move {
            anyhow::ensure!(number != 7, "the seventh fails");
            Ok(())
        });
        assert!(failing.await.is_err());
    }
}
