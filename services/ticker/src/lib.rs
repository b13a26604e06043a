//! The ticker: turns definitions into runs, a window ahead of their second.
//!
//! Any number of tickers run; one leads and plans ([`lead`], [`plan`]), the rest stand by. The one place where the
//! misfire policy is applied, to occurrences that were never planned and to runs that were not handed out in time alike
//! ([`plan::decide`], [`sweep`]). It hands out nothing, and judges nothing that has run.

mod cause;
mod config;
pub mod dates;
pub mod lead;
mod metrics;
pub mod plan;
pub mod reach;
pub mod sweep;
#[cfg(test)]
mod testing;
mod tzdata;
pub mod upkeep;

pub use config::TickerConfig;
pub use metrics::Metrics;

use dates::Dates;
use election::{Candidate, ElectionError, Member, Role};
use lead::Lead;
use plan::Limits;
use reach::Reach;
use secrecy::ExposeSecret;
use service::config::{ConfigError, Problem};
use service::refusal::Refusal;
use service::runtime::{Context, RuntimeError};
use std::time::Duration;
use store::{Store, StoreError};

/// How long PostgreSQL and etcd may take to be there at the start.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A loop that has not turned for this long makes the process unhealthy: longer than a cycle with slow statements.
const STUCK_LIMIT: Duration = Duration::from_secs(120);

/// Why the ticker can't run.
#[derive(Debug, thiserror::Error)]
pub enum TickerError {
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
}

/// Plans, or stands by, until the process is to stop.
///
/// # Errors
/// [`TickerError`] when it can't start, or when etcd refuses it for good.
pub async fn run(context: Context<TickerConfig>) -> Result<(), TickerError> {
    let database = context.health.condition("database");
    let etcd_ready = context.health.condition("etcd");
    let server = context.serve_http(Default::default()).await?;
    let http = server.url();
    let store = open_store(&context)?;
    let ready = store::clock::wait_until_ready(&store, START_LIMIT);
    let Some(ready) = context.shutdown.run_until_cancelled(ready).await else { return Ok(()) };
    ready.map_err(TickerError::Store)?;
    database.met();
    check_retention(&store, &context.settings).await?;
    let Some(etcd) = context.shutdown.run_until_cancelled(connect_etcd(&context)).await else {
        return Ok(());
    };
    let etcd = etcd?;
    etcd_ready.met();
    let candidate = candidate(&context, http.clone());
    let member = election::register(&etcd, &member(&candidate)).map_err(TickerError::Election)?;
    let settings = &context.settings;
    let lead = Lead {
        store: store.clone(),
        etcd,
        candidate,
        limits: limits(settings),
        every: Duration::from_millis(settings.plan_every_ms),
        clock_jump_guard: settings.clock_jump_guard(),
        write_silence_max: Duration::from_millis(settings.write_silence_max_ms),
        metrics: Metrics::new(),
        dates: Dates::default(),
        reach: Reach::default(),
        database,
        retention: settings.retention(),
        upkeep_metrics: upkeep::Metrics::new(),
    };
    context.publish(serde_json::json!({ "http": http }))?;
    let beat = context.health.watch("plan", STUCK_LIMIT);
    let refusal = Refusal::new("ticker", context.health.condition("fence"));
    let leading = lead.run(refusal, beat, context.shutdown.clone());
    tokio::pin!(leading);
    let led = tokio::select! {
        led = &mut leading => led,
        () = context.shutdown.cancelled() => {
            context.health.drain();
            leading.await
        }
    };
    context.health.drain();
    member.leave().await;
    store.close();
    led.map_err(TickerError::Election)
}

fn limits(settings: &TickerConfig) -> Limits {
    Limits {
        lookahead: Duration::from_millis(settings.lookahead_ms),
        jobs: settings.plan_jobs_max as usize,
        occurrences_per_job: settings.plan_occurrences_per_job_max as usize,
        occurrences: settings.plan_occurrences_max as usize,
    }
}

/// Refuses to start when a job may need what the ledger no longer keeps.
async fn check_retention(store: &Store, settings: &TickerConfig) -> Result<(), TickerError> {
    let needed = store::ledger_floor::needed(store).await.map_err(TickerError::Store)?;
    let Some(needed) = needed.filter(|needed| !settings.retention().suffices(needed.reach)) else {
        return Ok(());
    };
    let message = format!(
        "{}: job {:?} catches up and runs over {} s, so that the ledger must be kept for at least {} days",
        settings.retention_days,
        needed.job,
        needed.reach.as_secs(),
        needed.reach.as_secs() / 86_400 + 2,
    );
    Err(ConfigError::Invalid(vec![Problem::new("retention_days", message)]).into())
}

fn open_store(context: &Context<TickerConfig>) -> Result<Store, TickerError> {
    let url = context.common.database_url().map_err(service::runtime::misconfigured)?;
    let settings =
        store::Settings::new(url.expose_secret(), context.common.cell.as_str(), "escapement-ticker");
    let unusable = |error: StoreError| Problem::new("database_url", error.to_string());
    Store::new(settings).map_err(|error| service::runtime::misconfigured(unusable(error)).into())
}

async fn connect_etcd(context: &Context<TickerConfig>) -> Result<election::Client, TickerError> {
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
    election::Client::connect_within(&config, START_LIMIT).await.map_err(TickerError::Election)
}

fn candidate(context: &Context<TickerConfig>, http: String) -> Candidate {
    Candidate {
        role: Role::Ticker,
        name: context.common.name.clone(),
        uuid: uuid::Uuid::new_v4(),
        pid: std::process::id(),
        http,
    }
}

fn member(candidate: &Candidate) -> Member {
    Member {
        role: candidate.role,
        name: candidate.name.clone(),
        uuid: candidate.uuid,
        pid: candidate.pid,
        http: candidate.http.clone(),
        database: None,
        slots: None,
        tzdata: Some(schedule::tzdata_version().to_owned()),
    }
}
