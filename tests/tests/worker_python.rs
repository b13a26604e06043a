//! A Python worker: its package as users get it, its runs in the ledger, and what becomes of them when it is
//! killed, frozen or stopped.
//!
//! Needs python3 with venv, and the package index that pip is set up for; without them these tests fail.

use harness::{Cell, PATIENCE, instant, job, shell, token};
use serde_json::{Value, json};
use stack::dev::Role;
use stack::process::{ManagedChild, Signal, Spec};
use stack::testkit::TempFolder;
use stack::wait::wait_for;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use tokio::sync::OnceCell;

/// For making a virtual environment and filling it.
const INSTALL_LIMIT: Duration = Duration::from_secs(300);
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../libs/worker-python");

/// Takes its name, its token's file, a folder for marks and the dispatchers as arguments.
const PROGRAM: &str = r#"
import asyncio, json, logging, pathlib, signal, sys, threading
from escapement_worker import RunContext, Worker

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
name, token_file, marks, *dispatchers = sys.argv[1:]
marks = pathlib.Path(marks)
token = pathlib.Path(token_file).read_text().strip()
worker = Worker(dispatchers, token, queues=["python"], slots=4, name=name, labels={"language": "python"})

@worker.handler("invoice")
def invoice(run: RunContext) -> str:
    return json.dumps({
        "customer": run.payload["customer"], "job": run.job_name, "scheduledFor": run.scheduled_for.isoformat(),
        "token": str(run.fencing_token), "guardKey": run.guard_key, "idempotencyKey": run.idempotency_key,
        "attempt": run.attempt, "deadline": run.deadline.isoformat(), "name": run.run_name})

@worker.handler("remind")
async def remind(run: RunContext) -> None:
    await asyncio.sleep(0.01)
    run.log("reminded", run.payload)

@worker.handler("fail")
def fail(run: RunContext) -> None:
    raise OSError("out of paper")

def first(what: str) -> bool:
    """True for whoever asks first, in all processes."""
    try:
        (marks / what).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True

@worker.handler("hangs-once")
def hangs_once(run: RunContext) -> None:
    if first("hangs"):
        run.cancelled.wait()
        raise RuntimeError("told to stop")

@worker.handler("freezes-once")
def freezes_once(run: RunContext) -> None:
    if first("freezes"):
        # Frozen at its last instruction: after the thaw no other thread runs before this one has ended.
        sys.setswitchinterval(1000)
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

@worker.handler("until-opened")
def until_opened(run: RunContext) -> None:
    first("waits")
    while not (marks / "opened").exists() and not run.cancelled.wait(0.05):
        pass

summary = worker.run()
print(f"finished={summary.finished} unreported={summary.unreported}", flush=True)
"#;

/// A virtual environment with the package as it is, and nothing for developers.
async fn environment() -> &'static Path {
    static MADE: OnceCell<(TempFolder, PathBuf)> = OnceCell::const_new();
    let make = async || {
        let folder = TempFolder::create("python").expect("a temporary folder");
        let python = virtual_environment(folder.path(), PACKAGE).await;
        (folder, python)
    };
    &MADE.get_or_init(make).await.1
}

/// Makes a virtual environment in `folder` with `package` in it; its interpreter.
async fn virtual_environment(folder: &Path, package: &str) -> PathBuf {
    let made = folder.join("venv");
    let log = folder.join("install.log");
    let venv = Spec::new("python3 -m venv", "python3", &log).args(["-m", "venv"]).arg(&made);
    succeeds(&venv, "python3 and its venv module are needed (Debian: python3 python3-venv)").await;
    let python = made.join("bin/python");
    let pip = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", package];
    succeeds(&Spec::new("pip install", &python, &log).args(pip), "the package index is needed").await;
    python
}

async fn succeeds(spec: &Spec, hint: &str) {
    let mut child = ManagedChild::spawn(spec).unwrap_or_else(|error| panic!("{error}: {hint}"));
    let status = child.exited_within(INSTALL_LIMIT).await.expect("awaited");
    let succeeded = status.is_some_and(|status| status.success());
    assert!(succeeded, "{} ended with {status:?}: {hint}\n{}", child.name(), child.log_tail());
}

/// One Python worker of a cell.
struct PythonWorker(ManagedChild);

