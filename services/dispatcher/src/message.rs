//! Messages to workers.

use crate::config::Terms;
use crate::definitions::Handout;
use crate::peers::Peer;
use rpc::convert::run::{AttemptRef, write_ref};
use rpc::convert::{time, work};
use rpc::v1::{self, ToWorker, completion_ack::Answer, to_worker::Message};
use std::time::{Duration, Instant};

/// Names the attempt that a lease stands for.
pub fn attempt_of(lease: &store::run_lease::Lease) -> AttemptRef {
    AttemptRef { key: lease.key, attempt: lease.attempt, token: lease.token }
}

/// The answer to Hello.
pub fn welcome(session: model::ids::SessionId, connection: i32, resumed: bool, terms: &Terms) -> ToWorker {
    wrap(Message::Welcome(v1::Welcome {
        session_id: session.to_string(),
        connection,
        resumed,
        lease: Some(time::duration(terms.lease)),
        heartbeat_interval: Some(time::duration(terms.heartbeat)),
        self_deadline: Some(time::duration(terms.self_deadline)),
        kill_grace: Some(time::duration(terms.kill_grace)),
    }))
}

/// A run for the worker, as the `number`-th assignment of its connection.
pub fn assignment(number: i64, Handout { assignment, spec }: &Handout) -> ToWorker {
    let key = assignment.lease.key;
    wrap(Message::Assignment(v1::Assignment {
        number,
        run: Some(write_ref(&attempt_of(&assignment.lease))),
        job_name: spec.job_name.clone(),
        origin: assignment.origin.as_str().to_owned(),
        idempotency_key: key.idempotency_key(),
        guard_key: model::token::guard_key(assignment.exclusive, &key),
        max_runtime: Some(time::duration(spec.definition.max_runtime)),
        traceparent: assignment.traceparent.clone(),
        work: Some(work::write(&spec.definition.run)),
        queue: assignment.queue.clone(),
    }))
}

/// The answer to a Completed.
pub fn answer(attempt: &AttemptRef, answer: Answer) -> ToWorker {
    wrap(Message::CompletionAck(v1::CompletionAck { run: Some(write_ref(attempt)), answer: answer.into() }))
}

/// Stop this attempt.
pub fn cancel(attempt: &AttemptRef, reason: &str) -> ToWorker {
    wrap(Message::Cancel(v1::Cancel { run: Some(write_ref(attempt)), reason: reason.to_owned() }))
}

/// The answer to a heartbeat; with the list of dispatchers and when it was asked for, if the worker may need it.
pub fn heartbeat_ack(
    sequence: i64,
    renewal_age: Duration,
    without_database: bool,
    list: Option<(Instant, &[Peer])>,
    now: Instant,
) -> ToWorker {
    let dispatcher =
        |peer: &Peer| v1::DispatcherRef { id: peer.id.to_string(), address: peer.address.clone() };
    wrap(Message::HeartbeatAck(v1::HeartbeatAck {
        sequence,
        renewal_age: Some(time::duration(renewal_age)),
        without_database,
        dispatchers: list.iter().flat_map(|(_, peers)| peers.iter().map(dispatcher)).collect(),
        list_age: list.map(|(asked, _)| time::duration(now.saturating_duration_since(asked))),
    }))
}

/// Connect elsewhere.
pub fn drain() -> ToWorker {
    wrap(Message::Drain(v1::Drain {}))
}

fn wrap(message: Message) -> ToWorker {
    ToWorker { message: Some(message) }
}
