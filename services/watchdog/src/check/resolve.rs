//! Resolving: alerts that have nothing left to complain about end by themselves.

use super::{Summary, tell};
use store::fence::{self, Term};
use store::{Store, StoreError, alert, alert_delivery, alert_life};

/// Resolves up to `limit` alerts.
///
/// # Errors
/// [`StoreError`].
pub async fn batch(store: &Store, term: Term, limit: i64) -> Result<Summary, StoreError> {
    let operation = "resolve alerts";
    let mut client = store.client(operation).await?;
    let tx = client.begin(operation).await?;
    fence::hold(&tx, term).await?;
    let recovered = alert::recovered(&tx, limit).await?;
    if recovered.is_empty() {
        return Ok(Summary::default());
    }
    let ends: Vec<_> = recovered.iter().map(|alert| (alert.id, alert.resolution)).collect();
    let resolved = alert::resolve(&tx, &ends).await?;
    let deliveries = tell::resolutions(&tx, &recovered, &resolved).await?;
    alert_delivery::insert(&tx, &deliveries).await?;
    let events: Vec<_> = ends.iter().map(|(id, why)| (*id, "RESOLVED", why.as_str())).collect();
    alert_life::record(&tx, &events, None).await?;
    tx.commit().await?;
    for alert in &recovered {
        tracing::info!(job.name = alert.job_name, job.id = %alert.job_id, alert.id = %alert.id, "An alert is resolved");
    }
    let more = recovered.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Summary { resolved: resolved.len(), deliveries: deliveries.len(), more, ..Summary::default() })
}