impl PythonWorker {
    async fn start(cell: &mut Cell, name: &str) -> Self {
        let python = environment().await;
        let folder = cell.folder().to_owned();
        let program = folder.join("worker.py");
        std::fs::write(&program, PROGRAM).expect("the program");
        let dispatchers = cell.stack.of(Role::Dispatcher).filter_map(|service| service.endpoint("grpc"));
        let spec = Spec::new(name, python, folder.join(format!("{name}.log")))
            .arg(&program)
            .args([name.into(), folder.join("worker-token"), folder.clone()])
            .args(dispatchers);
        Self(ManagedChild::spawn(&spec).expect("a Python worker"))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.0.log()).expect("its log")
    }

    async fn wait_for_log_line(&self, what: &str, is_it: impl Fn(&str) -> bool) {
        let what = format!("{what}, by the log of {}", self.0.name());
        wait_for(PATIENCE, &what, async || self.log().lines().any(&is_it).then_some(())).await;
    }

    async fn ends(&mut self) -> ExitStatus {
        let status = self.0.exited_within(PATIENCE).await.expect("awaited");
        status.unwrap_or_else(|| panic!("{} does not end:\n{}", self.0.name(), self.log()))
    }
}

/// A job whose work is a handler of the Python workers.
fn handled(name: &str, handler: &str, payload: &Value) -> Value {
    let run = json!({ "handler": { "name": handler, "payload": payload.to_string() } });
    let mut job = job(name, "* * * * * *", run);
    job["queue"] = json!("python");
    job
}

/// The job's running run, once its work has left its mark.
async fn running_with_mark(cell: &Cell, job: &str, mark: &str) -> Value {
    let mark = cell.folder().join(mark);
    wait_for(PATIENCE, &format!("{}", mark.display()), async || mark.exists().then_some(())).await;
    cell.api.wait_for_runs(job, "RUNNING", 1).await[0].clone()
}

/// That run, once its second attempt has succeeded.
async fn second_attempt(cell: &Cell, run: &Value) -> Value {
    let ended = wait_for(PATIENCE, "a second attempt's success", async || {
        let run = whole(cell, run).await;
        (run["state"] == "SUCCEEDED").then_some(run)
    })
    .await;
    assert_eq!(ended["attempt"], 2, "{ended}");
    ended
}

async fn whole(cell: &Cell, run: &Value) -> Value {
    let time = run["scheduledFor"].as_str().expect("an instant");
    let job = run["jobName"].as_str().expect("a name");
    cell.api.get(&format!("/v1/jobs/{job}/runs/{time}")).await.expect("the run")
}

#[tokio::test]
async fn a_handler_learns_who_it_is_and_its_end_is_in_the_ledger() {
    let mut cell = Cell::start().await;
    let created = cell.api.create(handled("bill", "invoice", &json!({"customer": 7}))).await;
    cell.api.create(handled("reminder", "remind", &json!("politely"))).await;
    cell.api.create(handled("jam", "fail", &Value::Null)).await;
    cell.api.create(handled("nobody", "unheard-of", &Value::Null)).await;
    let mut misplaced = job("misplaced", "* * * * * *", shell("true"));
    misplaced["queue"] = json!("python");
    cell.api.create(misplaced).await;
    let _worker = PythonWorker::start(&mut cell, "python-1").await;

    let run = &cell.api.wait_for_runs("bill", "SUCCEEDED", 2).await[1];
    let said: Value = serde_json::from_str(run["output"].as_str().expect("an output")).expect("JSON");
    assert_eq!((&said["customer"], &said["job"], &said["attempt"]), (&json!(7), &json!("bill"), &json!(1)));
    assert_eq!(said["token"], run["token"]);
    assert_eq!(said["name"], run["name"]);
    assert_eq!(said["idempotencyKey"], run["idempotencyKey"]);
    assert_eq!(said["guardKey"], created["id"], "runs that exclude each other share the job's guard key");
    assert_eq!(instant(&said, "scheduledFor"), instant(run, "scheduledFor"));
    let left = instant(&said, "deadline") - instant(run, "acceptTime");
    assert!((55..=65).contains(&left.num_seconds()), "maxRuntime is 60 s, the deadline is in {left}");
    assert_eq!(run["worker"], "python-1");

    let reminded = &cell.api.wait_for_runs("reminder", "SUCCEEDED", 1).await[0];
    assert_eq!(reminded["output"], "reminded politely\n");
    let failed = &cell.api.wait_for_runs("jam", "FAILED", 1).await[0];
    assert_eq!(
        (&failed["reason"], &failed["error"]),
        (&json!("WORK_FAILED"), &json!("OSError: out of paper"))
    );
    for (name, says) in [("nobody", "no handler 'unheard-of'"), ("misplaced", "does not start processes")] {
        let refused = &cell.api.wait_for_runs(name, "FAILED", 1).await[0];
        assert_eq!(refused["reason"], "NOT_STARTED");
        assert!(refused["error"].as_str().unwrap_or_default().contains(says), "{refused}");
    }
    cell.stop().await;
}

