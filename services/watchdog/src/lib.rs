//! The watchdog: notices, by itself, what should have succeeded and did not, and tells the people on call.
//!
//! One of the watchdogs leads and checks (`lead`, [`check`]); all of them deliver ([`deliver`]). What should have
//! happened is worked out from the definitions ([`walk`]), never from what the ticker wrote, so that a ticker which
//! stands still is noticed like any other failure; and the system itself is watched (`system`). It starts, repairs and
//! cancels nothing.

pub mod channel;
pub mod check;
mod config;
mod dates;
pub mod deliver;
mod lead;
pub mod message;
mod metrics;
pub mod route;
mod system;
pub mod walk;

pub use config::WatchdogConfig;
pub use lead::Lead;
pub use metrics::Metrics;

use check::Limits;
use deliver::{Deliverer, Patience};
use election::{Candidate, ElectionError, Role};
use secrecy::ExposeSecret;
use service::egress::{Egress, EgressError};
use service::refusal::Refusal;
use service::runtime::{Context, RuntimeError};
use std::sync::Arc;
use std::time::Duration;
use store::{Store, StoreError, clock};
use system::{Heartbeat, Stand};
use tokio::sync::Notify;

/// How long PostgreSQL and etcd may take to be there at the start.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A loop that has not turned for this long makes the process unhealthy: longer than a cycle with slow statements.
const STUCK_LIMIT: Duration = Duration::from_secs(120);

/// Why the watchdog can't run.
#[derive(Debug, thiserror::Error)]
pub enum WatchdogError {
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
    /// No request can be sent.
    #[error("no webhook can be sent")]
    Egress(#[source] EgressError),
}

/// Watches until the process is to stop.
///
/// # Errors
/// [`WatchdogError`] when it can't start, or when etcd refuses it for good.
pub async fn run(context: Context<WatchdogConfig>) -> Result<(), WatchdogError> {
    let (health, shutdown) = (&context.health, &context.shutdown);
    let (database, etcd_ready) = (health.condition("database"), health.condition("etcd"));
    let refusal = Refusal::new("watchdog", health.condition("fence"));
    let server = context.serve_http(Default::default()).await?;
    let http = server.url();
    let store = open_store(&context)?;
    let agent = concat!("escapement-watchdog/", env!("CARGO_PKG_VERSION"));
    let egress = Egress::new(context.settings.egress(), agent).map_err(WatchdogError::Egress)?;
    let ready = shutdown.run_until_cancelled(clock::wait_until_ready(&store, START_LIMIT)).await;
    let Some(ready) = ready else { return Ok(()) };
    ready.map_err(WatchdogError::Store)?;
    database.met();
    let connected = shutdown.run_until_cancelled(connect_etcd(&context)).await;
    let Some(etcd) = connected.transpose()? else { return Ok(()) };
    etcd_ready.met();
    let shared = Shared { store, etcd, egress, metrics: Metrics::new(), poke: Arc::new(Notify::new()) };
    let (deliverer, stand) = (shared.deliverer(&context.settings), shared.stand(&context));
    let lead = shared.lead(&context, http.clone());
    context.publish(serde_json::json!({ "http": http }))?;
    let delivering =
        tokio::spawn(deliverer.run(health.watch("deliver", STUCK_LIMIT), database, shutdown.clone()));
    let standing = tokio::spawn(stand.run(health.watch("stand", STUCK_LIMIT), shutdown.clone()));
    let led = lead.run(refusal, health.watch("check", STUCK_LIMIT), shutdown.clone()).await;
    health.drain();
    // When etcd refused us the other loops still run: they end with us.
    shutdown.cancel();
    if delivering.await.is_err() {
        tracing::error!("The delivery loop panicked");
    }
    if standing.await.is_err() {
        tracing::error!("The look at PostgreSQL and etcd panicked");
    }
    shared.store.close();
    led.map_err(WatchdogError::Election)
}

/// What the loops share.
struct Shared {
    store: Store,
    etcd: election::Client,
    egress: Egress,
    metrics: Metrics,
    poke: Arc<Notify>,
}

impl Shared {
    fn deliverer(&self, settings: &WatchdogConfig) -> Deliverer {
        Deliverer {
            store: self.store.clone(),
            egress: self.egress.clone(),
            patience: Patience::of(settings),
            in_flight_max: settings.deliveries_max as usize,
            per_channel_max: settings.deliveries_per_channel_max as usize,
            poke: self.poke.clone(),
            metrics: self.metrics.clone(),
        }
    }

    fn stand(&self, context: &Context<WatchdogConfig>) -> Stand {
        let settings = &context.settings;
        Stand {
            store: self.store.clone(),
            etcd: self.etcd.clone(),
            egress: self.egress.clone(),
            delivery_timeout: Duration::from_millis(settings.delivery_timeout_ms),
            cell: context.common.cell.to_string(),
            settings: system::Settings::of(settings),
            poke: self.poke.clone(),
            metrics: self.metrics.clone(),
        }
    }

    /// What campaigns and leads; `http` is where others find this process.
    fn lead(&self, context: &Context<WatchdogConfig>, http: String) -> Lead {
        let settings = &context.settings;
        let heartbeat_every = Duration::from_millis(settings.heartbeat_every_ms);
        let (egress, metrics) = (self.egress.clone(), self.metrics.clone());
        Lead {
            store: self.store.clone(),
            etcd: self.etcd.clone(),
            candidate: candidate(context, http),
            limits: Limits {
                jobs: settings.check_jobs_max.into(),
                occurrences: settings.check_occurrences_max as usize,
            },
            every: Duration::from_millis(settings.check_every_ms),
            clock_jump_guard: settings.clock_jump_guard(),
            system: system::Settings::of(settings),
            heartbeat: Heartbeat::new(egress, &settings.heartbeat_url, heartbeat_every, metrics),
            poke: self.poke.clone(),
            metrics: self.metrics.clone(),
        }
    }
}

fn open_store(context: &Context<WatchdogConfig>) -> Result<Store, WatchdogError> {
    let url = context.common.database_url().map_err(service::runtime::misconfigured)?;
    let settings =
        store::Settings::new(url.expose_secret(), context.common.cell.as_str(), "escapement-watchdog");
    let unusable = |error: StoreError| service::config::Problem::new("database_url", error.to_string());
    Store::new(settings).map_err(|error| service::runtime::misconfigured(unusable(error)).into())
}

async fn connect_etcd(context: &Context<WatchdogConfig>) -> Result<election::Client, WatchdogError> {
    let common = &context.common;
    let credentials = common.etcd_user.clone().zip(common.etcd_password.clone());
    let config = election::Config {
        endpoints: common.etcd_endpoints.to_vec(),
        cell: common.cell.clone(),
        lease_ttl: context.settings.election_lease(),
        credentials: credentials.map(|(user, password)| election::Credentials { user, password }),
        tls: election::Tls {
            ca_file: common.etcd_ca_file.clone(),
            identity: common.etcd_client_certificate_file.clone().zip(common.etcd_client_key_file.clone()),
        },
    };
    election::Client::connect_within(&config, START_LIMIT).await.map_err(WatchdogError::Election)
}

fn candidate(context: &Context<WatchdogConfig>, http: String) -> Candidate {
    Candidate {
        role: Role::Watchdog,
        name: context.common.name.clone(),
        uuid: uuid::Uuid::new_v4(),
        pid: std::process::id(),
        http,
    }
}
