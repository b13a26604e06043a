//! The play: five acts, each with its numbers.

use crate::pause::Pause;
use crate::report::{Promise, Row};
use crate::scheduler;
use crate::stage::{LIMIT, Stage, once, soon, text};
use crate::work::Order;
use anyhow::bail;
use chrono::{DateTime, Utc};
use serde_json::Value;
use stack::wait::try_wait_for;

const THREE: Promise = Promise { least: 3, most: 3, refusal: false };
const ONE: Promise = Promise { least: 1, most: 1, refusal: false };
const ONE_AND_REFUSED: Promise = Promise { least: 1, most: 1, refusal: true };
const ONE_TO_TWO: Promise = Promise { least: 1, most: 2, refusal: false };

/// Runs of the zombie ticker's act before its freeze, and after its thaw.
const RUNS_BEFORE: usize = 3;
const RUNS_AFTER: usize = 3;

/// What a stop of a worker may take.
const STOP_LIMIT: std::time::Duration = std::time::Duration::from_secs(20);

/// Plays all acts, telling on stderr what happens.
pub async fn play(customers: usize) -> anyhow::Result<Vec<Row>> {
    eprintln!("Starting etcd, PostgreSQL, three tickers, two dispatchers and a registry …");
    let mut stage = Stage::set().await?;
    let plain = Order { customers, guarded: false };
    let mut rows = vec![naive(&stage, customers).await?];
    let mut worker = stage.spawn_worker("worker-1", None)?;
    rows.push(with_escapement(&stage, plain).await?);
    rows.push(zombie_ticker(&mut stage, plain).await?);
    let _status = worker.terminate(STOP_LIMIT).await?;
    rows.extend(zombie_worker(&stage, customers).await?);
    stage.stack.stop().await?;
    Ok(rows)
}

/// Three machines with the same crontab.
async fn naive(stage: &Stage, customers: usize) -> anyhow::Result<Row> {
    eprintln!("Three machines with the same crontab send the invoices of one second …");
    let (at, count) = (soon(), customers.to_string());
    let mut machines = Vec::new();
    for number in 1..=3 {
        let name = format!("machine-{number}");
        let arguments = ["scheduler", "--name", &name, "--at", &at.to_rfc3339(), "--customers", &count]
            .map(str::to_owned);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        machines.push(stage.spawn(&name, &arguments)?);
    }
    for machine in &mut machines {
        match machine.exited_within(LIMIT).await? {
            Some(status) if status.success() => {}
            _ => bail!("{} did not send: {}", machine.name(), machine.log_tail()),
        }
    }
    let occurrences = [scheduler::occurrence(at)];
    let counts = stage.billing.count(&occurrences).await?;
    Ok(Row::new("three crontabs", customers, &occurrences, &counts, 0, THREE))
}

/// Three tickers, one job.
async fn with_escapement(stage: &Stage, order: Order) -> anyhow::Result<Row> {
    eprintln!("Escapement with three tickers sends the invoices of one second …");
    stage.create_job("monthly", &once(soon()), "FORBID", order).await?;
    let occurrences = keys(&stage.succeeded("monthly", 1).await?)?;
    let counts = stage.billing.count(&occurrences).await?;
    Ok(Row::new("Escapement, three tickers", order.customers, &occurrences, &counts, 0, ONE))
}

/// The leading ticker freezes for longer than its lease, and thaws while another leads.
async fn zombie_ticker(stage: &mut Stage, order: Order) -> anyhow::Result<Row> {
    let job = "each-second";
    stage.create_job(job, "* * * * * *", "ALLOW", order).await?;
    stage.succeeded(job, RUNS_BEFORE).await?;
    let zombie = stage.leader(None).await?;
    eprintln!("Freezing {zombie}, which leads, until another does …");
    stage.stack.service(&zombie)?.process().stop()?;
    let successor = stage.leader(Some(&zombie)).await?;
    eprintln!("{successor} leads. Thawing {zombie}, which believes that it still does …");
    stage.stack.service(&zombie)?.process().cont()?;
    let refused = try_wait_for(LIMIT, "the fence to refuse the former leader", async || {
        stage.fence_refusals(&zombie).await.ok().filter(|refused| *refused > 0)
    })
    .await?;
    let after = stage.succeeded(job, 1).await?.len() + RUNS_AFTER;
    let runs = try_wait_for(LIMIT, "a run of each second, none left out", async || {
        let mut runs = stage.succeeded(job, after).await.ok()?;
        runs.truncate(without_hole(&runs));
        (runs.len() >= after).then_some(runs)
    })
    .await?;
    let occurrences = keys(&runs)?;
    let counts = stage.billing.count(&occurrences).await?;
    stage.delete_job(job).await?;
    Ok(Row::new(
        "… and a ticker that froze and thaws",
        order.customers,
        &occurrences,
        &counts,
        refused,
        ONE_AND_REFUSED,
    ))
}

