//! docs/workers.md: its programs are the examples of the two SDKs, and they do what the page says.

use crate::subject::{Subject, dispatchers, python};
use harness::Cell;
use serde_json::json;
use stack::process::{ManagedChild, Signal, Spec};
use std::path::PathBuf;

const PAGE: &str = include_str!("../../../docs/workers.md");
const PYTHON: &str = include_str!("../../../libs/worker-python/examples/invoices.py");
const RUST: &str = include_str!("../../../libs/worker/examples/invoices.rs");

/// The page's blocks of code in this language.
fn blocks(language: &str) -> impl Iterator<Item = &'static str> {
    let fence = format!("```{language}\n");
    PAGE.split("```").enumerate().filter_map(move |(index, block)| {
        let block = (index % 2 == 1).then_some(block)?;
        block.strip_prefix(&fence[3..])
    })
}

#[test]
fn the_page_has_the_examples_word_for_word() {
    for (language, example) in [("rust", RUST), ("python", PYTHON)] {
        assert!(blocks(language).any(|block| block == example), "no {language} block is the example");
    }
}

#[tokio::test]
async fn the_programs_of_the_page_do_the_jobs_of_the_page() {
    let cell = Cell::start().await;
    cell.leader().await; // who makes the ledger's first day
    let jobs = cell.folder().join("jobs.yaml");
    std::fs::write(&jobs, blocks("yaml").next().expect("jobs")).expect("written");
    cell.prints(&["apply", "-f", &jobs.display().to_string()]);
    let rust = stack::dev::Options::for_tests(cell.folder()).binaries.join("examples/invoices");
    assert!(rust.is_file(), "{} is missing: cargo build -p escapement-worker --examples", rust.display());
    let example =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../libs/worker-python/examples/invoices.py"));
    for (done, spec) in [
        Spec::new("rust", rust, cell.folder().join("rust.log")),
        Spec::new("python", python().await, cell.folder().join("python.log")).arg(example),
    ]
    .into_iter()
    .enumerate()
    {
        let token = std::fs::read_to_string(cell.stack.endpoints().worker_token_file).expect("the token");
        let spec = spec
            .env("ESCAPEMENT_DISPATCHERS", dispatchers(&cell).join(","))
            .env("ESCAPEMENT_WORKER_TOKEN", token.trim());
        let mut worker = Subject(ManagedChild::spawn(&spec).expect("a worker"));
        for (job, says) in [("invoices", "ACME owes 1250 cents, key "), ("export", "30 days, in time for ")] {
            cell.prints(&["trigger", job]);
            let run = &cell.api.wait_for_runs(job, "SUCCEEDED", done + 1).await[done];
            assert!(run["output"].as_str().is_some_and(|output| output.starts_with(says)), "{run}");
            assert_eq!(run["worker"], json!("billing-1"));
        }
        worker.0.signal(Signal::SIGTERM).expect("told to end");
        assert!(worker.ends().await.success(), "{}", worker.log());
        assert!(worker.log().contains("2 attempts, 0 not reported"), "{}", worker.log());
    }
    cell.stop().await;
}
