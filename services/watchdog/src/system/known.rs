//! What every watchdog keeps in memory for the time when PostgreSQL is gone: whom to tell, and what they wait for.
//!
//! As old as its last look, at most a minute and the outage. Pure but for the look itself.

use super::words::Many;
use model::channel::is_told_of_the_system;
use model::ids::TenantId;
use model::severity::Severity;
use std::collections::{BTreeMap, BTreeSet};
use store::alert_channel::{self, Channel, OfTenants, Unreadable};
use store::system::{self, Soon};
use store::{Store, StoreError};
use uuid::Uuid;

/// Channels that are told at most: one task and one message each.
const CHANNELS_MAX: usize = 1_000;

/// A channel, and the jobs with a deadline within the hour that it would be told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The channel.
    pub channel: Channel,
    /// What it waits for.
    pub jobs: Many,
}

/// What is known of channels.
#[derive(Debug, Default)]
pub struct Known {
    /// Whom to tell.
    pub whom: Vec<Waiting>,
    /// Channels whose target this version can't read, with the reason: they can't be told.
    pub unreadable: BTreeMap<Uuid, Unreadable>,
}

/// Looks whom to tell.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn look(store: &Store) -> Result<Known, StoreError> {
    let operation = "remember whom to tell";
    let mut client = store.client(operation).await?;
    let tx = client.begin(operation).await?;
    let soon = system::soon(&tx).await?;
    let tenants: BTreeSet<_> =
        soon.iter().filter_map(|soon| soon.tenant).chain([TenantId::DEFAULT]).collect();
    let tenants: Vec<_> = tenants.into_iter().collect();
    let OfTenants { channels, unreadable } = alert_channel::of_tenants(&tx, &tenants).await?;
    tx.commit().await?;
    let (whom, left_out) = bounded(whom(channels, &soon), CHANNELS_MAX);
    if left_out > 0 {
        tracing::warn!(
            channels.told = whom.len(),
            channels.left_out = left_out,
            "Too many channels wait for jobs: some would not be told that PostgreSQL is gone"
        );
    }
    Ok(Known { whom, unreadable })
}

/// Up to `most` of those who wait, and how many are left out: whoever runs the system comes first, then the first channel of
/// each tenant, then the second of each.
fn bounded(waiting: Vec<Waiting>, most: usize) -> (Vec<Waiting>, usize) {
    let mut of_tenant: BTreeMap<TenantId, usize> = BTreeMap::new();
    let mut ranked: Vec<_> = waiting
        .into_iter()
        .map(|waiting| {
            let tenant = waiting.channel.tenant_id;
            let rank = of_tenant.entry(tenant).or_default();
            *rank += 1;
            ((tenant != TenantId::DEFAULT, *rank), waiting)
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let left_out = ranked.len().saturating_sub(most);
    (ranked.into_iter().take(most).map(|(_, waiting)| waiting).collect(), left_out)
}

/// Those who run the system are told of all jobs, others of those that they would be told of.
fn whom(mut channels: BTreeMap<TenantId, Vec<Channel>>, soon: &[Soon]) -> Vec<Waiting> {
    let operators = channels.remove(&TenantId::DEFAULT).unwrap_or_default();
    let all = operators.into_iter().chain(channels.into_values().flatten());
    let waiting = all.filter_map(|channel| {
        let wants = channel.accepts.takes(Severity::Critical, &BTreeMap::new());
        let is_operators = wants && is_told_of_the_system(channel.tenant_id, channel.system);
        let concerns = |soon: &&Soon| match (&soon.tenant, &soon.channel) {
            (None, _) => is_operators,
            (Some(tenant), named) => {
                !is_operators
                    && *tenant == channel.tenant_id
                    && named.as_ref().map_or(wants, |name| *name == channel.name)
            }
        };
        let mut concerned = soon.iter().filter(concerns).peekable();
        concerned.peek()?;
        let mut jobs = Many::default();
        for soon in concerned {
            jobs.count += soon.jobs;
            jobs.examples.extend(soon.examples.iter().cloned());
        }
        Some(Waiting { channel, jobs })
    });
    waiting.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;
    use model::channel::{Accepts, Target};
    use uuid::Uuid;

    const OTHER: TenantId = TenantId(Uuid::from_u128(2));

    fn channel(tenant_id: TenantId, name: &str, severities: &[Severity]) -> Channel {
        Channel {
            id: Uuid::new_v4(),
            tenant_id,
            name: name.to_owned(),
            target: Target::Webhook { url: "http://example.test".to_owned() },
            secret: None,
            accepts: Accepts { severities: severities.to_vec(), ..Accepts::default() },
            system: None,
            created_at: DateTime::UNIX_EPOCH,
        }
    }

    fn soon(tenant: Option<TenantId>, channel: Option<&str>, jobs: i64) -> Soon {
        Soon { tenant, channel: channel.map(str::to_owned), jobs, examples: vec![format!("of-{jobs}")] }
    }

    #[test]
    fn where_there_is_no_room_for_all_no_tenant_pushes_out_another() {
        let waiting =
            |tenant, name: &str| Waiting { channel: channel(tenant, name, &[]), jobs: Many::default() };
        let third = TenantId(Uuid::from_u128(3));
        let many = (0..5).map(|number| waiting(OTHER, &format!("many-{number}")));
        let operators = ["oncall", "chat"].map(|name| waiting(TenantId::DEFAULT, name));
        let all: Vec<_> = many.chain([waiting(third, "only")]).chain(operators).collect();
        let told = |most| {
            let (told, left_out) = bounded(all.clone(), most);
            (told.into_iter().map(|told| told.channel.name).collect::<Vec<_>>().join(" "), left_out)
        };
        assert_eq!(told(5), ("oncall chat many-0 only many-1".to_owned(), 3));
        assert_eq!(told(8).1, 0);
    }

    #[test]
    fn each_channel_is_told_of_the_jobs_that_it_waits_for() {
        let channels = BTreeMap::from([
            (
                TenantId::DEFAULT,
                vec![
                    channel(TenantId::DEFAULT, "oncall", &[]),
                    channel(TenantId::DEFAULT, "mild", &[Severity::Info]),
                ],
            ),
            (OTHER, vec![channel(OTHER, "named", &[Severity::Info]), channel(OTHER, "all", &[])]),
        ]);
        let soon = [
            soon(None, None, 100),
            soon(Some(TenantId::DEFAULT), Some("mild"), 4),
            soon(Some(OTHER), None, 10),
            soon(Some(OTHER), Some("named"), 3),
        ];
        let told = whom(channels, &soon);
        let told: Vec<_> = told.iter().map(|told| (told.channel.name.as_str(), told.jobs.count)).collect();
        assert_eq!(told, [("oncall", 100), ("mild", 4), ("named", 3), ("all", 10)]);
    }
}
