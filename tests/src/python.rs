//! Virtual environments with a package of this tree, for the tests of what is written in Python.

use stack::process::{ManagedChild, Spec};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// For making a virtual environment and filling it, and for each of a package's own checks.
const LIMIT: Duration = Duration::from_secs(300);
/// The worker's package.
pub const WORKER_PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../libs/worker-python");

/// Makes a virtual environment in `folder` with `package` in it; its interpreter.
pub async fn virtual_environment(folder: &Path, package: &str) -> PathBuf {
    let made = folder.join("venv");
    let log = folder.join("install.log");
    let venv = Spec::new("python3 -m venv", "python3", &log).args(["-m", "venv"]).arg(&made);
    succeeds(&venv, "python3 and its venv module are needed (Debian: python3 python3-venv)").await;
    let python = made.join("bin/python");
    let pip = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", package];
    succeeds(&Spec::new("pip install", &python, &log).args(pip), "the package index is needed").await;
    python
}

/// Runs a command that must succeed; `hint` is for whoever meets its failure.
pub async fn succeeds(spec: &Spec, hint: &str) {
    let mut child = ManagedChild::spawn(spec).unwrap_or_else(|error| panic!("{error}: {hint}"));
    let status = child.exited_within(LIMIT).await.expect("awaited");
    let succeeded = status.is_some_and(|status| status.success());
    assert!(succeeded, "{} ended with {status:?}: {hint}\n{}", child.name(), child.log_tail());
}
