//! Processes: what they see, what is kept of them, and that nothing of them is left.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod harness;

use agent::AgentConfig;
use harness::{HOUR, Subject, argv, assert_outcome, lives, output, pid_in, shell, wait_for_end};
use rpc::v1::{self, completed::Outcome};
use service::config::List;
use stack::testkit::TempFolder;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

fn allowed() -> AgentConfig {
    AgentConfig { exec_allowed: true, ..AgentConfig::default() }
}

#[tokio::test]
async fn a_process_sees_its_run_and_nothing_of_the_agents_environment() {
    let mut subject = Subject::start(allowed()).await;
    let mut work = v1::Exec { argv: vec!["env".into()], ..v1::Exec::default() };
    work.env.insert("REGION".into(), "eu".into());
    work.env.insert("ESCAPEMENT_FENCING_TOKEN".into(), "999999".into());
    let completed = subject.run(v1::run::Kind::Exec(work)).await;
    assert_outcome(&completed, Outcome::Succeeded);
    let text = output(&completed);
    let seen: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    assert_eq!(seen["ESCAPEMENT_RUN_ID"], "invoices@2026-11-29T09:00:00Z");
    assert_eq!(seen["ESCAPEMENT_SCHEDULED_FOR"], "2026-11-29T09:00:00Z");
    assert_eq!(seen["ESCAPEMENT_ATTEMPT"], "2");
    assert_eq!(seen["ESCAPEMENT_FENCING_TOKEN"], "1002", "a job can't give itself a token");
    assert!(seen["ESCAPEMENT_IDEMPOTENCY_KEY"].ends_with("@key"));
    assert_eq!(seen["ESCAPEMENT_GUARD_KEY"], "00000000-0000-0000-0000-000000000001");
    assert!(seen["ESCAPEMENT_DEADLINE"].ends_with('Z'));
    assert!(seen["TRACEPARENT"].starts_with("00-4bf92f35"));
    assert_eq!(seen["REGION"], "eu");
    let known = ["PATH", "HOME", "LANG", "REGION", "TRACEPARENT"];
    let strangers = seen.keys().filter(|name| !known.contains(name) && !name.starts_with("ESCAPEMENT_"));
    assert_eq!(strangers.collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[tokio::test]
async fn arguments_are_passed_as_they_are() {
    let mut subject = Subject::start(allowed()).await;
    let completed = subject.run(argv(&["printf", "%s|", "$HOME", "a b", "; rm"])).await;
    assert_eq!(output(&completed), "$HOME|a b|; rm|");
}

#[tokio::test]
async fn a_process_starts_in_its_working_directory() {
    let folder = TempFolder::create("agent").unwrap();
    let mut subject = Subject::start(allowed()).await;
    let mut work = v1::Exec { shell: "pwd".into(), ..v1::Exec::default() };
    work.working_directory = folder.path().display().to_string();
    let completed = subject.run(v1::run::Kind::Exec(work)).await;
    assert_eq!(output(&completed).trim_end(), folder.path().display().to_string());
}

#[tokio::test]
async fn a_failure_keeps_status_and_both_outputs_in_order() {
    let mut subject = Subject::start(allowed()).await;
    let completed = subject.run(shell("echo one; echo two >&2; echo three; exit 7")).await;
    assert_outcome(&completed, Outcome::Failed);
    assert_eq!((completed.exit_status, completed.error.as_str()), (Some(7), "exit status 7"));
    assert_eq!(output(&completed), "one\ntwo\nthree\n");
    assert!(!completed.output_truncated);
}

#[tokio::test]
async fn a_signal_is_reported_as_a_shell_would() {
    let mut subject = Subject::start(allowed()).await;
    let completed = subject.run(shell("kill -KILL $$")).await;
    assert_outcome(&completed, Outcome::Failed);
    assert_eq!((completed.exit_status, completed.error.as_str()), (Some(137), "ended by signal 9"));
}

#[tokio::test]
async fn only_the_end_of_a_long_output_is_kept() {
    let mut subject = Subject::start(allowed()).await;
    let completed = subject.run(argv(&["seq", "1", "100000"])).await;
    assert_outcome(&completed, Outcome::Succeeded);
    assert!(output(&completed).ends_with("99999\n100000\n"));
    assert_eq!((completed.output.len(), completed.output_truncated), (4096, true));
}

#[tokio::test]
async fn a_cancelled_process_is_asked_to_end_with_all_its_children() {
    let folder = TempFolder::create("agent").unwrap();
    let file = folder.path().join("grandchild");
    let mut subject = Subject::start(allowed()).await;
    let line =
        format!("trap 'echo cleaned up; exit 0' TERM; sleep 1000 & echo $! > {}; wait", file.display());
    let run = subject.begin(shell(line), HOUR).await;
    let grandchild = pid_in(&file).await;
    subject.session.cancel(&run, "by hand").await;
    let completed = subject.session.completed().await;
    assert_outcome(&completed, Outcome::Cancelled);
    assert_eq!(output(&completed), "cleaned up\n");
    wait_for_end(grandchild).await;
}

#[tokio::test]
async fn what_ignores_the_request_is_killed_with_all_its_children() {
    let folder = TempFolder::create("agent").unwrap();
    let file = folder.path().join("grandchild");
    let mut subject = Subject::start(allowed()).await;
    let line = format!("trap '' TERM; sleep 1000 & echo $! > {}; while :; do wait; done", file.display());
    let run = subject.begin(shell(line), HOUR).await;
    let grandchild = pid_in(&file).await;
    let asked = Instant::now();
    subject.session.cancel(&run, "by hand").await;
    let completed = subject.session.completed().await;
    assert_outcome(&completed, Outcome::Cancelled);
    assert!(asked.elapsed() >= Duration::from_millis(harness::fake::TERMS.kill_grace_ms), "no grace");
    assert_eq!(completed.exit_status, Some(137));
    wait_for_end(grandchild).await;
}

#[tokio::test]
async fn children_that_a_process_leaves_behind_are_killed() {
    let folder = TempFolder::create("agent").unwrap();
    let file = folder.path().join("grandchild");
    let mut subject = Subject::start(allowed()).await;
    let completed = subject.run(shell(format!("sleep 1000 & echo $! > {}", file.display()))).await;
    assert_outcome(&completed, Outcome::Succeeded);
    wait_for_end(pid_in(&file).await).await;
}

#[tokio::test]
async fn a_daemon_that_left_the_group_ends_with_its_run_and_does_not_hold_the_report_up() {
    let folder = TempFolder::create("agent").unwrap();
    let file = folder.path().join("daemon");
    let mut subject = Subject::start(allowed()).await;
    // A child of a child of a process in a session of its own.
    let daemon = format!(
        "setsid sh -c 'setsid sh -c \"echo \\$\\$ > {0}; sleep 60; true\" & sleep 60' & until [ -s {0} ]; do :; done",
        file.display()
    );
    let line = format!("{daemon}; echo done");
    let began = Instant::now();
    let completed = subject.run(shell(line)).await;
    assert_outcome(&completed, Outcome::Succeeded);
    assert_eq!(output(&completed), "done\n");
    assert!(began.elapsed() < Duration::from_secs(20), "took {:?}", began.elapsed());
    let daemon = pid_in(&file).await;
    assert!(!lives(daemon), "it was ended before the report");
    let left = std::fs::read_dir(format!("/proc/{}/task", std::process::id())).unwrap().flatten();
    let left = left.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    assert!(!left.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).any(
        |pid| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .unwrap_or_default()
                .contains("sleep\x0060")
        }
    ));
}

