//! The other dispatchers, as etcd has them: what a worker needs to ask them all, and what this dispatcher needs to send
//! its workers to one that has the database when it alone is cut off; or one of them, when it has more than its share.
//!
//! Invariant: a list counts from before it was asked for, and has this dispatcher itself whether or not etcd has it.
//! Views of the database and numbers of slots are hints, as old as a list; none decides whether a run may go on.

use crate::config::DispatcherConfig;
use crate::roster::Roster;
use crate::shared::Shared;
use crate::spread::{Load, Spread};
use election::{Member, MemberHandle, Role};
use model::ids::DispatcherId;
use service::health::Beat;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How old a list may be that a worker asks by.
pub const LIST_AGE_MAX: Duration = Duration::from_secs(7);
/// Between two looks: a list must not become too old between two heartbeats of a worker.
const EVERY: Duration = Duration::from_secs(2);
/// The same while the database is away.
const EVERY_WITHOUT: Duration = Duration::from_millis(500);
/// How old our last renewal is before we take the database to be gone for us alone: by then every dispatcher that is in the
/// same trouble has noticed, and shown it. A worker has as long again to move.
const ALONE_AFTER: Duration = Duration::from_secs(5);
/// How long a worker that was sent away has to go by itself.
const GOING_LIMIT: Duration = Duration::from_secs(5);

/// A dispatcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The process.
    pub id: DispatcherId,
    /// Where workers connect.
    pub address: String,
    /// Whether it says that it can reach the database.
    pub database: bool,
    /// How many runs at a time its workers can have; none if it does not say, as one that takes no worker in, or hands out
    /// nothing.
    pub slots: Option<u64>,
}

/// The last list.
#[derive(Debug, Default)]
pub struct Peers(Option<(Instant, Vec<Peer>)>);

impl Peers {
    /// The dispatchers, and when they were asked for.
    pub fn list(&self) -> Option<(Instant, &[Peer])> {
        self.0.as_ref().map(|(asked, peers)| (*asked, peers.as_slice()))
    }

    fn set(&mut self, asked: Instant, own: &Peer, members: &[Member]) {
        let others = members.iter().filter(|member| member.uuid != own.id.0).map(|member| Peer {
            id: DispatcherId(member.uuid),
            address: member.http.clone(),
            database: member.database == Some(true),
            slots: member.slots,
        });
        self.0 = Some((asked, others.chain([own.clone()]).collect()));
    }

    /// The slots of the others that workers can be sent to.
    fn slots_of_others(&self, own: DispatcherId) -> Vec<u64> {
        let others = self.0.iter().flat_map(|(_, peers)| peers).filter(|peer| peer.id != own);
        others.filter(|peer| peer.database).filter_map(|peer| peer.slots).collect()
    }
}

/// Whether this dispatcher's workers are better off with another one.
fn is_alone(without_database: bool, renewal_age: Duration, own: DispatcherId, peers: &[Peer]) -> bool {
    let another = || peers.iter().any(|peer| peer.id != own && peer.database);
    without_database && renewal_age >= ALONE_AFTER && another()
}

/// Shows and lists until `stop`.
pub async fn run(
    shared: &Shared,
    etcd: election::Client,
    own: Member,
    handle: &MemberHandle,
    beat: Beat,
    stop: CancellationToken,
) {
    let mut alone = false;
    let mut spread = Spread::new(shared.config.spread_after());
    loop {
        beat.beat();
        shared.roster().close_lingering(GOING_LIMIT, Instant::now());
        let without = shared.contact().without_database();
        let slots = if hands_out(shared) { slots_to_show(&shared.roster(), &shared.config) } else { None };
        let shown = Member { database: Some(!without), slots, ..own.clone() };
        if let Err(error) = handle.show(&shown) {
            tracing::warn!(
                error = service::runtime::chain(&error),
                "Could not show that this dispatcher is here"
            );
        }
        let asked = Instant::now();
        match election::members(&etcd, Role::Dispatcher).await {
            Ok(members) => {
                let own = Peer { id: shared.id, address: own.http.clone(), database: !without, slots };
                shared.peers().set(asked, &own, &members);
                alone = send_away(shared, asked, alone);
                spread_out(shared, &mut spread, Instant::now());
            }
            Err(error) => {
                spread.interrupted();
                shared.metrics.failed("peers");
                tracing::warn!(error = service::runtime::chain(&error), "Could not list the dispatchers");
            }
        }
        let every = if shared.contact().without_database() { EVERY_WITHOUT } else { EVERY };
        tokio::select! {
            () = stop.cancelled() => break,
            () = shared.contact_changed.notified() => {}
            () = tokio::time::sleep(every) => {}
        }
    }
    beat.done();
}

/// Whether runs go out from here, as far as that does not depend on its workers: it does not end, has the database, and may
/// claim.
fn hands_out(shared: &Shared) -> bool {
    let without = shared.contact().without_database();
    !shared.draining() && !without && shared.epoch_ready() && shared.steadiness.is_steady()
}

/// The slots that count among the dispatchers; none while no worker could come.
fn slots_to_show(roster: &Roster, config: &DispatcherConfig) -> Option<u64> {
    let room = roster.has_room(None, config.sessions_max as usize);
    room.then(|| roster.loads().iter().map(|load| load.slots).sum())
}

