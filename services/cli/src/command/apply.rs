//! `escapement apply -f FILE`: all documents of all files in one request, stored all or none.

use crate::arguments::{Apply, Output};
use crate::client::Client;
use crate::table::say;
use crate::{document, table};
use anyhow::{Context, bail};
use serde_json::json;
use std::io::Read;
use std::path::Path;

pub async fn run(client: &Client, apply: &Apply, output: Output) -> anyhow::Result<()> {
    let mut request = json!({});
    for file in &apply.files {
        document::add(&mut request, &file.display().to_string(), &read(file)?)?;
    }
    if request == json!({}) {
        bail!("the files hold no document: begin one with `kind: Job`");
    }
    let answer = client.post("/v1/apply", &request).await?;
    match output {
        Output::Json => table::print_json(&answer),
        Output::Table => {
            for result in answer["results"].as_array().into_iter().flatten() {
                let change = table::text(&result["change"]).to_lowercase();
                say!(
                    "{} {} {change}",
                    table::text(&result["kind"]).to_lowercase(),
                    table::text(&result["name"])
                );
            }
        }
    }
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("reading standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))
}
