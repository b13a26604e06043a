//! A lease, kept alive, and how long its holder may trust it.
//!
//! Invariant: we stop trusting a lease before etcd can give it up. etcd counts from when it handled a request,
//! we from before we sent it, and take a tenth off. Once trust ran out it never comes back, even if a renewal
//! still gets through. No timer is needed for that: the clock is compared at the moment of use, so a process that
//! was frozen knows in its first step.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use etcd_client::{LeaseKeepAliveStream, LeaseKeeper};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::client::{Client, Connection, Pause};
use crate::error::ElectionError;

/// Renewals in one lease time: three may fail in a row.
const RENEWALS_PER_LEASE: u32 = 4;
/// The longest wait for a renewal's answer, as a fraction of the lease time.
const RENEWAL_ANSWERS_PER_LEASE: u32 = 5;
/// The part of the lease time that we don't use.
const MARGIN_PARTS: u32 = 10;

/// How long a lease is still good for, by the local monotonic clock. Clones share the answer.
#[derive(Debug, Clone)]
pub struct Validity {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// `None` once and for all when trust ran out.
    until: Mutex<Option<Instant>>,
    ended: CancellationToken,
}

impl Validity {
    fn from_grant(sent: Instant, ttl: Duration) -> Self {
        let until = Mutex::new(Some(trusted_until(sent, ttl)));
        Self { shared: Arc::new(Shared { until, ended: CancellationToken::new() }) }
    }

    /// What remains, or `None`, for good, when the lease can no longer be trusted.
    pub fn valid_for(&self) -> Option<Duration> {
        let mut until = self.until();
        self.remaining(&mut until, Instant::now())
    }

    /// Returns when the lease can no longer be trusted.
    pub async fn lost(&self) {
        while let Some(left) = self.valid_for() {
            tokio::select! {
                () = sleep(left) => {}
                () = self.shared.ended.cancelled() => return,
            }
        }
    }

    /// A renewal that was sent at `sent` was answered; `false` if that came too late.
    fn renewed(&self, sent: Instant, ttl: Duration) -> bool {
        self.renewed_at(Instant::now(), sent, ttl)
    }

    fn renewed_at(&self, now: Instant, sent: Instant, ttl: Duration) -> bool {
        let mut until = self.until();
        if self.remaining(&mut until, now).is_none() {
            return false;
        }
        *until = Some(trusted_until(sent, ttl));
        self.remaining(&mut until, now).is_some()
    }

    /// Ends trust at once.
    pub(crate) fn lose(&self) {
        *self.until() = None;
        self.shared.ended.cancel();
    }

    fn remaining(&self, until: &mut Option<Instant>, now: Instant) -> Option<Duration> {
        let left = until.map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero());
        if left.is_none() {
            *until = None;
            self.shared.ended.cancel();
        }
        left
    }

    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.shared.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When to stop trusting a lease of `ttl` that was granted or renewed by a request sent at `sent`.
fn trusted_until(sent: Instant, ttl: Duration) -> Instant {
    sent + (ttl - ttl / MARGIN_PARTS)
}

/// A granted lease. Dropping it stops the renewals and revokes it in the background, if it can.
#[derive(Debug)]
pub(crate) struct Lease {
    client: Client,
    id: i64,
    validity: Validity,
    revoked: bool,
    _keeper: AbortOnDropHandle<()>,
}

impl Lease {
    /// Asks for a lease and begins to renew it.
    pub(crate) async fn grant(client: &Client) -> Result<Self, ElectionError> {
        let seconds = client.lease_ttl().as_secs().cast_signed();
        let sent = Instant::now();
        // Crash window: an answer that is lost leaves a lease that nobody renews; it expires.
        let grant = client
            .call("asking for a lease", |mut etcd| async move { etcd.lease_grant(seconds, None).await })
            .await?;
        let ttl = seconds_granted(grant.ttl());
        let validity = Validity::from_grant(sent, ttl);
        let keeper = Keeper { client: client.clone(), id: grant.id(), ttl, validity: validity.clone() };
        let keeper = AbortOnDropHandle::new(tokio::spawn(keeper.keep()));
        Ok(Self { client: client.clone(), id: grant.id(), validity, revoked: false, _keeper: keeper })
    }

    pub(crate) const fn id(&self) -> i64 {
        self.id
    }

    pub(crate) const fn validity(&self) -> &Validity {
        &self.validity
    }

    /// Gives it back, and with it every key that hangs on it. One that etcd no longer knows is given back too.
    pub(crate) async fn revoke(mut self) -> Result<(), ElectionError> {
        self.validity.lose();
        let outcome = revoke(&self.client, self.id).await;
        self.revoked = outcome.is_ok();
        outcome
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.validity.lose();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !self.revoked {
            let (client, id) = (self.client.clone(), self.id);
            // Only courtesy: if it fails, the lease expires.
            runtime.spawn(async move { revoke(&client, id).await });
        }
    }
}

