//! Takes a worker in: who it is, which runs it may take, and which session it goes on with.
//!
//! Invariant: whatever the database says a resuming worker holds and the worker does not have is sent to it, because
//! its Hello was written before the leases are read: a run stays in the worker's list until its end is recorded.

use crate::definitions::Handout;
use crate::epoch;
use crate::message;
use crate::roster::{Attached, Link};
use crate::shared::Shared;
use model::ids::{SessionId, TenantId};
use model::validate::FieldError;
use rpc::convert::run::{AttemptRef, read_ref};
use rpc::v1::{Hello, RunRef};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use store::run_lease::assignment;
use store::worker_session::{self, Resumed, Worker};
use store::{StoreError, api_token};
use tonic::Status;
use tonic::metadata::MetadataMap;
use uuid::Uuid;

const NAME_CHARS_MAX: usize = 128;
const VERSION_CHARS_MAX: usize = 64;
const QUEUES_MAX: usize = 64;
const QUEUE_CHARS_MAX: usize = 63;
const SLOTS_MAX: i32 = 10_000;
/// How often a session is resumed without a heartbeat since. By then its worker, if it hears nothing, has stopped its runs.
const UNHEARD_MAX: i32 = 2;
/// What a resumed worker gets on top of a heartbeat's interval to show that it hears.
const PROOF_SLACK: Duration = Duration::from_secs(1);
/// Silences longer than this are all alike: longer than any lease.
const UNHEARD_LONGEST: Duration = Duration::from_secs(3_600);

/// Who bears a token that may take runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bearer {
    /// The token.
    pub token: Uuid,
    /// Whose runs; none is every tenant's.
    pub tenant: Option<TenantId>,
}

/// Who bears a request's token, if it may take runs.
///
/// # Errors
/// UNAUTHENTICATED, PERMISSION_DENIED; UNAVAILABLE when the database can't be asked.
pub async fn authenticate(shared: &Shared, metadata: &MetadataMap) -> Result<Bearer, Status> {
    let secret = bearer(metadata).ok_or_else(rpc::status::unauthenticated)?;
    let token = api_token::find(&shared.store, &api_token::hash(secret)).await;
    let token = token
        .map_err(|error| rpc::status::unavailable("PostgreSQL", &error))?
        .ok_or_else(rpc::status::unauthenticated)?;
    match token.role {
        api_token::Role::Worker | api_token::Role::Admin => {
            Ok(Bearer { token: token.id, tenant: token.tenant })
        }
        api_token::Role::Editor | api_token::Role::Viewer => Err(rpc::status::denied("worker")),
    }
}

/// The secret of a request's `Bearer` token.
pub fn bearer(metadata: &MetadataMap) -> Option<&str> {
    let (scheme, secret) = metadata.get("authorization")?.to_str().ok()?.split_once(' ')?;
    let secret = secret.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !secret.is_empty()).then_some(secret)
}

/// A session that has a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connected {
    /// The session.
    pub session: SessionId,
    /// The number of the connection.
    pub connection: i32,
}

