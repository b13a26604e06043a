//! The dispatcher: claims runs as they become due, hands them to the workers that are connected to it, keeps their
//! sessions and leases, and records what became of each attempt.
//!
//! Each loop is a file: `claim`, `ahead`, `cancel`, `finish`, `reconcile`, `renew`, `epoch`, `sweep`; a worker's stream is
//! `session`. They share `shared::Shared`. Any number of dispatchers work side by side; what keeps them apart is in
//! the statements, never in these loops. It plans nothing and knows no schedule.

mod ahead;
mod attach;
mod bearers;
mod cancel;
mod claim;
mod conclude;
mod config;
mod contact;
mod definitions;
mod epoch;
mod finish;
mod live;
mod message;
mod metrics;
mod park;
mod pause;
mod peers;
mod reap;
mod reconcile;
mod renew;
mod roster;
mod rush;
mod session;
mod shared;
mod spread;
mod standing;
mod steady;
mod sweep;
#[cfg(test)]
mod testing;

pub use config::DispatcherConfig;

use election::{ElectionError, Member, MemberHandle, Role};
use rpc::v1::worker_service_server::WorkerServiceServer;
use secrecy::ExposeSecret;
use service::runtime::{Context, RuntimeError};
use service::shutdown::{Drain, Stage};
use service::tls::Incoming;
use shared::Shared;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::dispatcher::Dispatcher;
use store::{Store, StoreError, clock};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;

