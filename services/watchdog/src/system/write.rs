//! Writing what is news: alerts, and deliveries to those who are told.
//!
//! Invariant: an alert and its deliveries are written in one transaction, and only by whoever opened or resolved it, so
//! that nobody is told twice, whoever else has seen the same.

use super::audience::{Wanted, audience};
use super::words::{self, Many};
use model::ids::{JobId, TenantId};
use model::system_health::{Condition, Transition, Trouble};
use std::collections::{BTreeMap, BTreeSet};
use store::alert_delivery::{self, Delivery, Event, Route};
use store::fence::{self, Term};
use store::system_alert::{self, New};
use store::{Store, StoreError, Transaction, alert_life, system};
use uuid::Uuid;

/// So many troubles of one kind at once are told one by one; more are told together.
const ALONE_MAX: usize = 5;

/// What goes with what is written.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// Who leads; none for what every watchdog may write.
    pub term: Option<Term>,
    /// Where the runbooks are; may be empty.
    pub runbooks: &'a str,
}

impl Write<'_> {
    /// Writes what is news, and returns how many deliveries that makes.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is written then.
    pub async fn run(self, store: &Store, transitions: &[Transition]) -> Result<usize, StoreError> {
        let deadlines = deadlines(store, transitions).await?;
        let is_known = self.is_known(store, transitions).await?;
        let operation = "write what is wrong with the system";
        let mut client = store.client(operation).await?;
        let tx = client.begin(operation).await?;
        if let Some(term) = self.term {
            fence::hold(&tx, term).await?;
        }
        let channels = alert_delivery::routes(&tx, &tenants(transitions)).await?;
        let mut deliveries = Vec::new();
        for together in together(transitions) {
            let opened = self.open(&tx, &together, &channels, deadlines.as_ref()).await?;
            let is_told = !(is_known && together.iter().any(|condition| condition.kind == Trouble::NoTicker));
            deliveries.extend(opened.into_iter().filter(|_| is_told));
        }
        for transition in transitions {
            if let Transition::Resolved(subject) = transition {
                deliveries.extend(self.resolve(&tx, subject).await?);
            }
        }
        alert_delivery::insert(&tx, &deliveries).await?;
        // Crash window: alerts and deliveries are written, or neither; the next look finds the same again.
        tx.commit().await?;
        report(transitions, deliveries.len());
        Ok(deliveries.len())
    }

    /// Whether it is told already why there is no ticker: its fence refuses every one.
    async fn is_known(self, store: &Store, transitions: &[Transition]) -> Result<bool, StoreError> {
        let no_ticker = |transition: &Transition| matches!(transition, Transition::Opened(condition) if condition.kind == Trouble::NoTicker);
        if !transitions.iter().any(no_ticker) {
            return Ok(false);
        }
        let fenced = (Trouble::FenceRefused, "ticker".to_owned());
        Ok(system_alert::open(store).await?.contains(&fenced))
    }

    /// Opens alerts of one kind; the first that is new is told, with the others if they are told together.
    async fn open(
        self,
        tx: &Transaction<'_>,
        together: &[&Condition],
        channels: &BTreeMap<TenantId, Vec<Route>>,
        deadlines: Option<&Many>,
    ) -> Result<Vec<Delivery>, StoreError> {
        let mut told = None;
        for (index, condition) in together.iter().enumerate() {
            let id = Uuid::new_v4();
            let new = New {
                id,
                tenant: condition.tenant.unwrap_or(TenantId::DEFAULT),
                kind: condition.kind,
                about: &condition.about,
                severity: words::severity(condition.kind),
                count: condition.count,
                detail: &condition.detail,
            };
            let Some(at) = system_alert::raise(tx, new).await? else { continue };
            alert_life::record(tx, &[(id, "OPENED", condition.detail.as_str())], None).await?;
            told = told.or(Some((index, id, at)));
        }
        let Some((index, id, at)) = told else { return Ok(Vec::new()) };
        let condition = together[index];
        let others: Vec<_> = together.iter().skip(index + 1).copied().collect();
        let deadlines = deadlines.filter(|_| keeps_runs_from_starting(condition.kind));
        let body = words::opened(condition, id, deadlines, &others, at, self.runbooks).body();
        let names = match (condition.kind, condition.about.parse()) {
            (Trouble::JobBroken, Ok(job)) => system_alert::job_channels(tx, JobId(job)).await?,
            _ => Vec::new(),
        };
        let except = match (condition.kind, condition.about.parse()) {
            (Trouble::ChannelFails, Ok(channel)) => Some(channel),
            _ => None,
        };
        let severity = words::severity(condition.kind);
        let wanted = Wanted { tenant: condition.tenant, names: &names, except, severity };
        Ok(to(audience(wanted, channels), id, Event::Opened, &body))
    }

    async fn resolve(
        self,
        tx: &Transaction<'_>,
        subject: &(Trouble, String),
    ) -> Result<Vec<Delivery>, StoreError> {
        let mut deliveries = Vec::new();
        for resolved in system_alert::resolve(tx, subject).await? {
            alert_life::record(tx, &[(resolved.id, "RESOLVED", "")], None).await?;
            let told = alert_delivery::told(tx, &[resolved.id]).await?;
            let body = words::resolved(subject, &resolved, self.runbooks).body();
            let channels = told.into_iter().map(|(_, channel)| channel);
            deliveries.extend(to(channels, resolved.id, Event::Resolved, &body));
        }
        Ok(deliveries)
    }
}

