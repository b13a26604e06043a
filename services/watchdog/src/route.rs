//! Whom an alert is told: the channels that its owner names, or else every channel of its tenant that wants it.
//!
//! The decision is [`model::channel`]'s; here are the channels that there are. An alert that names channels, none of
//! which exists any more, is nobody's either, and is told as one that names none: silence is never the default.

use model::channel::Accepts;
use model::ids::TenantId;
use model::severity::Severity;
use std::collections::{BTreeMap, BTreeSet};
use store::alert_delivery::{self, Route};
use store::{StoreError, Transaction};
use uuid::Uuid;

/// The channels of some tenants, as one transaction saw them.
#[derive(Debug, Default)]
pub struct Routes(BTreeMap<TenantId, Vec<Route>>);

impl Routes {
    /// Reads the channels of these tenants.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn read(
        tx: &Transaction<'_>,
        tenants: impl IntoIterator<Item = TenantId>,
    ) -> Result<Self, StoreError> {
        let tenants: Vec<_> = tenants.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        if tenants.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self(alert_delivery::routes(tx, &tenants).await?))
    }

    /// The channels of `tenant` that are told of an alert of this severity with these labels, whose owner names `named`.
    pub fn told(
        &self,
        tenant: TenantId,
        named: &[String],
        severity: Severity,
        labels: &BTreeMap<String, String>,
    ) -> BTreeSet<Uuid> {
        let channels = self.0.get(&tenant).map_or(&[] as &[Route], Vec::as_slice);
        let is_named = |route: &&Route| named.contains(&route.name);
        let told: BTreeSet<_> = channels.iter().filter(is_named).map(|route| route.id).collect();
        if !told.is_empty() {
            return told;
        }
        let wants = |accepts: &Accepts| accepts.takes(severity, labels);
        channels.iter().filter(|route| wants(&route.accepts)).map(|route| route.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: TenantId = TenantId::DEFAULT;

    fn route(id: u128, name: &str, severities: &[Severity], team: Option<&str>) -> Route {
        let labels = team.map(|team| ("team".to_owned(), team.to_owned())).into_iter().collect();
        let accepts = Accepts { labels, severities: severities.to_vec() };
        Route { id: Uuid::from_u128(id), name: name.to_owned(), accepts, system: None }
    }

    fn told(named: &[&str], severity: Severity, team: &str) -> Vec<u128> {
        let channels = vec![
            route(1, "pager", &[Severity::Critical], None),
            route(2, "billing", &[], Some("billing")),
            route(3, "archive", &[], None),
        ];
        let routes = Routes([(TENANT, channels)].into());
        let named: Vec<_> = named.iter().map(|name| (*name).to_owned()).collect();
        let labels = [("team".to_owned(), team.to_owned())].into();
        routes.told(TENANT, &named, severity, &labels).into_iter().map(|id| id.as_u128()).collect()
    }

    #[test]
    fn who_is_named_is_told_and_else_whoever_wants_it() {
        for (named, severity, team, expected) in [
            (&["pager"] as &[&str], Severity::Info, "ops", &[1_u128] as &[u128]),
            (&["pager", "gone"], Severity::Critical, "billing", &[1]),
            (&["gone"], Severity::Critical, "ops", &[1, 3]),
            (&[], Severity::Critical, "billing", &[1, 2, 3]),
            (&[], Severity::Warning, "billing", &[2, 3]),
            (&[], Severity::Warning, "ops", &[3]),
        ] {
            assert_eq!(told(named, severity, team), expected, "{named:?} {severity} {team}");
        }
    }

    #[test]
    fn a_tenant_without_channels_tells_nobody() {
        assert!(Routes::default().told(TENANT, &[], Severity::Critical, &BTreeMap::new()).is_empty());
    }
}
