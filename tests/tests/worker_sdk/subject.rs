//! A worker program of either SDK in a cell, and the jobs that it works for.

use harness::python::{WORKER_PACKAGE, virtual_environment};
use harness::{Cell, PATIENCE, job};
use serde_json::{Value, json};
use stack::dev::Role;
use stack::process::{ManagedChild, Spec};
use stack::testkit::TempFolder;
use stack::wait::wait_for;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use tokio::sync::OnceCell;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/worker_sdk/program.py");

/// What every behaviour is asked of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sdk {
    Rust,
    Python,
}

/// The behaviour of both SDKs, at the same time in one cell.
pub async fn of_both(behaviour: impl AsyncFn(Sdk)) {
    tokio::join!(behaviour(Sdk::Rust), behaviour(Sdk::Python));
}

impl Sdk {
    /// Its name, and that of its queue.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
        }
    }

    /// The name of a job of this SDK alone.
    pub fn job(self, what: &str) -> String {
        format!("{}-{what}", self.name())
    }

    /// Creates a job whose work is a handler of this SDK's workers, every second; as stored.
    pub async fn create(self, cell: &Cell, what: &str, handler: &str, payload: &Value) -> Value {
        self.create_with(cell, what, handled(handler, payload), json!({})).await
    }

    /// The same of any work, with further settings.
    pub async fn create_with(self, cell: &Cell, what: &str, run: Value, settings: Value) -> Value {
        let mut job = job(&self.job(what), "* * * * * *", run);
        job["queue"] = json!(self.name());
        if let (Value::Object(job), Value::Object(settings)) = (&mut job, settings) {
            job.extend(settings);
        }
        cell.api.create(job).await
    }

    /// What its workers leave behind and wait for.
    pub fn marks(self, cell: &Cell) -> PathBuf {
        let folder = cell.folder().join(format!("marks-{}", self.name()));
        std::fs::create_dir_all(&folder).expect("a folder for marks");
        folder
    }

    /// Waits for a mark.
    pub async fn marked(self, cell: &Cell, mark: &str) {
        let mark = self.marks(cell).join(mark);
        wait_for(PATIENCE, &format!("{}", mark.display()), async || mark.exists().then_some(())).await;
    }

    /// Lets the work go on that waits for it.
    pub fn open(self, cell: &Cell) {
        std::fs::write(self.marks(cell).join("opened"), "").expect("opened");
    }

    /// A worker that has this number.
    pub async fn start(self, cell: &Cell, number: u32) -> Subject {
        let name = format!("{}-{number}", self.name());
        let log = cell.folder().join(format!("{name}.log"));
        let spec = match self {
            Self::Rust => Spec::new(&name, env!("CARGO_BIN_EXE_escapement-test-worker"), log),
            Self::Python => Spec::new(&name, python().await, log).arg(PROGRAM),
        };
        let token_file = cell.stack.endpoints().worker_token_file;
        let spec =
            spec.args([&name, self.name()]).args([token_file, self.marks(cell)]).args(dispatchers(cell));
        Subject(ManagedChild::spawn(&spec).expect("a worker"))
    }
}

/// The work of a handler.
pub fn handled(handler: &str, payload: &Value) -> Value {
    json!({ "handler": { "name": handler, "payload": payload.to_string() } })
}

/// Where the dispatchers of the cell take workers.
pub fn dispatchers(cell: &Cell) -> Vec<String> {
    cell.stack.of(Role::Dispatcher).filter_map(|service| service.endpoint("grpc")).collect()
}

/// The interpreter of a virtual environment with the package as it is, and nothing for developers.
pub async fn python() -> &'static Path {
    static MADE: OnceCell<(TempFolder, PathBuf)> = OnceCell::const_new();
    let make = async || {
        let folder = TempFolder::create("python").expect("a temporary folder");
        let python = virtual_environment(folder.path(), WORKER_PACKAGE).await;
        (folder, python)
    };
    &MADE.get_or_init(make).await.1
}

/// One worker's process.
pub struct Subject(pub ManagedChild);

impl Subject {
    pub fn name(&self) -> &str {
        self.0.name()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.0.log()).expect("its log")
    }

    pub async fn wait_for_log_line(&self, what: &str, is_it: impl Fn(&str) -> bool) {
        let what = format!("{what}, by the log of {}", self.name());
        wait_for(PATIENCE, &what, async || self.log().lines().any(&is_it).then_some(())).await;
    }

    pub async fn ends(&mut self) -> ExitStatus {
        let status = self.0.exited_within(PATIENCE).await.expect("awaited");
        status.unwrap_or_else(|| panic!("{} does not end:\n{}", self.name(), self.log()))
    }
}