async fn revoke(client: &Client, id: i64) -> Result<(), ElectionError> {
    let asked =
        client.ask("giving a lease back", |mut etcd| async move { etcd.lease_revoke(id).await }).await;
    match asked {
        Ok(_) | Err(ElectionError::LeaseGone { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn seconds_granted(ttl: i64) -> Duration {
    Duration::from_secs(ttl.max(0).cast_unsigned())
}

/// Renews one lease until it is lost.
struct Keeper {
    client: Client,
    id: i64,
    ttl: Duration,
    validity: Validity,
}

impl Keeper {
    async fn keep(self) {
        let mut pause = Pause::new();
        while self.validity.valid_for().is_some() {
            match self.renew_on_one_stream(&mut pause).await {
                Ok(()) => break,
                Err(doubt) if doubt.is_doubt() => pause.after(&doubt).await,
                Err(end) => {
                    tracing::warn!(lease.id = self.id, error = %end, "lease ended by etcd");
                    break;
                }
            }
        }
        self.validity.lose();
    }

    /// Renews on one stream until it fails. Any doubt ends the stream, so that no late answer is ever taken for
    /// that to a later request.
    async fn renew_on_one_stream(&self, pause: &mut Pause) -> Result<(), ElectionError> {
        let action = "renewing a lease";
        let connection = self.client.connection(action).await?;
        let number = connection.number();
        let outcome = self.renew(action, connection, pause).await;
        if outcome.as_ref().is_err_and(ElectionError::is_doubt) {
            self.client.leave(number).await;
        }
        outcome
    }

    async fn renew(
        &self,
        action: &'static str,
        mut connection: Connection,
        pause: &mut Pause,
    ) -> Result<(), ElectionError> {
        let limit = self.ttl / RENEWAL_ANSWERS_PER_LEASE;
        let mut sent = Instant::now();
        // Opening the stream sends the first renewal and waits for its answer.
        let opening = connection.etcd.lease_keep_alive(self.id);
        let (mut keeper, mut answers) = self.client.within(action, limit, opening).await?;
        let mut ttl = self.ttl;
        while self.validity.renewed(sent, ttl) {
            pause.reset();
            sleep(self.ttl / RENEWALS_PER_LEASE).await;
            sent = Instant::now();
            let exchange = exchange(&mut keeper, &mut answers);
            let granted = self.client.within(action, limit, exchange).await?;
            ttl = match granted {
                Some(0) => return Err(ElectionError::LeaseGone { action }),
                Some(seconds) => seconds_granted(seconds),
                None => return Err(ElectionError::Answer { action, lacking: "an answer: the stream ended" }),
            };
        }
        Ok(())
    }
}

/// One renewal; the seconds granted, 0 when the lease is gone, `None` when the stream ended.
async fn exchange(
    keeper: &mut LeaseKeeper,
    answers: &mut LeaseKeepAliveStream,
) -> Result<Option<i64>, etcd_client::Error> {
    keeper.keep_alive().await?;
    Ok(answers.message().await?.map(|answer| answer.ttl().max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn remaining_at(validity: &Validity, now: Instant) -> Option<Duration> {
        validity.remaining(&mut validity.until(), now)
    }

    #[test]
    fn trust_counts_from_before_the_request_and_ends_a_tenth_early() {
        let sent = Instant::now();
        let validity = Validity::from_grant(sent, TTL);
        assert_eq!(remaining_at(&validity, sent + Duration::from_secs(2)), Some(Duration::from_secs(7)));
        assert_eq!(remaining_at(&validity, sent + Duration::from_secs(9)), None);
    }

    #[test]
    fn a_renewal_extends_from_its_own_request() {
        let sent = Instant::now();
        let validity = Validity::from_grant(sent, TTL);
        let (renewal, answer) = (sent + Duration::from_secs(5), sent + Duration::from_secs(8));
        assert!(validity.renewed_at(answer, renewal, TTL));
        assert_eq!(remaining_at(&validity, answer), Some(Duration::from_secs(6)));
    }

    #[test]
    fn a_renewal_that_comes_too_late_revives_nothing() {
        let sent = Instant::now();
        let validity = Validity::from_grant(sent, TTL);
        let late = sent + Duration::from_secs(9);
        assert!(!validity.renewed_at(late, sent + Duration::from_secs(8), TTL));
        assert_eq!(remaining_at(&validity, sent), None, "not even by an earlier clock");
    }

    #[test]
    fn the_last_answer_counts_even_if_it_grants_less() {
        let sent = Instant::now();
        let validity = Validity::from_grant(sent, TTL);
        assert!(validity.renewed_at(sent, sent, Duration::from_secs(2)));
        assert_eq!(remaining_at(&validity, sent), Some(Duration::from_millis(1800)));
    }

    #[tokio::test]
    async fn lost_returns_at_once_when_trust_is_taken_away() {
        let validity = Validity::from_grant(Instant::now(), TTL);
        let waiting = tokio::spawn({
            let validity = validity.clone();
            async move { validity.lost().await }
        });
        validity.lose();
        tokio::time::timeout(Duration::from_secs(1), waiting).await.expect("at once").expect("no panic");
        assert_eq!(validity.valid_for(), None);
    }
}
