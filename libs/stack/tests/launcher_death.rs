//! Whichever way the launcher ends, its servers end too and its temporary folders go.
//!
//! Each test runs this very test program once more as the launcher, which is told its role by a variable.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use stack::etcd::{self, Etcd};
use stack::postgres::{self, Postgres};
use stack::process::{ManagedChild, Spec};
use stack::testkit::{TempFolder, shared_etcd, shared_postgres};
use stack::wait::wait_for;

const ROLE: &str = "ESCAPEMENT_TEST_LAUNCHER_NOTES";
const LIMIT: Duration = Duration::from_secs(20);

/// As the launcher: starts both servers in a folder of its own, the shared ones, and a program that, unlike
/// servers, would not mind the loss of its folder; then notes what it started.
async fn launch(notes: &Path) -> (TempFolder, Postgres, Etcd, ManagedChild) {
    let folder = TempFolder::create("launcher").unwrap();
    let sleeper = Spec::new("sleeper", "/bin/sleep", folder.path().join("sleep.log")).arg("600");
    let sleeper = ManagedChild::spawn(&sleeper).unwrap();
    let postgres = Postgres::start(&folder.path().join("pg"), postgres::Options::for_tests()).await.unwrap();
    let etcd = Etcd::start(&folder.path().join("etcd"), etcd::Options::for_tests()).await.unwrap();
    let pids = [postgres.pid(), etcd.pid(), shared_postgres().await.pid(), shared_etcd().await.pid()];
    let pids = pids.into_iter().flatten().chain([sleeper.pid()]);
    let pids: Vec<String> = pids.map(|pid| pid.to_string()).collect();
    let text = format!("{}\n{}\n", folder.path().display(), pids.join(" "));
    // Renamed into place, so that a reader never sees half of it.
    let half = notes.with_extension("half");
    std::fs::write(&half, text).unwrap();
    std::fs::rename(half, notes).unwrap();
    (folder, postgres, etcd, sleeper)
}

fn run_as_launcher(test: &str, notes: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(ROLE, notes);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

async fn read_notes(notes: &Path) -> (PathBuf, Vec<u32>) {
    let text = wait_for(LIMIT, "the launcher's notes", async || std::fs::read_to_string(notes).ok()).await;
    let (folder, pids) = text.split_once('\n').unwrap();
    let pids: Vec<u32> = pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 5);
    (folder.into(), pids)
}

/// Ended, or a zombie that only its new parent can remove.
fn ended(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z"))
}

async fn assert_nothing_left(folder: &Path, pids: &[u32]) {
    for pid in pids {
        wait_for(LIMIT, &format!("the end of process {pid}"), async || ended(*pid).then_some(())).await;
    }
    wait_for(LIMIT, "the folder's removal", async || (!folder.exists()).then_some(())).await;
}

#[tokio::test]
async fn killing_the_launcher_ends_its_children() {
    if let Some(notes) = std::env::var_os(ROLE) {
        let _held = launch(Path::new(&notes)).await;
        std::future::pending::<()>().await;
    }
    let folder = TempFolder::create("kill").unwrap();
    let notes = folder.path().join("notes");
    let mut launcher = run_as_launcher("killing_the_launcher_ends_its_children", &notes).spawn().unwrap();
    let (left, pids) = read_notes(&notes).await;
    assert!(pids.iter().all(|pid| !ended(*pid)), "they live while the launcher lives");
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    assert_nothing_left(&left, &pids).await;
}

/// The shared servers sit in statics, which no exit drops.
#[tokio::test]
async fn an_ordinary_exit_ends_them_too() {
    if let Some(notes) = std::env::var_os(ROLE) {
        std::mem::forget(launch(Path::new(&notes)).await);
        return;
    }
    let folder = TempFolder::create("exit").unwrap();
    let notes = folder.path().join("notes");
    let mut launcher = run_as_launcher("an_ordinary_exit_ends_them_too", &notes).spawn().unwrap();
    assert!(launcher.wait().unwrap().success());
    let (left, pids) = read_notes(&notes).await;
    assert_nothing_left(&left, &pids).await;
}