/// Tells the workers to move if we alone are cut off; whether we are. One that stays has nowhere to go.
fn send_away(shared: &Shared, asked: Instant, before: bool) -> bool {
    let (without, age) = {
        let contact = shared.contact();
        (contact.without_database(), contact.renewal_age(asked))
    };
    let alone = {
        let peers = shared.peers();
        let (_, list) = peers.list().unwrap_or((asked, &[]));
        is_alone(without, age, shared.id, list)
    };
    if alone {
        let mut roster = shared.roster();
        if roster.connected() {
            if !before {
                tracing::warn!(
                    renewal_age_ms = age.as_millis() as u64,
                    "Cut off from the database, and another dispatcher is not: sending the workers there"
                );
            }
            roster.drain_all();
        }
    }
    alone
}

/// Sends one worker elsewhere if this dispatcher has had more than its share for a while.
fn spread_out(shared: &Shared, spread: &mut Spread, now: Instant) {
    if !hands_out(shared) {
        return spread.interrupted();
    }
    // Not amid a herd.
    if shared.rush().presses(now) {
        return;
    }
    let others = shared.peers().slots_of_others(shared.id);
    let mut roster = shared.roster();
    let own = roster.loads();
    let Some(Load { session, connection, slots, in_hand, .. }) = spread.look(&own, &others, now) else {
        return;
    };
    if roster.send_away(session, connection, now) {
        shared.metrics.moved();
        tracing::info!(
            session = %session,
            session.slots = slots,
            runs.in_hand = in_hand,
            dispatcher.slots = own.iter().map(|load| load.slots).sum::<u64>(),
            others.slots = ?others,
            "Sending a worker to another dispatcher: this one has more than its share"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steady::Steadiness;
    use crate::testing::{attached, idle::Idle};
    use chrono::DateTime;
    use model::ids::SessionId;

    fn peer(database: bool) -> Peer {
        Peer { id: DispatcherId::random(), address: "http://d".to_owned(), database, slots: Some(1) }
    }

    #[test]
    fn workers_are_sent_away_only_when_another_dispatcher_has_what_we_lack_for_a_while() {
        let (own, with, without) = (peer(true), peer(true), peer(false));
        let alone = |lacks, seconds, peers: &[&Peer]| {
            let peers: Vec<Peer> = peers.iter().map(|peer| (*peer).clone()).collect();
            is_alone(lacks, Duration::from_secs(seconds), own.id, &peers)
        };
        assert!(alone(true, 5, &[&own, &without, &with]));
        assert!(!alone(false, 5, &[&own, &with]), "it has the database");
        assert!(!alone(true, 4, &[&own, &with]), "the other may not have noticed yet");
        assert!(!alone(true, 60, &[&own, &without]), "nobody has it");
        assert!(!alone(true, 60, &[&own]), "there is nobody else");
    }

    #[tokio::test]
    async fn runs_go_out_unless_the_dispatcher_ends_may_not_claim_or_lacks_the_database() {
        let steady = || {
            let steadiness = Steadiness::new(Some(Duration::from_secs(5)));
            steadiness.seen(DateTime::UNIX_EPOCH, Instant::now(), Instant::now());
            steadiness
        };
        let mut shared = Idle::create().await.shared;
        shared.steadiness = steady();
        assert!(hands_out(&shared));
        shared.set_epoch_ready(false);
        assert!(!hands_out(&shared), "the epoch");
        shared.set_epoch_ready(true);
        shared.contact().lost();
        assert!(!hands_out(&shared), "the database");
        shared.contact().renewed(Instant::now(), Instant::now());
        shared.steadiness.seen(
            DateTime::UNIX_EPOCH + Duration::from_secs(3_600),
            Instant::now(),
            Instant::now(),
        );
        assert!(!hands_out(&shared), "the clock");
        shared.steadiness = steady();
        assert!(hands_out(&shared));
        shared.drain();
        assert!(!hands_out(&shared), "its end");
    }

    #[test]
    fn a_full_dispatcher_does_not_say_how_many_slots_it_has() {
        let (mut roster, id) = (Roster::default(), SessionId::random());
        let config = |sessions_max| DispatcherConfig { sessions_max, ..DispatcherConfig::default() };
        assert_eq!(slots_to_show(&roster, &config(1)), Some(0));
        let (worker, _received) = attached(1, 8);
        roster.attach(id, worker, Instant::now());
        assert_eq!(slots_to_show(&roster, &config(2)), Some(8));
        assert_eq!(slots_to_show(&roster, &config(1)), None);
    }

    #[test]
    fn a_list_has_this_dispatcher_once_whatever_etcd_has() {
        let own = peer(false);
        let member = |uuid, database| Member {
            role: Role::Dispatcher,
            name: "d".to_owned(),
            uuid,
            pid: 1,
            http: "http://other".to_owned(),
            database,
            slots: Some(3),
            tzdata: None,
        };
        let mut peers = Peers::default();
        assert_eq!(peers.list(), None);
        let now = Instant::now();
        peers.set(now, &own, &[member(own.id.0, Some(true)), member(uuid::Uuid::from_u128(7), None)]);
        let (_, list) = peers.list().expect("listed");
        assert_eq!(list.len(), 2);
        assert_eq!(list.iter().find(|peer| peer.id == own.id), Some(&own));
        assert!(list.iter().all(|peer| !peer.database), "who says nothing is not relied on");
        assert_eq!(peers.slots_of_others(own.id), [0; 0], "nor are workers sent there");
        peers.set(now, &own, &[member(own.id.0, Some(true)), member(uuid::Uuid::from_u128(7), Some(true))]);
        assert_eq!(peers.slots_of_others(own.id), [3]);
    }
}