/// A delivery of `body` to each channel.
pub fn to(
    channels: impl IntoIterator<Item = Uuid>,
    alert_id: Uuid,
    event: Event,
    body: &str,
) -> Vec<Delivery> {
    let delivery =
        |channel_id| Delivery { id: Uuid::new_v4(), alert_id, channel_id, event, body: body.to_owned() };
    channels.into_iter().map(delivery).collect()
}

/// The jobs with a deadline within the hour, if that is to be told.
async fn deadlines(store: &Store, transitions: &[Transition]) -> Result<Option<Many>, StoreError> {
    let is_asked = transitions.iter().any(|transition| {
        matches!(transition, Transition::Opened(condition) if keeps_runs_from_starting(condition.kind))
    });
    if !is_asked {
        return Ok(None);
    }
    let (count, examples) = system::deadlines(store).await?;
    Ok(Some(Many { count, examples }))
}

/// Whether jobs will miss their deadlines for this.
const fn keeps_runs_from_starting(kind: Trouble) -> bool {
    matches!(
        kind,
        Trouble::NoTicker | Trouble::NoDispatcher | Trouble::EtcdUnreachable | Trouble::FenceRefused
    )
}

/// Whose channels may be told.
fn tenants(transitions: &[Transition]) -> Vec<TenantId> {
    let opened = transitions.iter().filter_map(|transition| match transition {
        Transition::Opened(condition) => condition.tenant,
        Transition::Resolved(_) => None,
    });
    opened.chain([TenantId::DEFAULT]).collect::<BTreeSet<_>>().into_iter().collect()
}

/// What is opened, as it is told: each by itself, or all of one kind and tenant together when they are many.
fn together(transitions: &[Transition]) -> Vec<Vec<&Condition>> {
    let mut alike: BTreeMap<_, Vec<&Condition>> = BTreeMap::new();
    for transition in transitions {
        if let Transition::Opened(condition) = transition {
            alike.entry((condition.kind, condition.tenant)).or_default().push(condition);
        }
    }
    let told = alike.into_values().flat_map(|alike| {
        if alike.len() > ALONE_MAX { vec![alike] } else { alike.into_iter().map(|one| vec![one]).collect() }
    });
    told.collect()
}

fn report(transitions: &[Transition], deliveries: usize) {
    for transition in transitions {
        match transition {
            Transition::Opened(condition) => tracing::error!(
                alert.kind = %condition.kind,
                alert.about = condition.about,
                alert.since = %condition.since,
                deliveries,
                "Something is wrong with the system: {}",
                condition.detail
            ),
            Transition::Resolved((kind, about)) => {
                tracing::info!(alert.kind = %kind, alert.about = about, deliveries, "What was wrong with the system is over");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;

    fn unserved(queue: usize) -> Transition {
        Transition::Opened(Condition {
            kind: Trouble::NoWorker,
            about: format!("default/q{queue}"),
            tenant: None,
            since: DateTime::UNIX_EPOCH,
            count: 1,
            detail: String::new(),
        })
    }

    #[test]
    fn a_few_alike_are_told_one_by_one_and_many_together() {
        for (count, told) in [(0, 0), (1, 1), (5, 5), (6, 1), (100, 1)] {
            let transitions: Vec<_> = (0..count).map(unserved).collect();
            let together = together(&transitions);
            assert_eq!(together.len(), told, "{count}");
            assert_eq!(together.iter().map(Vec::len).sum::<usize>(), count);
        }
    }
}