/// Takes a worker in and puts Welcome, and what it lacks, into its connection.
///
/// # Errors
/// INVALID_ARGUMENT with every wrong field; UNAVAILABLE when the database can't be asked or we are full or draining.
pub async fn attach(
    shared: &Shared,
    tenant: Option<TenantId>,
    hello: Hello,
    link: Link,
) -> Result<Connected, Status> {
    let (in_hand, unheard) = (in_hand(&hello.in_hand), hello.unheard);
    let earlier: Option<SessionId> = hello.session_id.parse().ok();
    let worker = worker_of(hello, tenant).map_err(rpc::status::invalid)?;
    if shared.draining() {
        return Err(Status::unavailable("this dispatcher is draining: connect to another"));
    }
    if !shared.roster().has_room(earlier, shared.config.sessions_max as usize) {
        return Err(Status::resource_exhausted("this dispatcher is full: connect to another"));
    }
    let opened = open(shared, earlier, &worker).await;
    let opened = opened.map_err(|error| rpc::status::unavailable("PostgreSQL", &error))?;
    let Some((connected, resumed)) = opened else {
        // Each resumption would postpone that its runs are given on.
        return Err(Status::unavailable(
            "this worker does not hear what it is told: its session is given up",
        ));
    };
    let Connected { session, connection } = connected;
    let leases = match resumed {
        true => held_by(shared, session, &in_hand).await,
        false => Ok(Vec::new()),
    };
    let leases = leases.map_err(|error| rpc::status::unavailable("PostgreSQL", &error))?;

    link.send(message::welcome(session, connection, resumed, &shared.terms));
    let attached = Attached {
        connection,
        tenant,
        queues: worker.queues.clone(),
        slots: usize::try_from(worker.slots).unwrap_or(0),
        link,
    };
    let now = Instant::now();
    let heard = known_to_hear(unheard, now);
    // Long enough to hear the Welcome and to say so.
    let proof = shared.terms.heartbeat + PROOF_SLACK;
    let at_least = now.checked_sub(shared.terms.lease.saturating_sub(proof)).unwrap_or(now);
    let redelivered = {
        let mut roster = shared.roster();
        roster.attach(session, attached, heard.max(at_least));
        roster.adopt(&leases, &in_hand)
    };
    shared.metrics.redelivered(redelivered);
    shared.work.notify_one();
    tracing::info!(session = %session, session.connection = connection, session.resumed = resumed, worker.name = worker.name, worker.queues = worker.queues.join(","), worker.slots = worker.slots, redelivered, "A worker has connected");
    Ok(connected)
}

/// All that the session's worker has, and what it should have. A lease of an older epoch that it has not is left to the
/// comparison of leases, which gives the run on: a restored database has leases of runs that have ended.
async fn held_by(
    shared: &Shared,
    session: SessionId,
    in_hand: &HashSet<AttemptRef>,
) -> Result<Vec<Handout>, StoreError> {
    let mut assignments = assignment::of_sessions(&shared.store, &[session]).await?;
    let epoch = epoch::in_use(&shared.store).await?;
    assignments.retain(|assignment| {
        let lease = &assignment.lease;
        in_hand.contains(&message::attempt_of(lease))
            || epoch.is_some_and(|epoch| epoch::is_current(lease.token, epoch))
    });
    shared.definitions.handouts(&shared.store, assignments).await
}

/// The session that the worker asks for, or a new one; and whether it is the one that it asked for. None when the worker
/// speaks and does not hear.
async fn open(
    shared: &Shared,
    earlier: Option<SessionId>,
    worker: &Worker,
) -> Result<Option<(Connected, bool)>, StoreError> {
    if let Some(session) = earlier {
        match worker_session::resume(&shared.store, session, shared.id, worker, UNHEARD_MAX).await? {
            Resumed::Taken(connection) => return Ok(Some((Connected { session, connection }, true))),
            Resumed::Deaf => return Ok(None),
            Resumed::Gone => {}
        }
    }
    let session = SessionId::random();
    worker_session::insert(&shared.store, session, shared.id, worker).await?;
    Ok(Some((Connected { session, connection: 1 }, false)))
}

/// The moment as of which a worker is sure to hear what dispatchers say, by the silence that it names. Its lease counts
/// from then. One that names none is believed to hear.
pub fn known_to_hear(unheard: Option<impl TryInto<Duration>>, now: Instant) -> Instant {
    let silence: Duration = unheard.and_then(|unheard| unheard.try_into().ok()).unwrap_or_default();
    // Longer than this process has a clock for: as long as that.
    now.checked_sub(silence).unwrap_or_else(|| now.checked_sub(UNHEARD_LONGEST).unwrap_or(now))
}

/// The runs that a worker says it has; what names no attempt is not a run of ours.
pub fn in_hand(runs: &[RunRef]) -> HashSet<AttemptRef> {
    runs.iter().filter_map(|run| read_ref("inHand", Some(run)).ok()).collect()
}