#[tokio::test]
async fn a_run_whose_worker_is_killed_goes_to_another_with_a_higher_token() {
    let mut cell = Cell::start().await;
    cell.api.create(handled("long", "hangs-once", &Value::Null)).await;
    let mut first = PythonWorker::start(&mut cell, "python-1").await;
    let running = running_with_mark(&cell, "long", "hangs").await;
    let _second = PythonWorker::start(&mut cell, "python-2").await;
    first.0.kill().expect("killed");

    let ended = second_attempt(&cell, &running).await;
    assert_eq!(ended["worker"], "python-2", "{ended}");
    assert!(token(&ended) > token(&running), "{ended}");
    assert_eq!(ended["attempts"][0]["state"], "LOST");
    cell.stop().await;
}

#[tokio::test]
async fn a_frozen_worker_that_thaws_cancels_its_runs_and_its_late_success_is_refused() {
    let mut cell = Cell::start().await;
    cell.api.create(handled("long", "hangs-once", &Value::Null)).await;
    let frozen = PythonWorker::start(&mut cell, "python-1").await;
    let long = running_with_mark(&cell, "long", "hangs").await;
    // Its work freezes the whole worker, and has ended when that thaws.
    cell.api.create(handled("last", "freezes-once", &Value::Null)).await;
    let last = running_with_mark(&cell, "last", "freezes").await;
    let _second = PythonWorker::start(&mut cell, "python-2").await;
    let given = [second_attempt(&cell, &long).await, second_attempt(&cell, &last).await];
    let log = frozen.log();
    assert!(!log.contains("Run asked to stop"), "nobody told it before: {log}");

    frozen.0.cont().expect("thawed");
    let named = |run: &Value| {
        let ends = format!("run.token={}", run["token"].as_str().expect("a token"));
        move |line: &str, says: &str| line.contains(says) && line.ends_with(&ends)
    };
    let (of_long, of_last) = (named(&long), named(&last));
    let expired = "Run asked to stop: stopped by its worker, whose lease could not be renewed";
    frozen.wait_for_log_line("the hanging work cancelled by itself", |line| of_long(line, expired)).await;
    let stale = "The report of an attempt was refused as stale";
    frozen.wait_for_log_line("the late success refused", |line| of_last(line, stale)).await;
    assert_eq!([whole(&cell, &long).await, whole(&cell, &last).await], given, "and nothing was changed");
    cell.stop().await;
}

#[tokio::test]
async fn a_stop_finishes_what_is_in_hand() {
    let mut cell = Cell::start().await;
    cell.api.create(handled("slow", "until-opened", &Value::Null)).await;
    let mut worker = PythonWorker::start(&mut cell, "python-1").await;
    let running = running_with_mark(&cell, "slow", "waits").await;
    worker.0.signal(Signal::SIGTERM).expect("told to end");
    let draining = "Draining: finishing the runs in hand runs.in_hand=1";
    worker.wait_for_log_line("the drain", |line| line.contains(draining)).await;
    std::fs::write(cell.folder().join("opened"), "").expect("opened");
    let status = worker.ends().await;
    assert!(status.success(), "{status}\n{}", worker.log());
    assert!(worker.log().contains("unreported=0"), "{}", worker.log());
    let ended = whole(&cell, &running).await;
    assert_eq!((&ended["state"], &ended["attempt"]), (&json!("SUCCEEDED"), &json!(1)), "{ended}");
    cell.stop().await;
}

#[tokio::test]
async fn the_package_passes_its_own_tests_and_checks_and_its_stubs_are_current() {
    let folder = TempFolder::create("python-dev").expect("a temporary folder");
    let python = virtual_environment(folder.path(), &format!("{PACKAGE}[dev]")).await;
    let cache = folder.path().join("cache").display().to_string();
    for (name, arguments) in [
        ("unittest", &["-W", "error", "-m", "unittest"][..]),
        ("mypy", &["-m", "mypy", "--cache-dir", &cache]),
        ("ruff check", &["-m", "ruff", "check", "--no-cache"]),
        ("ruff format", &["-m", "ruff", "format", "--no-cache", "--check"]),
        ("generate", &["generate.py", "--check"]),
    ] {
        let spec = Spec::new(name, &python, folder.path().join(format!("{name}.log")))
            .args(arguments)
            .current_dir(PACKAGE)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        succeeds(&spec, "run the same in libs/worker-python").await;
    }
}
