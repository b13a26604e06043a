//! `escapement dev`: a whole local stack, in the foreground with its runs on the screen, or detached.

use super::follow;
use crate::arguments::{Dev, DevAction, DevStart};
use crate::client::Client;
use crate::document::Documents;
use crate::table::tell;
use anyhow::{Context, bail};
use stack::dev::{Endpoints, Options, Role, Stack};
use stack::ending::Late;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Starting everything, a first initdb included, on a busy machine.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// How long the first election is waited for before saying who leads.
const LEADER_LIMIT: Duration = Duration::from_secs(5);

/// How long runs may go on when the stack is to stop; they are ended then, and recorded as far as that goes.
const RUNS_GRACE: Duration = Duration::from_secs(5);

/// What an agent takes of its time to stop for ending runs (4 s) and for the last reports (1 s).
const AGENT_ENDING: Duration = Duration::from_secs(5);

/// From the request to stop until the last process is gone.
const STOP_LIMIT: Duration = Duration::from_secs(65);

const SAMPLE_JOBS: &str = include_str!("../../../../examples/jobs.yaml");

/// With `quiet` it does not show runs as they end: nobody looks at a detached stack, and asking for them costs.
pub async fn run(dev: Dev, quiet: bool) -> anyhow::Result<()> {
    match dev.action {
        Some(DevAction::Stop { data }) => stop(&data).await,
        None if dev.start.detach => detach(&dev.start).await,
        None => foreground(&dev.start, quiet).await,
    }
}

async fn foreground(start: &DevStart, quiet: bool) -> anyhow::Result<()> {
    let shutdown = service::shutdown::signals()?;
    tell!("Starting etcd, PostgreSQL and Escapement under {} …", start.data.display());
    let started = Instant::now();
    let mut stack = tokio::select! {
        stack = Stack::start(options(start)) => stack.context("starting the local stack")?,
        () = shutdown.cancelled() => return Ok(()), // dropping what was started ends it
    };
    let endpoints = stack.endpoints();
    let client = Client::of_administrator(&endpoints)?;
    if !start.no_sample_jobs {
        let request = Documents::of_text("examples/jobs.yaml", SAMPLE_JOBS).sound()?;
        client.post("/v1/apply", &request).await.context("applying the sample jobs")?;
    }
    stack.publish().context("writing endpoints.json")?;
    tell!("Ready after {:.1} s. In another terminal:\n", started.elapsed().as_secs_f32());
    tell!("  export ESCAPEMENT_SERVER={}", endpoints.registry.rest);
    tell!("  export ESCAPEMENT_TOKEN=$(cat {})", endpoints.admin_token_file.display());
    let dispatchers = endpoints.dispatchers.iter().filter_map(|dispatcher| dispatcher.grpc.as_deref());
    tell!("  export ESCAPEMENT_DISPATCHERS={}", dispatchers.collect::<Vec<_>>().join(","));
    tell!("  export ESCAPEMENT_WORKER_TOKEN=$(cat {})", endpoints.worker_token_file.display());
    let leader = leader(&client).await;
    for ticker in &endpoints.tickers {
        let role = if leader.as_deref() == Some(ticker.name.as_str()) { "leads" } else { "stands by" };
        tell!("  kill -9 {:<8} # {}, which {role}", ticker.pid, ticker.name);
    }
    tell!("\nCtrl-C stops everything that was started here.\n");
    supervise(&mut stack, (!quiet).then_some(&client), &shutdown).await;
    tell!("\nStopping …");
    stack.stop_telling(&tell_late).await.context("stopping the local stack")
}

/// Says what keeps the stack from stopping.
fn tell_late(late: &[Late]) {
    for Late { name, pid, grace } in late {
        let work = if name.starts_with("agent") {
            format!(", which lets its runs go on for {} s", RUNS_GRACE.as_secs())
        } else {
            String::new()
        };
        tell!("Waiting for {name} (pid {pid}){work}; it is killed after {} s.", grace.as_secs());
    }
    tell!("Ctrl-C again ends everything at once.");
}

/// The ticker that leads, once one does; none when none does soon.
async fn leader(client: &Client) -> Option<String> {
    let began = Instant::now();
    while began.elapsed() < LEADER_LIMIT {
        let status = client.get("/v1/status").await.ok()?;
        if let Some(name) = status["ticker"]["leader"]["name"].as_str() {
            return Some(name.to_owned());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    None
}

/// Until `shutdown`: shows runs, if there is a client to ask for them, and says when a process of the stack has ended.
async fn supervise(stack: &mut Stack, client: Option<&Client>, shutdown: &CancellationToken) {
    let ended = async {
        while !shutdown.is_cancelled() {
            for (name, how) in stack.ended() {
                tell!("-- {name} ended: {how}");
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    };
    match client {
        Some(client) => drop(tokio::join!(follow::run(client, shutdown), ended)),
        None => ended.await,
    }
}

/// Starts this program again without a terminal, and returns once its stack is ready.
async fn detach(start: &DevStart) -> anyhow::Result<()> {
    std::fs::create_dir_all(&start.data).with_context(|| format!("making {}", start.data.display()))?;
    let log_path = start.data.join("dev.log");
    let log = std::fs::File::create(&log_path).with_context(|| format!("writing {}", log_path.display()))?;
    let mut command = std::process::Command::new(std::env::current_exe().context("finding this program")?);
    command.args(["dev", "--quiet", "--data"]).arg(&start.data);
    command.args(["--tickers", &start.tickers.to_string(), "--dispatchers", &start.dispatchers.to_string()]);
    command.args(["--agents", &start.agents.to_string()]);
    if start.no_sample_jobs {
        command.arg("--no-sample-jobs");
    }
    // A process group of its own: the Ctrl-C of this terminal is not meant for it.
    command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("sharing the log")?)
        .stderr(log);
    let mut child = command.spawn().context("starting the stack in the background")?;
    let pid = child.id();
    let began = Instant::now();
    while began.elapsed() < READY_LIMIT {
        if Endpoints::read(&start.data).is_ok_and(|endpoints| endpoints.pid == pid) {
            tell!("ready: {}", start.data.join(stack::dev::ENDPOINTS_FILE).display());
            tell!("stop it with: escapement dev stop --data {}", start.data.display());
            return Ok(());
        }
        if let Some(status) = child.try_wait().context("watching the stack")? {
            let said = std::fs::read_to_string(&log_path).unwrap_or_default();
            bail!("the stack ended before it was ready ({status}); it said:\n{}", said.trim_end());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("the stack was not ready after {} s; see {}", READY_LIMIT.as_secs(), log_path.display())
}

async fn stop(data: &Path) -> anyhow::Result<()> {
    let Some(pid) = stack::dev::running(data)? else {
        tell!("nothing runs in {}", data.display());
        return Ok(());
    };
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).context("the stored pid is no pid")?);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).context("asking the stack to stop")?;
    let began = Instant::now();
    while stack::dev::running(data)?.is_some() {
        if began.elapsed() > STOP_LIMIT {
            bail!("the stack (pid {pid}) has not stopped after {} s", STOP_LIMIT.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tell!("stopped");
    Ok(())
}

fn options(start: &DevStart) -> Options {
    let drain_ms = (RUNS_GRACE + AGENT_ENDING).as_millis();
    let options = Options {
        tickers: usize::from(start.tickers),
        dispatchers: usize::from(start.dispatchers),
        agents: usize::from(start.agents),
        ..Options::durable(&start.data)
    };
    options.setting(Role::Agent, &format!("drain_ms = {drain_ms}"))
}
