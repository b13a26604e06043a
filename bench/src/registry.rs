//! What callers of the API wait for: ten thousand jobs applied in one call, and single jobs read under load, over gRPC
//! and over REST. A ticker plans what is applied meanwhile, as it would anywhere.

use crate::cell::Cell;
use crate::{Common, apply, figures, gets, usage};
use anyhow::ensure;
use rpc::v1;
use rpc::v1::job_service_client::JobServiceClient;
use serde_json::{Value, json};
use stack::dev::RegistryEndpoint;
use std::collections::BTreeMap;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;

/// Walks all jobs of a round in an order that looks random: a prime that divides no sensible number of jobs.
const STRIDE: u32 = 7_919;

/// What is asked of the registry.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Jobs of one call.
    pub jobs: u32,
    /// Gets a second.
    pub per_second: u32,
    /// For so long, each over gRPC and over REST.
    pub seconds: u32,
}

/// Measures.
///
/// # Errors
/// Anything that the registry refuses, or that keeps the cell from starting.
pub async fn run(common: &Common, load: Load) -> anyhow::Result<Value> {
    let change = |mut options: stack::dev::Options| {
        options.dispatchers = 1;
        options
    };
    let statements = common.statements.is_some();
    let mut cell = Cell::start(statements, change).await?;
    let machine = cell.machine().await?;
    let (registry, token) = cell.api()?;
    let caller = apply::Caller::new(&registry, &token);
    caller.apply(&apply::set(0, load.jobs, 0), "CREATED").await?; // for warming up
    let mut rounds = Vec::new();
    for round in 1..=common.rounds {
        cell.forget_statements(round == 1 && statements).await?;
        let applied = applied(&caller, round, load.jobs).await?;
        cell.sql("ANALYZE job").await?; // as autovacuum does, a little later
        let processes = cell.processes();
        let before = usage::of(&processes)?;
        let grpc = over_grpc(&registry, &token, round, load).await?;
        let between = usage::of(&processes)?;
        let rest = over_rest(&registry, &token, round, load).await?;
        let after = usage::of(&processes)?;
        let figures = json!({
            "jobs": load.jobs,
            "apply_s": applied,
            "gets_per_s": load.per_second,
            "seconds": load.seconds,
            "get_grpc_ms": grpc,
            "get_grpc_cpu_s": usage::cpu_between(&before, &between),
            "get_rest_ms": rest,
            "get_rest_cpu_s": usage::cpu_between(&between, &after),
        });
        eprintln!("round {round}: {figures}");
        rounds.push(figures);
    }
    cell.write_statements(common.statements.as_deref()).await?;
    cell.stop().await?;
    let mut all = figures::medians(&rounds);
    all["benchmark"] = "registry".into();
    all["rounds"] = rounds.into();
    all["machine"] = machine;
    Ok(all)
}

/// Seconds by what becomes of the jobs.
async fn applied(
    caller: &apply::Caller,
    round: u8,
    jobs: u32,
) -> anyhow::Result<BTreeMap<&'static str, f64>> {
    let (first, other) = (apply::set(round, jobs, 0), apply::set(round, jobs, 1));
    let mut took = BTreeMap::new();
    for (name, set, becomes) in
        [("created", &first, "CREATED"), ("unchanged", &first, "UNCHANGED"), ("changed", &other, "CHANGED")]
    {
        let seconds = caller.apply(set, becomes).await?.as_secs_f64();
        took.insert(name, figures::rounded(seconds));
    }
    Ok(took)
}

async fn over_grpc(registry: &RegistryEndpoint, token: &str, round: u8, load: Load) -> anyhow::Result<Value> {
    let client: JobServiceClient<Channel> = JobServiceClient::connect(registry.grpc.clone()).await?;
    let bearer: MetadataValue<_> = format!("Bearer {token}").parse()?;
    let latencies = gets::at_a_rate(load.per_second, load.seconds, |number| {
        let (mut client, name) = (client.clone(), asked(round, number, load.jobs));
        let mut request = tonic::Request::new(v1::GetJobRequest { job: name.clone() });
        request.metadata_mut().insert("authorization", bearer.clone());
        async move {
            let job = client.get_job(request).await?.into_inner();
            ensure!(job.name == name, "{name} was asked for, and {} answered", job.name);
            Ok(())
        }
    });
    Ok(figures::spread(latencies.await?))
}

async fn over_rest(registry: &RegistryEndpoint, token: &str, round: u8, load: Load) -> anyhow::Result<Value> {
    let http = reqwest::Client::new();
    let latencies = gets::at_a_rate(load.per_second, load.seconds, |number| {
        let name = asked(round, number, load.jobs);
        let request = http.get(format!("{}/v1/jobs/{name}", registry.rest)).bearer_auth(token);
        async move {
            let job: Value = request.send().await?.error_for_status()?.json().await?;
            ensure!(job["name"] == name.as_str(), "{name} was asked for, and {} answered", job["name"]);
            Ok(())
        }
    });
    Ok(figures::spread(latencies.await?))
}

fn asked(round: u8, number: u32, jobs: u32) -> String {
    let place = u64::from(number) * u64::from(STRIDE) % u64::from(jobs.max(1));
    apply::name(round, u32::try_from(place).unwrap_or(0))
}
