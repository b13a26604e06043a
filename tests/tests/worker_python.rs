//! The Python package by itself: its own tests and checks. What its workers do in a cell is in `worker_sdk`.
//!
//! Needs python3 with venv, and the package index that pip is set up for; without them these tests fail.

use harness::python::{WORKER_PACKAGE, succeeds, virtual_environment};
use stack::process::Spec;
use stack::testkit::TempFolder;

#[tokio::test]
async fn the_package_passes_its_own_tests_and_checks_and_its_stubs_are_current() {
    let folder = TempFolder::create("python-dev").expect("a temporary folder");
    let python = virtual_environment(folder.path(), &format!("{WORKER_PACKAGE}[dev]")).await;
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
            .current_dir(WORKER_PACKAGE)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        succeeds(&spec, "run the same in libs/worker-python").await;
    }
}
