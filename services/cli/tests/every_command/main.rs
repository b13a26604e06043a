//! What every command prints, for people and in each format for programs, and what each kind of error says: compared with
//! the files in `snapshots/`, one a command.
//!
//! A command without a snapshot fails, and so does a snapshot without a command. `UPDATE_SNAPSHOTS=1` writes them anew;
//! what changed is then read in the diff. Nothing moves while it is looked at: the registry is real, alone with its
//! database, and what other services would have written stands there by SQL.
#![allow(clippy::expect_used, reason = "a test's failure is a panic that names the cause")]

mod cases;
mod normal;
mod refused;
mod stage;

use cases::{CASES, ERRORS};
use stage::Stage;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Every way of printing, and what is typed for it.
const FORMATS: [(&str, &str); 4] =
    [("table", ""), ("json", " -o json"), ("yaml", " -o yaml"), ("name", " -o name")];

/// Lines of an answer that are shown of a long one.
const LONG: usize = 400;
const SHOWN: usize = 12;

#[tokio::test]
async fn every_command_prints_what_its_snapshot_shows() {
    let stage = Stage::set().await;
    let covered: BTreeSet<String> = CASES.iter().map(|(command, _)| (*command).to_owned()).collect();
    assert_eq!(covered, leaves(&stage, &[]), "each command has a case in cases.rs, and each case a command");

    let mut shown: BTreeMap<String, String> = BTreeMap::new();
    for (command, lines) in CASES {
        let text = shown.entry(command.replace(' ', "-")).or_default();
        for line in *lines {
            for (format, option) in FORMATS {
                text.push_str(&transcript(&stage, &format!("{}{option}", line.replace("{f}", format))));
            }
        }
    }
    let errors = ERRORS.iter().map(|line| transcript(&stage, line)).collect();
    shown.insert("errors".to_owned(), errors);
    let wrong = compare(&shown);
    stage.stop().await;
    assert!(wrong.is_empty(), "UPDATE_SNAPSHOTS=1 writes these anew:\n{}", wrong.join("\n"));
}

/// The commands that have none below them, by what `--help` lists.
fn leaves(stage: &Stage, path: &[String]) -> BTreeSet<String> {
    let words: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
    let help = String::from_utf8_lossy(&stage.run(&words, &[]).stdout).into_owned();
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    let names: Vec<String> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    if names.is_empty() {
        return BTreeSet::from([path.join(" ")]);
    }
    names.into_iter().flat_map(|name| leaves(stage, &[path, &[name]].concat())).collect()
}

/// What was typed, what came of it, and how it ended.
fn transcript(stage: &Stage, line: &str) -> String {
    let words = stage.words(line);
    // `NAME=value` before the command is its environment.
    let (environment, words): (Vec<_>, Vec<_>) =
        words.iter().map(String::as_str).partition(|word| is_variable(word));
    let output = stage.run(&words, &environment);
    let at: usize = line.split(' ').take_while(|word| is_variable(word)).map(|word| word.len() + 1).sum();
    let (before, typed) = line.split_at(at);
    let mut text = format!("$ {before}escapement {typed}\n");
    let printed = String::from_utf8_lossy(&output.stdout);
    let all = printed.lines().count();
    let most = if all > LONG { SHOWN } else { all };
    printed.lines().take(most).for_each(|line| text.push_str(&format!("{line}\n")));
    if most < all {
        text.push_str("[and so on]\n");
    }
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        text.push_str(format!("! {line}").trim_end());
        text.push('\n');
    }
    if let Some(status) = output.status.code().filter(|status| *status != 0) {
        text.push_str(&format!("[exit status {status}]\n"));
    }
    text.push('\n');
    normal::text(&text, &stage.fixed())
}

fn is_variable(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// What differs from the files; written over them instead when that is asked for.
fn compare(shown: &BTreeMap<String, String>) -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/every_command/snapshots");
    let update = std::env::var_os("UPDATE_SNAPSHOTS").is_some();
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("the snapshots") {
        let path = entry.expect("a snapshot").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        if !shown.contains_key(&name) {
            if update {
                std::fs::remove_file(&path).expect("removed");
            } else {
                wrong.push(format!("{name}.txt is of no command"));
            }
        }
    }
    for (name, text) in shown {
        let path = folder.join(format!("{name}.txt"));
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        if stored == *text {
            continue;
        }
        if update {
            std::fs::write(&path, text).expect("written");
        } else {
            wrong.push(format!("{name}.txt:\n{}", difference(&stored, text)));
        }
    }
    wrong
}

/// The first lines that differ, under what was typed.
fn difference(stored: &str, text: &str) -> String {
    let at = stored.lines().zip(text.lines()).take_while(|(stored, now)| stored == now).count();
    let typed = text.lines().take(at + 1).filter(|line| line.starts_with("$ ")).last().unwrap_or_default();
    let some = |text: &str, mark: &str| {
        let lines = text.lines().skip(at).take(6).map(|line| format!("  {mark} {line}"));
        lines.collect::<Vec<_>>().join("\n")
    };
    format!("  {typed}\n  line {}, stored and now:\n{}\n{}", at + 1, some(stored, "-"), some(text, "+"))
}
