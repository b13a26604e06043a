//! The registry: the API that people and programs live in.
//!
//! Owns the definitions' way in and the history's way out. Invariants: gRPC and REST are one set of routes, with the
//! same validation, roles, audit and errors; each call that changes something is one transaction with its audit event;
//! every look-up is within the caller's tenant. Stateless: any number of registries may run.
//!
//! What it does not do: plan, release or judge. It moves the cursors of those who do.

mod alerts;
mod apply;
mod audit;
mod auth;
mod backfill;
mod by_hand;
mod calendars;
mod channels;
mod check_ins;
mod config;
mod definition;
mod docs_page;
mod failure;
mod herd;
mod idempotency;
mod job_list;
mod jobs;
mod known;
mod limits;
mod metrics;
mod misread;
mod occurrences;
mod output;
mod page;
mod pause;
mod preview;
mod probe;
mod rate;
mod references;
mod registry;
mod rerun;
mod rest;
mod revisions;
mod run_list;
mod runs;
mod status;
mod strangers;
mod tenants;
mod tokens;
mod trail;
mod trigger;
mod turns;
mod watch_runs;
mod watching;
mod why;

pub use config::RegistryConfig;

use by_hand::ByHand;
use registry::Registry;
use secrecy::ExposeSecret;
use service::config::{Common, Problem};
use service::runtime::{BoxError, Context};
use service::shutdown::Drain;
use std::sync::Arc;
use std::time::Duration;
use store::{Settings, Store, StoreError, clock};
use strangers::Strangers;
use watching::Watching;

/// The longest pause inside a transaction: what it has locked is not planned meanwhile.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(5);

/// Runs the registry until it is told to stop: binds its ports, waits for the database, answers, and finishes the
/// requests in flight.
///
/// # Errors
/// When a port can't be bound, or the database or its schema is not there in time.
pub async fn run(context: Context<RegistryConfig>) -> Result<(), BoxError> {
    let store = open_store(&context.common, &context.settings)?;
    let request_bytes_max = context.settings.request_bytes_max;
    let strangers = Arc::new(Strangers::new(context.settings.unknown_tokens_per_second));
    let tokens = Arc::new(tokens(&store, &context.settings, strangers.clone()));
    let database = context.health.condition("database");
    let registry = registry(&context, &store);
    let routes =
        registry::routes(registry, tokens.clone(), request_bytes_max, metrics::Metrics::new()).await?;
    let listener = context.listen("listen_grpc", context.settings.listen_grpc).await?;
    let grpc = listener.url();
    context.warn_of_clear_tokens("listen_http", context.common.listen_http);
    let rest = known::vouched(rest::router(routes.clone(), request_bytes_max)?);
    let rest = rpc::auth::guard_rest(rest, tokens.clone());
    let http = context.serve_http(rest.merge(check_ins::report::router(store.clone(), strangers))).await?;

    let limit = Duration::from_millis(context.settings.database_wait_ms);
    let ready = context.shutdown.run_until_cancelled(clock::wait_until_ready(&store, limit)).await;
    let Some(ready) = ready else { return Ok(()) };
    ready?;
    database.met();
    let note = tokio::spawn(auth::note(tokens, context.shutdown.clone()));
    let probe = tokio::spawn(probe::run(store.clone(), database, context.shutdown.clone()));
    let rest = http.url();
    context.publish(serde_json::json!({ "http": rest, "rest": rest, "grpc": grpc }))?;
    tracing::info!(listen.rest = rest, listen.grpc = grpc, "Ready");

    let stopping = context.shutdown.clone();
    let limits = service::door::Limits::of_process();
    let server = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(limits.ping_every))
        .http2_keepalive_timeout(Some(limits.ping))
        .layer(service::tls::introducing())
        .add_routes(routes)
        .serve_with_incoming_shutdown(listener, stopping.cancelled_owned());
    let mut server = tokio::spawn(server);
    tokio::select! {
        () = context.shutdown.cancelled() => {}
        ended = &mut server => return Ok(ended??),
    }
    context.health.drain();
    let drain = Drain::within(context.common.drain());
    let _ = drain.stage("gRPC requests in flight", async { drop(server.await) }).await;
    let _ = drain.stage("REST requests in flight", async { drop(http.stop().await) }).await;
    let _ = drain.stage("database probe", async { drop(probe.await) }).await;
    let _ = drain.stage("use of tokens", async { drop(note.await) }).await;
    store.close();
    Ok(())
}

fn registry(context: &Context<RegistryConfig>, store: &Store) -> Registry {
    let own = &context.settings;
    Registry {
        store: store.clone(),
        watching: Watching::until(context.shutdown.clone(), own.database_connections_max),
        by_hand: ByHand::new(own.tenant_runs_per_second, own.tenant_backfills_per_second),
        turns: turns::Turns::default(),
    }
}

fn tokens(store: &Store, own: &RegistryConfig, strangers: Arc<Strangers>) -> auth::Tokens {
    let rate = own.token_requests_per_second;
    let buckets = (rate > 0).then(|| rate::Buckets::new(rate, own.token_requests_burst));
    let remember = Duration::from_millis(own.token_cache_ms);
    auth::Tokens::new(store.clone(), remember, buckets, strangers)
}

fn open_store(common: &Common, own: &RegistryConfig) -> Result<Store, BoxError> {
    let url = common.database_url().map_err(|problem: Problem| service::runtime::misconfigured(problem))?;
    let mut settings = Settings::new(url.expose_secret(), common.cell.as_str(), "escapement-registry");
    settings.connections_max = own.database_connections_max;
    // Ten thousand definitions are worked out between two statements.
    settings.idle_in_transaction_timeout = IDLE_IN_TRANSACTION;
    let unusable = |error: StoreError| Problem::new("database_url", error.to_string());
    Ok(Store::new(settings).map_err(|error| service::runtime::misconfigured(unusable(error)))?)
}
