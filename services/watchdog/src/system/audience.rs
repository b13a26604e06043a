//! Whom an alert about the system is told. Pure.
//!
//! What is nobody's in particular is the operator's: the channels of the default tenant, unless they say that they don't
//! want it. What is a tenant's own (its channel, its job, its token) is told to its channels, and to the operator's only
//! when the tenant has none that could be told.

use model::channel::is_told_of_the_system;
use model::ids::TenantId;
use model::severity::Severity;
use std::collections::{BTreeMap, BTreeSet};
use store::alert_delivery::Route;
use uuid::Uuid;

/// Who is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Whose business it is; none is the operator's.
    pub tenant: Option<TenantId>,
    /// The channels that the tenant has named for it; none: all that want it.
    pub names: &'a [String],
    /// The channel that it can't be told by.
    pub except: Option<Uuid>,
    /// How grave it is.
    pub severity: Severity,
}

/// The channels to tell, of those there are.
pub fn audience(wanted: Wanted<'_>, channels: &BTreeMap<TenantId, Vec<Route>>) -> BTreeSet<Uuid> {
    let of = |tenant: TenantId| {
        let all = channels.get(&tenant).map_or(&[][..], Vec::as_slice);
        all.iter().filter(move |channel| Some(channel.id) != wanted.except)
    };
    let accepts = |channel: &&Route| channel.accepts.takes(wanted.severity, &BTreeMap::new());
    let owners: BTreeSet<_> = match wanted.tenant {
        None => BTreeSet::new(),
        Some(tenant) if wanted.names.is_empty() => {
            of(tenant).filter(accepts).map(|channel| channel.id).collect()
        }
        Some(tenant) => of(tenant)
            .filter(|channel| wanted.names.contains(&channel.name))
            .map(|channel| channel.id)
            .collect(),
    };
    if !owners.is_empty() {
        return owners;
    }
    let operators = of(TenantId::DEFAULT);
    let told = operators.filter(|channel| is_told_of_the_system(TenantId::DEFAULT, channel.system));
    told.filter(accepts).map(|channel| channel.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::channel::Accepts;

    const OTHER: TenantId = TenantId(Uuid::from_u128(2));

    fn channel(id: u128, name: &str) -> Route {
        Route { id: Uuid::from_u128(id), name: name.to_owned(), accepts: Accepts::default(), system: None }
    }

    fn told(wanted: Wanted<'_>, channels: Vec<(TenantId, Route)>) -> Vec<u128> {
        let mut by_tenant: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (tenant, channel) in channels {
            by_tenant.entry(tenant).or_default().push(channel);
        }
        audience(wanted, &by_tenant).iter().map(|id| id.as_u128()).collect()
    }

    const WANTED: Wanted<'_> =
        Wanted { tenant: None, names: &[], except: None, severity: Severity::Critical };

    fn some() -> Vec<(TenantId, Route)> {
        let deaf = Route { system: Some(false), ..channel(3, "jobs-only") };
        let mild = Accepts { severities: vec![Severity::Info], ..Accepts::default() };
        let mild = Route { accepts: mild, ..channel(4, "mild") };
        vec![
            (TenantId::DEFAULT, channel(1, "oncall")),
            (TenantId::DEFAULT, channel(2, "chat")),
            (TenantId::DEFAULT, deaf),
            (TenantId::DEFAULT, mild),
            (OTHER, channel(5, "theirs")),
            (OTHER, channel(6, "theirs-too")),
        ]
    }

    #[test]
    fn what_is_nobodys_in_particular_is_the_operators() {
        assert_eq!(told(WANTED, some()), [1, 2]);
    }

    #[test]
    fn what_is_a_tenants_is_told_there() {
        let theirs = Wanted { tenant: Some(OTHER), ..WANTED };
        assert_eq!(told(theirs, some()), [5, 6]);
        assert_eq!(told(Wanted { names: &["theirs".to_owned()], ..theirs }, some()), [5]);
        assert_eq!(told(Wanted { except: Some(Uuid::from_u128(5)), ..theirs }, some()), [6]);
    }

    #[test]
    fn and_to_the_operator_when_nobody_is_there() {
        let nobody = Wanted { tenant: Some(TenantId(Uuid::from_u128(9))), ..WANTED };
        assert_eq!(told(nobody, some()), [1, 2]);
        let gone = Wanted { names: &["deleted".to_owned()], tenant: Some(OTHER), ..WANTED };
        assert_eq!(told(gone, some()), [1, 2]);
    }

    #[test]
    fn the_only_channel_is_not_told_that_it_fails_itself() {
        let only = vec![(TenantId::DEFAULT, channel(1, "oncall"))];
        let itself = Wanted { tenant: Some(TenantId::DEFAULT), except: Some(Uuid::from_u128(1)), ..WANTED };
        assert_eq!(told(itself, only), [0_u128; 0]);
    }
}