/// How long PostgreSQL and etcd may take to be there at the start.
const START_LIMIT: Duration = Duration::from_secs(60);
/// A loop that has not turned for this long makes the process unhealthy: longer than a cycle with slow statements.
const STUCK_LIMIT: Duration = Duration::from_secs(60);
/// Membership in etcd is a hint; its lease is the shortest that etcd keeps well.
const MEMBER_LEASE: Duration = Duration::from_secs(5);
/// Half-open connections are noticed after both together.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(3);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(4);
/// How long workers have to connect elsewhere before their connections are closed, as a part of the drain.
const MOVE_LIMIT: Duration = Duration::from_secs(5);
/// The longest wait for a row that somebody else has locked.
const LOCK_LIMIT: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Why the dispatcher can't run.
#[derive(Debug, thiserror::Error)]
pub enum DispatcherError {
    /// The configuration is wrong.
    #[error("cannot start")]
    Config(#[from] service::config::ConfigError),
    /// The frame around it failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The database is not usable.
    #[error("PostgreSQL is not usable")]
    Store(#[source] StoreError),
    /// etcd is not usable.
    #[error("etcd is not usable")]
    Election(#[source] ElectionError),
    /// There is no safe epoch for the tokens.
    #[error("no epoch for the fencing tokens")]
    Epoch(#[source] epoch::EpochError),
    /// A loop has panicked, or the server has failed.
    #[error("a part of the dispatcher has ended that must not")]
    LoopEnded,
    /// The contract's descriptors can't be served.
    #[error("cannot serve the contract's descriptors")]
    Reflection(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Hands out runs until the process is to stop.
///
/// # Errors
/// [`DispatcherError`] when it can't start.
pub async fn run(context: Context<DispatcherConfig>) -> Result<(), DispatcherError> {
    let database = context.health.condition("database");
    let ready = context.health.condition("epoch");
    let server = context.serve_http(Default::default()).await?;
    let listener = context.listen("listen_grpc", context.settings.listen_grpc).await?;
    let address = context.settings.advertise_grpc.clone().unwrap_or_else(|| listener.url());
    let http = server.url();

    let store = open_store(&context)?;
    let ready_store =
        context.shutdown.run_until_cancelled(clock::wait_until_ready(&store, START_LIMIT)).await;
    let Some(ready_store) = ready_store else { return Ok(()) };
    ready_store.map_err(DispatcherError::Store)?;
    let connected = context.shutdown.run_until_cancelled(connect_etcd(&context)).await;
    let Some(etcd) = connected.transpose()? else { return Ok(()) };
    let (sender, reports) = mpsc::channel(finish::WAITING_MAX);
    let shared = Arc::new(Shared::new(context.settings.clone(), store.clone(), sender));
    let own = Dispatcher {
        id: shared.id,
        pid: i32::try_from(std::process::id()).unwrap_or(0),
        name: context.common.name.chars().take(128).collect(),
        address: address.clone(),
        http: http.clone(),
    };
    epoch::ensure(&shared, &etcd).await.map_err(DispatcherError::Epoch)?;
    ready.met();
    renew::renew(&shared, &own).await.map_err(DispatcherError::Store)?;
    database.met();
    let presence = member(&own);
    let member = Arc::new(election::register(&etcd, &presence).map_err(DispatcherError::Election)?);
    tracing::info!(dispatcher = %own.id, address, "Taking workers in");

    let stop = Stop::default();
    let committer = tokio::spawn({
        let (shared, reports) = (shared.clone(), reports);
        let stop = stop.reports.clone();
        async move { finish::run(&shared, reports, stop).await }
    });
    let loops = start_loops(&context, &shared, &etcd, own, (presence, &member), database, &stop);
    let serving = serve(&context, &shared, listener, stop.serving.clone())?;
    context.publish(serde_json::json!({ "http": http, "grpc": address }))?;

    let mut tasks = Tasks { loops, committer, serving };
    tokio::select! {
        () = context.shutdown.cancelled() => {}
        // Half a dispatcher is worse than none: the others take over what this one has.
        () = tasks.any_ends() => return Err(DispatcherError::LoopEnded),
    }
    context.health.drain();
    let drain = Drain::within(context.common.drain());
    drain_all(&shared, &drain, &stop, tasks).await;
    if let Some(member) = Arc::into_inner(member) {
        member.leave().await;
    }
    store.close();
    Ok(())
}

/// What stops, in this order.
#[derive(Default)]
struct Stop {
    /// Claims.
    claims: CancellationToken,
    /// New connections, and those that are left.
    serving: CancellationToken,
    /// The recording of reports, once those that wait are recorded.
    reports: CancellationToken,
    /// Renewals and everything else.
    rest: CancellationToken,
}

struct Tasks {
    loops: JoinSet<()>,
    committer: JoinHandle<()>,
    serving: JoinHandle<()>,
}

impl Tasks {
    /// Returns when a task has ended, which none does before it is told to.
    async fn any_ends(&mut self) {
        tokio::select! {
            _ = self.loops.join_next() => {}
            _ = &mut self.committer => {}
            _ = &mut self.serving => {}
        }
    }
}

/// Workers connect elsewhere with their sessions, what they reported is recorded, and nothing of us is left behind
/// unless a session is: then others must be able to miss us.
async fn drain_all(shared: &Shared, drain: &Drain, stop: &Stop, tasks: Tasks) {
    shared.drain();
    stop.claims.cancel();
    shared.roster().drain_all();
    let moving = async {
        let until = Instant::now() + MOVE_LIMIT.min(drain.left() / 2);
        while shared.roster().connected() && Instant::now() < until {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        stop.serving.cancel();
        shared.roster().close_all();
    };
    let _ = drain.stage("workers", moving).await;
    let Tasks { mut loops, committer, serving } = tasks;
    let closing = async {
        if serving.await.is_err() {
            tracing::error!("The server panicked");
        }
    };
    let _ = drain.stage("connections", closing).await;
    stop.reports.cancel();
    let recording = async {
        if committer.await.is_err() {
            tracing::error!("The recording of reports panicked");
        }
    };
    let _ = drain.stage("reports", recording).await;
    stop.rest.cancel();
    let leaving = async {
        while let Some(ended) = loops.join_next().await {
            if ended.is_err() {
                tracing::error!("A loop panicked");
            }
        }
        match store::dispatcher::remove(&shared.store, shared.id).await {
            Ok(true) => tracing::info!(dispatcher = %shared.id, "Left without a trace"),
            Ok(false) => tracing::info!(dispatcher = %shared.id, "Left sessions behind, for others to miss"),
            Err(error) => {
                tracing::warn!(
                    error = service::runtime::chain(&error),
                    "Could not remove the dispatcher's row"
                );
            }
        }
    };
    // What overran is dropped: the same as being killed here, which every other dispatcher heals.
    if drain.stage("row", leaving).await == Stage::Overrun {
        tracing::warn!(dispatcher = %shared.id, "Left the dispatcher's row behind");
    }
}

fn start_loops(
    context: &Context<DispatcherConfig>,
    shared: &Arc<Shared>,
    etcd: &election::Client,
    own: Dispatcher,
    (presence, member): (Member, &Arc<MemberHandle>),
    database: service::health::Condition,
    stop: &Stop,
) -> JoinSet<()> {
    let mut loops = JoinSet::new();
    let beat = |name| context.health.watch(name, STUCK_LIMIT);
    let (of, beating, until) = (shared.clone(), beat("claim"), stop.claims.clone());
    loops.spawn(async move { claim::run(&of, beating, until).await });
    let (of, beating, until) = (shared.clone(), beat("ahead"), stop.claims.clone());
    loops.spawn(async move { ahead::run(&of, beating, until).await });
    let (of, beating, until) = (shared.clone(), beat("renew"), stop.rest.clone());
    loops.spawn(async move { renew::run(&of, own, beating, database, until).await });
    let (of, beating, until) = (shared.clone(), beat("live"), stop.rest.clone());
    loops.spawn(async move { live::run(&of, beating, until).await });
    let (of, beating, until) = (shared.clone(), beat("tokens"), stop.rest.clone());
    loops.spawn(async move { standing::run(&of, beating, until).await });
    let (of, beating, until) = (shared.clone(), beat("bearers"), stop.rest.clone());
    loops.spawn(async move { bearers::run(&of, beating, until).await });
    let (of, beating, until) = (shared.clone(), beat("watch"), stop.claims.clone());
    let registration = member.registration();
    loops.spawn(async move { renew::watch(&of, registration, beating, until).await });
    let (of, beating, until) = (shared.clone(), beat("peers"), stop.rest.clone());
    let (client, handle) = (etcd.clone(), member.clone());
    loops.spawn(async move { peers::run(&of, client, presence, &handle, beating, until).await });
    let (of, beating, until) = (shared.clone(), beat("pulse"), stop.claims.clone());
    loops.spawn(async move { renew::pulse(&of, beating, until).await });
    let (of, beating, until) = (shared.clone(), beat("reconcile"), stop.claims.clone());
    loops.spawn(async move { reconcile::run(&of, beating, until).await });
    let (of, beating, until) = (shared.clone(), beat("cancel"), stop.rest.clone());
    loops.spawn(async move { cancel::run(&of, beating, until).await });
    let (of, beating, until, etcd) = (shared.clone(), beat("epoch"), stop.claims.clone(), etcd.clone());
    loops.spawn(async move { epoch::run(&of, etcd, beating, until).await });
    let (of, beating, until) = (shared.clone(), beat("sweep"), stop.claims.clone());
    loops.spawn(async move { sweep::run(&of, beating, until).await });
    loops
}

fn serve(
    context: &Context<DispatcherConfig>,
    shared: &Arc<Shared>,
    listener: Incoming,
    stop: CancellationToken,
) -> Result<JoinHandle<()>, DispatcherError> {
    let reflection =
        rpc::reflection::service().map_err(|error| DispatcherError::Reflection(Box::new(error)))?;
    let (reporter, health) = tonic_health::server::health_reporter();
    let router = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
        .tcp_nodelay(true)
        .layer(service::tls::introducing())
        .add_service(health)
        .add_service(reflection)
        .add_service(WorkerServiceServer::new(session::Sessions::new(shared.clone())));
    let draining = context.shutdown.clone();
    tokio::spawn(async move {
        let name = <WorkerServiceServer<session::Sessions> as tonic::server::NamedService>::NAME;
        reporter.set_service_status(name, ServingStatus::Serving).await;
        draining.cancelled().await;
        reporter.set_service_status(name, ServingStatus::NotServing).await;
        reporter.set_service_status("", ServingStatus::NotServing).await;
    });
    Ok(tokio::spawn(async move {
        let served = router.serve_with_incoming_shutdown(listener, stop.cancelled_owned()).await;
        if let Err(error) = served {
            tracing::error!(error = service::runtime::chain(&error), "The server for workers has failed");
        }
    }))
}

fn open_store(context: &Context<DispatcherConfig>) -> Result<Store, DispatcherError> {
    let url = context.common.database_url().map_err(service::runtime::misconfigured)?;
    let mut settings =
        store::Settings::new(url.expose_secret(), context.common.cell.as_str(), "escapement-dispatcher");
    // A claim that waits longer for another's rows keeps all of its own workers waiting.
    settings.lock_timeout = LOCK_LIMIT;
    settings.by_index_only = true;
    settings.connections_max = context.settings.database_connections_max as usize;
    let unusable = |error: StoreError| service::config::Problem::new("database_url", error.to_string());
    Store::new(settings).map_err(|error| service::runtime::misconfigured(unusable(error)).into())
}

async fn connect_etcd(context: &Context<DispatcherConfig>) -> Result<election::Client, DispatcherError> {
    let common = &context.common;
    let credentials = common.etcd_user.clone().zip(common.etcd_password.clone());
    let config = election::Config {
        endpoints: common.etcd_endpoints.to_vec(),
        cell: common.cell.clone(),
        lease_ttl: MEMBER_LEASE,
        credentials: credentials.map(|(user, password)| election::Credentials { user, password }),
        tls: election::Tls {
            ca_file: common.etcd_ca_file.clone(),
            identity: common.etcd_client_certificate_file.clone().zip(common.etcd_client_key_file.clone()),
        },
    };
    election::Client::connect_within(&config, START_LIMIT).await.map_err(DispatcherError::Election)
}

fn member(own: &Dispatcher) -> Member {
    Member {
        role: Role::Dispatcher,
        name: own.name.clone(),
        uuid: own.id.0,
        pid: std::process::id(),
        http: own.address.clone(),
        database: Some(true),
        slots: Some(0),
        tzdata: None,
    }
}
