//! What the command line says of surroundings that it can't work in, without any registry.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};

fn escapement(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_escapement"));
    command.args(arguments).env_clear().env("HOME", "/nonexistent").stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_token_that_can_be_none_is_refused_with_where_it_came_from() {
    let nowhere = ("ESCAPEMENT_SERVER", "http://127.0.0.1:1");
    for (token, wrong) in [
        (&b"a\nb"[..], "the token from ESCAPEMENT_TOKEN is none"),
        ("tökén".as_bytes(), "the token from ESCAPEMENT_TOKEN is none"),
        (b"\xff", "ESCAPEMENT_TOKEN is no text in UTF-8"),
    ] {
        let mut command = escapement(&["get", "jobs"]);
        let output =
            command.envs([nowhere]).env("ESCAPEMENT_TOKEN", OsStr::from_bytes(token)).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(said(&output).contains(wrong), "{output:?}");
    }
    let typed = escapement(&["get", "jobs", "--token", "a b"]).envs([nowhere]).output().unwrap();
    assert!(said(&typed).contains("the token from --token is none"), "{typed:?}");
}

#[test]
fn an_answer_that_can_not_be_written_is_a_failure_and_one_that_nobody_reads_is_none() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = escapement(&["schema"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said(&output).contains("writing to standard output: No space left"), "{output:?}");

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = escapement(&["schema"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()));
}

#[test]
fn a_file_without_end_is_not_read_to_its_end() {
    let mut command = escapement(&["apply", "-f", "/dev/zero", "--server", "http://127.0.0.1:1"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said(&output).contains("reading /dev/zero: it is larger than 8 MiB"), "{output:?}");
}
