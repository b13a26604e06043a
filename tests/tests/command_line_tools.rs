//! The command line's tools: definitions taken out and put back, completion, contexts, exit statuses.

use harness::{Cell, terminal};
use stack::dev::Options;
use std::process::{Command, Output};

async fn cell_of_a_registry() -> Cell {
    Cell::start_with(|mut options| {
        (options.tickers, options.dispatchers, options.agents, options.watchdogs) = (0, 0, 0, 0);
        options
    })
    .await
}

/// One of everything: channels of each kind, calendars, jobs with every field that differs from its default.
const EVERYTHING: &str = "\
kind: Channel\nname: hook\nwebhook: {url: 'https://ops.example/hook', secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz}\nsystem: false\n---
kind: Channel\nname: chat\nslack: {url: 'https://chat.example/secret'}\nmatch: {labels: {team: a}, severities: [WARNING]}\n---
kind: Channel\nname: pages\npagerduty: {routingKey: 0123456789abcdef0123456789abcdef}\n---
kind: Channel\nname: mail\nemail: {host: mail.example, from: cron@mail.example, to: [ops@mail.example], username: cron, password: p}\n---
kind: Calendar\nname: holidays\ndates: [2026-12-25, 2027-01-01]\n---
kind: Job\nname: plain\nschedule: '0 9 * * *'\nrun: {handler: {name: h, payload: '{\"a\": [1, null]}'}}\n---
kind: Job\nname: all\nschedule: '0 30 2 * * 1-5'\ntimezone: Europe/Berlin\ndstGap: SKIP\ndstFold: BOTH\npriority: 3\nqueue: q
misfire: {policy: CATCH_UP, grace: 90s, catchUpLimit: 7, catchUpWindow: 1d, catchUpPerSecond: 2}
overlap: QUEUE\nmaxRuntime: 1h30m\njitter: 1500ms\nlabels: {team: a, empty: ''}
retry: {maxAttempts: 3, backoff: 5s, backoffMax: 2m, maxLost: 2, jitterPercent: 0, outcomes: [FAILED, LOST], finalStatuses: [2]}
alert: {successWithin: 4h, channels: [hook, chat], repeat: 0s, severity: INFO, on: {failed: true, failuresInRow: 3, runtimeOver: 1h}}
calendars: {exclude: [holidays], rule: NEXT_DAY}\nstartsAt: 2026-01-01T00:00:00Z\nendsAt: 2090-01-01T00:00:00Z
run: {http: {method: PUT, url: 'https://a.example/x', headers: {x-a: b}, body: '{}', timeout: 45s, expectedStatus: [200, 409]}}\n---
kind: Job\nname: exec\nschedule: 'H H * * *'\nalert: {disabled: true}\nrun: {exec: {argv: [echo, '', \"a\\nb\"], env: {A: '', B: 'yes'}, workingDirectory: /tmp}}\n";

#[tokio::test]
async fn what_is_exported_changes_nothing_when_it_is_applied() {
    let cell = cell_of_a_registry().await;
    let file = cell.folder().join("all.yaml");
    let path = file.to_str().expect("a text");
    std::fs::write(&file, EVERYTHING).expect("written");
    cell.prints(&["apply", "-f", path]);
    cell.prints(&["pause", "plain"]);

    let exported = cell.prints(&["export"]);
    std::fs::write(&file, &exported).expect("written");
    let unchanged: String =
        ["channel chat", "channel hook", "channel mail", "channel pages", "calendar holidays"]
            .into_iter()
            .chain(["job all", "job exec", "job plain"])
            .map(|thing| format!("{thing} unchanged\n"))
            .collect();
    assert_eq!(cell.prints(&["apply", "-f", path]), unchanged + "nothing changed\n", "{exported}");
    for written in
        ["maxRuntime: 1h30m\n", "# Paused, which is", "kind: Job\nname: all\nschedule: 0 30 2 * * 1-5\n"]
    {
        assert!(exported.contains(written), "{written} in {exported}");
    }
    for hidden in ["generation", "createTime", "whsec_", "chat.example", "password", "routingKey"] {
        assert!(!exported.contains(hidden), "{hidden} in {exported}");
    }
    assert_eq!(cell.prints(&["export", "jobs", "-l", "team=a", "-o", "name"]), "all\n");
    cell.stop().await;
}

#[tokio::test]
async fn contexts_say_which_registry_is_asked() {
    let cell = cell_of_a_registry().await;
    let alone = Alone::of(&cell);
    let (server, token_file) = (&alone.server, &alone.token_file);
    let made = ["context", "set", "test", "--server", server, "--token-file", token_file];
    assert_eq!(alone.prints(&made), "context test set, and in use\n");
    alone.prints(&["context", "set", "other", "--server", "http://127.0.0.1:9"]);
    assert_eq!(alone.prints(&["get", "jobs", "-o", "name"]).trim(), "", "the context's server and token");
    let listed = alone.prints(&["context", "list", "-o", "name"]);
    assert_eq!(listed, "other\ntest\n");

    // What is typed counts before the context in use, and the other one has nobody who answers.
    let unreachable = alone.run(&["--context", "other", "get", "jobs"]);
    assert_eq!(unreachable.status.code(), Some(6), "{unreachable:?}");
    alone.prints(&["context", "use", "other"]);
    assert_eq!(alone.run(&["get", "jobs"]).status.code(), Some(6));
    alone.prints(&["--context", "test", "get", "jobs"]);
    let unknown = alone.run(&["context", "use", "gone"]);
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(!unknown.status.success() && said.contains("other, test"), "{said}");
    assert_eq!(alone.prints(&["context", "delete", "other"]), "context other deleted\n");
    cell.stop().await;
}

#[tokio::test]
async fn exit_statuses_say_what_went_wrong() {
    let cell = cell_of_a_registry().await;
    let file = cell.folder().join("job.yaml");
    let path = file.to_str().expect("a text");
    std::fs::write(&file, "kind: Job\nname: a\nschedule: '@daily'\nrun: {handler: {name: h}}\n")
        .expect("written");
    let status = |arguments: &[&str]| cell.escapement(arguments).status.code();
    assert_eq!(status(&["create", "-f", path]), Some(0));
    assert_eq!(status(&["get", "jobs", "--wrong"]), Some(2));
    assert_eq!(status(&["get", "jobs", "gone"]), Some(3));
    assert_eq!(status(&["create", "-f", path]), Some(4));
    assert_eq!(status(&["--token", "esc_wrong", "get", "jobs"]), Some(5));
    assert_eq!(status(&["--server", "http://127.0.0.1:9", "get", "jobs"]), Some(6));
    std::fs::write(&file, "kind: Job\nname: a\nschedule: nonsense\n").expect("written");
    assert_eq!(status(&["apply", "-f", path]), Some(1));
    cell.stop().await;
}

#[tokio::test]
async fn shells_complete_commands_and_the_names_of_jobs() {
    let cell = cell_of_a_registry().await;
    let file = cell.folder().join("jobs.yaml");
    let job = |name: &str| {
        format!("kind: Job\nname: {name}\nschedule: '@daily'\nrun: {{handler: {{name: h}}}}\n---\n")
    };
    std::fs::write(&file, job("bill-a") + &job("bill-b") + &job("mail")).expect("written");
    cell.prints(&["apply", "-f", file.to_str().expect("a text")]);
    let alone = Alone::of(&cell);
    let token = std::fs::read_to_string(&alone.token_file).expect("the token");
    let complete = |words: &[&str], server: &str| {
        let mut command = alone.command();
        command.env("ESCAPEMENT_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
        command.env("_CLAP_IFS", "\n").env("ESCAPEMENT_SERVER", server).env("ESCAPEMENT_TOKEN", token.trim());
        let output = command.arg("--").args(words).output().expect("it starts");
        assert!(output.stderr.is_empty(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let server = &alone.server;
    assert_eq!(complete(&["escapement", "trigger", "bi"], server), ["bill-a", "bill-b"]);
    assert_eq!(complete(&["escapement", "describe", "job", "m"], server), ["mail"]);
    assert_eq!(complete(&["escapement", "backf"], server), ["backfill"]);
    // A registry that is not there is in nobody's way.
    assert!(complete(&["escapement", "trigger", "bi"], "http://127.0.0.1:9").is_empty());
    for shell in ["bash", "zsh", "fish"] {
        let script = alone.prints(&["completion", shell]);
        assert!(script.contains("ESCAPEMENT_COMPLETE") && script.contains(shell), "{shell}: {script}");
    }
    cell.stop().await;
}

/// Loads the script as the shell's start file does, and prints what `escapement trigger bi` is completed with.
const SHELLS: [(&str, &[&str], &str); 3] = [
    (
        "bash",
        &["--norc", "-c"],
        "source <(escapement completion bash)
         completer=$(complete -p escapement | sed 's/.* -F \\([^ ]*\\).*/\\1/')
         COMP_WORDS=(escapement trigger bi); COMP_CWORD=2; COMP_TYPE=9
         $completer escapement bi trigger; printf '%s\\n' \"${COMPREPLY[@]}\"",
    ),
    (
        "zsh",
        &["-f", "-c"],
        // Both are the completion system's, which only a terminal has.
        "compdef() { completer=$1 }; _describe() { print -l -- ${(P)3} }
         source <(escapement completion zsh)
         words=(escapement trigger bi); CURRENT=3; $completer",
    ),
    (
        "fish",
        &["--no-config", "-c"],
        "escapement completion fish | source; complete -C 'escapement trigger bi'",
    ),
];

#[tokio::test]
async fn each_shell_completes_by_its_own_script() {
    let cell = cell_of_a_registry().await;
    for name in ["bill-a", "bill-b", "mail"] {
        cell.api.create(harness::job(name, "0 0 0 1 1 *", harness::noop())).await;
    }
    let alone = Alone::of(&cell);
    let token = std::fs::read_to_string(&alone.token_file).expect("the token");
    let binaries = Options::for_tests(&alone.home).binaries;
    let path = format!("{}:/usr/bin:/bin", binaries.display());
    for (shell, arguments, script) in SHELLS {
        let mut command = Command::new(shell);
        command.env_clear().env("PATH", &path).env("HOME", &alone.home).current_dir(&alone.home);
        command.env("ESCAPEMENT_SERVER", &alone.server).env("ESCAPEMENT_TOKEN", token.trim());
        match command.args(arguments).arg(script).output() {
            Ok(output) => {
                let printed = String::from_utf8_lossy(&output.stdout).into_owned();
                let words: Vec<_> = printed.lines().map(str::trim).collect();
                assert_eq!(words, ["bill-a", "bill-b"], "{shell}: {output:?}");
            }
            Err(error) if shell != "bash" && error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("{shell} IS NOT INSTALLED: its completion was not tried");
            }
            Err(error) => panic!("{shell}: {error}"),
        }
    }
    cell.stop().await;
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let wrong = ["get", "jobs", "--wrong"];
    let coloured = |text: &str| text.contains("\x1b[");
    let on_terminal = said_on_a_terminal(&wrong, &[]);
    assert!(coloured(&on_terminal) && on_terminal.contains("--wrong"), "{on_terminal:?}");
    for (variable, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let plain = said_on_a_terminal(&wrong, &[(variable, value)]);
        assert!(!coloured(&plain) && plain.contains("--wrong"), "{variable}: {plain:?}");
    }
    assert!(!coloured(&said_on_a_terminal(&["completion", "bash"], &[])), "answers have none anywhere");
    let piped = Command::new(program()).args(wrong).env_remove("NO_COLOR").env("TERM", "xterm").output();
    let piped = piped.expect("the command line starts");
    assert!(!coloured(&String::from_utf8_lossy(&piped.stderr)), "{piped:?}");
}

fn program() -> std::path::PathBuf {
    Options::for_tests(std::path::Path::new("/")).binaries.join("escapement")
}

/// What a command writes to a terminal.
fn said_on_a_terminal(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = Command::new(program());
    command.args(arguments).env_clear().env("TERM", "xterm").envs(environment.iter().copied());
    terminal::said(command, 80)
}

/// The command line of somebody whose environment says nothing, with a home of his own.
struct Alone {
    home: std::path::PathBuf,
    server: String,
    token_file: String,
}

impl Alone {
    fn of(cell: &Cell) -> Self {
        let endpoints = cell.stack.endpoints();
        let token_file = endpoints.admin_token_file.to_str().expect("a text").to_owned();
        Self { home: cell.folder().to_owned(), server: endpoints.registry.rest.clone(), token_file }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(Options::for_tests(&self.home).binaries.join("escapement"));
        command.env_clear().env("HOME", &self.home).current_dir(&self.home);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().expect("the command line starts")
    }

    fn prints(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
