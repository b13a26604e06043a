//! Values for this crate's own tests.

#[path = "../tests/support/cell.rs"]
pub(crate) mod cell;
pub(crate) mod idle;

use crate::definitions::Handout;
use crate::roster::{Attached, Link};
use chrono::DateTime;
use model::attempt::Spent;
use model::ids::{Generation, JobId, RunKey, SessionId, TenantId};
use model::job::{Alert, Definition, Handler, Misfire, Retry, Work};
use model::policy::{DstFold, DstGap, MisfirePolicy, OverlapPolicy};
use model::run::Origin;
use model::token::Token;
use rpc::v1::ToWorker;
use std::sync::Arc;
use std::time::Duration;
use store::job_revision::Spec;
use store::run_lease::Lease;
use store::run_lease::assignment::Assignment;
use tokio::sync::mpsc;
use tonic::Status;

/// What a worker would receive.
pub(crate) type Received = mpsc::Receiver<Result<ToWorker, Status>>;

/// A connection of a worker of queue `default`, and its other end.
pub(crate) fn attached(connection: i32, slots: usize) -> (Attached, Received) {
    let (sender, received) = mpsc::channel(16);
    let link = Link::new(sender);
    (Attached { connection, tenant: None, queues: vec!["default".to_owned()], slots, link }, received)
}

/// The first attempt of a run of its own, held by `session`.
pub(crate) fn lease(session: SessionId, connection: i32) -> Lease {
    Lease {
        key: RunKey::new(JobId::random(), DateTime::UNIX_EPOCH),
        attempt: 1,
        token: Token::from_i64(1 << 44).expect("positive"),
        session: Some(session),
        connection,
        generation: Generation::FIRST,
        spent: Spent::default(),
        cancel: None,
        overdue: false,
        given_up: false,
        orphaned: false,
    }
}

/// What the worker of `lease` is told.
pub(crate) fn assignment(lease: &Lease) -> Handout {
    let assignment = Assignment {
        lease: lease.clone(),
        tenant: TenantId::DEFAULT,
        exclusive: true,
        origin: Origin::Schedule,
        queue: "default".to_owned(),
        traceparent: String::new(),
        due_at: DateTime::UNIX_EPOCH,
        accepted: false,
    };
    let spec = Spec { job_name: "job".to_owned(), definition: definition() };
    Handout { assignment, spec: Arc::new(spec) }
}

fn definition() -> Definition {
    Definition {
        schedule: "* * * * *".to_owned(),
        timezone: "UTC".to_owned(),
        dst_gap: DstGap::RunAfter,
        dst_fold: DstFold::First,
        starts_at: None,
        ends_at: None,
        calendars: model::calendar::Calendars::default(),
        misfire: Misfire {
            policy: MisfirePolicy::Once,
            grace: Duration::from_secs(60),
            catch_up_limit: 1,
            catch_up_window: Duration::from_secs(60),
            catch_up_per_second: 10,
        },
        overlap: OverlapPolicy::Forbid,
        max_runtime: Duration::from_secs(60),
        retry: Retry { backoff: Duration::ZERO, backoff_max: Duration::ZERO, ..Retry::default() },
        jitter: Duration::ZERO,
        queue: "default".to_owned(),
        priority: 0,
        labels: std::collections::BTreeMap::new(),
        alert: Alert::default(),
        run: Work::Handler(Handler { name: "x".to_owned(), payload: String::new() }),
    }
}