/// Its environment names nothing, its group is its own, and its parent is gone.
#[tokio::test]
async fn what_clears_its_environment_ends_with_its_run() {
    let folder = TempFolder::create("agent").unwrap();
    let file = folder.path().join("hidden");
    let mut subject = Subject::start(allowed()).await;
    // The run goes on for long enough to see who is below it.
    let line = format!(
        "setsid env -i /bin/sh -c 'echo $$ > {0}; sleep 60; true' & until [ -s {0} ]; do :; done; sleep 3; echo done",
        file.display()
    );
    let completed = subject.run(shell(line)).await;
    assert_outcome(&completed, Outcome::Succeeded);
    let hidden = pid_in(&file).await;
    assert!(!lives(hidden), "it was ended before the report");
}

#[tokio::test]
async fn what_a_process_writes_is_shown_while_it_runs_and_has_no_secrets() {
    let folder = TempFolder::create("agent").unwrap();
    let go = folder.path().join("go");
    let mut subject = Subject::start(allowed()).await;
    let line = format!(
        "printf 'the password is %s' $DB_PASSWORD; until [ -e {} ]; do sleep 0.05; done; echo; echo $DB_PASSWORD again",
        go.display()
    );
    let mut work = v1::Exec { shell: line, ..v1::Exec::default() };
    work.env.insert("DB_PASSWORD".into(), "hunter22".into());
    subject.begin(v1::run::Kind::Exec(work), HOUR).await;
    let live = |message| match message {
        v1::from_worker::Message::Live(live) => Some(live),
        _ => None,
    };
    let shown = subject.session.expect("its output", live).await;
    assert_eq!(String::from_utf8_lossy(&shown.tail), "the password is ***");
    std::fs::write(go, "").unwrap();
    let completed = subject.session.completed().await;
    assert_eq!(output(&completed), "the password is ***\n*** again\n");
}

