//! The agent: the ready-made worker, which starts processes and makes HTTP calls for runs.
//!
//! Owns what jobs may do on its machine; the session is `libs/worker`'s. Invariants: nothing starts that the
//! agent's own configuration does not allow, whoever wrote the job; no process of a run outlives the run;
//! and no secret of a definition stands in what its work wrote.
//! Deliberately no sandbox: allowed processes run with the rights of `exec_user`, or the agent's own.

mod allow;
mod config;
mod environment;
mod exec;
mod http;
mod metrics;
mod orphans;
mod output;
mod process;
mod redact;

pub use config::AgentConfig;

use exec::Processes;
use http::Calls;
use metrics::Metrics;
use model::job::Work;
use service::config::Common;
use service::egress::Policy;
use service::health::Condition;
use service::runtime::{BoxError, Context, misconfigured};
use std::sync::Arc;
use tokio::sync::watch;
use worker::{Execution, Executor, Report, RunContext, Status, Worker};

/// Runs the agent until it is told to stop: takes runs, finishes what is in hand, ends.
///
/// # Errors
/// When the configuration is wrong, or the port can't be bound.
pub async fn run(context: Context<AgentConfig>) -> Result<(), BoxError> {
    orphans::are_all_ours();
    let agent = Agent::new(&context.settings)?;
    let worker = worker(&context.common, &context.settings, agent.clone())?;
    // Registered late: the gauges need the worker.
    agent.0.metrics.get_or_init(|| Metrics::new(&worker.status()));
    let http = context.serve_http(axum::Router::new()).await?;
    context.publish(serde_json::json!({ "http": http.url() }))?;
    let connected = context.health.condition("dispatcher");
    let telling = tokio::spawn(tell_health(worker.status(), connected));

    let (shutdown, health) = (context.shutdown.clone(), context.health.clone());
    let told = async move {
        shutdown.cancelled().await;
        health.drain();
    };
    let summary = worker.run(told).await;
    tracing::info!(runs.finished = summary.finished, runs.unreported = summary.unreported, "Drained");
    telling.abort();
    http.stop().await?;
    Ok(())
}

fn worker(common: &Common, settings: &AgentConfig, agent: Agent) -> Result<Worker, BoxError> {
    let mut builder = Worker::builder()
        .dispatchers(settings.dispatchers.iter().cloned())
        .token(settings.token().map_err(misconfigured)?)
        .name(&common.name)
        .queues(settings.queues.iter().cloned())
        .slots(settings.slots)
        .version(env!("CARGO_PKG_VERSION"))
        .drain(common.drain())
        .executor(agent);
    if let Some(pem) = settings.dispatcher_ca().map_err(misconfigured)? {
        builder = builder.tls_ca(pem);
    }
    if let Some(identity) = settings.dispatcher_identity().map_err(misconfigured)? {
        builder = builder.tls_identity(identity.certificate, identity.key);
    }
    Ok(builder.build()?)
}

/// Ready means that a dispatcher has the worker.
async fn tell_health(mut status: watch::Receiver<Status>, connected: Condition) {
    loop {
        {
            let status = status.borrow_and_update();
            match (status.connected, status.trouble.as_str()) {
                (true, _) => connected.met(),
                (false, "") => connected.unmet("connecting"),
                (false, trouble) => connected.unmet(trouble),
            }
        }
        if status.changed().await.is_err() {
            return;
        }
    }
}

/// Does the work of runs under the agent's rules; clones share it.
#[derive(Debug, Clone)]
pub struct Agent(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    processes: Processes,
    calls: Calls,
    metrics: std::sync::OnceLock<Metrics>,
}

impl Agent {
    /// With the rules of `settings`.
    ///
    /// # Errors
    /// When the configuration is wrong, or the TLS library can't be set up.
    pub fn new(settings: &AgentConfig) -> Result<Self, BoxError> {
        let rules = allow::Rules {
            allowed: settings.exec_allowed,
            argv_allow: settings.argv_allow().map_err(misconfigured)?,
        };
        let user = settings.user().map_err(misconfigured)?;
        if rules.allowed && user.is_none() && nix::unistd::geteuid().is_root() {
            tracing::warn!("Jobs start processes as root: set exec_user to a user with fewer rights");
        }
        let egress = Policy {
            settings: "http",
            loopback: settings.http_allow_loopback,
            private: settings.http_allow_private,
            link_local: settings.http_allow_link_local,
        };
        Ok(Self(Arc::new(Inner {
            processes: Processes::new(rules, user, settings.output_max_bytes)?,
            calls: Calls::new(egress, settings.http_response_max_bytes, settings.output_max_bytes)?,
            metrics: std::sync::OnceLock::new(),
        })))
    }
}

impl Executor for Agent {
    fn execute(&self, run: RunContext) -> Execution {
        let agent = Arc::clone(&self.0);
        Box::pin(async move {
            let (kind, report) = match run.work() {
                Some(Work::Exec(exec)) => ("exec", agent.processes.execute(&run, exec).await),
                Some(Work::Http(http)) => ("http", agent.calls.execute(&run, http).await),
                Some(Work::Handler(handler)) => {
                    let text = format!("agents have no handlers: {:?} needs a worker program", handler.name);
                    ("handler", Report::not_started(text))
                }
                None => ("unknown", Report::not_started("this agent is older than the job's kind of work")),
            };
            if let Some(metrics) = agent.metrics.get() {
                metrics.ended(kind, report.end());
            }
            report
        })
    }
}
