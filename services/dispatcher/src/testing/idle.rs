//! A dispatcher whose loops do not turn, on a real database: a test does what they would, one thing at a time.

use super::cell::Cell;
use super::{Received, attached};
use crate::config::DispatcherConfig;
use crate::finish::Report;
use crate::message;
use crate::renew;
use crate::roster::{Attached, Link, Said};
use crate::shared::{Reaping, Shared};
use chrono::DateTime;
use model::ids::{ClaimId, RunKey, SessionId, TenantId};
use rpc::convert::run::AttemptRef;
use std::time::{Duration, Instant};
use store::dispatcher::Dispatcher;
use store::epoch;
use store::run_queue::{self, Request, Slot, Tenants};
use store::worker_session::{self, Seen};
use tokio::sync::{Notify, mpsc};

/// See the module.
pub(crate) struct Idle {
    pub cell: Cell,
    pub shared: Shared,
    /// What would be recorded.
    pub reports: mpsc::Receiver<Report>,
}

/// A worker that is connected to it and has been heard of.
pub(crate) struct Worker {
    pub session: SessionId,
    pub link: Link,
    pub received: Received,
    queues: Vec<String>,
}

impl Idle {
    /// On a cell of its own, with epoch 1 and in contact.
    pub async fn create() -> Self {
        let cell = Cell::create().await;
        let server = epoch::read(&cell.store).await.expect("an identity").server;
        assert!(epoch::raise(&cell.store, 1, server).await.expect("raised"));
        let (sender, reports) = mpsc::channel(16);
        let shared = Shared::new(DispatcherConfig::default(), cell.store.clone(), sender);
        let nowhere = || "http://127.0.0.1:1".to_owned();
        let (id, name) = (shared.id, "idle".to_owned());
        let own = Dispatcher { id, pid: 1, name, address: nowhere(), http: nowhere() };
        renew::renew(&shared, &own).await.expect("renewed");
        shared.set_epoch_ready(true);
        Self { cell, shared, reports }
    }

    /// A worker with one slot for every tenant's runs of queue `default`.
    pub async fn worker(&self) -> Worker {
        self.worker_of(None, "default").await
    }

    pub async fn worker_of(&self, tenant: Option<TenantId>, queue: &str) -> Worker {
        let (session, queues) = (SessionId::random(), vec![queue.to_owned()]);
        let (name, version) = ("scripted".to_owned(), "1".to_owned());
        let worker = worker_session::Worker { name, version, queues: queues.clone(), slots: 1, tenant };
        worker_session::insert(&self.cell.store, session, self.shared.id, &worker).await.expect("stored");
        let (attached, received) = attached(1, 1);
        let link = attached.link.clone();
        let mut roster = self.shared.roster();
        let now = Instant::now();
        roster.attach(session, Attached { tenant, queues: queues.clone(), ..attached }, now);
        roster.heard(session, 1, Said::default(), now);
        Worker { session, link, received, queues }
    }

    /// A run of a job of its own that the worker has.
    pub async fn in_hand(&self, worker: &Worker) -> AttemptRef {
        let key = self.cell.due(self.cell.job(60_000).await, 1).await;
        self.hand_out(worker, key).await
    }

    /// The run, which is the only one that is due, goes to the worker.
    async fn hand_out(&self, worker: &Worker, key: RunKey) -> AttemptRef {
        let request = Request {
            claim: ClaimId::random(),
            dispatcher: self.shared.id,
            slots: vec![Slot { session: worker.session, connection: 1 }],
            queues: worker.queues.clone(),
            tenants: Tenants::Only(TenantId::DEFAULT),
            floor: DateTime::UNIX_EPOCH,
            latest: None,
            quantum: 1,
        };
        let store = &self.cell.store;
        let claimed = run_queue::claim(store, &request).await.expect("claimed");
        let handouts = self.shared.definitions.handouts(store, claimed.assignments).await.expect("known");
        let [handout] = &handouts[..] else { panic!("one run, got {handouts:?}") };
        assert_eq!(handout.assignment.lease.key, key);
        self.shared.roster().deliver(handout);
        message::attempt_of(&handout.assignment.lease)
    }

    /// The worker as it would be seen by whoever looks for the dead.
    pub fn seen(&self, worker: &Worker) -> Seen {
        Seen { session: worker.session, dispatcher: self.shared.id, connection: 1 }
    }

    /// Leave to give runs away that is `age` old; without one it stays fresh, however slow the machine is.
    pub fn leave(&self, age: Option<Duration>) -> Reaping<'_> {
        let since = self.shared.contact().since().expect("in contact");
        let leave = self.shared.reaping(since).expect("nobody else is at it");
        let now = Instant::now();
        leave.decided_at(age.map_or(now + Duration::from_secs(3_600), |age| now - age))
    }
}

/// Whether somebody was told, and has not looked since.
pub(crate) async fn was_told(notify: &Notify) -> bool {
    tokio::time::timeout(Duration::ZERO, notify.notified()).await.is_ok()
}