#[tokio::test]
async fn a_process_is_stopped_after_its_maximum_runtime() {
    let mut subject = Subject::start(allowed()).await;
    subject.begin(argv(&["sleep", "1000"]), Duration::from_millis(300)).await;
    let completed = subject.session.completed().await;
    assert_outcome(&completed, Outcome::TimedOut);
    assert_eq!(completed.exit_status, Some(143));
}

#[tokio::test]
async fn what_can_not_start_says_why_and_what_would_help() {
    let mut subject = Subject::start(AgentConfig::default()).await;
    let completed = subject.run(argv(&["true"])).await;
    assert_outcome(&completed, Outcome::NotStarted);
    assert!(completed.error.contains("exec_allowed"), "{}", completed.error);

    let mut subject = Subject::start(AgentConfig {
        exec_argv_allow: List::from(["/usr/bin/true", "/bin/true"]),
        ..allowed()
    })
    .await;
    assert_outcome(&subject.run(argv(&["true"])).await, Outcome::Succeeded);
    for refused in [argv(&["sleep", "0"]), shell("true")] {
        let completed = subject.run(refused).await;
        assert_outcome(&completed, Outcome::NotStarted);
        assert!(completed.error.contains("exec_argv_allow"), "{}", completed.error);
    }

    let mut subject = Subject::start(allowed()).await;
    let completed = subject.run(argv(&["no-such-program"])).await;
    assert_outcome(&completed, Outcome::NotStarted);
    assert!(completed.error.contains("\"no-such-program\" was not found"), "{}", completed.error);
}

#[tokio::test]
async fn processes_run_as_the_configured_user() {
    let settings = AgentConfig { exec_user: Some("nobody".into()), ..allowed() };
    if !nix::unistd::geteuid().is_root() {
        assert!(settings.user().expect_err("not root").message.contains("runs as root"));
        return;
    }
    let mut subject = Subject::start(settings).await;
    let completed = subject.run(shell("id -un; id -G | wc -w")).await;
    assert_outcome(&completed, Outcome::Succeeded);
    assert_eq!(output(&completed), "nobody\n1\n", "with its own group only");
}

#[tokio::test]
async fn handlers_belong_to_worker_programs() {
    let mut subject = Subject::start(allowed()).await;
    let completed = subject.run(harness::fake::handler("invoice", "")).await;
    assert_outcome(&completed, Outcome::NotStarted);
}
