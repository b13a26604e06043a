//! `escapement why JOB@TIME`.

use crate::arguments::{Output, Why};
use crate::client::{Client, encode};
use crate::table::{self, say};
use anyhow::Context;

pub async fn run(client: &Client, why: &Why, output: Output) -> anyhow::Result<()> {
    let example = "name job and time as invoices@2026-11-29T09:00:00Z";
    let (job, time) = why.run.split_once('@').with_context(|| format!("{:?}: {example}", why.run))?;
    let answer = client.get(&format!("/v1/jobs/{}:why?time={}", encode(job), encode(time))).await?;
    match output {
        Output::Json => table::print_json(&answer),
        Output::Table => say!("{}", table::text(&answer["explanation"])),
    }
    Ok(())
}