/// A worker freezes in the middle of two runs, and thaws after another has done them: once without the guard and
/// once with it.
async fn zombie_worker(stage: &Stage, customers: usize) -> anyhow::Result<[Row; 2]> {
    let jobs = [("unguarded", false), ("guarded", true)];
    let folder = stage.new_folder("pause")?;
    let mut zombie = stage.spawn_worker("worker-2", Some(&folder))?;
    let pause = Pause::new(folder);
    let schedule = once(soon());
    for (job, guarded) in jobs {
        stage.create_job(job, &schedule, "FORBID", Order { customers, guarded }).await?;
    }
    try_wait_for(LIMIT, "the worker to be in the middle of both runs", async || {
        jobs.iter().all(|(job, _)| pause.holds(job)).then_some(())
    })
    .await?;
    eprintln!("Freezing worker-2 in the middle of two runs, until worker-3 has done them …");
    zombie.stop()?;
    let mut successor = stage.spawn_worker("worker-3", None)?;
    let mut occurrences = Vec::new();
    for (job, _) in jobs {
        let runs = stage.succeeded(job, 1).await?;
        if runs.iter().any(|run| run["attempt"] != 2) {
            bail!("the frozen worker's attempt was not followed by a second one: {runs:?}");
        }
        occurrences.push(keys(&runs)?);
    }
    eprintln!("Thawing worker-2, which goes on where it was …");
    pause.go()?;
    zombie.cont()?;
    let mut refused = Vec::new();
    for (job, _) in jobs {
        let whole = try_wait_for(LIMIT, "the thawed worker to end its work", async || pause.end(job)).await?;
        refused.push(u64::from(!whole));
    }
    zombie.kill()?;
    let _status = successor.terminate(STOP_LIMIT).await?;
    let without = stage.billing.count(&occurrences[0]).await?;
    let with = stage.billing.count(&occurrences[1]).await?;
    Ok([
        Row::new(
            "… and a worker that froze and thaws, without the guard",
            customers,
            &occurrences[0],
            &without,
            refused[0],
            ONE_TO_TWO,
        ),
        Row::new(
            "… and a worker that froze and thaws, with the guard",
            customers,
            &occurrences[1],
            &with,
            refused[1],
            ONE_AND_REFUSED,
        ),
    ])
}

/// The idempotency keys of runs, under which their invoices were written.
fn keys(runs: &[Value]) -> anyhow::Result<Vec<String>> {
    runs.iter().map(|run| text(run, "idempotencyKey").map(str::to_owned)).collect()
}

/// How many runs follow each other second by second, from the first on. One that was lost would not show in the count
/// of invoices.
fn without_hole(runs: &[Value]) -> usize {
    let instant = |run: &Value| run["scheduledFor"].as_str()?.parse::<DateTime<Utc>>().ok();
    let instants = runs.iter().map_while(instant).collect::<Vec<_>>();
    let steps = instants.windows(2).take_while(|pair| (pair[1] - pair[0]).num_seconds() == 1);
    if instants.is_empty() { 0 } else { 1 + steps.count() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn runs_are_counted_up_to_the_first_hole() {
        let run = |second: u32| json!({"scheduledFor": format!("2026-11-29T09:00:{second:02}Z")});
        let runs = [run(57), run(58), run(59)];
        assert_eq!(without_hole(&runs), 3);
        assert_eq!(without_hole(&[run(1), run(3), run(4)]), 1);
        assert_eq!(without_hole(&[]), 0);
    }
}