fn worker_of(hello: Hello, tenant: Option<TenantId>) -> Result<Worker, Vec<FieldError>> {
    let mut errors = Vec::new();
    let mut check = |holds: bool, field: &str, rule: String| {
        if !holds {
            errors.push(FieldError::new(field, rule));
        }
    };
    let text = |text: &str, most: usize| text.chars().count() <= most && !text.chars().any(char::is_control);
    check(
        text(&hello.name, NAME_CHARS_MAX),
        "name",
        format!("use at most {NAME_CHARS_MAX} printable characters"),
    );
    let rule = format!("use at most {VERSION_CHARS_MAX} printable characters");
    check(text(&hello.version, VERSION_CHARS_MAX), "version", rule);
    let counted = (1..=QUEUES_MAX).contains(&hello.queues.len());
    check(counted, "queues", format!("{} queues: name 1 to {QUEUES_MAX}", hello.queues.len()));
    for (index, queue) in hello.queues.iter().enumerate() {
        let sound = !queue.is_empty() && text(queue, QUEUE_CHARS_MAX);
        check(sound, &format!("queues[{index}]"), format!("use 1 to {QUEUE_CHARS_MAX} printable characters"));
    }
    check((1..=SLOTS_MAX).contains(&hello.slots), "slots", format!("{}: use 1 to {SLOTS_MAX}", hello.slots));
    if !errors.is_empty() {
        return Err(errors);
    }
    // Sorted, so that workers of the same queues are one group.
    let mut queues = hello.queues;
    queues.sort_unstable();
    queues.dedup();
    Ok(Worker { name: hello.name, version: hello.version, queues, slots: hello.slots, tenant })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{attached, idle::Idle};
    use tonic::Code;

    #[tokio::test]
    async fn a_full_dispatcher_takes_back_a_worker_whose_connection_has_broken_and_nobody_else() {
        let mut idle = Idle::create().await;
        idle.shared.config.sessions_max = 1;
        let come = async |earlier: &str| {
            let (session_id, queues) = (earlier.to_owned(), vec!["default".to_owned()]);
            let hello = Hello { session_id, queues, slots: 1, ..Hello::default() };
            attach(&idle.shared, None, hello, attached(1, 1).0.link).await
        };
        let first = come("").await.expect("there is room");
        idle.shared.roster().detach(first.session, first.connection);
        for stranger in [String::new(), SessionId::random().to_string()] {
            let refused = come(&stranger).await.expect_err("it is full");
            assert_eq!(refused.code(), Code::ResourceExhausted);
        }
        let again = come(&first.session.to_string()).await.expect("it has its place");
        assert_eq!((again.session, again.connection), (first.session, first.connection + 1));
    }

    #[tokio::test]
    async fn who_comes_back_to_a_restored_database_gets_no_run_with_a_token_of_before() {
        let idle = Idle::create().await;
        let worker = idle.worker().await;
        let run = idle.in_hand(&worker).await;
        let (lacking, having) = (HashSet::new(), HashSet::from([run]));
        let held = async |in_hand| held_by(&idle.shared, worker.session, in_hand).await.expect("read").len();
        assert_eq!(held(&lacking).await, 1, "it lacks what was given out under this epoch");
        let server = store::epoch::read(&idle.cell.store).await.expect("read").server;
        assert!(store::epoch::raise(&idle.cell.store, 2, server).await.expect("raised"));
        assert_eq!((held(&lacking).await, held(&having).await), (0, 1));
    }

    #[test]
    fn a_hello_is_told_everything_that_is_wrong_with_it() {
        let hello =
            Hello { queues: vec![String::new()], slots: 0, name: "a\nb".to_owned(), ..Hello::default() };
        let errors = worker_of(hello, None).expect_err("three fields are wrong");
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["name", "queues[0]", "slots"]);
    }

    #[test]
    fn a_worker_is_sure_to_hear_as_of_the_silence_that_it_names() {
        let now = Instant::now() + Duration::from_secs(10_000);
        let as_of = |seconds| known_to_hear(Some(prost_types::Duration { seconds, nanos: 0 }), now);
        assert_eq!(as_of(7), now - Duration::from_secs(7));
        assert_eq!(known_to_hear(None::<Duration>, now), now);
        assert_eq!(as_of(-7), now, "nonsense is no silence");
        assert!(as_of(i64::MAX) <= now - UNHEARD_LONGEST);
    }

    #[test]
    fn workers_of_the_same_queues_are_alike_whatever_order_they_name_them_in() {
        let hello = |queues: [&str; 3]| Hello {
            queues: queues.map(str::to_owned).to_vec(),
            slots: 1,
            ..Hello::default()
        };
        let one = worker_of(hello(["b", "a", "b"]), None).expect("sound");
        assert_eq!(one, worker_of(hello(["a", "a", "b"]), None).expect("sound"));
    }
}
