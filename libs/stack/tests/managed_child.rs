//! A managed child obeys, and leaves nothing of its group behind.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use stack::ending::{Late, end_together};
use stack::process::{ManagedChild, Signal, Spec};
use stack::testkit::TempFolder;
use stack::wait::wait_for;

const LIMIT: Duration = Duration::from_secs(10);

fn shell(folder: &TempFolder, script: &str) -> ManagedChild {
    let log = folder.path().join("shell.log");
    ManagedChild::spawn(&Spec::new("shell", "/bin/sh", log).args(["-c", script])).unwrap()
}

/// The letter that the kernel shows for a process: R, S, T, Z …; `None` when there is none.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

fn ended(pid: u32) -> Option<()> {
    matches!(state(pid), None | Some('Z')).then_some(())
}

async fn written_number(file: &Path) -> u32 {
    wait_for(LIMIT, "a process id in a file", async || {
        std::fs::read_to_string(file).ok().filter(|text| text.ends_with('\n'))?.trim().parse().ok()
    })
    .await
}

#[tokio::test]
async fn terminate_lets_a_willing_child_end_by_itself() {
    let folder = TempFolder::create("willing").unwrap();
    let mut child = shell(&folder, "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done");
    wait_for(LIMIT, "the trap", async || child.log_tail().contains("up").then_some(())).await;
    let status = child.terminate(LIMIT).await.unwrap();
    assert_eq!(status.code(), Some(7));
}

#[tokio::test]
async fn terminate_kills_a_child_that_ignores_it() {
    let folder = TempFolder::create("deaf").unwrap();
    let mut child = shell(&folder, "trap '' TERM; echo up; while :; do sleep 0.01; done");
    wait_for(LIMIT, "the trap", async || child.log_tail().contains("up").then_some(())).await;
    let status = child.terminate(Duration::from_millis(50)).await.unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(Signal::SIGKILL as i32));
}

#[tokio::test]
async fn of_children_that_end_together_the_late_ones_are_told_and_killed_after_the_grace() {
    let folder = TempFolder::create("together").unwrap();
    let mut willing = shell(&folder, "trap 'exit 7' TERM; echo willing; while :; do sleep 0.01; done");
    let mut deaf = shell(&folder, "trap '' TERM; echo deaf; while :; do sleep 0.01; done");
    wait_for(LIMIT, "the traps", async || {
        let log = willing.log_tail();
        (log.contains("willing") && log.contains("deaf")).then_some(())
    })
    .await;
    let (grace, told) = (Duration::from_secs(2), Mutex::new(Vec::new()));
    let late = |late: &[Late]| told.lock().unwrap().push(late.to_vec());
    end_together(&mut [&mut willing, &mut deaf], grace, &late).await.unwrap();
    let expected = Late { name: "shell".to_owned(), pid: deaf.pid(), grace };
    let told = told.into_inner().unwrap();
    assert_eq!(told.len(), 1, "once: {told:?}");
    assert!(told[0].contains(&expected), "{told:?}");
    let signal = std::os::unix::process::ExitStatusExt::signal(&deaf.exited().unwrap().unwrap());
    assert_eq!(signal, Some(Signal::SIGKILL as i32));
    assert!(willing.exited().unwrap().is_some());
}

#[tokio::test]
async fn a_child_is_frozen_and_thawed() {
    let folder = TempFolder::create("frozen").unwrap();
    let child = shell(&folder, "while :; do sleep 0.01; done");
    child.stop().unwrap();
    wait_for(LIMIT, "the freeze", async || (state(child.pid()) == Some('T')).then_some(())).await;
    child.cont().unwrap();
    wait_for(LIMIT, "the thaw", async || (state(child.pid()) != Some('T')).then_some(())).await;
}

#[tokio::test]
async fn drop_kills_the_child_and_its_children() {
    let folder = TempFolder::create("group").unwrap();
    let file = folder.path().join("grandchild");
    let child = shell(&folder, &format!("sleep 600 & echo $! > {}; wait", file.display()));
    let (pid, grandchild) = (child.pid(), written_number(&file).await);
    drop(child);
    assert_eq!(state(pid), None, "reaped");
    wait_for(LIMIT, "the grandchild's end", async || ended(grandchild)).await;
}

#[tokio::test]
async fn what_an_ended_child_left_in_its_group_is_killed() {
    let folder = TempFolder::create("leftover").unwrap();
    let file = folder.path().join("grandchild");
    let mut child = shell(&folder, &format!("sleep 600 & echo $! > {}", file.display()));
    let grandchild = written_number(&file).await;
    let status = child.exited_within(LIMIT).await.unwrap().unwrap();
    assert!(status.success());
    wait_for(LIMIT, "the grandchild's end", async || ended(grandchild)).await;
    assert!(child.kill().unwrap().success(), "the first end is remembered");
}

/// The death signal belongs to the forking thread: were that the caller's, the child would end with it.
#[test]
fn a_child_survives_the_thread_that_asked_for_it() {
    let folder = TempFolder::create("thread").unwrap();
    let mut child = std::thread::scope(|scope| scope.spawn(|| shell(&folder, "sleep 600")).join()).unwrap();
    // The signal would be sent before join returns; a look for a while makes a late one visible too.
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(200) {
        assert!(child.exited().unwrap().is_none(), "ended with the thread");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn the_log_tail_begins_with_this_start() {
    let folder = TempFolder::create("tail").unwrap();
    shell(&folder, "echo first").exited_within(LIMIT).await.unwrap();
    let mut second = shell(&folder, "echo second");
    second.exited_within(LIMIT).await.unwrap();
    assert_eq!(second.log_tail(), "second");
}

#[test]
fn a_missing_program_is_named() {
    let folder = TempFolder::create("missing").unwrap();
    let spec = Spec::new("ghost", "/no/such/program", folder.path().join("log"));
    let error = ManagedChild::spawn(&spec).unwrap_err();
    assert_eq!(error.to_string(), "ghost could not be started from /no/such/program");
}
